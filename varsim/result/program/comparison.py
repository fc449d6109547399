"""Whether a step surely takes longer in one mode than in another, and by how much, in words."""

import math
from collections.abc import Sequence
from typing import Final

from varsim.result.formatting import digits, time
from varsim.result.statistics import CLOSE, SAME, Estimate, difference, ratio

LONGER: Final = "longer"
SHORTER: Final = "shorter"
_ROUNDING: Final = 1e-9  # of the longer time


def judged(times: Sequence[float], others: Sequence[float]) -> str:
    """LONGER, SHORTER, SAME or CLOSE: what the paired differences say, one a replication.

    Differences, as crossovers are where they are 0: what both modes spend alike counts in neither.
    """
    found = difference(times, others)
    least = _ROUNDING * max(*times, *others)
    low, high = (found.mean if math.isnan(end) else end for end in (found.low, found.high))
    if max(abs(low), abs(high)) <= least:
        return SAME
    if low <= least and high >= -least:
        return CLOSE
    return LONGER if found.mean > 0 else SHORTER


def beside(times: Sequence[float], others: Sequence[float]) -> str:
    """`2.20 times as long`, `as long to 0.2 %`, or by how much where only that is sure."""
    found = ratio(times, others)
    if unsure(found) and judged(times, others) in (LONGER, SHORTER):
        return apart(times, others)
    if near(found):
        percent = 100 * abs(found.mean - 1)
        if judged(times, others) == SAME:
            return "as long"
        return f"as long to {percent:.1g} %" if percent >= 1e-3 else "as long to 0.001 %"
    low, high = digits(found.low), digits(found.high)
    sure = f" (95 % interval {low} to {high})" if found.high > found.low and low != high else ""
    return f"{digits(found.mean)} times{sure} as long"


def apart(times: Sequence[float], others: Sequence[float]) -> str:
    """`12 ± 1 us longer`: the mean of the paired differences."""
    found = difference(times, others)
    if found.mean < 0:
        return f"{time(difference(others, times))} {SHORTER}"
    return f"{time(found)} {LONGER}"


def near(found: Estimate) -> bool:
    """Whether a ratio, and its interval if there is one, is 1 in three digits."""
    ends = [end for end in found[:3] if not math.isnan(end)]
    return bool(ends) and all(digits(end) in ("1.00", "0.999", "1.000") for end in ends)


def unsure(found: Estimate) -> bool:
    """Whether the interval of a ratio holds 1."""
    return found.low <= 1 <= found.high and found.low < found.high
