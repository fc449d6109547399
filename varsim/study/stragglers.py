"""Straggler statistics of step times: what a barrier costs, and whom it waits for.

x[t, w] is the time of step t on worker w. Definitions: barrier over mean is the mean of max_w x
over the mean of x, the slowdown against workers that all take the mean (of ideal times as Lin et
al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025, define
theirs: without pipeline stages and communication).

Workers that are slow together: the barrier is held against that of the same times, drawn for each
worker by itself, exactly: of independent times the product of the workers' distributions of x is
that of the largest. Steps that are long for all alike make the former smaller.

Times that contain the barrier, as wall times of ranks of DDP do, are equal whoever is slow, and
prove nothing. They are told by either of two signs. The spread within a step is below SAME, half of
what the steps of one healthy GPU alone vary by (DEVICE_SIGMA), which is less than independent
workers show. Or what a worker takes beyond the step's mean is taken back in its next step: between
two barriers a clock that is read late lengthens one step by what it shortens the next, which gives
a correlation of -1/2, where independent steps have none.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.trace import Phase, Trace
from varsim.study.gradients import NANOSECONDS, GradientTable

Table = NDArray[np.float64]

LAGS: Final = (1, 2, 3, 5, 10)
SAMPLED: Final = 0.2  # share of times equal to the one before, from which steps were sampled
ENOUGH: Final = 20  # steps from which something may be usual
TOGETHER: Final = 0.05  # of the barrier of independent draws, from which a difference matters
SAME: Final = 0.005  # spread within a step below which times are equal
_FEWEST: Final = 3
_TAKEN_BACK: Final = -0.35  # lag-1 correlation within steps below which their ends are common
_MOST_EQUAL: Final = (1.01, 1.05)  # barrier over mean up to which either sign is believed
_EQUAL: Final = 1e-9  # relative; times that differ by less are equal


class Backup(NamedTuple):
    """Waiting for all but some workers of each step: share of time saved, gain of the rate."""

    time_saved: float
    rate_gain: float


class Stragglers(NamedTuple):
    """What the times of a table (s), shape (steps, workers), say of its stragglers.

    `worker_slowdowns`: of a job in which only this worker has its times and all others take the
    mean. `last`: the share of the steps in which a worker comes last (ties are shared). `backups`:
    with one backup worker, two. `autocorrelation`: by lag, mean over workers of Pearson's
    coefficient of x[t, w] and x[t + lag, w]. `wasted`: seconds that workers wait for the last.
    """

    table: Table
    mean: float
    barrier_mean: float
    worker_means: tuple[float, ...]
    worker_slowdowns: tuple[float, ...]
    last: tuple[float, ...]
    cv_within_step: float
    cv_all: float
    backups: tuple[Backup, ...]
    autocorrelation: Mapping[int, float]
    equal_to_previous: float
    wasted: float

    @property
    def slowdown(self) -> float:
        """Mean of the slowest worker's times over the mean of all."""
        return self.barrier_mean / self.mean

    @property
    def wasted_share(self) -> float:
        """Share of all workers' time that they wait for the last of a step."""
        return 1 - 1 / self.slowdown

    @property
    def independent(self) -> float:
        """`slowdown` of the same times, if each worker's were drawn by themselves."""
        steps, workers = self.table.shape
        order = np.argsort(self.table.ravel(), kind="stable")
        ranks = np.argsort(np.argsort(self.table, axis=0, kind="stable"), axis=0)
        place = ranks.ravel()[order]  # of each time among its worker's, the shortest first
        growth = np.where(place == 0, -np.log(steps), np.log1p(1 / np.maximum(place, 1)))
        all_begun = np.cumsum(place == 0) == workers
        below = np.where(all_begun, np.exp(np.cumsum(growth)), 0.0)
        return float(self.table.ravel()[order] @ np.diff(below, prepend=0.0)) / self.mean

    @property
    def dependent(self) -> bool:
        """Whether a barrier of independent draws is another, by more than two standard errors."""
        error = float(self.table.max(axis=1).std()) / self.mean / math.sqrt(len(self.table))
        expected = self.independent
        return abs(self.slowdown - expected) > max(TOGETHER * expected, 2 * error)

    @property
    def equal(self) -> bool:
        """Whether the workers' times are as equal as wall times that contain the barrier."""
        steps, workers = self.table.shape
        if workers < 2:
            return False
        apart = self.table - self.table.mean(axis=1, keepdims=True)
        # Of a median: that of chi squared, by Wilson and Hilferty.
        share = (1 - 2 / (9 * (workers - 1))) ** 3
        variance = float(np.median(apart.var(axis=1, ddof=1) / self.table.mean(axis=1) ** 2))
        apart -= apart.mean(axis=0)
        whole = float((apart**2).sum())
        next_one = float((apart[1:] * apart[:-1]).sum()) / whole if whole else 0.0
        same, back = _MOST_EQUAL
        return (self.slowdown <= same and variance < share * SAME**2) or (
            steps >= ENOUGH and self.slowdown <= back and next_one < _TAKEN_BACK
        )


def stragglers(table: Table) -> Stragglers:
    """The statistics of step times (s), shape (steps, workers), all above 0."""
    steps, workers = table.shape
    mean = float(table.mean())
    slowest = np.sort(table, axis=1)[:, ::-1].mean(axis=0)
    behind = np.isclose(table, table.max(axis=1, keepdims=True), rtol=_EQUAL, atol=0)
    worst = float(slowest[0])
    return Stragglers(
        table,
        mean,
        worst,
        tuple(table.mean(axis=0).tolist()),
        tuple((np.maximum(table, mean).mean(axis=0) / mean).tolist()),
        tuple((behind / behind.sum(axis=1, keepdims=True)).mean(axis=0).tolist()),
        float((table.std(axis=1) / table.mean(axis=1)).mean()),
        float(table.std()) / mean,
        tuple(
            Backup(1 - float(slowest[count]) / worst, worst / float(slowest[count]) - 1)
            for count in (1, 2)
            if count < workers
        ),
        {lag: value for lag in LAGS if (value := autocorrelation(list(table.T), lag)) is not None},
        equal_to_previous(list(table.T)),
        float((worst - mean) * steps * workers),
    )


def compute_times(trace: Trace, micro_batches: int = 1) -> Table | None:
    """The compute times (s) of a run, shape (iterations, workers): those that all workers ended.

    Of so many `micro_batches` each. None for one worker, for fewer than three such iterations, and
    where computations were given up: the long ones are missing there.
    """
    rows = GradientTable.of(trace)
    if trace.workers < 2 or (rows.computed < 0).any():
        return None
    order = np.lexsort((rows.iteration, rows.worker))
    times = rows.computed - rows.compute_start - _waited(trace, rows)
    seconds = (times / NANOSECONDS)[order]
    count = np.bincount(rows.worker, minlength=trace.workers)
    most = int(count.min())
    columns = [column[:most] for column in np.split(seconds, np.cumsum(count)[:-1])]
    table = np.stack(columns, axis=1)[: most - most % micro_batches]
    table = table.reshape(-1, micro_batches, trace.workers).sum(axis=1)
    return table if len(table) >= _FEWEST else None


def _waited(trace: Trace, rows: GradientTable) -> NDArray[np.int64]:
    """How long each gradient's worker did not compute from its beginning to its end (ns)."""
    waited = np.zeros(len(rows.worker), dtype=np.int64)
    worker, phase, start, end, _ = trace.spans.T
    lasted = np.where(phase == Phase.COMPUTE, 0, end - start)
    order, begins, computed = np.argsort(rows.worker), rows.compute_start, rows.computed
    ranks = np.arange(trace.workers + 1 if len(worker) else 0)
    bounds = np.searchsorted(worker, ranks).tolist()
    of_workers = np.searchsorted(rows.worker[order], ranks).tolist()
    for own, of_worker in zip(pairwise(bounds), pairwise(of_workers), strict=True):
        spans, gradients = slice(*own), order[slice(*of_worker)]
        before = np.concatenate(([0], np.cumsum(lasted[spans])))
        # Both moments are ends of spans, or the run's start.
        begun = before[np.searchsorted(end[spans], begins[gradients], "right")]
        ended = before[np.searchsorted(end[spans], computed[gradients], "right")]
        waited[gradients] = ended - begun
    return waited


def autocorrelation(rows: Sequence[Sequence[float] | Table], lag: int) -> float | None:
    """Mean over workers of the correlation of a step with the one `lag` before; None without any.

    Rows that hardly vary, or have fewer than three such pairs, have no correlation.
    """
    found = []
    for row in map(np.asarray, rows):
        early, late = row[:-lag], row[lag:]
        if early.size >= _FEWEST and not (_level(early) or _level(late)):
            found.append(float(np.corrcoef(early, late)[0, 1]))
    return float(np.mean(found)) if found else None


def equal_to_previous(rows: Sequence[Sequence[float] | Table]) -> float:
    """Share of the steps that take exactly as long as the worker's step before; 0 without any."""
    pairs = [np.asarray(row[1:]) == np.asarray(row[:-1]) for row in rows]
    count = sum(each.size for each in pairs)
    return float(sum(int(each.sum()) for each in pairs) / count) if count else 0.0


def _level(times: Table) -> bool:
    return bool(np.ptp(times) <= _EQUAL * np.max(times))
