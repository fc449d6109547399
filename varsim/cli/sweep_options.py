"""The options of the commands that sweep and merge."""

from pathlib import Path
from typing import Annotated

import typer

from varsim.cli import sweep as sweeping
from varsim.cli.options import (
    Backend,
    File,
    Jobs,
    Kinds,
    Quiet,
    Scheduler,
    Seed,
    Yes,
    check_backend,
    with_shorthands,
)

SweepSets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=1,2,4",
        help="Vary something of the scenario, or change it at all points; repeatable.",
    ),
]
Precision = Annotated[
    float | None,
    typer.Option(
        parser=sweeping.share,
        metavar="PERCENT",
        help="Half-width of the 95 % interval of the throughput to reach; default: 2 %.",
    ),
]


def sweep(
    file: File,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>-sweep."),
    ] = None,
    seed: Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(metavar="N", help="The least of every point; the same as --set replications."),
    ] = None,
    most_replications: Annotated[
        int | None, typer.Option(min=1, max=10_000, metavar="N", help="The most of every point.")
    ] = None,
    precision: Precision = None,
    sets: SweepSets = [],  # noqa: B006
    strategy: Kinds = [],  # noqa: B006
    jobs: Jobs = "auto",  # type: ignore[assignment]
    shard: Annotated[
        sweeping.Shard | None,
        typer.Option(parser=sweeping.shard, metavar="I/N", help="Only this part of the runs."),
    ] = None,
    backend: Backend = "local",
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    format: Annotated[
        sweeping.Formats, typer.Option("--format", help="How the table is printed.")
    ] = "table",
    yes: Yes = False,
) -> None:
    """Run a scenario at many points.

    Each strategy is run at each point until its throughput is known to the precision. Runs are
    kept as they end: the same command goes on where it stopped.
    """
    check_backend(backend, scheduler)
    if scheduler is not None and jobs:
        raise typer.BadParameter("--jobs is for this machine: dask has as many as it has workers")
    if scheduler is not None and shard is not None:
        raise typer.BadParameter("--shard is for machines that know nothing of each other")
    given = with_shorthands(sets, seed=seed, replications=replications)
    settings = sweeping.SweepSettings(
        file, out, tuple(strategy), jobs or None, scheduler, shard, quiet, format, yes
    )
    sweeping.run(settings, given, precision, most_replications)


def merge(
    file: File,
    parts: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Written by sweep --shard.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>-sweep."),
    ] = None,
    sets: SweepSets = [],  # noqa: B006
    precision: Precision = None,
    most_replications: Annotated[
        int | None, typer.Option(min=1, max=10_000, metavar="N", help="The most of every point.")
    ] = None,
    strategy: Kinds = [],  # noqa: B006
    format: Annotated[
        sweeping.Formats, typer.Option("--format", help="How the table is printed.")
    ] = "table",
) -> None:
    """Put the parts of a sweep together.

    FILE and the options are those of the parts; what is missing can be run afterwards.
    """
    settings = sweeping.SweepSettings(file, out, tuple(strategy), 1, None, None, True, format)
    sweeping.merge(parts, settings, sets, precision, most_replications)
