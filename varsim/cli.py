"""The command line: parses, calls, prints; results to stdout, progress and complaints to stderr."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from varsim.result.result import Result
    from varsim.scenario import Scenario

DONE, INTERNAL_ERROR, USAGE, SIGNALLED = 0, 1, 2, 128

# A run computes some hundred thousand gradients a second, and remembers each of them.
MANY_GRADIENTS, TOO_MANY_GRADIENTS = 20e6, 1e9


class Group(TyperGroup):
    """All commands, with every way of ending told in one place."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; whatever goes wrong becomes one message and an exit code."""
        try:
            value = super().invoke(ctx)
            _flush()
        except BrokenPipeError:
            _let_go_of_stdout()  # whoever read us has seen enough
            raise typer.Exit(DONE) from None
        except (KeyboardInterrupt, Exception) as error:
            if (number := _signal_behind(error)) is not None:
                done = "interrupted" if number == signal.SIGINT else "terminated"
                _complain(f"varsim: {done}")
                raise typer.Exit(SIGNALLED + number) from None
            if hasattr(error, "exit_code"):  # typer's own: usage errors and Exit
                if hasattr(error, "message"):  # in which pydantic's words shine through
                    error.message = error.message.replace("Value error, ", "")
                raise
            code = _explained(error)
            try:
                sys.stdout.flush()
            except OSError:
                _let_go_of_stdout()
            raise typer.Exit(code) from None
        return value


class Stopped(KeyboardInterrupt):
    """A signal told the command to stop."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Stopper:
    """Ctrl-C and SIGTERM end the command alike; a second one does not disturb the clean-up."""

    PATIENCE = 2.0

    def __init__(self) -> None:
        self._last = -self.PATIENCE

    def __enter__(self) -> None:
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
        if not isinstance(lost.exc_value, Stopped):
            sys.__unraisablehook__(lost)
            return
        self._last = -self.PATIENCE
        again = threading.Timer(0.02, os.kill, (os.getpid(), lost.exc_value.number))
        again.daemon = True
        again.start()

    def _stop(self, number: int, _: object) -> None:
        now, before = monotonic(), self._last
        if now - before >= self.PATIENCE:
            self._last = now
            raise Stopped(number)


app = typer.Typer(
    cls=Group,
    name="varsim",
    help="Simulate how distributed training keeps its variables in sync, on real values.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario, in YAML.")]
Sets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY.PATH=VALUE",
        help="Change one value of the scenario, for example cluster.workers=4; repeatable.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>."),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="The same as --set seed=N.")]
Replications = Annotated[
    int | None, typer.Option(metavar="N", help="The same as --set replications=N.")
]
Kinds = Annotated[
    list[str],
    typer.Option(
        "--strategy", metavar="KIND", help="Run only this kind (or name) of strategy; repeatable."
    ),
]
Jobs = Annotated[
    int, typer.Option(min=1, metavar="N", help="Processes to run in; the results are the same.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Formats: TypeAlias = Literal["table", "json", "csv", "md"]
Format = Annotated[Formats, typer.Option("--format", help="How the summary is printed.")]


@app.callback(invoke_without_command=True)
def options(
    wanted: Annotated[bool, typer.Option("--version", help="The same as varsim version.")] = False,
) -> None:
    """What may stand before the command, or alone."""
    if wanted:
        version()
        _flush()
        raise typer.Exit(DONE)


@app.command()
def run(
    file: File,
    out: Out = None,
    seed: Seed = None,
    replications: Replications = None,
    sets: Sets = [],  # noqa: B006  (typer reads it, nobody changes it)
    strategy: Kinds = [],  # noqa: B006
    jobs: Jobs = 1,
    quiet: Quiet = False,
    format: Format = "table",
) -> None:
    """Simulate a scenario and write its report."""
    shorthands = {"seed": seed, "replications": replications}
    given = [f"{key}={value}" for key, value in shorthands.items() if value is not None]
    scenario = _only(_loaded(file, [*sets, *given]), strategy)
    _run(scenario, _question(file), out, jobs, quiet, format)


@app.command()
def demo(out: Out = None, jobs: Jobs = 1, quiet: Quiet = False, format: Format = "table") -> None:
    """Simulate the bundled quickstart."""
    file = bundled_quickstart()
    _run(_loaded(file, []), _question(file), out, jobs, quiet, format)


@app.command()
def check(file: File, sets: Sets = []) -> None:  # noqa: B006
    """Validate a scenario and estimate its steps.

    Says in plain words what the scenario is, and on the back of an envelope how long one step of
    each strategy takes.
    """
    from varsim.estimate import describe, estimates
    from varsim.units import format_seconds

    scenario = _loaded(file, sets)
    _write(f"{file}: ok")
    for line in describe(scenario):
        _write(line)
    _write("\nTime of one step, on the back of an envelope:")
    rows = [(e.label, format_seconds(e.step_time), e.why) for e in estimates(scenario)]
    label_width = max(len(label) for label, _, _ in rows)
    time_width = max(len(time) for _, time, _ in rows)
    for label, time, why in rows:
        _write(f"  {label:<{label_width}}  {time:>{time_width}}  {why}")
    _weigh(scenario)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a scenario."""
    import json

    from varsim.load.loading import scenario_schema

    _write(json.dumps(scenario_schema(), indent=2, ensure_ascii=False))


@app.command(name="list")
def list_(
    what: Annotated[
        Literal["strategies", "laws", "problems", "optimizers", "devices", "links", "models"]
        | None,
        typer.Argument(metavar="TABLE", help="One table, with all keys; default: all of them."),
    ] = None,
) -> None:
    """List what a scenario can name."""
    from varsim.catalogue import TABLES

    for index, name in enumerate([what] if what else TABLES):
        if what is None:
            _write(f"{name}:" if index == 0 else f"\n{name}:")
        rows = TABLES[name]()
        width = max(len(key) for key in rows)
        for key, entry in rows.items():
            _write(f"{'' if what else '  '}{key:<{width}}  {entry.about}")
            if what and entry.keys:
                _write(f"    {entry.keys}")
    if what is None:
        _write("\nWith the keys of each: varsim list laws, and so on.")


@app.command()
def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The report of a run.")],
) -> None:
    """Draw the plots of a saved run again."""
    from varsim.files.save import load_result
    from varsim.report import write

    try:
        result = load_result(directory)
    except OSError as error:
        _complain(f"varsim: {_named(error, 'read')}")
        raise typer.Exit(USAGE) from None
    write(result, directory, _question(directory / "scenario.yaml"))
    _write(f"report: {directory / 'report.html'}")


@app.command()
def version() -> None:
    """Print the versions of what makes a result."""
    from varsim import __version__
    from varsim.scenario import SCHEMA_VERSION
    from varsim.trace import ENGINE_VERSION

    _write(f"varsim {__version__} (scenario schema {SCHEMA_VERSION}, engine {ENGINE_VERSION})")


def main() -> None:
    """Entry point of the command `varsim`."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # before numpy is imported: threads only slow it down
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    with Stopper():
        app()


def bundled_quickstart() -> Path:
    """The quickstart scenario: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "data" / "quickstart.yaml"
    return installed if installed.exists() else package.parent / "scenarios" / "quickstart.yaml"


def _run(
    scenario: "Scenario", question: str, out: Path | None, jobs: int, quiet: bool, format: Formats
) -> None:
    from varsim.files.save import check_target, save
    from varsim.progress import Progress
    from varsim.report import write
    from varsim.simulation import simulate

    _weigh(scenario)
    directory = out if out is not None else Path("reports") / scenario.name
    check_target(directory)
    with Progress(quiet) as progress:
        result = simulate(scenario, jobs=jobs, progress=progress)

    def extras(path: Path) -> None:
        if question:
            resolved = path / "scenario.yaml"
            resolved.write_bytes(f"# {question}\n".encode() + resolved.read_bytes())
        write(result, path, question)

    saved = save(result, directory, extras)
    _show(result, format, [*saved.notes, f"report: {saved.directory / 'report.html'}"])


def _weigh(scenario: "Scenario") -> None:
    """Warn of a scenario that takes very long; refuse one of which no end is to be seen."""
    from varsim.estimate import expected_gradients
    from varsim.units import format_count

    count = expected_gradients(scenario)
    if count <= MANY_GRADIENTS:
        return
    limits = ("time", "global_steps", "examples")
    knobs = [f"stop.{name}" for name in limits if getattr(scenario.stop, name) is not None]
    advice = ", ".join([*knobs, *["replications"] * (scenario.replications > 1)])
    advice = f"lower {advice} or cluster.workers"
    said = f"varsim: about {format_count(count)} gradients to compute"
    if count > TOO_MANY_GRADIENTS:
        _complain(f"{said}, {format_count(TOO_MANY_GRADIENTS)} at most: {advice}")
        raise typer.Exit(USAGE)
    _complain(f"{said}, which takes long and much memory; to avoid it {advice}")


def _show(result: "Result", format: Formats, closing: Iterable[str]) -> None:
    """Print a result: as a table with its answer, or as text for another program."""
    if format == "table":
        from varsim.progress import drawn

        _write(drawn(result.table()), end="")
        for line in (*result.notes, "", *result.answer().splitlines(), *closing):
            _write(line)
        return
    from varsim.result.render import render

    _write(render(result, format), end="")
    for line in closing:  # stdout stays what the format promises
        _complain(line)


def _question(file: Path) -> str:
    """What a scenario is to answer: its first line, if that is a comment."""
    with file.open(encoding="utf-8-sig") as lines:
        first = lines.readline(1000).strip()
    return first.lstrip("# ") if first.startswith("#") else ""


def _loaded(file: Path, sets: Iterable[str]) -> "Scenario":
    from varsim.load.loading import load_scenario

    return load_scenario(file, tuple(sets))


def _only(scenario: "Scenario", wanted: list[str]) -> "Scenario":
    """The scenario with only the strategies of these kinds or labels."""
    if not wanted:
        return scenario
    known = {name for s in scenario.strategies for name in (s.kind, s.label)}
    for name in wanted:
        if name not in known:
            there = ", ".join(s.label for s in scenario.strategies)
            raise typer.BadParameter(f"no strategy {name!r} in this scenario; it has: {there}")
    chosen = tuple(s for s in scenario.strategies if s.kind in wanted or s.label in wanted)
    return scenario.with_only(chosen)


def _signal_behind(error: BaseException | None) -> int | None:
    """The signal that led to an error: Python wraps what it meets while it makes a class."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    return error.number if isinstance(error, Stopped) else signal.SIGINT


def _explained(error: BaseException) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, MemoryError):
        _complain("varsim: out of memory; try fewer workers, steps or --jobs")
        return INTERNAL_ERROR
    from varsim.load.fault import ScenarioError

    if isinstance(error, ScenarioError):
        _complain(str(error))
        return USAGE
    from varsim.cluster.job import DeadlockError

    if isinstance(error, DeadlockError):
        _complain(f"varsim: deadlock: {error}")
        return INTERNAL_ERROR
    if isinstance(error, OSError):
        _complain(f"varsim: {_named(error, 'write')}")
        return INTERNAL_ERROR
    _complain("".join(traceback.format_exception(error)).rstrip())
    _complain("varsim: this is a bug in varsim, not in your scenario; please report it")
    return INTERNAL_ERROR


def _named(error: OSError, verb: str) -> str:
    """What the system says, without its number: `cannot write reports/a: No space left`."""
    if error.strerror is None:
        return str(error)
    return f"cannot {verb} {error.filename}: {error.strerror}" if error.filename else error.strerror


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


def _write(text: str, end: str = "\n") -> None:
    with _naming_stdout():
        sys.stdout.write(text + end)


def _flush() -> None:
    """Have everything written before the command says that it is done."""
    with _naming_stdout():
        sys.stdout.flush()


def _complain(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text + "\n")
