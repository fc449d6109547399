"""Step times of workers: warm-up, slow workers, autocorrelation, thinning.

Slow workers are found by medians, so that a few late steps do not count; the 99 % interval of a
factor comes from the order statistics around the medians, on the logarithm of times.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from varsim.calibration.families import FEWEST, SHARES, Times
from varsim.calibration.measurement import StepTable
from varsim.study.stragglers import Stragglers, autocorrelation, stragglers

_WARM: Final = 1.5  # medians that a first step must take to count as warm-up
_MOST_WARM: Final = 0.1  # share of the steps that may be warm-up
_SLOW: Final = 1.05  # factor from which a worker is called slow
_FEWEST: Final = 8  # steps of a worker whose median can be compared
_SCORE: Final = 2.5758293035489004  # of a normal law: 99 % are within
_DEPENDENT: Final = 0.2  # lag-1 autocorrelation from which a law that forgets misleads


def of_common_steps(table: StepTable, first: int = 0) -> Stragglers | None:
    """Statistics of the steps that all workers have, but for the `first`; None without any."""
    rows = table.common()[first:]
    return stragglers(np.array(rows)) if rows else None


def equal_times(table: StepTable, found: Stragglers) -> str:
    """Why times that are equal say nothing of stragglers; empty where they say something."""
    if table.alone or not found.equal:
        return ""
    return (
        "All workers take the same time in a step (coefficient of variation "
        f"{100 * found.cv_within_step:.2g} %), as wall times that contain the barrier do, whoever "
        "is slow: equal times prove nothing about stragglers. Measure each worker's time before "
        "the collective: the backward pass within no_sync(), up to a CUDA event recorded before "
        "the all-reduce, or with torch.profiler, whose traces (one per rank) are read without it."
    )


class Slow(NamedTuple):
    """Slow worker: its factor to the others, with the 99 % confidence interval.

    `tail` is the same of the 90th percentiles: far from `factor` where slowness is not constant.
    """

    worker: int
    factor: float
    low: float
    high: float
    tail: float


class WarmUp(NamedTuple):
    """Warm-up of the first `steps`; the first takes `excess` (s) more, median of workers."""

    steps: int
    excess: float


def warm_up(rows: Mapping[int, Sequence[float]]) -> WarmUp | None:
    """The steps that most workers need to warm up; None where they do not."""
    counts, excesses = [], []
    for row in rows.values():
        times = np.array(row)
        most = int(_MOST_WARM * times.size)
        rest = times[most:] if most else times
        middle, usual = float(np.median(rest)), float(np.quantile(rest, 0.99))
        long = times[:most] > max(_WARM * middle, usual)
        counts.append(int(np.argmin(long)) if not long.all() else most)
        excesses.append(float(times[0]) - middle)
    needed = int(np.median(counts))
    if needed < 1:
        return None
    return WarmUp(needed, float(np.median(excesses)))


def slow_workers(rows: Mapping[int, Sequence[float]]) -> list[Slow]:
    """The workers that are slower than the others by a factor that is no accident."""
    known = {worker: np.array(row) for worker, row in rows.items() if len(row) >= _FEWEST}
    if len(known) < 2:
        return []
    medians = {worker: float(np.median(row)) for worker, row in known.items()}
    suspects = [
        worker
        for worker, middle in medians.items()
        if middle >= _SLOW * np.median([medians[other] for other in known if other != worker])
    ]
    usual = [row for worker, row in known.items() if worker not in suspects]
    if not usual:
        return []
    others = np.concatenate(usual)
    found = []
    for worker in suspects:
        factor = medians[worker] / float(np.median(others))
        spread = _SCORE * math.hypot(_error(known[worker]), _error(others))
        low, high = factor * math.exp(-spread), factor * math.exp(spread)
        tail = float(np.quantile(known[worker], 0.9) / np.quantile(others, 0.9))
        if low > 1 and factor >= _SLOW:
            found.append(Slow(worker, factor, low, high, tail))
    return found


def _error(times: Times) -> float:
    """The standard error of the logarithm of the median, from the order statistics around it."""
    logs = np.sort(np.log(times))
    reach = math.sqrt(times.size) / 2
    low = max(0, math.floor(times.size / 2 - reach))
    high = min(times.size - 1, math.ceil(times.size / 2 + reach))
    return float(logs[high] - logs[low]) / 2


def dependence(rows: Mapping[int, Sequence[float]]) -> float | None:
    """Lag-1 autocorrelation of step times where it is significant; else None."""
    value = autocorrelation(list(rows.values()), 1)
    count = sum(map(len, rows.values()))
    if value is None or count < FEWEST or value <= max(_DEPENDENT, 1.96 / math.sqrt(count)):
        return None
    return value


Rows = Mapping[int, Sequence[float]]

_TELLING: Final = 200  # times of a worker in which its p99 can be seen


class Thinned(NamedTuple):
    """Thinned rows, one per worker or (`pooled`) one for all, with a description."""

    rows: tuple[Times, ...]
    pooled: bool
    words: tuple[str, ...]


def thinned(rows: Rows, alike: Rows, most: int, *, in_order: bool) -> Thinned:
    """At most so many of the times (s) of all workers.

    `in_order`: their order counts, and of every so many steps one is kept. Otherwise a worker's
    times in order of size are cut into equal groups, of each of which the mean is kept: the mean of
    all stays, and the tail is not lost. Where a worker had too few of them, `alike`, times that are
    divided by the factors of slow workers, are taken together.
    """
    whole = [np.array(row) for row in rows.values()]
    if sum(row.size for row in whole) <= most:
        return Thinned(tuple(whole), False, ())
    if in_order:
        return _strided(whole, most)
    each = most // len(whole)
    pooled = len(whole) > 1 and each < _TELLING
    if pooled:
        whole, each = [np.concatenate([np.array(row) for row in alike.values()])], most
    kept = tuple(_grouped(row, each) for row in whole)
    steps = sum(row.size for row in whole)
    groups = max(row.size for row in kept)
    who = (
        "steps of all workers" if pooled else "steps" if len(whole) == 1 else "steps, each worker's"
    )
    words = f"{steps} {who}, in order of size, in {groups} groups; of each stands its mean"
    return Thinned(kept, pooled, (words, _quality(kept, whole)))


def _strided(whole: Sequence[Times], most: int) -> Thinned:
    stride = -(-sum(row.size for row in whole) // most)
    while sum(-(-row.size // stride) for row in whole) > most and stride < max(
        row.size for row in whole
    ):
        stride += 1
    kept = tuple(row[::stride] for row in whole)
    words = f"of every {stride} steps one is kept, so that they are less like the one before"
    return Thinned(kept, False, (words, _quality(kept, whole)))


def _grouped(row: Times, number: int) -> Times:
    """The means of so many equal groups of times in order of size; two groups may share one."""
    if row.size <= number:
        return row
    sums = np.concatenate([[0.0], np.cumsum(np.sort(row))])
    bounds = np.linspace(0, row.size, number + 1)
    means: Times = np.diff(np.interp(bounds, np.arange(row.size + 1), sums)) * number / row.size
    return means


def _quality(kept: Sequence[Times], whole: Sequence[Times]) -> str:
    """Ratios of mean and quantiles after thinning to those before."""
    left, everything = np.concatenate(kept), np.concatenate(whole)
    ratios = [f"mean {left.mean() / everything.mean():.3f}"]
    for share, now, was in zip(
        SHARES, np.quantile(left, SHARES), np.quantile(everything, SHARES), strict=True
    ):
        ratios.append(f"p{100 * share:g} {now / was:.3f}")
    return f"what is kept / measured: {', '.join(ratios)}"
