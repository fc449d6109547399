"""The command line: parses, calls, prints; results to stdout, progress and complaints to stderr."""

import atexit
import codecs
import gc
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

import typer

from varsim.cli import calibration, training, variables
from varsim.cli import plan as planning
from varsim.cli import stragglers as straggling
from varsim.cli import sweep as sweeping
from varsim.cli import tune as tuning
from varsim.cli.console import (
    DONE,
    ITEM,
    PLAIN,
    Command,
    Group,
    Stopped,
    Stopper,
    bundled_quickstart,
    complain,
    flush,
    plain,
    show,
    write,
    write_prose,
)
from varsim.cli.options import (
    All,
    File,
    Form,
    Imports,
    Jobs,
    Kinds,
    NoPlots,
    Quiet,
    Rows,
    Runs,
    Seed,
    Yes,
    check_all,
    processes,
    with_shorthands,
)
from varsim.cli.recordings import percent
from varsim.cli.settings import Asking, Engine, Formats, Settings, question, use_for

if TYPE_CHECKING:
    from varsim.study.experiment import AnyExperiment

# What the commands do with each kind of experiment.
PRODUCTS: Final[dict[str, Any]] = {
    "training": training,
    "variables": variables,
    "sweep": sweeping,
    "plan": planning,
}

SHOWN: Final = 4  # names of a table in the list of all

__all__ = ["Stopped", "app", "main"]

app = typer.Typer(
    cls=Group,
    name="varsim",
    help="Simulate how distributed training keeps its variables in sync, on real values.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Catalogue = Literal[
    "strategies",
    "laws",
    "networks",
    "collectives",
    "partitioners",
    "problems",
    "optimizers",
    "staleness_policies",
    "actions",
    "devices",
    "links",
    "failures",
    "models",
    "speeds",
    "objectives",
]
Sets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY.PATH=VALUE",
        help="Change one value of the scenario, for example workload.batch_size=64; repeatable.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>."),
]
Replications = Annotated[
    int | None, typer.Option(metavar="N", help="The same as --set replications=N.")
]
Format = Annotated[Formats, typer.Option("--format", help="How the summary is printed.")]


@app.callback(invoke_without_command=True)
def options(
    wanted: Annotated[bool, typer.Option("--version", help="The same as varsim version.")] = False,
) -> None:
    """What may stand before the command, or alone."""
    if wanted:
        version()
        flush()
        raise typer.Exit(DONE)


@app.command(cls=Command)
def run(
    file: File,
    out: Out = None,
    seed: Seed = None,
    replications: Replications = None,
    sets: Sets = [],  # noqa: B006  (typer reads it, nobody changes it)
    imports: Imports = [],  # noqa: B006
    strategy: Kinds = [],  # noqa: B006
    jobs: Jobs = "1",  # type: ignore[assignment]
    quiet: Quiet = False,
    format: Format = "table",
    all_rows: All = False,
    form: Form = "png",
    no_plots: NoPlots = False,
    rows: Rows = False,
    yes: Yes = False,
    engine: Engine = "auto",
) -> None:
    """Simulate a scenario and write its report."""
    check_all(all_rows, format)
    given = with_shorthands(sets, seed=seed, replications=replications)
    experiment = _loaded(file, given, strategy)
    by = use_for(engine, experiment)
    asked = question(file, whole=not given and not strategy)
    settings = Settings(
        file,
        asked,
        out,
        processes(jobs),
        quiet,
        format,
        yes,
        "" if no_plots else form,
        tuple(strategy),
        all_rows,
        rows,
    )
    PRODUCTS[experiment.kind].run(experiment, settings)
    if by and not quiet:
        complain(by)


@app.command(cls=Command)
def demo(
    out: Out = None,
    jobs: Jobs = "1",  # type: ignore[assignment]
    quiet: Quiet = False,
    format: Format = "table",
    all_rows: All = False,
) -> None:
    """Simulate the bundled quickstart."""
    check_all(all_rows, format)
    file = bundled_quickstart()
    asked = question(file, whole=True)
    settings = Settings(file, asked, out, processes(jobs), quiet, format, all_rows=all_rows)
    experiment = _loaded(file, [])
    PRODUCTS[experiment.kind].run(experiment, settings)


app.command(cls=Command)(sweeping.sweep)
app.command(cls=Command)(sweeping.merge)
app.command(cls=Command)(planning.plan)
app.command(cls=Command)(tuning.tune)
app.command(cls=Command)(calibration.calibrate)
app.command(cls=Command)(straggling.stragglers)


@app.command(cls=Command)
def check(
    file: File,
    sets: Sets = [],  # noqa: B006
    imports: Imports = [],  # noqa: B006
    strategy: Kinds = [],  # noqa: B006
    format: Annotated[
        Literal["table", "md", "json"],
        typer.Option("--format", help="Text, Markdown, or all of it as JSON."),
    ] = "table",
    all_rows: All = False,
    engine: Engine = "auto",
) -> None:
    """Validate a scenario and simulate its first iterations.

    Shows what a step of each strategy takes and waits for. For a sweep or plan: its axes, and how
    many runs they take.
    """
    check_all(all_rows, format)
    try:
        with _uncollected():
            from varsim.study.experiment import load

            experiment = load(file, tuple(sets), tuple(strategy))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    by = use_for(engine, experiment, times=True)
    checked = PRODUCTS[experiment.kind].check(experiment, strategy)
    told = checked.report
    command = told.next.replace("FILE", shlex.quote(str(file)))
    show(replace(told, next=command), format, [], every=all_rows)
    if by and engine != "auto":
        complain(by)
    if checked.deadlock is not None:
        raise checked.deadlock


@app.command(cls=Command)
def explain(
    file: File,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="For variables: the first N steps; default: as many as fit in 20 rows.",
        ),
    ] = None,
    mode: Annotated[
        list[str],
        typer.Option(metavar="MODE", help="For variables: only this mode; repeatable."),
    ] = [],  # noqa: B006
    strategy: Kinds = [],  # noqa: B006
    sets: Sets = [],  # noqa: B006
    imports: Imports = [],  # noqa: B006
    format: Annotated[
        Literal["table", "md", "json"],
        typer.Option("--format", help="Text, Markdown, or all of it as JSON."),
    ] = "table",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For training: write a page and a figure there, too."),
    ] = None,
    all_rows: All = False,
    quiet: Quiet = False,
    yes: Yes = False,
    engine: Engine = "auto",
) -> None:
    """Explain why training is slow, or what happens to variables.

    For training: the share of each cause in a step of each strategy, and what would help most; with
    --strategy or --all also what a step waits for, what is busiest, and every what-if. For
    variables: what each copy holds, what is sent where, and when, step by step.
    """
    check_all(all_rows, format)
    experiment = _loaded(file, sets, strategy)
    by = use_for(engine, experiment, times=True)
    asked = Asking(file, tuple(strategy), tuple(mode), steps, format, out, quiet, yes, all_rows)
    PRODUCTS[experiment.kind].explain(experiment, asked)
    if by and engine != "auto":
        complain(by)


@app.command(cls=Command)
def schema(imports: Imports = []) -> None:  # noqa: B006
    """Print the JSON Schema of a scenario."""
    import json

    from varsim.scenario.load import file_schema

    write(json.dumps(file_schema(), indent=2, ensure_ascii=False))


@app.command(name="list", cls=Command)
def list_(
    what: Annotated[
        Catalogue | None,
        typer.Argument(
            metavar="TABLE",
            help="What to list; default: what there is. There are "
            f"{', '.join(get_args(Catalogue))}.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of them, with its keys.")
    ] = None,
    imports: Imports = [],  # noqa: B006
) -> None:
    """List what a scenario can name."""
    from varsim.cli.catalogue import TABLES, known_name

    if what is None:
        width = max(map(len, TABLES))
        for table, entries in TABLES.items():
            names = list(entries())
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            write_prose(f"{table:<{width}}  {', '.join(names[:SHOWN])}{more}", width + 2)
        write("\nWhat each is: varsim list strategies. Its keys: varsim list strategies ssp.")
        return
    rows = TABLES[what]()
    if name is None:
        width = max(len(key) for key in rows)
        for key, entry in rows.items():
            write_prose(f"{key:<{width}}  {entry.about}", min(width + 2, 2 * ITEM))
        if any(entry.keys for entry in rows.values()):
            write(f"\nThe keys of one: varsim list {what} {next(iter(rows))}.")
        return
    entry = rows[known_name(what, name, rows)]
    write_prose(f"{name}  {entry.about}", 4)
    for key in filter(None, re.split(r", (?=\w+: )(?![^{]*})", entry.keys)):
        write_prose(f"  {key}", 6)


@app.command(cls=Command)
def validate(
    runs: Runs = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            parser=percent,
            metavar="PERCENT",
            help="Exit with 3 if a total time is farther off.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to write.")] = None,
    quiet: Quiet = False,
) -> None:
    """Predict your own recorded runs, and say how well.

    The runs of one kind are split into two halves; each half is predicted from the other.
    """
    if runs is None:
        raise typer.BadParameter(
            "name the folder of your recorded runs: --runs DIR. The validation of varsim itself "
            "runs in its repository: python -m validation"
        )
    from varsim.cli import recordings

    recordings.validate(runs, max_error, out, quiet)


@app.command(cls=Command)
def version() -> None:
    """Print the versions of what makes a result."""
    from varsim.version import ENGINE_VERSION, SCHEMA_VERSION, __version__

    write(f"varsim {__version__} (scenario schema {SCHEMA_VERSION}, engine {ENGINE_VERSION})")


def main() -> None:
    """Entry point of the command `varsim`."""
    # Collections look at everything that was imported, again and again, the last ones at the end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    # More threads are never used (see one_blas_thread).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is left of a pool whose parent was killed Python clears away; that is no news.
    quiet = "ignore:resource_tracker:UserWarning"
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.getenv("PYTHONWARNINGS"), quiet]))
    limit_memory()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us: `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        with suppress(AttributeError):
            getattr(sys, name).reconfigure(errors=PLAIN)
    codecs.register_error(PLAIN, plain)
    with Stopper() as stopper:
        app(obj=stopper)


def limit_memory() -> None:
    """What outgrows the memory of this machine, or container, fails and says so; on Linux."""
    if sys.platform != "linux":
        return
    import resource

    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such limit, or "max"
        there = min(there, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY or soft > there:
        resource.setrlimit(resource.RLIMIT_DATA, (there, hard))


def _loaded(file: Path, sets: Iterable[str], strategies: Iterable[str] = ()) -> "AnyExperiment":
    """One scenario: ScenarioError of a sweep or plan."""
    with _uncollected():
        from varsim.scenario.loading import load_scenario
        from varsim.study.experiment import load

        return load(load_scenario(file, tuple(sets), tuple(strategies)))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing that is imported or made meanwhile is looked at by the garbage collector, ever."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
