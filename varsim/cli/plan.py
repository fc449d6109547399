"""The commands of a plan: search for the answer, say what is asked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from varsim.cli import options
from varsim.cli.amount import refuse_absurd_cases
from varsim.cli.campaign import claim, making, opened
from varsim.cli.console import OUT_OF_BOUNDS, complain, show
from varsim.cli.settings import Engine, question, use_in_campaign

if TYPE_CHECKING:
    from varsim.study.beginning import Beginning
    from varsim.study.experiment import Checked, PlanExperiment
    from varsim.study.plan.plan import Planning

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
            min=2, metavar="N", help="Replications of a cell's first runs; as --set replications=N."
        ),
    ] = None,
    minimize: Annotated[
        Objectives | None,
        typer.Option(
            metavar="WHAT",
            help="What to minimize, instead of what the file says; see varsim list objectives.",
        ),
    ] = None,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="PATH=1,2,4",
            help="Another axis of the space, or a change to all of its points; repeatable.",
        ),
    ] = [],  # noqa: B006
    imports: options.Imports = [],  # noqa: B006
    strategy: options.Kinds = [],  # noqa: B006
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Run every cell, whatever its price.")
    ] = False,
    jobs: options.Jobs = "auto",  # type: ignore[assignment]
    backend: options.Backend = "local",
    scheduler: options.Scheduler = None,
    quiet: options.Quiet = False,
    format: Annotated[
        Literal["table", "csv", "json", "md"],
        typer.Option("--format", help="How the plan is printed."),
    ] = "table",
    every: options.All = False,
    yes: options.Yes = False,
    engine: Engine = "auto",
) -> None:
    """Find the cheapest cluster that meets the targets.

    The plan block of the file says what to minimize over which space; strategies compete. Ends
    with 3 where nothing reaches the targets. Runs are kept: the same command resumes.
    """
    options.check_backend(backend, scheduler)
    options.check_all(every, format)
    from varsim.report.files.keeping import put_report
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
    refuse_absurd_cases(planning.cases(MOST_COUNTED), asked.first_replications, yes)
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


def check(experiment: "PlanExperiment", strategies: Sequence[str]) -> "Checked[Beginning]":
    """What it asks for."""
    return experiment.check()


def _teller(planning: "Planning") -> Callable[[str, float], str]:
    """Says in words which cell is the best so far."""
    from varsim.report.products.plan_cells import amount
    from varsim.report.wording import shown

    question = planning.question

    def say(number: str, value: float) -> str:
        best = shown(amount(question.objective, value, question.currency))
        return f"{planning.where(int(number))}: {best}"

    return say
