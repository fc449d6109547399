"""The options of the command that tunes learning rates."""

from pathlib import Path
from typing import Annotated

import typer

from varsim.cli import tune as tuning
from varsim.cli.options import File, Jobs, Kinds, Quiet, Seed, with_shorthands

Sets = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY.PATH=VALUE",
        help="Change one value of the scenario, for example cluster.workers=4; repeatable.",
    ),
]


def tune(
    file: File,
    rates: Annotated[
        tuning.Grid | None,
        typer.Option(
            parser=tuning.grid,
            metavar="R,R,...",
            help="Only these learning rates, for every strategy; default: around those that they "
            "have, and on until the best lies between others.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the scenario with the best rates there."),
    ] = None,
    seed: Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(metavar="N", help="The least of every rate; the same as --set replications."),
    ] = None,
    sets: Sets = [],  # noqa: B006
    strategy: Kinds = [],  # noqa: B006
    jobs: Jobs = "auto",  # type: ignore[assignment]
    quiet: Quiet = False,
    format: Annotated[
        tuning.Formats, typer.Option("--format", help="How what was found is printed.")
    ] = "table",
) -> None:
    """Compare strategies, each at its best learning rate.

    The best is that with which the target loss is reached soonest, or without a target loss that
    of the lowest loss at the end. It is searched for in one set of runs and measured in another.
    """
    from varsim.scenario.loading import load_scenario
    from varsim.study.experiment import load

    given = with_shorthands(sets, seed=seed, replications=replications)
    scenario = load_scenario(file, given, tuple(strategy))
    settings = tuning.TuneSettings(file, out, rates, jobs or None, quiet, format)
    tuning.run(load(scenario), settings)
