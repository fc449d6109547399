"""The command `varsim`, which is also `python -m varsim`."""

import os
import signal


def main() -> None:
    """Entry point: Ctrl-C ends it with one line from the very beginning, before it is loaded."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as nohup and & leave it
        signal.signal(signal.SIGINT, _interrupted)
    from varsim.cli.app import main as command

    command()


def _interrupted(number: int, _: object) -> None:
    """Nothing is there yet that would have to be put away."""
    os.write(2, b"varsim: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
