"""Calibration of overheads: those with which replays have the recorded latencies.

Least squares over the logarithms of the overheads. Fitted are the mean times between one
computation and the next, each as a share of an iteration, read the same way off a recording and a
simulated run; the duration of a run and the contents of its updates are not used. With f cores of
the servers' machine busy with foreign work, overheads take 1 + `load` f times as long; `load` is
fitted, f is recorded with a run.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from varsim.calibration.recorded.runs import (
    ACCEPTED,
    AsyncRun,
    AsyncWorker,
    CollectiveRun,
    Replay,
    Run,
    SyncRun,
    SyncWorker,
    compute_tables,
)
from varsim.cluster.description.servers import Overheads
from varsim.cluster.record.trace import GradientRow, Outcome, Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


def measured_latencies(run: Run) -> Latencies:
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


def predicted_latencies(run: Run, trace: Trace) -> Latencies:
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
    """Times of reads without concurrent requests, except the first of each worker."""
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


# Where the search starts: times in seconds, the rate in bytes/s, the load per core.
START: Final = {
    "first_iteration": 30e-3,
    "pull": 1e-3,
    "push": 0.5e-3,
    "commit": 1e-3,
    "wake": 0.5e-3,
    "message": 0.2e-3,
    "payload": 1e9,
    "load": 0.5,
}
_FEWEST_BYTES: Final = 2**14  # of a payload that tells something about its copying
_LOADS_APART: Final = 0.5  # cores of foreign load; what is closer tells nothing about it
_SLOPE: Final = 0.1  # of a logarithm: a replay is not a smooth function of it
_FURTHEST: Final = math.log(1e4)  # from the start
_MOST_STEPS: Final = 12
_DIGITS: Final = 3


class Fitted(NamedTuple):
    """One latency of one run: as measured, and in its replay with the overheads found (s)."""

    run: str
    latency: str
    measured: float
    fitted: float


class Calibration(NamedTuple):
    """Calibrated overheads of an otherwise idle machine, `load`, and their source runs."""

    overheads: Overheads
    load: float
    runs: tuple[str, ...]
    residuals: tuple[Fitted, ...] = ()

    def applied_to(self, replay: Replay) -> Overheads:
        """Overheads for the replay of a run, under its foreign load."""
        stretch = 1 + self.load * replay.run.foreign_cores
        return self.overheads.stretched(stretch).only(replay.subject_to())


class _Recording(NamedTuple):
    """Run to be fitted: its latencies, mean iteration and total compute time (s)."""

    replay: Replay
    seen: Latencies
    iteration: float
    whole: float


def calibrate(runs: Sequence[Run]) -> Calibration | None:
    """Overheads from runs of one family; None where nothing is to be learnt from them.

    Runs in which a worker was killed tell nothing. The same runs give the same three digits
    everywhere.
    """
    recordings = [_recording(run) for run in runs if not (isinstance(run, SyncRun) and run.killed)]
    names = _names([recording.replay.run for recording in recordings])
    if not names:
        return None
    from scipy.optimize import least_squares

    @lru_cache(maxsize=1)
    def at(*point: float) -> "NDArray[np.float64]":
        here = _calibration(names, point, recordings)
        return np.array([miss for recording in recordings for miss in _misses(recording, here)])

    def misses(point: "NDArray[np.float64]") -> "NDArray[np.float64]":
        return at(*point.tolist())

    def slopes(point: "NDArray[np.float64]") -> "NDArray[np.float64]":
        here = misses(point)
        steps = np.eye(len(names)) * _SLOPE
        return np.stack([(misses(point + step) - here) / _SLOPE for step in steps], axis=1)

    found = least_squares(
        misses,
        np.zeros(len(names)),
        jac=slopes,
        bounds=(-_FURTHEST, _FURTHEST),
        max_nfev=_MOST_STEPS,
        xtol=1e-2,
        ftol=1e-2,
    )
    # What never counts, as where messages always outlast copying, is not known.
    kept = [(name, at) for name, at, by in zip(names, found.x, found.jac.T, strict=True) if any(by)]
    names, point = [name for name, _ in kept], [float(where) for _, where in kept]
    best = _calibration(names, point, recordings, _DIGITS)
    fitted = (
        Fitted(recording.replay.run.id, name, seen, simulated)
        for recording in recordings
        for name, seen, simulated in _pairs(recording, best)
    )
    return best._replace(residuals=tuple(fitted))


def _recording(run: Run) -> _Recording:
    tables = compute_tables(run)
    iteration = fmean(fmean(row) for row in tables)
    whole = iteration * fmean(len(row) for row in tables)
    return _Recording(Replay(run), measured_latencies(run), iteration, whole)


def _names(runs: Sequence[Run]) -> list[str]:
    """Names of the overheads that these runs identify."""
    if not runs:
        return []
    collective = [isinstance(run, CollectiveRun) for run in runs]
    assert all(collective) or not any(collective), "runs of two families"
    if collective[0]:
        names = ["message"]
    else:
        names = ["first_iteration", "pull", "push"]
        if any(isinstance(run, SyncRun) for run in runs):
            names += ["commit", "wake"]
        loads = [run.foreign_cores for run in runs]
        if max(loads) - min(loads) >= _LOADS_APART:
            names.append("load")
    if any(run.payload_bytes >= _FEWEST_BYTES for run in runs):
        names.append("payload")
    return names


def _calibration(
    names: Sequence[str],
    point: Sequence[float],
    recordings: Sequence[_Recording],
    digits: int = 17,
) -> Calibration:
    """Calibration at a point: logarithms of the parameters relative to START."""
    values = {
        name: float(f"{START[name] * math.exp(where):.{digits}g}")
        for name, where in zip(names, point, strict=True)
    }
    load = values.pop("load", 0.0)
    runs = tuple(recording.replay.run.id for recording in recordings)
    return Calibration(Overheads.model_validate(values), load, runs)


def _pairs(recording: _Recording, tried: Calibration) -> list[tuple[str, float, float]]:
    """Name, measured and simulated value of each latency that the recording has."""
    replay = recording.replay
    overheads = tried.applied_to(replay)
    simulated = predicted_latencies(replay.run, replay.trace(overheads))
    simulated = simulated._replace(pull=overheads.pull + overheads.copying(replay.size))
    triples = zip(Latencies._fields, recording.seen, simulated, strict=True)
    # What does not occur in a replay is no nearer or farther for it.
    return [(name, a, a if b is None else b) for name, a, b in triples if a is not None]


def _misses(recording: _Recording, tried: Calibration) -> list[float]:
    """Residuals of a replay in percent of an iteration; of a collective, log of the ratio."""
    misses = []
    for name, seen, simulated in _pairs(recording, tried):
        if name == "collective":
            misses.append(math.log(max(simulated, 1e-9) / max(seen, 1e-9)))
        else:
            scale = recording.whole if name == "start" else recording.iteration
            misses.append(100 * (simulated - seen) / scale)
    return misses
