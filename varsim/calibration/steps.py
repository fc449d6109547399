"""Step times of workers: warm-up, slow workers, autocorrelation.

Slow workers are found by medians, so that a few late steps do not count; the 99 % interval of a
factor comes from the order statistics around the medians, on the logarithm of times.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.calibration.measurement import StepTable
from varsim.study.stragglers import Stragglers, autocorrelation, stragglers

Times: TypeAlias = NDArray[np.float64]
Rows = Mapping[int, Sequence[float]]

FEWEST: Final = 20  # steps that can tell one law from another
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


def warm_up(rows: Rows) -> WarmUp | None:
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


def slow_workers(rows: Rows) -> list[Slow]:
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


def dependence(rows: Rows) -> float | None:
    """Lag-1 autocorrelation of step times where it is significant; else None."""
    value = autocorrelation(list(rows.values()), 1)
    count = sum(map(len, rows.values()))
    if value is None or count < FEWEST or value <= max(_DEPENDENT, 1.96 / math.sqrt(count)):
        return None
    return value
