"""How often a case is to be run: until its numbers are known well enough."""

import math
from collections.abc import Sequence

from varsim.study.statistics import interval


def precise(values: Sequence[float], precision: float) -> bool:
    """Whether the half-width of the 95 % interval is at most the share `precision` of the mean."""
    found = interval(values)
    return not math.isnan(found.mean) and found.half_width <= precision * abs(found.mean)


def replications(
    values: Sequence[float], first: int, most: int, precision: float, *others: Sequence[float]
) -> tuple[int, bool]:
    """How many replications a case has after which to stop, and whether these are all there.

    `values` are those of replications 0, 1, ... that are there; `others` are other numbers of the
    same replications that are to be as precise: of those that do not exist in all of them there is
    no mean to know. Where more are wanted the number is the next at which to look again: as many
    as would do if they scattered as those before, but at most twice as many as now. So it follows
    from the values alone, not from the order in which runs end.
    """
    count = first
    while count <= len(values):
        known = [own[:count] for own in others if all(map(math.isfinite, own[:count]))]
        wide = [own for own in (values[:count], *known) if not precise(own, precision)]
        if count >= most or not wide:
            return count, True
        count = min(most, max(_next(own, precision) for own in wide))
    return count, False


def _next(values: Sequence[float], precision: float) -> int:
    """When to look again, after these values did not do."""
    count = len(values)
    found = interval(values)
    wanted = precision * abs(found.mean)
    if math.isnan(found.half_width) or wanted <= 0:
        return count + 1 if count == 1 else 2 * count
    return max(count + 1, min(2 * count, math.ceil(count * (found.half_width / wanted) ** 2)))
