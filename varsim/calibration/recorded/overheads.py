"""Overheads from measured runs: those with which replays have the latencies that were recorded.

Least squares over the logarithms of the overheads. What is fitted are the times between one
computation and the next (see `latencies`), each as a share of an iteration; how long a run took,
and what went into which update, is not looked at.

Foreign work on the machine of parameter servers lengthens all of it: with f cores busy with that,
overheads take 1 + `load` f times as long, and `load` is fitted besides. f is recorded with a run.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from varsim.calibration.recorded import latencies
from varsim.calibration.recorded.latencies import Latencies
from varsim.calibration.recorded.replay import Replay
from varsim.calibration.recorded.runs import CollectiveRun, Run, SyncRun, compute_tables
from varsim.cluster.overheads import Overheads

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """Overheads on a machine with nothing else to do, `load`, and where they come from."""

    overheads: Overheads
    load: float
    runs: tuple[str, ...]
    residuals: tuple[Fitted, ...] = ()

    def applied_to(self, replay: Replay) -> Overheads:
        """What a run is to be replayed with: under its foreign load, without what it has not."""
        stretch = 1 + self.load * replay.run.foreign_cores
        return self.overheads.stretched(stretch).only(replay.subject_to())


class _Recording(NamedTuple):
    """A run to be fitted: what is to be met, and how long an iteration and the whole of it is."""

    replay: Replay
    seen: Latencies
    iteration: float
    whole: float


def calibrate(runs: Sequence[Run], *, load: bool = True) -> Calibration | None:
    """Overheads from runs of one family; None where nothing is to be learnt from them.

    Runs in which a worker was killed tell nothing. Without `load` foreign work is not looked at.
    The same runs give the same three digits everywhere.
    """
    recordings = [_recording(run) for run in runs if not (isinstance(run, SyncRun) and run.killed)]
    names = _names([recording.replay.run for recording in recordings], load)
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
    best = _calibration(names, found.x.tolist(), recordings, _DIGITS)
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
    return _Recording(Replay(run), latencies.measured(run), iteration, whole)


def _names(runs: Sequence[Run], load: bool) -> list[str]:
    """The overheads that these runs tell of."""
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
        if load and max(loads) - min(loads) >= _LOADS_APART:
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
    """What stands at a point: logarithms of everything relative to where the search starts."""
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
    simulated = latencies.predicted(replay.run, replay.trace(overheads))
    simulated = simulated._replace(pull=overheads.pull + overheads.copying(replay.size))
    triples = zip(Latencies._fields, recording.seen, simulated, strict=True)
    # What does not occur in a replay is no nearer or farther for it.
    return [(name, a, a if b is None else b) for name, a, b in triples if a is not None]


def _misses(recording: _Recording, tried: Calibration) -> list[float]:
    """How far a replay is off: in percent of an iteration; a collective by what factor (log)."""
    misses = []
    for name, seen, simulated in _pairs(recording, tried):
        if name == "collective":
            misses.append(math.log(max(simulated, 1e-9) / max(seen, 1e-9)))
        else:
            scale = recording.whole if name == "start" else recording.iteration
            misses.append(100 * (simulated - seen) / scale)
    return misses
