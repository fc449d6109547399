"""`python -m validation`: varsim held against theory, other simulators and measurements."""

from varsim.cli.console import Stopper

if __name__ == "__main__":
    from validation.command import app

    with Stopper():
        app(prog_name="python -m validation")
