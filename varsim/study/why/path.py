"""The chain of work that a step waits for, read off a finished run.

A step lasts from one update of the model to the next. Its path is followed backwards: from the
gradient that came last, along what its worker did; where that worker waited for others, on with
the one who came last. What lies before the previous update belongs to the step before. So the
pieces of a path fill its step exactly, without gap or overlap.

Where a round is each worker's own iteration there is no such chain; then those are told instead.
Critical paths of programs of messages: Yang and Miller, ICDCS 1988.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.trace import Phase, Span, Trace
from varsim.study.gradients import GradientTable

# What a server does with a gradient between its arrival and the update.
SERVER: Final = "server"
NAMES: Final = tuple(phase.name.lower() for phase in Phase)

_MET: Final = (Phase.BARRIER, Phase.LOCK)  # waiting for another worker
_WAITS: Final = (*_MET, Phase.TOKEN)


class PathPiece(NamedTuple):
    """One worker, or the server with what came of it, did one thing from `start` to `end` (ns)."""

    worker: int
    activity: str  # the name of a Phase in small letters, or SERVER
    start: int
    end: int
    iteration: int


class CriticalPath(NamedTuple):
    """What filled the time from `start` to `end` (ns), first piece first."""

    number: int  # of the step, or of the worker's iteration, from 1
    start: int
    end: int
    pieces: tuple[PathPiece, ...]

    @property
    def length(self) -> int:
        """How long it took (ns)."""
        return self.end - self.start

    @property
    def worker(self) -> int:
        """Whom it waits for: whose computation on it is the last."""
        computed = [piece for piece in self.pieces if piece.activity == NAMES[Phase.COMPUTE]]
        return (computed or self.pieces)[-1].worker


class _Lane(NamedTuple):
    """The spans of one worker, in order."""

    ends: list[int]
    rows: list[tuple[int, int, int]]  # phase, start, iteration

    def before(self, time: int) -> int:
        """The index of the span in which the moment just before `time` lies."""
        return min(bisect_left(self.ends, time), len(self.ends) - 1)


def step_paths(trace: Trace, *, servers: bool, batches: int = 1) -> list[CriticalPath]:
    """The path of every step; `servers`: gradients go to parameter servers, one by one.

    `batches`: micro-batches of a step; what a worker computes of several is one piece.
    """
    lanes = _lanes(trace)
    ended = _ended(trace)
    paths = []
    start = 0
    lasts = _lasts(trace)
    for number, end in enumerate(trace.steps.tolist(), 1):
        if end > start:
            worker, iteration, moment = lasts[number - 1]
            if not servers:  # workers update copies of their own: who finishes with the step
                moment, lane = end, lanes[worker]
                if lane.ends[lane.before(end)] != end and end in ended:
                    worker = ended[end][-1][1]
            pieces = list(_walk(lanes, ended, worker, min(moment, end), start))[::-1]
            if moment < end:
                pieces.append(PathPiece(worker, SERVER, max(moment, start), end, iteration))
            paths.append(
                CriticalPath(number, start, end, tuple(_joined(pieces, whole=batches > 1)))
            )
        start = end
    return paths


def iterations(trace: Trace) -> list[CriticalPath]:
    """The whole iterations of all workers, from the read of the parameters to the next read."""
    _, _, start, end, number = range(len(Span._fields))
    found = []
    spans = trace.spans
    if not len(spans):
        return []
    change = np.flatnonzero(np.diff(spans[:, 0]) | np.diff(spans[:, number])) + 1
    last = {worker: int(lane.rows[-1][2]) for worker, lane in enumerate(_lanes(trace))}
    for rows in np.split(spans, change):
        worker, iteration = int(rows[0, 0]), int(rows[0, number])
        if 0 <= iteration < last[worker]:
            pieces = [PathPiece(who, NAMES[phase], *rest) for who, phase, *rest in rows.tolist()]
            found.append(
                CriticalPath(iteration + 1, int(rows[0, start]), int(rows[-1, end]), tuple(pieces))
            )
    return found


def typical(paths: Sequence[CriticalPath]) -> CriticalPath:
    """The one of median length; of several such the earliest."""
    ordered = sorted(paths, key=lambda path: (path.length, path.start))
    middle = ordered[(len(ordered) - 1) // 2].length
    return next(path for path in ordered if path.length == middle)


def shares(paths: Sequence[CriticalPath]) -> dict[str, float]:
    """What part of all their time goes into each activity; the parts add up to 1."""
    total = sum(path.length for path in paths)
    times: dict[str, int] = {}
    for path in paths:
        for piece in path.pieces:
            times[piece.activity] = times.get(piece.activity, 0) + piece.end - piece.start
    return {name: time / total for name, time in sorted(times.items(), key=lambda one: -one[1])}


def enders(paths: Sequence[CriticalPath]) -> dict[int, float]:
    """In what part of the steps each worker is the one waited for, most often first."""
    counts: dict[int, int] = {}
    for path in paths:
        counts[path.worker] = counts.get(path.worker, 0) + 1
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return {worker: count / len(paths) for worker, count in ordered}


def _lanes(trace: Trace) -> list[_Lane]:
    lanes = [_Lane([], []) for _ in range(trace.workers)]
    for worker, phase, start, end, iteration in trace.spans.tolist():
        lanes[worker].ends.append(end)
        lanes[worker].rows.append((phase, start, iteration))
    return lanes


def _ended(trace: Trace) -> dict[int, list[tuple[int, int]]]:
    """For every moment at which work of somebody ended: (phase, worker), by phase and rank."""
    found: dict[int, list[tuple[int, int]]] = {}
    rows = trace.spans[~np.isin(trace.spans[:, 1], [int(phase) for phase in _WAITS])]
    for worker, phase, _, end, _ in rows.tolist():
        found.setdefault(end, []).append((phase, worker))
    for entries in found.values():
        entries.sort()
    return found


def _lasts(trace: Trace) -> list[tuple[int, int, int]]:
    """For every step the gradient that came last: its worker, its iteration, its arrival (ns)."""
    rows = GradientTable(trace.gradient_rows, trace.variables)  # undone ones, too
    keys = np.stack([rows.applied, rows.arrived, rows.computed, -rows.worker])
    chosen: list[tuple[int, int, int]] = []
    order = np.lexsort(keys[::-1])  # by applied, then arrived, and so on
    order = order[rows.used[order]]
    at_step: NDArray[np.int64] = rows.applied_step[order]
    last = dict(zip(at_step.tolist(), order.tolist(), strict=True))
    for step, end in enumerate(trace.steps.tolist()):
        row = last.get(step)
        if row is None:  # a step without a gradient of its own; whoever came last before it
            row = int(order[max(0, np.searchsorted(rows.applied[order], end, side="right") - 1)])
        arrived = min(int(rows.arrived[row]), end)
        chosen.append((int(rows.worker[row]), int(rows.iteration[row]), arrived))
    return chosen


def _walk(
    lanes: Sequence[_Lane],
    ended: dict[int, list[tuple[int, int]]],
    worker: int,
    time: int,
    start: int,
) -> Iterator[PathPiece]:
    """The pieces from `time` back to `start` (ns), last one first."""
    while time > start:
        lane = lanes[worker]
        index = lane.before(time)
        phase, begin, iteration = lane.rows[index]
        if phase in _MET and lane.ends[index] == time and time in ended:
            worker = ended[time][0][1]
            continue
        begin = max(begin, start)
        yield PathPiece(worker, NAMES[phase], begin, time, iteration)
        time = begin


def _joined(pieces: Sequence[PathPiece], *, whole: bool) -> Iterator[PathPiece]:
    """Neighbours of one kind as one; `whole`: whatever their iterations."""
    current = pieces[0]
    for piece in pieces[1:]:
        same = (piece.worker, piece.activity) == (current.worker, current.activity)
        if same and (whole or piece.iteration == current.iteration):
            current = current._replace(end=piece.end)
        else:
            yield current
            current = piece
    yield current
