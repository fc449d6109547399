"""What a run tells about the overheads: the times between one computation and the next.

They are read the same way off a recording and off a simulated run, so that one can be fitted to the
other. None of them says when anything else happened, least of all how long the run took.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from varsim.calibration.recorded.runs import (
    ACCEPTED,
    AsyncRun,
    AsyncWorker,
    CollectiveRun,
    Run,
    SyncRun,
    SyncWorker,
)
from varsim.cluster.trace import GradientRow, Outcome, Trace

# A request is alone when no other worker makes one from so long before it until so long after (s).
_BEFORE: Final = 12e-3
_AFTER: Final = 4e-3
_FEWEST: Final = 6  # from so many on a mean counts

_COLUMNS: Final = {name: column for column, name in enumerate(GradientRow._fields)}


class Latencies(NamedTuple):
    """Mean times (s); None where a run has too few of a kind.

    `start`: until a worker first computes. `pull`: a read while no other worker asks the server for
    anything. `back`: from the last gradient that an update needed to the next computation of a
    worker that waited for it. `on`: from the end of a computation to the next one of a worker that
    did not have to wait for an update. `collective`: from when the last rank has computed until the
    last one has the result.
    """

    start: float | None = None
    pull: float | None = None
    back: float | None = None
    on: float | None = None
    collective: float | None = None


class Iteration(NamedTuple):
    """One iteration of one worker: when (s) it computed, and in which update it was, if any."""

    begin: float
    end: float
    update: int | None


def measured(run: Run) -> Latencies:
    """As recorded, up to the last update."""
    if isinstance(run, CollectiveRun):
        computed = np.array([rank.compute_end for rank in run.ranks]).max(axis=0)
        ended = np.array([rank.end for rank in run.ranks]).max(axis=0)
        return Latencies(collective=float((ended - computed).mean()))
    iterations = [
        [
            Iteration(begin, begin + compute, update)
            for begin, compute, update in zip(
                worker.compute_begin, worker.compute, _updates(run, rank), strict=False
            )
        ]
        for rank, worker in enumerate(run.workers)
    ]
    return _of_servers(run, iterations)._replace(pull=_mean(_lone_reads(run.workers)))


def predicted(run: Run, trace: Trace) -> Latencies:
    """The same of a simulated run, but `pull`."""
    by_name = {name: trace.gradients[:, column] for name, column in _COLUMNS.items()}
    computed = by_name["computed"] / 1e9
    if isinstance(run, CollectiveRun):
        steps = by_name["iteration"]
        last = np.zeros(len(trace.steps))
        np.maximum.at(last, steps, computed)
        return Latencies(collective=float((trace.steps / 1e9 - last).mean()))
    updates = np.where(by_name["outcome"] == Outcome.APPLIED, by_name["applied_step"], -1)
    begun = by_name["compute_start"] / 1e9
    iterations = []
    for worker in range(trace.workers):
        rows = np.flatnonzero(by_name["worker"] == worker)
        rows = rows[np.argsort(by_name["iteration"][rows])]
        iterations.append(
            [
                Iteration(float(begun[row]), float(computed[row]), _or_none(int(updates[row])))
                for row in rows
                if computed[row] >= begun[row]
            ]
        )
    return _of_servers(run, iterations)


def _of_servers(run: Run, iterations: Sequence[Sequence[Iteration]]) -> Latencies:
    needed: dict[int, float] = {}
    if isinstance(run, SyncRun):
        for iteration in (one for worker in iterations for one in worker):
            if iteration.update is not None:
                last = needed.get(iteration.update, 0.0)
                needed[iteration.update] = max(last, iteration.end)
    moments = sorted(needed.values())
    back, on = [], []
    for worker in iterations:
        for this, following in pairwise(worker):
            place = bisect_left(moments, following.begin) - 1
            if place >= 0 and moments[place] >= this.end:
                back.append(following.begin - moments[place])
            else:
                on.append(following.begin - this.end)
    starts = [worker[0].begin for worker in iterations if worker]
    return Latencies(start=fmean(starts), back=_mean(back), on=_mean(on))


def _updates(run: SyncRun | AsyncRun, rank: int) -> list[int | None]:
    """For each iteration of a worker the update that its gradient was in."""
    worker = run.workers[rank]
    if isinstance(worker, AsyncWorker):
        return [number - 1 for number in worker.applied_as]
    assert isinstance(run, SyncRun)
    counted = iter([step for step, row in enumerate(run.contributions) for _ in range(row[rank])])
    return [next(counted, None) if fate == ACCEPTED else None for fate in worker.accepted]


def _lone_reads(workers: Sequence[SyncWorker | AsyncWorker]) -> Iterable[float]:
    """How long reads took while nobody else asked for anything; not the first of a worker."""
    requests = sorted(
        (moment, rank)
        for rank, worker in enumerate(workers)
        for moment in (*worker.begin, *worker.compute_end)
    )
    moments = [moment for moment, _ in requests]
    for rank, worker in enumerate(workers):
        for begin, read in list(zip(worker.begin, worker.compute_begin, strict=True))[1:]:
            first = bisect_left(moments, begin - _BEFORE)
            near = requests[first : bisect_left(moments, begin + _AFTER)]
            if all(other == rank for _, other in near):
                yield read - begin


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if len(found) >= _FEWEST else None


def _or_none(update: int) -> int | None:
    return None if update < 0 else update
