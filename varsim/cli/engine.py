"""The option `--engine`: what makes runs of which only times matter; results are the same."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from varsim.cli.console import USAGE, complain
from varsim.cluster.flat.rules import ENGINE

if TYPE_CHECKING:
    from varsim.scenario.training import Scenario
    from varsim.study.experiment import AnyExperiment
    from varsim.study.sweep.case import Case

Engine = Annotated[
    Literal["auto", "simpy", "fast"],
    typer.Option(
        envvar=ENGINE,
        help="Engine of runs in which only times matter; the results are the same.",
    ),
]


def use(engine: Engine, scenarios: "Iterable[Scenario]", among: float = 0.0) -> str:
    """Make the runs of these scenarios by an engine; refuse where it cannot. What to tell of it.

    `among`: gradients of all runs that one process makes, if it makes several.
    """
    from varsim.cluster.flat.choice import can_compile
    from varsim.study.engine import is_worth_it, reason_against

    if engine == "fast" and not can_compile():
        complain("varsim: --engine fast needs numba: pip install 'varsim[fast]'")
        raise typer.Exit(USAGE)
    os.environ[ENGINE] = engine  # for the processes that are started, too
    if engine == "simpy":
        return ""
    against: dict[str, str] = {}
    picked: dict[str, bool] = {}
    for scenario in scenarios:
        for strategy in scenario.strategies:
            label = strategy.label
            reason = reason_against(scenario, strategy)
            against[label] = against.get(label) or reason
            worth = not reason and is_worth_it(scenario, strategy, among)
            picked[label] = picked.get(label, True) and worth
    slow = {label: reason for label, reason in against.items() if reason}
    if engine == "fast" and slow:
        label, reason = next(iter(slow.items()))
        complain(f"varsim: --engine fast does not cover {label}: {reason}")
        raise typer.Exit(USAGE)
    fast = ", ".join(label for label, is_fast in picked.items() if is_fast)
    return f"varsim: made by the engine for times alone: {fast}" if fast else ""


def use_in_campaign(
    engine: Engine, runs: "Sequence[Case]", jobs: int | None, scheduler: str | None
) -> str:
    """The same for runs of these cases; `jobs` and `scheduler` as of `execution.backend`."""
    from varsim.study.sweep.execution import among, processes

    each = 0.0 if scheduler is not None else among(runs, processes(runs, jobs))
    return use(engine, [run.scenario for run in {run.key: run for run in runs}.values()], each)


def use_for(engine: Engine, experiment: "AnyExperiment", *, times: bool = False) -> str:
    """The same for any experiment; `times`: whether only its times are looked at."""
    from varsim.study.experiment import Program, SweepExperiment, Training
    from varsim.study.why.times import times_only

    if isinstance(experiment, Program):
        if engine != "auto":
            complain("varsim: --engine has no effect: programs of variables are run on SimPy")
            raise typer.Exit(USAGE)
        return ""
    if isinstance(experiment, Training):
        scenarios = [experiment.scenario]
    elif isinstance(experiment, SweepExperiment):
        scenarios = [case.scenario for case in experiment.distinct]
    else:
        scenarios = [experiment.question.base]
    return use(engine, map(times_only, scenarios) if times else scenarios)
