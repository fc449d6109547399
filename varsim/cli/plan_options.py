"""The options of the command that plans."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from varsim.cli import plan as planning
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

PlanSets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=1,2,4",
        help="Another axis of the space, or a change of all its points; repeatable.",
    ),
]
Objectives = Literal[
    "cost_per_hour",
    "cost_per_million_examples",
    "cost_to_target",
    "time_to_target",
    "step_time",
    "staleness",
    "wasted",
    "workers",
    "parameter_servers",
]


def plan(
    file: File,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>-plan."),
    ] = None,
    seed: Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Of the first look; the same as --set replications."),
    ] = None,
    minimize: Annotated[
        Objectives | None,
        typer.Option(metavar="WHAT", help="Instead of what the file says; see list objectives."),
    ] = None,
    sets: PlanSets = [],  # noqa: B006
    strategy: Kinds = [],  # noqa: B006
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Run every cell, whatever its price.")
    ] = False,
    jobs: Jobs = "auto",  # type: ignore[assignment]
    backend: Backend = "local",
    scheduler: Scheduler = None,
    quiet: Quiet = False,
    format: Annotated[
        planning.Formats, typer.Option("--format", help="How the plan is printed.")
    ] = "table",
    yes: Yes = False,
) -> None:
    """Find the least that reaches the targets.

    The plan block of the file says what to minimize over which space; strategies compete. Ends
    with 3 where nothing reaches the targets. Runs are kept: the same command goes on.
    """
    check_backend(backend, scheduler)
    given = with_shorthands(sets, seed=seed, replications=replications)
    settings = planning.PlanSettings(
        file, out, tuple(strategy), jobs or None, scheduler, exhaustive, quiet, format, yes
    )
    planning.run(settings, given, minimize)
