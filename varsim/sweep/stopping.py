"""How often a case is to be run: until its throughput is known well enough."""

import math
from collections.abc import Sequence

from varsim.result.statistics import interval


def precise(values: Sequence[float], precision: float) -> bool:
    """Whether the half-width of the 95 % interval is at most the share `precision` of the mean."""
    found = interval(values)
    return not math.isnan(found.mean) and found.half_width <= precision * abs(found.mean)


def replications(
    values: Sequence[float], first: int, most: int, precision: float
) -> tuple[int, bool]:
    """How many replications a case has after which to stop, and whether these are all there.

    `values` are those of replications 0, 1, ... that are there. Where more are wanted the number
    is the next at which to look again: as many as would do if they scattered as those before, but
    at most twice as many as now. So it follows from the values alone, not from the order in which
    runs end.
    """
    count = first
    while count <= len(values):
        if count >= most or precise(values[:count], precision):
            return count, True
        count = min(most, _next(values[:count], precision))
    return count, False


def _next(values: Sequence[float], precision: float) -> int:
    """When to look again, after these values did not do."""
    count = len(values)
    found = interval(values)
    wanted = precision * abs(found.mean)
    if math.isnan(found.half_width) or wanted <= 0:
        return count + 1 if count == 1 else 2 * count
    return max(count + 1, min(2 * count, math.ceil(count * (found.half_width / wanted) ** 2)))
