"""How a command ends, and how it speaks: results to stdout, complaints to stderr."""

import os
import re
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import typer
from typer.core import TyperCommand, TyperGroup

from varsim.core.gone import COMMANDS
from varsim.core.inert import SIGNS, Drawn, visible

if TYPE_CHECKING:
    import rich.progress

    from varsim.report.formats import Format
    from varsim.report.told import Report
    from varsim.study.runs import Status


DONE: Final = 0
ERROR: Final = 1
USAGE: Final = 2
OUT_OF_BOUNDS: Final = 3
SIGNALLED: Final = 128

PLAIN: Final = "plain-signs"  # name of `plain` among the handlers of codecs

_SHORT: Final = 40  # a complaint that has room everywhere
ITEM: Final = 15  # columns before what a line of a description says


class CommandGroup(TyperGroup):
    """All commands, with every way of ending told in one place."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant; one that is gone says what to write instead."""
        if args and args[0] in COMMANDS:
            complain(f"varsim: there is no command {args[0]} any more: {COMMANDS[args[0]]}")
            raise typer.Exit(USAGE)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; whatever goes wrong becomes one message and an exit code."""
        try:
            if ctx.obj is not None:
                ctx.obj.begin()
            value = super().invoke(ctx)
            flush()
        except BrokenPipeError:
            _let_go_of_stdout()  # whoever read us has seen enough
            raise typer.Exit(DONE) from None
        except (KeyboardInterrupt, Exception) as error:
            if (number := _signal_behind(error) or (ctx.obj and ctx.obj.number)) is not None:
                done = "interrupted" if number == signal.SIGINT else "terminated"
                complain(f"varsim: {done}")
                raise typer.Exit(SIGNALLED + number) from None
            if hasattr(error, "exit_code"):  # typer's own: usage errors and Exit
                if hasattr(error, "message"):  # in which pydantic's words shine through
                    _reword(error)
                raise
            code = _explained(error)
            try:
                sys.stdout.flush()
            except OSError:
                _let_go_of_stdout()
            raise typer.Exit(code) from None
        return value


class Command(TyperCommand):
    """A command whose help names its arguments as other tools do: `FILE`, `DIR...`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind its name."""
        arguments = self._arguments(ctx)
        names = (one.metavar if one.required else f"[{one.metavar}]" for one in arguments)
        return ["[OPTIONS]", *names]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a table of the arguments and one of the options."""
        arguments = self._arguments(ctx)
        options = [one for one in self.get_params(ctx) if one not in arguments]
        tables = {
            "Arguments": [(one.metavar, one.get_help_record(ctx)[1]) for one in arguments],
            "Options": [one.get_help_record(ctx) for one in options],
        }
        for title, rows in tables.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _arguments(self, ctx: Any) -> list[Any]:
        return [one for one in self.get_params(ctx) if one.param_type_name == "argument"]


class StoppedByUser(KeyboardInterrupt):
    """A signal told the command to stop."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Stopper:
    """Ctrl-C and SIGTERM end the command alike; a second one does not disturb the clean-up.

    Until it begins there is nothing to clean up, and nobody who would tell of the exception.
    """

    PATIENCE = 2.0

    def __init__(self) -> None:
        self._last = -self.PATIENCE
        self.number: int | None = None  # of the signal that was raised: libraries may hide it

    def __enter__(self) -> "Stopper":
        return self

    def begin(self) -> None:
        """From now on a signal raises Stopped."""
        sys.unraisablehook = self._insist
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup and & leave it
                signal.signal(number, self._stop)

    def __exit__(self, *_: object) -> None:
        # What is left is Python's own end, in which a signal would change the exit code.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _insist(self, lost: "sys.UnraisableHookArgs") -> None:
        """Where a destructor swallowed the exception, the signal comes again a little later."""
        if not isinstance(lost.exc_value, StoppedByUser):
            sys.__unraisablehook__(lost)
            return
        self._last = -self.PATIENCE
        again = threading.Timer(0.02, os.kill, (os.getpid(), lost.exc_value.number))
        again.daemon = True
        again.start()

    def _stop(self, number: int, _: object) -> None:
        now, before = monotonic(), self._last
        if now - before >= self.PATIENCE:
            self._last, self.number = now, number
            raise StoppedByUser(number)


def write(text: str, end: str = "\n") -> None:
    """A line of the result, to stdout."""
    with _naming_stdout():
        sys.stdout.write((text if isinstance(text, Drawn) else visible(text)) + end)


def write_prose(text: str, hanging: int = 2) -> None:
    """Lines of the result, to stdout, torn where a terminal ends; `hanging`: then indented so."""
    for line in text.split("\n"):
        write("\n".join(_torn(line, hanging)))


def _torn(line: str, hanging: int = 2) -> list[str]:
    """A line as those that a terminal has room for; `hanging`: all but the first indented so."""
    from varsim.report.screen import columns, flow
    from varsim.report.wording import unheld

    room, start = columns(), len(line) - len(line.lstrip())
    if room is None or len(line) <= room:
        return [line]
    torn = flow(line[start:], room - start, " " * max(0, hanging - start))
    return [line[:start] + unheld(one) for one in torn]


def flush() -> None:
    """Have everything written before the command says that it is done."""
    with _naming_stdout():
        sys.stdout.flush()


def plain(error: UnicodeError) -> tuple[str, int]:
    """For a codec that lacks them: the signs of tables as others, and ? for the rest."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(SIGNS.get(sign, "?") for sign in lacking), error.end


def complain(text: str) -> None:
    """A line to stderr, torn where a terminal ends unless it begins with a place in a file.

    Where nobody can be told, nobody is.
    """
    text = visible(text)
    if text.startswith("varsim: ") and "\n" not in text and len(text) > _SHORT:
        text = "\n".join(_torn(text))
    with suppress(OSError):
        sys.stderr.write(text + "\n")


def show(
    report: "Report", format: "Format", closing: Iterable[str], *, every: bool = False
) -> None:
    """Print a report; the closing lines go to stderr where stdout is for another program.

    `every`: all columns and notes.
    """
    from varsim.report.formats import render

    write(render(report, format, every=every), end="")
    for line in closing:
        (write if format == "table" else complain)(line)


def refuse(text: str) -> NoReturn:
    """End the command over what it was given, a line for each problem."""
    for line in text.splitlines():
        complain(f"varsim: {line}")
    raise typer.Exit(USAGE)


def of_file(report: "Report", file: Path, question: str) -> "Report":
    """The report of a file: with its question, and the file in the command to type next."""
    command = report.next.replace("FILE", shlex.quote(str(file)))
    return replace(report, question=question, next=command)


def named(error: OSError, verb: str) -> str:
    """What the system says, without its number: `cannot write reports/a: No space left`."""
    if error.strerror is None:
        return str(error)
    if isinstance(error, FileNotFoundError) and not error.filename:
        return "the current directory no longer exists"
    return f"cannot {verb} {error.filename}: {error.strerror}" if error.filename else error.strerror


def _reword(error: Any) -> None:
    """Have a usage error say what it says in our words, torn where the terminal ends."""
    error.message = visible(_our_words(error.message))
    said = "\n".join(_torn(f"Error: {error.format_message()}"))
    error.format_message = lambda: said.removeprefix("Error: ")


def _our_words(message: str) -> str:
    """Message of a usage error without the words of pydantic, which typer passes on."""
    said = message.replace("Value error, ", "").replace("Input should be ", "must be ")
    said = re.sub(r"a valid integer, .*", "a whole number", said)
    return said.replace("greater than or equal to ", "at least ")


def _signal_behind(error: BaseException | None) -> int | None:
    """The signal that led to an error: Python wraps what it meets while it makes a class."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    return error.number if isinstance(error, StoppedByUser) else signal.SIGINT


def _explained(error: BaseException) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, MemoryError):  # too little of it for what is imported below
        complain("varsim: out of memory, so it was stopped; try fewer workers, steps or --jobs")
        return ERROR
    from concurrent.futures import BrokenExecutor

    from varsim.cluster.failures.life import PaceError
    from varsim.cluster.workers.job import DeadlockError, TooLongError
    from varsim.report.files.directory import NotARunError
    from varsim.scenario.fault import ScenarioError

    killed = (
        "varsim: one of the processes that made the runs was killed (out of memory?), and the runs "
        "with it; try fewer --jobs, workers or steps"
    )
    for kinds, said, code in (
        (BrokenExecutor, killed, ERROR),
        (ScenarioError, str(error), USAGE),
        (DeadlockError, f"varsim: deadlock: {error}", ERROR),
        ((TooLongError, PaceError, NotARunError), f"varsim: {error}", USAGE),
    ):
        if isinstance(error, kinds):
            complain(said)
            return code
    if isinstance(error, OSError):
        complain(f"varsim: {named(error, 'write')}")
        return ERROR
    complain("".join(traceback.format_exception(error)).rstrip())
    complain("varsim: this is a bug in varsim, not in your scenario; please report it")
    return ERROR


@contextmanager
def _naming_stdout() -> Iterator[None]:
    """An error in writing to stdout says that it was there."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or "standard output"
        raise


def _let_go_of_stdout() -> None:
    """What is still to be written goes nowhere: the interpreter must not stumble over it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        self._teller: threading.Thread | None = None
        self._over = threading.Event()
        self._how_far = ""  # in words

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._make_bar()
        if not self._quiet and self._bar is None:
            self._teller = threading.Thread(target=self._wait, daemon=True)
            self._teller.start()
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
                from varsim.core.units import format_seconds  # with pydantic, which is there by now

                foreseen = f", about {format_seconds(round(left))} left"
            more = f"; {remark}" if remark else ""
            _say(f"{self._how_far}{foreseen}{more}")

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._teller is not None:
            self._teller.join()  # no line comes after the answer
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
