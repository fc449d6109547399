"""Where modes of a program change places along the one axis of a sweep.

Between two points the time of a step is taken as a straight line, which it is where the outside
reads one after the other.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Final, NamedTuple

import numpy as np

from varsim.study.grid import SweepTable

_TIME: Final = "step_time_mean"
_ALIKE: Final = 1 + 1e-9


class Crossing(NamedTuple):
    """Where two modes take the same time per step."""

    faster: str  # below
    other: str  # faster above
    place: float


class Stretch(NamedTuple):
    """Part of an axis on which some modes are the fastest, all alike."""

    begin: float
    end: float
    modes: tuple[str, ...]


class Lines(NamedTuple):
    """The mean time of a step of each mode at the points of an axis, which rise."""

    places: Sequence[float]
    times: Mapping[str, Sequence[float]]
    equal_within: float

    @classmethod
    def of(cls, table: SweepTable) -> "Lines | None":
        """Of a sweep of a program over one number; None of any other, or of one mode."""
        places = [point.values[0].number for point in table.sweep.points]
        numbers = [float(one) for one in places if isinstance(one, int | float)]
        rises = all(one < other for one, other in pairwise(numbers))
        one_axis = len(table.sweep.quantities) == 1 and len(numbers) == len(places) > 1
        if not (one_axis and rises and len(table.strategies) > 1) or table.failed:
            return None
        if not all(row.has(_TIME) and row.scenario.kind == "variables" for row in table.rows):
            return None
        rows = {
            mode: [row for row in table.rows if row.strategy == mode] for mode in table.strategies
        }
        times = {mode: [row.mean(_TIME) for row in own] for mode, own in rows.items()}
        return cls(numbers, times, table.equal_within)

    def crossings(self) -> list[Crossing]:
        """Every place where two modes change places."""
        found = []
        for one, other in combinations(self.times, 2):
            for place, rises in crossings(self.places, self.times[one], self.times[other]):
                found.append(Crossing(*((one, other) if rises else (other, one)), place))
        return found

    def fastest(self) -> list[Stretch]:
        """Which modes are the fastest from where to where."""
        best = [min(at) for at in zip(*self.times.values(), strict=True)]
        # Around a crossing two modes are always nearly equal: those count that are so everywhere.
        alike = [
            mode
            for mode, own in self.times.items()
            if all(a <= b * (1 + self.equal_within) for a, b in zip(own, best, strict=True))
        ]
        found: list[Stretch] = []
        ends = sorted({*self.places, *(one.place for one in self.crossings())})
        for begin, end in pairwise(ends):
            middle = (begin + end) / 2
            there = {
                mode: float(np.interp(middle, self.places, own)) for mode, own in self.times.items()
            }
            most = min(there.values()) * _ALIKE
            modes = tuple(mode for mode, time in there.items() if mode in alike or time <= most)
            if found and found[-1].modes == modes:
                found[-1] = found[-1]._replace(end=end)
            else:
                found.append(Stretch(begin, end, modes))
        return found


def crossings(
    places: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> list[tuple[float, bool]]:
    """Where two lines cross, and whether the first is the lower one before; `places` rise.

    Lines that touch and part again do not cross; those that lie on one another for a while, and
    cross by that, do so where they meet first.
    """
    found = []
    last: tuple[float, float] | None = None  # the last point where they differed, and by how much
    touching: float | None = None  # the first point since then where they did not
    for place, one, other in zip(places, first, second, strict=True):
        gap = one - other
        if gap == 0:
            touching = place if touching is None else touching
            continue
        if last is not None and last[1] * gap < 0:
            between = last[0] + last[1] / (last[1] - gap) * (place - last[0])
            found.append((between if touching is None else touching, last[1] < 0))
        last, touching = (place, gap), None
    return found
