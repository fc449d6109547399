"""What several commands take."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

MOST_JOBS: Final = 4096


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
    Path, typer.Argument(metavar="FILE", help="A scenario, in YAML; - is standard input.")
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
Yes = Annotated[bool, typer.Option("--yes", help="Run it however much it is.")]
All = Annotated[bool, typer.Option("--all", help="Print every row, column and note.")]
Form = Annotated[
    Literal["png", "svg"], typer.Option("--plots", help="In which format plots are written.")
]
NoPlots = Annotated[bool, typer.Option("--no-plots", help="Write no plots.")]
Rows = Annotated[
    bool,
    typer.Option(
        "--rows",
        help="Write every row, too: updates, spans, steps, evaluations, links, and a trace.",
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
Backend = Annotated[
    Literal["local", "dask"], typer.Option(help="This machine, or a cluster of dask.")
]
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
