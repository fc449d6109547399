"""Trace of a run: spans of time, gradients, evaluations; flat rows while it runs."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Raised whenever the same scenario may give other numbers than before.
ENGINE_VERSION = 4


class Phase(IntEnum):
    """What a worker's time is spent on; the spans of a worker tile its lifetime exactly."""

    COMPUTE = 0
    READ = 1  # parameters on their way to the worker, at the speed of an idle route
    WRITE = 2  # gradients or copies on their way from the worker, at the speed of an idle route
    QUEUE = 3  # what a transfer took beyond that: waiting for, or sharing, a link or server port
    BARRIER = 4  # waiting for other replicas
    TOKEN = 5  # waiting for a token of the synchronous token queue
    LOCK = 6  # waiting for a lock on the server
    DOWN = 7  # not running


class Outcome(IntEnum):
    """What became of a gradient."""

    APPLIED = 0
    DROPPED = 1  # stale for every variable, or given up by the strategy
    PARTLY = 2  # applied to some variables, dropped or lost for others
    PENDING = 3  # not yet applied when the run ended
    LOST = 4  # its worker ended before it had been sent, or locked; applied to no variable


class Span(NamedTuple):
    """One worker did one thing from `start` to `end` (integer ns)."""

    worker: int
    phase: int  # a Phase
    start: int
    end: int
    iteration: int  # the worker's own count, from 0


class GradientRow(NamedTuple):
    """One gradient from the read of its parameters to its end; times in integer ns, -1 = never."""

    worker: int
    iteration: int
    read: int  # the parameters were read
    read_step: int  # global_step at that moment
    compute_start: int
    computed: int
    arrived: int  # the last part of it reached its variable
    applied: int  # the last part of it was applied, dropped or lost
    applied_step: int  # global_step just before that, -1 = never, also if it was lost
    outcome: int
    parts_applied: int  # number of variables it was applied to, of Trace.variables


class EvaluationRow(NamedTuple):
    """The model as an outsider sees it at one moment."""

    time: int
    global_step: int
    examples: int  # examples applied so far
    loss: float
    accuracy: float  # nan where the problem has none
    divergence: float  # largest distance between two copies; 0 where there is one
    off_grid: bool = False  # measured besides, as the first at or below a loss that is waited for


class Standstill(NamedTuple):
    """Deadlock: nothing could happen any more in a run, before its stop rule held."""

    time: int  # ns
    report: str  # who waits for what since then, why, and what would free it; several lines


class LinkRow(NamedTuple):
    """What one link carried."""

    name: str
    bandwidth: float  # bytes/s
    moved: float  # bytes


# A span is recorded as two integers, its end and iteration << PHASE_BITS | phase: it starts where
# the worker's previous one ended.
PHASE_BITS = 3


_GRADIENTS = -1  # beside the workers' ranks


class _Forgetful(list[int]):
    """Spans that are not kept."""

    def __iadd__(self, _: object) -> "_Forgetful":  # type: ignore[override,misc]
        return self


# Python integers take 40 bytes each: when a run has written so many, they are packed.
_MANY = 50_000


class Recorder:
    """Rows while running: flat lists, appended to and never read before the end."""

    def __init__(self, *, spans: bool = True) -> None:
        self.gradients: list[int] = []  # GradientRow fields, one row after the other
        self.evaluations: list[EvaluationRow] = []
        self.steps: list[int] = []  # when global_step rose to 1, 2, 3, ...
        self.copy_staleness: list[int] = []  # of each copy when its replica reads it, in updates
        self._keep = spans
        self._spans: dict[int, list[int]] = {}
        self._packed: dict[int, list[NDArray[np.int64]]] = {_GRADIENTS: []}  # by worker

    def worker_spans(self, worker: int) -> list[int]:
        """The list that a worker's spans go to, as explained at PHASE_BITS."""
        self._spans[worker] = [] if self._keep else _Forgetful()
        self._packed[worker] = []
        return self._spans[worker]

    def pack(self) -> None:
        """Make room, if much has been written."""
        if len(self.gradients) < _MANY:
            return
        for whose, written in ((_GRADIENTS, self.gradients), *self._spans.items()):
            self._packed[whose].append(np.array(written, dtype=np.int64))
            written.clear()

    def take_back(self, worker: int, time: int) -> None:
        """Forget what a worker's spans say of the time after `time` (ns): it ended before."""
        written, packed = self._spans[worker], self._packed[worker]
        cut: list[int] = []
        while True:
            while packed and not written:
                written += packed.pop().tolist()
            if not written or written[-2] <= time:
                break
            cut = [time, written[-1]]
            del written[-2:]
        if (written[-2] if written else 0) < time:
            written += cut

    def gradient_rows(self) -> NDArray[np.int64]:
        """All rows of gradients (n, fields of GradientRow)."""
        return self._all(_GRADIENTS, self.gradients).reshape(-1, len(GradientRow._fields))

    def spans(self, end: int) -> NDArray[np.int64]:
        """All spans (n, fields of Span) up to `end`, worker by worker; they tile its lifetime."""
        if not self._keep:
            return np.empty((0, len(Span._fields)), dtype=np.int64)
        parts = [
            _decoded(worker, self._all(worker, written).reshape(-1, 2), end)
            for worker, written in self._spans.items()
        ]
        return np.concatenate(parts)

    def _all(self, whose: int, written: list[int]) -> NDArray[np.int64]:
        return np.concatenate([*self._packed[whose], np.array(written, dtype=np.int64)])


def _decoded(worker: int, recorded: NDArray[np.int64], end: int) -> NDArray[np.int64]:
    ends = np.minimum(recorded[:, 0], end)
    starts = np.concatenate(([0], ends[:-1]))
    assert (starts <= ends).all(), f"the time of worker {worker} runs backwards"
    assert ends[-1] == end, f"the time of worker {worker} is not recorded to the end"
    code = recorded[:, 1]
    columns = (
        np.full(len(ends), worker),
        code & (1 << PHASE_BITS) - 1,
        starts,
        ends,
        code >> PHASE_BITS,
    )
    rows = np.stack(columns, axis=1)
    filled: NDArray[np.int64] = rows[starts < ends]
    return filled


@dataclass(frozen=True, slots=True)
class Trace:
    """One finished run of one strategy in one replication: plain arrays, picklable.

    Columns of `spans` and `gradients` are the fields of Span and GradientRow, all integers.
    """

    strategy: str
    replication: int
    workers: int  # that took part (1 for `single`)
    variables: int
    batch_size: int
    end: int  # ns of simulated time
    stopped_by: str  # which stop rule ended it; or "deadlock", or "chief" where that ended all
    global_step: int
    spans: NDArray[np.int64]  # (n, len(Span._fields)), by worker and time
    gradients: NDArray[np.int64]  # (n, len(GradientRow._fields)), in order of their end
    evaluations: list[EvaluationRow]
    steps: NDArray[np.int64]  # (global_step,)
    copy_staleness: NDArray[np.int64]
    links: list[LinkRow]
    heap_events: int
    gradients_evaluated: int
    gradients_aggregated: int
    standstill: Standstill | None = None  # of a run that was stopped by "deadlock"
    # Bytes from machine to machine, each counted once; nan where an old file does not say.
    sent: float = math.nan
    # Where gradients are sent while others are computed, of all workers together (ns): the time in
    # which some were on their way, and the part of it in which the worker computed. Else 0.
    sending: int = 0
    hidden: int = 0
