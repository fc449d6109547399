"""The command line: parses, calls, prints; results to stdout, progress and complaints to stderr."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from varsim.commands import training, variables
from varsim.commands.console import (
    DONE,
    Group,
    Stopped,
    Stopper,
    flush,
    write,
)
from varsim.commands.settings import Formats, Settings
from varsim.commands.validation import Halves, percent

if TYPE_CHECKING:
    from varsim.scenario import Scenario
    from varsim.variables import VariablesScenario

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
Runs = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Recorded runs, *.json; default: those of varsim."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
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
    scenario = _loaded(file, [*sets, *given])
    settings = Settings(_question(file), out, jobs, quiet, format)
    from varsim.variables import VariablesScenario

    if isinstance(scenario, VariablesScenario):
        variables.refuse_strategies(scenario, strategy)
        variables.run(scenario, settings)
    else:
        training.run(training.chosen(scenario, strategy), settings)


@app.command()
def demo(out: Out = None, jobs: Jobs = 1, quiet: Quiet = False, format: Format = "table") -> None:
    """Simulate the bundled quickstart."""
    file = bundled_quickstart()
    scenario = _loaded(file, [])
    from varsim.scenario import Scenario

    assert isinstance(scenario, Scenario), "the quickstart trains"
    training.run(scenario, Settings(_question(file), out, jobs, quiet, format))


@app.command()
def check(file: File, sets: Sets = []) -> None:  # noqa: B006
    """Validate a scenario and estimate its steps.

    Says in plain words what the scenario is, and on the back of an envelope how long one step of
    each strategy takes.
    """
    scenario = _loaded(file, sets)
    write(f"{file}: ok")
    from varsim.variables import VariablesScenario

    if isinstance(scenario, VariablesScenario):
        variables.check(scenario)
    else:
        training.check(scenario)


@app.command()
def explain(
    file: File,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The first N steps; default: as many as fit in 20 rows."
        ),
    ] = None,
    mode: Annotated[
        list[str],
        typer.Option(metavar="MODE", help="Only this mode of the scenario; repeatable."),
    ] = [],  # noqa: B006
    sets: Sets = [],  # noqa: B006
    format: Annotated[
        Literal["table", "md"], typer.Option("--format", help="A table, or Markdown for slides.")
    ] = "table",
) -> None:
    """Tell step by step what happens to variables.

    For a scenario of kind variables: what each copy holds, what is sent where, and when.
    """
    from varsim.commands.explain import explain

    explain(_loaded(file, sets), file, _question(file), mode, steps, format)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a scenario."""
    import json

    from varsim.load.loading import scenario_schema

    write(json.dumps(scenario_schema(), indent=2, ensure_ascii=False))


@app.command(name="list")
def list_(
    what: Annotated[
        Literal[
            "strategies", "laws", "problems", "optimizers", "actions", "devices", "links", "models"
        ]
        | None,
        typer.Argument(metavar="TABLE", help="One table, with all keys; default: all of them."),
    ] = None,
) -> None:
    """List what a scenario can name."""
    from varsim.catalogue import TABLES

    for index, name in enumerate([what] if what else TABLES):
        if what is None:
            write(f"{name}:" if index == 0 else f"\n{name}:")
        rows = TABLES[name]()
        width = max(len(key) for key in rows)
        for key, entry in rows.items():
            write(f"{'' if what else '  '}{key:<{width}}  {entry.about}")
            if what and entry.keys:
                write(f"    {entry.keys}")
    if what is None:
        write("\nWith the keys of each: varsim list laws, and so on.")


@app.command()
def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The report of a run.")],
) -> None:
    """Draw the plots of a saved run again."""
    from varsim.files.keeping import kinds_of

    redraw = variables.redraw if "variables" in kinds_of(directory) else training.redraw
    redraw(directory, lambda: _question(directory / "scenario.yaml"))
    write(f"report: {directory / 'report.html'}")


@app.command()
def validate(
    runs: Runs = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            parser=percent, metavar="PERCENT", help="Exit with 3 if a total time is farther off."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a page and a figure there.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Predict measured runs, each from others.

    Their compute times are replayed through the strategies; overheads are calibrated on one half
    of the runs and tested on the other, both ways.
    """
    from varsim.commands import validation

    validation.validate(runs, max_error, out, quiet)


@app.command()
def calibrate(
    runs: Runs = None,
    half: Annotated[
        Halves, typer.Option(help="Use the first, the second half of the runs, or all.")
    ] = "first",
) -> None:
    """Find the overheads of a cluster in its runs."""
    from varsim.commands import validation

    validation.calibrate(runs, half)


@app.command()
def version() -> None:
    """Print the versions of what makes a result."""
    from varsim import __version__
    from varsim.scenario import SCHEMA_VERSION
    from varsim.trace import ENGINE_VERSION

    write(f"varsim {__version__} (scenario schema {SCHEMA_VERSION}, engine {ENGINE_VERSION})")


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


def _question(file: Path) -> str:
    """What a scenario is to answer: its first line, if that is a comment."""
    with file.open(encoding="utf-8-sig") as lines:
        first = lines.readline(1000).strip()
    return first.lstrip("# ") if first.startswith("#") else ""


def _loaded(file: Path, sets: Iterable[str]) -> "Scenario | VariablesScenario":
    from varsim.load.loading import load_scenario

    return load_scenario(file, tuple(sets))
