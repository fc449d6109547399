"""Numbers about numbers: intervals over replications, paired ratios, spreads, step functions."""

import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
_LARGEST = 700.0  # logarithm of an end of an interval; of a larger one there is no number
_SQUARED = 2.0**500  # a float holds the square of this: larger losses are those that diverge


class Estimate(NamedTuple):
    """A mean over replications with its confidence interval; nan where there is none."""

    mean: float
    low: float
    high: float
    replications: int  # in how many the number exists
    note: str = ""

    @property
    def half_width(self) -> float:
        """Half the length of the interval; nan where there is none."""
        return (self.high - self.low) / 2


NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


class Spread(NamedTuple):
    """How values are distributed; every field nan where there are no values."""

    mean: float
    p50: float
    p95: float
    p99: float
    maximum: float


def interval(values: Sequence[float], *, comparisons: int = 1, exact: bool = False) -> Estimate:
    """The mean of one value per replication, with its Student t interval.

    One replication has no interval, unless it is `exact`: every other one would be the same. Equal
    values have one of zero width. Where the number is missing (not finite) in some replications
    there is no mean: the rest would not be a fair sample. `comparisons`: of how many intervals,
    all of which are to hold with CONFIDENCE, this is one (Bonferroni).
    """
    finite = [value for value in values if math.isfinite(value)]
    count = len(values)
    if not finite:
        return NOTHING
    if len(finite) < count:
        note = f"in {len(finite)} of {count} replications"
        return Estimate(math.nan, math.nan, math.nan, len(finite), note)
    if count == 1 and not exact:
        return Estimate(finite[0], math.nan, math.nan, 1)
    if min(finite) == max(finite):
        return Estimate(finite[0], finite[0], finite[0], count)
    if max(map(abs, finite)) > _SQUARED:
        small = interval([value / _SQUARED for value in finite], comparisons=comparisons)
        mean, low, high = (part * _SQUARED for part in small[:3])
        return Estimate(mean, low, high, count)
    mean = math.fsum(finite) / count
    variance = math.fsum((value - mean) ** 2 for value in finite) / (count - 1)
    half = student_t(count - 1, comparisons) * math.sqrt(variance / count)
    return Estimate(mean, mean - half, mean + half, count)


def student_t(degrees: int, comparisons: int = 1) -> float:
    """Standard errors from the middle to either end of a two-sided interval of CONFIDENCE.

    `comparisons`: of that many intervals together (Bonferroni).
    """
    if (degrees, comparisons) in (known := _quantiles()):
        return known[degrees, comparisons]
    from scipy.special import stdtrit  # takes longer to import than a small run

    return float(stdtrit(degrees, 1 - (1 - (1 + CONFIDENCE) / 2) / comparisons))


def one_sided(values: Sequence[float], *, lower: bool) -> float:
    """What the mean is above (`lower`) or below with CONFIDENCE, by Student t; else nan.

    One value is taken as it is.
    """
    found = interval(values)
    if not math.isfinite(found.mean) or found.replications == 1 or found.low == found.high:
        return found.mean
    from scipy.special import stdtrit

    error = found.half_width / student_t(found.replications - 1)
    reach = error * float(stdtrit(found.replications - 1, CONFIDENCE))
    return found.mean - reach if lower else found.mean + reach


def of_numbers(values: Sequence[object]) -> Estimate:
    """The interval of what a metric of somebody's own gives; TypeError where that is no number."""
    numbers = []
    for value in values:
        if not isinstance(value, Real):
            raise TypeError(f"a metric gives a number for each trace, not {value!r}")
        numbers.append(float(value))
    return interval(numbers)


def ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    comparisons: int = 1,
    exact: bool = False,
) -> Estimate:
    """The paired ratio: geometric mean and t interval of the logarithms, one pair a replication.

    Both must be above 0 where they exist; a pair with a missing number or a 0 has no ratio.
    `comparisons` and `exact` as in `interval`.
    """
    assert len(numerators) == len(denominators), "pairs come from the same replications"
    ratios = [
        above / below if 0 < above < math.inf and 0 < below < math.inf else math.nan
        for above, below in zip(numerators, denominators, strict=True)
    ]
    logs = interval([math.log(value) for value in ratios], comparisons=comparisons, exact=exact)
    if not math.isfinite(logs.mean) or min(ratios) == max(ratios):
        return interval(ratios, exact=exact)
    low, mean, high = (math.exp(min(end, _LARGEST)) for end in (logs.low, logs.mean, logs.high))
    return logs._replace(mean=mean, low=low, high=high)


def difference(
    left: Sequence[float],
    right: Sequence[float],
    *,
    comparisons: int = 1,
    exact: bool = False,
) -> Estimate:
    """The paired difference left - right with its t interval, one pair a replication.

    `comparisons` and `exact` as in `interval`.
    """
    gaps = [a - b for a, b in zip(left, right, strict=True)]
    return interval(gaps, comparisons=comparisons, exact=exact)


def spread(values: NDArray[np.number[Any]], *, overwrite: bool = False) -> Spread:
    """Mean, percentiles (linear between ranks) and maximum of values of any unit, shape (n,).

    `overwrite`: they may be put in another order, which saves a copy of them.
    """
    if values.size == 0:
        return Spread(math.nan, math.nan, math.nan, math.nan, math.nan)
    mean, most = float(values.mean()), float(values.max())  # a sum depends on the order
    p50, p95, p99 = np.percentile(values, [50, 95, 99], overwrite_input=overwrite).tolist()
    return Spread(mean, p50, p95, p99, most)


def latest(
    moments: NDArray[np.int64], values: NDArray[np.float64], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The last value at or before each point of `grid`; nan before the first moment.

    `moments` are ascending, shape (n,) like `values`; of equal ones the last counts.
    """
    index = np.searchsorted(moments, grid, side="right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)] if len(values) else np.nan, np.nan)


@cache
def _quantiles() -> dict[tuple[int, int], float]:
    """Those of Student's t that are looked for most, by degrees of freedom and comparisons."""
    text = files("varsim").joinpath("data", "student_t.csv").read_text(encoding="utf-8")
    head, *rows = (line.split(",") for line in text.splitlines())
    return {
        (int(degrees), int(comparisons)): float(value)
        for degrees, *values in rows
        for comparisons, value in zip(head[1:], values, strict=True)
    }


def evaluated_grid(
    moments: Sequence[NDArray[np.int64]], points: int, even: bool
) -> NDArray[np.float64]:
    """Points that every replication covers: evenly spaced, or some of the recorded ones."""
    start, end = max(m[0] for m in moments), min(m[-1] for m in moments)
    if even:
        return np.linspace(start, end, points if end > start else 1)
    every = np.unique(np.concatenate(list(moments)))
    every = every[(every >= start) & (every <= end)]
    kept = np.unique(np.linspace(0, len(every) - 1, min(points, len(every))).round().astype(int))
    chosen: NDArray[np.float64] = every[kept].astype(np.float64)
    return chosen
