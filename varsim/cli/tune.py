"""The command that tunes learning rates: search, tell what was found, write it as a scenario."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, Literal, NamedTuple

import typer

from varsim.cli import options
from varsim.cli.amount import refuse_absurd_cases
from varsim.cli.console import USAGE, complain, show
from varsim.cli.settings import question

_TRIED: Final = 10  # rates of a strategy, about


class Grid(NamedTuple):
    """The learning rates that are tried, where the command line says which."""

    rates: tuple[float, ...]


def grid(text: str) -> Grid:
    """`0.02,0.05` as a grid."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < rate < float("inf") for rate in found):
        raise typer.BadParameter(f"{text!r} is not a list of learning rates such as 0.02,0.05,0.1")
    if len(set(found)) < len(found):
        raise typer.BadParameter(f"{text!r} names a learning rate twice")
    return Grid(tuple(found))


def tune(
    file: options.File,
    rates: Annotated[
        Grid | None,
        typer.Option(
            parser=grid,
            metavar="R,R,...",
            help="Only these learning rates, for every strategy; default: around each one's own, "
            "and further until the best lies between others.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the scenario with the best rates there."),
    ] = None,
    seed: options.Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(metavar="N", help="Fewest replications of any rate; as --set replications=N."),
    ] = None,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY.PATH=VALUE",
            help="Change one value of the scenario, for example cluster.workers=4; repeatable.",
        ),
    ] = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    jobs: options.Jobs = "auto",  # type: ignore[assignment]
    quiet: options.Quiet = False,
    format: Annotated[
        Literal["table", "csv", "json"],
        typer.Option("--format", help="How the result is printed."),
    ] = "table",
    every: options.All = False,
) -> None:
    """Compare strategies, each at its best learning rate.

    The best rate is the one that reaches the target loss soonest or, without a target loss, ends at
    the lowest loss. It is searched for in one set of runs and measured in another.
    """
    from varsim.cli.progress import SweepProgress
    from varsim.report.files.directory import put_file
    from varsim.report.products.tune import best_so_far, report, scenario_text
    from varsim.scenario.loading import load_scenario
    from varsim.study.experiment import load
    from varsim.study.sweep.campaign import Runs
    from varsim.study.sweep.case import case_of
    from varsim.study.sweep.execution import backend
    from varsim.study.sweep.store import Store
    from varsim.study.tune.search import Search

    options.check_all(every, format)
    given = options.with_shorthands(sets, seed=seed, replications=replications)
    experiment = load(load_scenario(file, given, tuple(strategy)))
    if experiment.kind != "training" or not experiment.scenario.workload.has_values:
        why = "problem timing has" if experiment.kind == "training" else "variables have"
        complain(f"varsim: {file}: {why} no loss, and so no best learning rate")
        raise typer.Exit(USAGE)
    scenario = experiment.scenario
    tried = rates.rates if rates is not None else ()
    if out is not None:
        _check_target(out)
    cases = [case_of(scenario, strategy) for strategy in scenario.strategies]
    cases *= len(tried) or _TRIED
    refuse_absurd_cases(cases, scenario.replications, sure=True)
    with (
        TemporaryDirectory(prefix="varsim-") as directory,
        Store(Path(directory)) as store,
        backend(cases * scenario.replications, jobs or None, None) as made_by,
    ):
        search = Search(scenario, tried)
        with SweepProgress(quiet, partial(best_so_far, search)) as progress:
            found = search.run(Runs(store, made_by, progress.show))
    told = replace(report(found), question=question(file))
    closing = [f"result sha256: {found.sha256}"]
    if out is not None:
        put_file(out, scenario_text(found, told.question))
        closing.append(f"with these rates: varsim run {out}")
    show(told, format, closing, every=every)


def _check_target(file: Path) -> None:
    """End the command where the scenario would replace something that this did not write."""
    from varsim.report.files.directory import NotARunError, check_file
    from varsim.report.products.tune import MARK

    if file.is_dir():
        complain(f"varsim: {file} is a folder: name a file, say --out {file / 'tuned.yaml'}")
    elif not file.resolve().parent.is_dir():
        complain(f"varsim: cannot write {file}: there is no folder {file.parent}")
    else:
        try:
            check_file(file, MARK, "varsim tune")
        except NotARunError as error:
            complain(f"varsim: {error}")
        else:
            return
    raise typer.Exit(USAGE)
