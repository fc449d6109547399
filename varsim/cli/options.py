"""What several commands take: options, and the comment that a scenario begins with."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import typer

from varsim.cluster.fast import ENGINE

MOST_JOBS: Final = 4096
_MOST_LINES: Final = 50  # of what a scenario says of itself


def jobs(text: str) -> int:
    """`auto` as 0, or a number of processes."""
    if text.strip() == "auto":
        return 0
    number = text.strip()
    if not number.isdecimal() or len(number) > 9 or not 1 <= int(number) <= MOST_JOBS:
        raise typer.BadParameter(f"{text!r} is neither auto nor a number from 1 to {MOST_JOBS}")
    return int(number)


def processes(jobs: int) -> int:
    """How many processes `jobs` means."""
    if jobs:
        return jobs
    from varsim.study.pool import cores

    return cores()


def import_all(given: list[str]) -> None:
    """Import each; typer.BadParameter where one cannot be, or registers nothing."""
    if not given:
        return
    from varsim.scenario.extensions import import_extension

    for one in dict.fromkeys(given):
        try:
            import_extension(one)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A scenario, in YAML; - is standard input; or the name of a bundled one "
        "(varsim list scenarios).",
    ),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="The same as --set seed=N.")]
Imports = Annotated[
    list[str],
    typer.Option(
        "--import",
        metavar="MODULE_OR_FILE",
        callback=import_all,
        expose_value=False,
        help="Import a module, or a file *.py, that registers what scenarios can name; repeatable.",
    ),
]
Kinds = Annotated[
    list[str],
    typer.Option(
        "--strategy",
        metavar="NAME",
        help="Only the strategy of this name, or those of this kind; repeatable.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Yes = Annotated[bool, typer.Option("--yes", help="Run without asking, however large.")]
All = Annotated[bool, typer.Option("--all", help="Print every row, column and note.")]
Form = Annotated[Literal["png", "svg"], typer.Option("--plots", help="Format of the plots.")]
NoPlots = Annotated[bool, typer.Option("--no-plots", help="Write no plots.")]
Animate = Annotated[
    bool,
    typer.Option(
        "--animate", help="Write animation.svg, too: the first steps, with gradients on their way."
    ),
]
Rows = Annotated[
    bool,
    typer.Option(
        "--rows",
        help="Also write every row: updates, spans, steps, evaluations, links, and a trace.",
    ),
]
Plots = Annotated[bool, typer.Option(help="Draw the figures of the report.")]
Jobs = Annotated[
    int,
    typer.Option(parser=jobs, metavar="N", help="Processes to run in; auto: one per core."),
]
Runs = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Recorded runs of a cluster, *.json."),
]
Backend = Annotated[Literal["local", "dask"], typer.Option(help="This machine, or a dask cluster.")]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address of the dask scheduler.")
]


def check_backend(backend: Literal["local", "dask"], scheduler: str | None) -> None:
    """Raise typer.BadParameter where one of the two is given without the other."""
    if (backend == "dask") != (scheduler is not None):
        raise typer.BadParameter("--backend dask and --scheduler ADDRESS go together")


def check_all(all_rows: bool, format: str) -> None:
    """Raise typer.BadParameter where every row is asked for of what has them all."""
    if all_rows and format != "table":
        raise typer.BadParameter(f"--all has no effect: --format {format} has every row")


def with_shorthands(sets: Sequence[str], **shorthands: int | None) -> list[str]:
    """What `--set` says, and behind it what shorter options of these names say."""
    given = [f"{key}={value}" for key, value in shorthands.items() if value is not None]
    return [*sets, *given]


Sets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY.PATH=VALUE",
        help="Change one value of the scenario, for example workload.batch_size=64; repeatable.",
    ),
]
Axes = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=1,2,4",
        help="Vary a value of the scenario, or change it at all points; repeatable.",
    ),
]
Replications = Annotated[
    int | None, typer.Option(metavar="N", help="The same as --set replications=N.")
]
Formats: TypeAlias = Literal["table", "json", "csv", "md"]
Format = Annotated[Formats, typer.Option("--format", help="How the result is printed.")]
Prose = Annotated[
    Literal["table", "md", "json"],
    typer.Option("--format", help="Text, Markdown, or all of it as JSON."),
]
Data = Annotated[
    Literal["table", "json"], typer.Option("--format", help="Text, or all of it as JSON.")
]
Tables: TypeAlias = Literal["table", "csv", "json"]
Table = Annotated[Tables, typer.Option("--format", help="How the result is printed.")]
Unit = Annotated[
    Literal["s", "ms", "us", "ns"] | None,
    typer.Option(help="Unit of times in a CSV whose header has none."),
]
EngineName: TypeAlias = Literal["auto", "simpy", "fast"]
Engine = Annotated[
    EngineName,
    typer.Option(
        envvar=ENGINE,
        help="Engine of runs in which only times matter; the results are the same.",
    ),
]


def question(file: Path, *, whole: bool = False, changed: Iterable[str] = ()) -> str:
    """What a scenario is to answer: its first line, if that is a comment.

    `whole`: all lines of that comment. They tell of the file as it is, with numbers that options
    make wrong. `changed`: what `--set` says; but for seed and replications, something else is asked
    then, and what the file asks is not told.
    """
    if any(one.partition("=")[0].strip() not in ("seed", "replications") for one in changed):
        return ""
    from varsim.scenario.loading import read_text

    lines = read_text(file).splitlines()[: _MOST_LINES if whole else 1]
    comment = takewhile(lambda line: line.lstrip().startswith("#"), lines)
    said = [line.strip().lstrip("#").removeprefix(" ") for line in comment]
    return "\n".join(said if whole else said[:1]).strip()
