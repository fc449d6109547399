"""Speed-up and efficiency against the number of workers, where that is swept."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from varsim.scenario.sweep.space import Sweep

_WORKERS: Final = "cluster.workers"
# The columns of the table, and what they mean.
COLUMNS: Final = {
    "speedup": "examples/s, as a multiple of the yardstick's: `single` at the same point if it is "
    "swept along, else this strategy with the fewest workers, each of which counts as one",
    "efficiency_fraction": "speedup / workers",
}


class Speed(NamedTuple):
    """The throughput of one strategy at one point."""

    point: int
    strategy: str
    kind: str
    examples_per_s: float


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


def scaling(sweep: Sweep, yardstick: Yardstick, speeds: Sequence[Speed]) -> list[dict[str, float]]:
    """Speed-up and efficiency of each of `speeds`; nan where there is nothing to compare with.

    Compared are points that differ in the number of workers, and what is zipped with it, only.
    """
    alone = {one.point: one.examples_per_s for one in speeds if one.kind == "single"}
    fewest: dict[tuple[object, ...], tuple[int, float]] = {}
    for one in speeds:
        workers = _workers(sweep, yardstick, one.point)
        key = (one.strategy, *_elsewhere(sweep, yardstick, one.point))
        if key not in fewest or workers < fewest[key][0]:
            fewest[key] = (workers, one.examples_per_s)
    found = []
    for one in speeds:
        workers = _workers(sweep, yardstick, one.point)
        least, speed = fewest[one.strategy, *_elsewhere(sweep, yardstick, one.point)]
        of_one = alone.get(one.point, speed / least)
        speedup = one.examples_per_s / of_one if of_one > 0 else math.nan
        taking_part = 1 if one.kind == "single" else workers
        found.append({"speedup": speedup, "efficiency_fraction": speedup / taking_part})
    return found


def _workers(sweep: Sweep, yardstick: Yardstick, point: int) -> int:
    number = sweep.points[point].values[yardstick.place].number
    assert isinstance(number, int), "the scenario of the point was validated"
    return number


def _elsewhere(sweep: Sweep, yardstick: Yardstick, point: int) -> list[str]:
    """The values of all quantities that do not change with the number of workers."""
    pairs = zip(sweep.quantities, sweep.points[point].values, strict=True)
    return [value.text for quantity, value in pairs if quantity.group != yardstick.group]
