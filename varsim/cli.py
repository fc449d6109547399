"""The command line: parses, calls, prints; results to stdout, progress and complaints to stderr."""

import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from varsim.result.result import Result
    from varsim.scenario import Scenario

DONE, INTERNAL_ERROR, USAGE, INTERRUPTED = 0, 1, 2, 130


class Group(TyperGroup):
    """All commands, with every way of ending told in one place."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; whatever goes wrong becomes one message and an exit code."""
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _let_go_of_stdout()  # whoever read us has seen enough
            raise typer.Exit(DONE) from None
        except KeyboardInterrupt:
            _complain("varsim: interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):  # typer's own: usage errors and Exit
                raise
            code = _explained(error)
            try:
                sys.stdout.flush()
            except OSError:
                _let_go_of_stdout()
            raise typer.Exit(code) from None
        return value


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
        typer.Argument(help="One table; default: all of them."),
    ] = None,
) -> None:
    """List what a scenario can name."""
    from varsim.catalogue import TABLES

    for index, name in enumerate([what] if what else TABLES):
        if what is None:
            _write(f"{name}:" if index == 0 else f"\n{name}:")
        rows = TABLES[name]()
        width = max(len(key) for key in rows)
        for key, line in rows.items():
            _write(f"{'' if what else '  '}{key:<{width}}  {line}")


@app.command()
def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The report of a run.")],
) -> None:
    """Draw the plots of a saved run again."""
    from varsim.files.save import NotARunError, load_result
    from varsim.report import write

    try:
        result = load_result(directory)
    except NotARunError as error:
        raise typer.BadParameter(str(error)) from None
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


def _explained(error: Exception) -> int:
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
        _complain(f"varsim: {error}")
        return INTERNAL_ERROR
    _complain("".join(traceback.format_exception(error)).rstrip())
    _complain("varsim: this is a bug in varsim, not in your scenario; please report it")
    return INTERNAL_ERROR


def _let_go_of_stdout() -> None:
    """What is still to be written goes nowhere: the interpreter must not stumble over it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)


def _complain(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text + "\n")
