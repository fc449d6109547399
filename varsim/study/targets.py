"""Whether the strategies of a result reach the targets of their scenario, and how surely."""

from collections.abc import Sequence
from typing import NamedTuple

from varsim.scenario.targets import BOUNDS
from varsim.study.statistics import interval, one_sided


class Judgement(NamedTuple):
    """One target and one strategy.

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


def judged(name: str, bound: float, strategy: str, values: Sequence[float]) -> Judgement:
    """One target and a strategy that never stood still; `values`: one per replication."""
    at_least = BOUNDS[name].at_least
    surely = one_sided(values, lower=at_least)
    met = surely >= bound if at_least else surely <= bound
    return Judgement(name, strategy, bound, interval(values).mean, surely, bool(met))
