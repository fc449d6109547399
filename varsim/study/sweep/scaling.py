"""Speed-up and efficiency against the number of workers, where that is swept.

Both are ratios of mean throughputs. How sure they are follows from the paired ratio
(`verdict.lead_of`): replication by replication, in which both meet the same draws.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from varsim.scenario.sweep.space import Sweep
from varsim.study.statistics import NOTHING, Estimate
from varsim.study.verdict import lead_of, paired

_WORKERS: Final = "cluster.workers"
# The columns of the table, and what they mean.
COLUMNS: Final = {
    "speedup": "examples/s, as a multiple of the yardstick's: `single` at the same point if it is "
    "swept along, else this strategy with the fewest workers, each of which counts as one",
    "efficiency_fraction": "speedup / workers",
}


class Speed(NamedTuple):
    """The throughput of one strategy at one point: its mean, and that of every replication.

    `exact`: nothing random has an effect on it.
    """

    point: int
    strategy: str
    kind: str
    mean: float
    examples_per_s: Sequence[float]
    exact: bool

    def over(self, other: "Speed", of: int = 1) -> Estimate:
        """How many times as fast it is as one of the `of` workers of another; nan without a speed.

        The interval lies evenly about the ratio of the means and holds that of the paired ratio,
        which is over the replications that both have.
        """
        if not other.mean > 0 or not self.examples_per_s:
            return NOTHING
        mean = self.mean / (other.mean / of)
        exact = self.exact, other.exact
        lead = lead_of(*paired(self.examples_per_s, other.examples_per_s, exact), exact=all(exact))
        half = 0.0 if lead.low == lead.high else max(mean - of * lead.low, of * lead.high - mean)
        return Estimate(mean, mean - half, mean + half, lead.replications)


class Yardstick(NamedTuple):
    """Where the number of workers stands among the quantities, and which of them go with it."""

    place: int
    group: int

    @classmethod
    def of(cls, sweep: Sweep) -> "Yardstick | None":
        """None where the number of workers is not swept, or nothing to compare with."""
        for index, quantity in enumerate(sweep.quantities):
            if quantity.path == _WORKERS:
                numbers = {point.values[index].number for point in sweep.points}
                kinds = {one.kind for one in sweep.points[0].scenario.strategies}
                if len(numbers) > 1 or "single" in kinds:
                    return cls(index, quantity.group)
        return None


def scaling(
    sweep: Sweep, yardstick: Yardstick, speeds: Sequence[Speed]
) -> list[dict[str, Estimate]]:
    """Speed-up and efficiency of each of `speeds`; nan where there is nothing to compare with.

    Compared are points that differ in the number of workers, and what is zipped with it, only.
    """
    alone = {one.point: one for one in speeds if one.kind == "single"}
    fewest: dict[tuple[object, ...], tuple[int, Speed]] = {}
    for one in speeds:
        workers = _workers(sweep, yardstick, one.point)
        key = (one.strategy, *_elsewhere(sweep, yardstick, one.point))
        if key not in fewest or workers < fewest[key][0]:
            fewest[key] = (workers, one)
    found = []
    for one in speeds:
        workers = _workers(sweep, yardstick, one.point)
        least, slowest = fewest[one.strategy, *_elsewhere(sweep, yardstick, one.point)]
        if one.point in alone:
            least, slowest = 1, alone[one.point]
        speedup = one.over(slowest, least)
        taking_part = 1 if one.kind == "single" else workers
        mean, low, high = (part / taking_part for part in speedup[:3])
        efficiency = speedup._replace(mean=mean, low=low, high=high)
        found.append({"speedup": speedup, "efficiency_fraction": efficiency})
    return found


def _workers(sweep: Sweep, yardstick: Yardstick, point: int) -> int:
    number = sweep.points[point].values[yardstick.place].number
    assert isinstance(number, int), "the scenario of the point was validated"
    return number


def _elsewhere(sweep: Sweep, yardstick: Yardstick, point: int) -> list[str]:
    """The values of all quantities that do not change with the number of workers."""
    pairs = zip(sweep.quantities, sweep.points[point].values, strict=True)
    return [value.text for quantity, value in pairs if quantity.group != yardstick.group]
