"""What a person at a terminal sees of a long run: its progress, on stderr."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import rich.progress

    from varsim.study.sweep.campaign import Status

# A run shorter than this shows no bar; a log gets a line this often.
BAR_AFTER = 0.5
LINE_EVERY = 10.0
# So long (s) nothing is told of the first run that takes long.
SILENCE = 10.0
# How long the rest takes is told when this share of the runs has ended.
ENOUGH = 0.05


class Progress:
    """Progress of the runs of a scenario, called with (done, total).

    A bar with the time left on a terminal, a line now and then elsewhere, nothing when quiet. While
    one run takes long there are lines as well, more and more rarely.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._started = self._last = time.monotonic()
        self._bar: rich.progress.Progress | None = None
        self._timer: threading.Timer | None = None
        self._over = threading.Event()
        self._how_far = ""  # in words

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._make_bar()
        if not self._quiet and self._bar is None:
            threading.Thread(target=self._wait, daemon=True).start()
        return self

    def __call__(self, done: int, total: int, resumed: int = 0, remark: str = "") -> None:
        """`done` of `total` runs have ended, `resumed` of them before this began."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=remark)
            return
        self._how_far = f"{done} of {total} runs"
        now = time.monotonic()
        if now - self._last >= LINE_EVERY and resumed < done < total:
            self._last = now
            left = (now - self._started) / (done - resumed) * (total - done)
            foreseen = ""
            # The first of many also load, or make, what all need.
            if done - resumed >= ENOUGH * (total - resumed):
                from varsim.units import format_seconds  # with pydantic, which is there by now

                foreseen = f", about {format_seconds(round(left))} left"
            more = f"; {remark}" if remark else ""
            _say(f"{self._how_far}{foreseen}{more}")

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._timer is not None and self._bar is not None:
            self._timer.cancel()
            self._timer.join()
            self._bar.stop()

    def _wait(self) -> None:
        """Tell how long it is, if nothing else has been told for as long again."""
        if hasattr(signal, "pthread_sigmask"):  # signals are for the thread that may hold them back
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        told, silence = self._how_far, SILENCE
        while not self._over.wait(silence):
            if self._how_far == told:
                silence *= 2
                seconds = time.monotonic() - self._started
                _say(f"{told or 'no run'} done after {seconds:.0f} s")
            told = self._how_far

    def _make_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        if console.is_dumb_terminal:
            return
        columns = (
            TextColumn("simulating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("runs, left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self._bar = Bar(*columns, console=console, transient=True)
        self._bar.add_task("", total=None)
        # A run that ends at once never shows its bar.
        self._timer = threading.Timer(BAR_AFTER, self._bar.start)
        self._timer.daemon = True
        self._timer.start()


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"varsim: {text}\n")
        sys.stderr.flush()


class SweepProgress(Progress):
    """Progress of a sweep: besides, what failed, what was there before, and the best so far.

    `told` says in words which case, by its key, does so many examples/s.
    """

    def __init__(self, quiet: bool, told: Callable[[str, float], str]) -> None:
        super().__init__(quiet)
        self._told = told
        self.done = 0

    def show(self, status: "Status") -> None:
        """Tell how far the sweep is."""
        self.done = status.done
        parts = [f"{status.failed} failed"] if status.failed else []
        parts += [f"{status.resumed} resumed"] if status.resumed else []
        parts += [f"best so far {self._told(*status.best)}"] if status.best else []
        self(status.done, status.total, status.resumed, ", ".join(parts))
