"""Where two modes change places as the outside reads more often."""

from collections.abc import Sequence
from typing import NamedTuple

from varsim.study.statistics import Estimate


class Crossover(NamedTuple):
    """Where two modes take the same time per step."""

    first: str  # cheaper below
    second: str  # cheaper above
    reads_per_write: Estimate
    time_per_step: float  # s


class Crossing(NamedTuple):
    """Where two lines through points cross."""

    place: float
    height: float
    rises: bool  # whether the first line is the lower one before, the higher one after


def crossings(
    places: Sequence[float], first: Sequence[float], second: Sequence[float]
) -> list[Crossing]:
    """All crossings, on the straight lines between points; `places` rise.

    Lines that touch and part again do not cross; those that lie on one another for a while, and
    cross by that, do so where they meet first.
    """
    found = []
    last: tuple[float, float, float] | None = None  # the last point where they differed
    touching: tuple[float, float] | None = None  # the first point since then where they did not
    for place, one, other in zip(places, first, second, strict=True):
        gap = one - other
        if gap == 0:
            touching = touching or (place, one)
            continue
        if last is not None and last[2] * gap < 0:
            share = last[2] / (last[2] - gap)
            between = (last[0] + share * (place - last[0]), last[1] + share * (one - last[1]))
            found.append(Crossing(*(touching or between), rises=last[2] < 0))
        last, touching = (place, one, gap), None
    return found
