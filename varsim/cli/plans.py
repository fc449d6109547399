"""The commands that search: plan for the cheapest cluster, tune for the best learning rates."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import typer

from varsim.cli import options
from varsim.cli.campaigns import claim, making, opened, refuse_excess_of, use_in_campaign
from varsim.cli.console import OUT_OF_BOUNDS, complain, refuse, show
from varsim.cli.options import question
from varsim.cli.progress import SweepProgress

if TYPE_CHECKING:
    from varsim.study.plan.plan import Planning

_TRIED: Final = 10  # rates of a strategy in tune, about

Objectives = Literal[
    "cost_per_hour",
    "cost_per_million_examples",
    "cost_to_target",
    "time_to_target",
    "step_time_mean",
    "staleness_mean",
    "wasted_compute",
    "workers",
    "parameter_servers",
]


def plan(
    file: options.File,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; default: reports/<scenario name>-plan."),
    ] = None,
    seed: options.Seed = None,
    replications: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="N", help="First runs of each configuration; as --set replications=N."
        ),
    ] = None,
    minimize: Annotated[
        Objectives | None,
        typer.Option(
            metavar="WHAT",
            help="What to minimize, instead of what the file says; see varsim list objectives.",
        ),
    ] = None,
    sets: options.Axes = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Run every configuration, whatever its price.")
    ] = False,
    jobs: options.Jobs = "auto",  # type: ignore[assignment]
    backend: options.Backend = "local",
    scheduler: options.Scheduler = None,
    quiet: options.Quiet = False,
    format: options.Format = "table",
    every: options.All = False,
    yes: options.Yes = False,
    engine: options.Engine = "auto",
) -> None:
    """Find the cheapest cluster that meets the targets.

    The plan block of the file says what to minimize over which space; strategies compete. Ends
    with 3 where nothing reaches the targets. Runs are kept: the same command resumes.
    """
    options.check_backend(backend, scheduler)
    options.check_all(every, format)
    from varsim.report.files.save import put_report
    from varsim.report.products.plan_facts import SCENARIO, scenario_text
    from varsim.scenario.plan import load_question
    from varsim.study.amount import MOST_COUNTED
    from varsim.study.plan.plan import Planning
    from varsim.study.sweep.campaign import Runs

    given = options.with_shorthands(sets, seed=seed, replications=replications)
    asked = load_question(file, given, minimize, tuple(strategy))
    if exhaustive and not asked.enumerated:
        raise typer.BadParameter(
            f"--exhaustive: {asked.combinations:,} combinations are too many to run all"
        )
    planning = Planning(asked)
    cases = planning.cases(MOST_COUNTED) * asked.first_replications
    made_by = use_in_campaign(engine, cases, jobs or None, scheduler)
    refuse_excess_of(planning.cases(MOST_COUNTED), asked.first_replications, yes)
    directory = claim(file, out, "plan", asked)
    with opened(directory, "made again where they are needed") as store:
        with making(store, cases, jobs or None, scheduler, quiet, _teller(planning)) as (by, watch):
            runs = Runs(store, by, watch)
            found = planning.run(runs, exhaustive)
        if runs.status.resumed and not quiet:
            complain(f"varsim: {runs.status.resumed} of {runs.status.done} runs already there")
        asked_for = question(file, whole=not (given or minimize or strategy))
        told = replace(found.report, question=asked_for)
        put_report(told, directory, {SCENARIO: scenario_text(found, told)})
    if made_by and not quiet:
        complain(made_by)
    closing = [f"result sha256: {found.sha256}"]
    if found.scenario is not None:
        closing.append(f"the answer as a scenario: varsim run {directory / SCENARIO}")
    closing.append(f"plan: {directory / 'plan.md'}, report: {directory / 'report.html'}")
    show(told, format, closing, every=every)
    if found.scenario is None:
        raise typer.Exit(OUT_OF_BOUNDS)


def _teller(planning: "Planning") -> Callable[[str, float], str]:
    """Says in words which cell is the best so far."""
    from varsim.report.products.plan_cells import amount
    from varsim.report.wording import shown

    question = planning.question

    def say(number: str, value: float) -> str:
        best = shown(amount(question.objective, value, question.currency))
        return f"{planning.where(int(number))}: {best}"

    return say


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
    sets: options.Sets = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    jobs: options.Jobs = "auto",  # type: ignore[assignment]
    quiet: options.Quiet = False,
    format: options.Table = "table",
    every: options.All = False,
) -> None:
    """Compare strategies, each at its best learning rate.

    The best rate is the one that reaches the target loss soonest or, without a target loss, ends at
    the lowest loss. It is searched for in one set of runs and measured in another.
    """
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
        refuse(f"{file}: {why} no loss, and so no best learning rate")
    scenario = experiment.scenario
    tried = rates.rates if rates is not None else ()
    if out is not None:
        _check_target(out)
    cases = [case_of(scenario, strategy) for strategy in scenario.strategies]
    cases *= len(tried) or _TRIED
    refuse_excess_of(cases, scenario.replications, sure=True)
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
    from varsim.report.files.directory import check_file
    from varsim.report.products.tune import MARK

    if file.is_dir():
        refuse(f"{file} is a folder: name a file, say --out {file / 'tuned.yaml'}")
    if not file.resolve().parent.is_dir():
        refuse(f"cannot write {file}: there is no folder {file.parent}")
    check_file(file, MARK, "varsim tune")
