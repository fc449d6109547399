"""Whether the strategies of a result reach the targets of their scenario, and how surely."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.scenario.targets import BOUNDS
from varsim.scenario.training import Scenario
from varsim.study.goodput import throughput
from varsim.study.statistics import interval, one_sided

# Why nothing is decided: the interval holds the bound; one replication of something random; runs
# too short to measure it; runs that ended before the time until which the loss may be reached.
Doubt: TypeAlias = Literal["", "interval", "once", "short", "ended"]
# What is as near to its bound as this share of it reaches it: the rest is rounding of floats.
_ROUNDING: Final = 1e-9


class Judgement(NamedTuple):
    """One target and one strategy: `met`, `missed`, or, with a `doubt`, neither.

    `mean`: of the replications; nan where the number does not exist in all of them. `surely`: the
    end of the one-sided 95 % interval that the target is compared with; with one replication the
    value itself.
    """

    target: str
    strategy: str
    bound: float
    mean: float
    surely: float
    met: bool
    missed: bool = False
    doubt: Doubt = ""


def bounded(target: str, scenario: Scenario) -> str:
    """The metric that a target bounds."""
    return throughput(scenario) if target == "throughput" else target


def judged(
    name: str, bound: float, strategy: str, values: Sequence[float], doubt: Doubt = ""
) -> Judgement:
    """One target and a strategy that never stood still; `values`: one per replication.

    A `doubt` leaves it undecided, whatever they are.
    """
    at_least = BOUNDS[name]
    mean = interval(values).mean
    surely, at_best = (one_sided(values, lower=lower) for lower in (at_least, not at_least))

    def reaches(value: float) -> bool:
        beyond = value >= bound if at_least else value <= bound
        return beyond or math.isclose(value, bound, rel_tol=_ROUNDING)

    met, missed = reaches(surely), not reaches(at_best)
    if not doubt and not met and not missed:
        doubt = "interval"
    decided = not doubt
    return Judgement(
        name, strategy, bound, mean, surely, met and decided, missed and decided, doubt
    )
