"""What explaining takes: all reruns, and the runs by which idle fields are found."""

from collections.abc import Callable
from typing import Final

from varsim.cluster.recovery import in_run
from varsim.scenario.training import Scenario
from varsim.study.effort import Effort, effort
from varsim.study.timing import timed_effort
from varsim.study.why.idle import MOST_GRADIENTS, ROUNDS, number_of_fields
from varsim.study.why.levers import alone, times_only
from varsim.study.why.rerun import MOST_REPLICATIONS, looked_at, number_of_runs

# What is tried with a run among failures (see varsim.study.why.lives), each in one more run.
_CHANGES: Final = 4
# The share of fields that change nothing in a few rounds, and so are looked at in more.
_IDLE: Final = 0.15


def foreseen(scenario: Scenario, little: Callable[[Effort], bool]) -> Effort:
    """What it takes to run all strategies as they are, and with causes taken away, one by one.

    By short runs where that might be more than `little`.
    """
    parts: list[tuple[Effort, float]] = []

    def add(one: Scenario, often: float) -> Effort:
        found = timed_effort(one, lambda each: little(Effort.one_by_one([(each, often)])))
        parts.append((found._replace(memory=effort(one, in_memory=True).memory), often))
        return found

    fields = number_of_fields(scenario)
    for index, strategy in enumerate(scenario.strategies):
        whole = alone(scenario, index).model_copy(update={"replications": 1})
        once, each = looked_at(whole), min(scenario.replications, MOST_REPLICATIONS)
        found = add(times_only(once.undisturbed), number_of_runs(once) * each)
        # Among failures: as it is, and with each change; of lives the steps are known.
        if scenario.failures is not None:
            inside = bool(in_run(scenario.failures))
            add(times_only(whole if inside else once), (1 + _CHANGES * inside) * each)
        # Each field in few rounds, some in more; as it is in all.
        few, more = (rounds * strategy.workers(scenario.cluster) for rounds in ROUNDS)
        most = effort(whole).gradients
        often = (fields + 1) * min(few, most)
        often += (_IDLE * fields + 1) * (min(more, most) + min(MOST_GRADIENTS, most))
        parts.append((found._replace(memory=0.0), often / max(1.0, found.gradients)))
    return Effort.one_by_one(parts)
