"""A scenario whose step time is a guess, at other speeds."""

from typing import TYPE_CHECKING, Final

from varsim.cluster.stop import Stop
from varsim.scenario.training import Scenario, runs_made

if TYPE_CHECKING:
    from varsim.study.result import Result


# A guess is shown at these multiples of its speed, too.
SPEEDS: Final = (0.5, 1.5)


# How much of a run is made again at another speed.
_MOST_REPLICATIONS: Final = 3
_MOST_GRADIENTS: Final = 5_000
_MOST_LEARNT: Final = 200_000  # where a loss is to be reached, in all
_LEAST_ROUNDS: Final = 20  # of all workers, however many they are


def is_guess(scenario: Scenario) -> bool:
    """Whether the step time of a scenario is no more than a guess."""
    return bool(scenario.cluster.doubt(scenario.workload))


def result_at(scenario: Scenario, speed: float) -> "Result":
    """The beginning of a scenario at a multiple of its speed; times alone, unless a loss counts."""
    from varsim.study.result import Result
    from varsim.study.simulation import Run, run_one

    few = {"replications": min(scenario.replications, _MOST_REPLICATIONS)}
    other = scenario.with_distribution_alone(speed).model_copy(update=few)
    loss = scenario.stop.loss if scenario.targets.loss is None else scenario.targets.loss
    if loss is None or not _learnt_soon(other):
        other = _times_alone(other)
    often = max(runs_made(other, strategy) for strategy in other.strategies)
    traces = [
        run_one(Run(other, strategy, replication))
        for strategy in range(len(other.strategies))
        for replication in range(often)
    ]
    return Result(other, traces, [])


def _learnt_soon(scenario: Scenario) -> bool:
    """Whether few enough gradients are computed for their values to be worked out once more."""
    from varsim.study.amount import gradients

    return gradients(scenario) <= _MOST_LEARNT


def _times_alone(scenario: Scenario) -> Scenario:
    """The beginning of a scenario, with nothing learnt."""
    from varsim.study.why.levers import times_only

    workers = max(one.workers(scenario.cluster_of(one)) for one in scenario.strategies)
    most = max(_MOST_GRADIENTS, _LEAST_ROUNDS * workers) * scenario.workload.batch_size
    stop = scenario.stop
    limits = {
        "time": stop.time,
        "global_steps": stop.global_steps,
        "examples": most if stop.examples is None else min(most, stop.examples),
    }
    changes = {
        "stop": Stop.model_validate(limits),
        "targets": scenario.targets.model_copy(update={"loss": None, "time_to_loss": None}),
    }
    return times_only(scenario.model_copy(update=changes))
