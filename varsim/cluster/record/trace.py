"""Trace of a run: spans of time, gradients, evaluations; flat rows while it runs."""

import math
from array import array
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.rows import Rows


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


IN_VAIN: Final = (Outcome.DROPPED, Outcome.LOST)


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


class HandOver(NamedTuple):
    """Tokens, or a copy of the model, that changed hands; -1 = no worker, no step."""

    time: int  # ns
    source: int  # worker whose copy it is; -1 of tokens
    target: int  # worker that got it; -1 of tokens that are put into the queue
    step: int  # that the tokens carry; -1 of a copy
    copies: int  # tokens; 1 of a copy


class EvaluationRow(NamedTuple):
    """The model as an outsider sees it at one moment."""

    time: int
    global_step: int  # updates that it is made of
    examples: int  # in them
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


class Attempt(NamedTuple):
    """Attempt in the life of a job, from a start to the next one; times in ns of the whole job.

    All but `start` sum to its length: what of it was kept, then the time down that follows.
    """

    start: int = 0
    productive: int = 0  # work that was kept, with its communication and waiting
    checkpoint: int = 0  # what checkpoints cost that were completed
    lost: int = 0  # work, and checkpoints, thrown away by the failure
    detection: int = 0
    repair: int = 0  # waiting for a spare, or for the repair of a host
    restart: int = 0
    steps: int = 0  # kept
    steps_lost: int = 0  # ended, and made again
    checkpoints: int = 0  # completed
    failures: int = 0  # at its end, and in the time down
    spares: int = 0  # that took over

    @property
    def down(self) -> int:
        """Time down at its end (ns)."""
        return self.detection + self.repair + self.restart


# A column after those: of jobs that go on with fewer hosts than they have, how many took part;
# of failures that strike inside a run, the worker whose attempt it is.
HOSTS = WORKER = len(Attempt._fields)


# A span is recorded as two integers, its end and a code of worker, iteration and phase: it starts
# where the worker's previous one ended.
PHASE_BITS, RANK_BITS = 3, 40  # of iteration and rank: how far to the left they stand in a code
# Besides, of a code: one span with the worker's previous one, if that has the same code; and no
# span at all, but all that was recorded of the worker's time after this `end` is not to happen.
_FLAG_BITS = 61
GOES_ON, TAKEN_BACK = 1 << _FLAG_BITS, 2 << _FLAG_BITS


def code_of(worker: int, iteration: int) -> int:
    """The code of a span, to which its phase is added; iterations count from -1."""
    return (worker << RANK_BITS) + (iteration + 1 << PHASE_BITS)


class _Forgetful(list[int]):
    """Spans that are not kept."""

    def __iadd__(self, _: object) -> "_Forgetful":  # type: ignore[override,misc]
        return self


# Python integers take 40 bytes each: so many are packed, before they take the room of all else in
# the processor's cache.
_MANY = 8_000


class RunRecorder:
    """Rows while running: flat lists, appended to and never read before the end.

    `spans`, of all workers, are pairs as explained at PHASE_BITS; `gradients` the fields of
    GradientRow, one row after the other, and `sends`, for pictures, those of Span; `hand_overs`
    those of HandOver, where spans are kept.
    """

    def __init__(self, *, spans: bool = True, sends: bool = True) -> None:
        self.spans: list[int] = [] if spans else _Forgetful()
        self.sends: list[int] = [] if spans and sends else _Forgetful()
        self.gradients: list[int] = []
        self.evaluations: list[EvaluationRow] = []
        self.steps = array("q")  # when global_step rose to 1, 2, 3, ...
        self.copy_staleness = array("q")  # of each copy when its replica reads it, in updates
        self.hand_overs = array("q")
        self._keep = spans
        self._packed_spans = Rows(len(_Code._fields))
        self._packed_gradients = Rows(len(GradientRow._fields))
        self._packed_sends = Rows(len(Span._fields))

    @property
    def gradients_written(self) -> int:
        """Rows of gradients so far."""
        return len(self._packed_gradients) + len(self.gradients) // len(GradientRow._fields)

    def pack(self) -> None:
        """Make room, if much has been written."""
        if len(self.gradients) >= _MANY:
            self._pack_gradients()
        if len(self.spans) >= _MANY:
            self._pack_spans()

    def take_back(self, worker: int, time: int) -> None:
        """Forget what a worker's spans say of the time after `time` (ns): it ended before."""
        self.spans += (time, code_of(worker, 0) + TAKEN_BACK)

    def handed_over(self, *row: int) -> None:
        """Tokens or a copy of the model changed hands: the fields of HandOver."""
        if self._keep:
            self.hand_overs.extend(row)

    def hand_over_rows(self) -> NDArray[np.int64]:
        """All that changed hands, (n, len(HandOver._fields))."""
        return np.array(self.hand_overs, dtype=np.int64).reshape(-1, len(HandOver._fields))

    def gradient_rows(self) -> Rows:
        """All rows of gradients, with the fields of GradientRow."""
        self._pack_gradients()
        return self._packed_gradients

    def span_rows(self, workers: int, end: int) -> Rows:
        """All spans, with the fields of Span, up to `end`, by worker; they tile its lifetime."""
        found = Rows(len(Span._fields))
        if self._keep:
            self._pack_spans()
            written, self._packed_spans = self._packed_spans, Rows(len(_Code._fields))
            for rows in written.of_each(_Code._fields.index("rank"), workers):
                found.append(_decoded(rows, end))
        return found

    def sent(self, span: Span) -> None:
        """Something was sent beside computation."""
        self.sends += span
        if len(self.sends) >= _MANY:
            self._pack_sends()

    def send_rows(self, workers: int) -> Rows:
        """All that was sent beside computation, with the fields of Span, by worker."""
        self._pack_sends()
        return self._packed_sends.by(Span._fields.index("worker"), workers)

    def _pack_sends(self) -> None:
        rows = _taken(self.sends, len(Span._fields))
        # What is broken off moves nothing.
        moved = np.isin(rows[:, 1], (Phase.READ, Phase.WRITE)) & (rows[:, 2] < rows[:, 3])
        self._packed_sends.append(rows[moved])

    def _pack_gradients(self) -> None:
        self._packed_gradients.append(_taken(self.gradients, len(GradientRow._fields)))

    def _pack_spans(self) -> None:
        ends, codes = _taken(self.spans, 2).T
        flags, ranks = codes >> _FLAG_BITS, codes >> RANK_BITS & (1 << _FLAG_BITS - RANK_BITS) - 1
        numbers = codes & (1 << RANK_BITS) - 1
        self._packed_spans.append(np.stack([ends, ranks, numbers, flags], axis=1))


def _taken(integers: list[int], columns: int) -> NDArray[np.int64]:
    """What is in a list, (n, columns); nothing is left."""
    rows = np.array(integers, dtype=np.int64).reshape(-1, columns)
    integers.clear()
    return rows


class _Code(NamedTuple):
    """A span as it was recorded, in columns."""

    end: int
    rank: int
    number: int  # the code without rank and flags
    flags: int


def _decoded(rows: NDArray[np.int64], end: int) -> NDArray[np.int64]:
    ends, ranks, numbers, flags = rows.T
    taken_back = flags == TAKEN_BACK >> _FLAG_BITS
    again = ends[1:] < ends[:-1]
    bad = again & (ranks[1:] == ranks[:-1]) & ~taken_back[1:]
    assert not bad.any(), f"the time of worker {ranks[1:][bad][0]} runs backwards"
    if taken_back.any():
        # What was to come ends when it was taken back, or took no time at all.
        for rank in np.unique(ranks[taken_back]):
            own = slice(*np.searchsorted(ranks, [rank, rank + 1]))
            ends[own] = np.minimum.accumulate(ends[own][::-1])[::-1]
        ends, ranks, numbers, flags = rows[~taken_back].T
    goes_on = flags == GOES_ON >> _FLAG_BITS
    if goes_on.any():
        same = (numbers[1:] == numbers[:-1]) & (ranks[1:] == ranks[:-1])
        kept = np.append(~(goes_on[1:] & same), True)
        ends, ranks, numbers = ends[kept], ranks[kept], numbers[kept]
    ends = np.minimum(ends, end)
    first = np.append(True, ranks[1:] != ranks[:-1])
    starts = np.where(first, 0, np.append(0, ends[:-1]))
    short = (ends != end) & np.append(first[1:], True)
    assert not short.any(), f"the time of worker {ranks[short][0]} is not recorded to the end"
    phases, iterations = numbers & (1 << PHASE_BITS) - 1, (numbers >> PHASE_BITS) - 1
    filled = starts < ends
    found: NDArray[np.int64] = np.stack([ranks, phases, starts, ends, iterations], axis=1)[filled]
    return found


@dataclass(frozen=True, slots=True)
class Trace:
    """One finished run of one strategy in one replication: plain arrays, picklable.

    Columns of `span_rows`, `spans` are the fields of Span, of `gradient_rows`, `gradients` those of
    GradientRow, all integers.
    """

    strategy: str
    replication: int
    workers: int  # that took part (1 for `single`)
    variables: int
    batch_size: int
    end: int  # ns of simulated time
    stopped_by: str  # which stop rule ended it; or "deadlock", or "chief" where that ended all
    global_step: int  # updates that the model is made of in the end
    span_rows: Rows  # by worker and time
    gradient_rows: Rows  # in order of their end
    evaluations: list[EvaluationRow]
    steps: NDArray[np.int64]  # when each update was made
    copy_staleness: NDArray[np.int64]
    links: list[LinkRow]
    gradients_aggregated: int
    # Of a run that SimPy made: events put on its heap, and gradients worked out.
    heap_events: int = 0
    gradients_evaluated: int = 0
    standstill: Standstill | None = None  # of a run that was stopped by "deadlock"
    # Bytes from machine to machine, each counted once; nan where an old file does not say.
    sent: float = math.nan
    # Where gradients are sent while others are computed, of all workers together (ns): the time in
    # which some were on their way, and the part of it in which the worker computed. Else 0.
    sending: int = 0
    hidden: int = 0
    # Of a scenario with random failures the life of the job: an Attempt in a row.
    life: NDArray[np.int64] | None = None
    # Where servers went back to what was saved: after how many updates they had been saved, and
    # were lost, and how many rows of gradients had been written by then (n, 4). What lies between
    # is undone.
    rolled_back: NDArray[np.int64] | None = None
    # Rows of gradients whose worker's copy was updated with them, and died before others had met
    # it, or went back: nothing is left of them.
    in_vain: NDArray[np.int64] | None = None
    # Whether nobody has the model any more, whose copies died with their workers, or the one copy
    # that is read: then there is nothing to measure in the end.
    model_lost: bool = False
    # Of a first replication in which anything was sent beside computation: what was, with the
    # fields of Span, by worker and time: a READ or a WRITE, until it was there, in the `iteration`
    # in which it began.
    send_rows: Rows = field(default_factory=lambda: Rows(len(Span._fields)))
    # Of a program of variables: when these were there (ns), and step 1 began; and the bytes and
    # messages that were sent over the network from then on.
    began: int = 0
    moved: int = 0
    messages: int = 0
    # Tokens and copies of the model that changed hands, with the fields of HandOver, by time; of
    # runs whose spans are recorded. None where that is not known: with `--engine fast`, in files.
    hand_overs: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        made = f"{self.global_step:,} updates in {self.end / 1e9:g} s, {len(self.gradient_rows):,}"
        return f"<Trace of {self.strategy}, replication {self.replication}: {made} gradients>"

    @property
    def undone(self) -> bool:
        """Whether anything that was done is not in the model any more."""
        return self.rolled_back is not None or self.in_vain is not None

    @property
    def kept_steps(self) -> NDArray[np.bool_]:
        """Which updates the model is made of in the end."""
        return self._kept(len(self.steps), 0)

    @property
    def kept_gradients(self) -> NDArray[np.bool_]:
        """Which rows of gradients have not been undone, nor lost with a copy."""
        kept = self._kept(len(self.gradient_rows), 2)
        if self.in_vain is not None:
            kept[self.in_vain] = False
        return kept

    @property
    def kept_evaluations(self) -> list[EvaluationRow]:
        """Those of a model that was not rolled back later: after ever more updates."""
        if self.rolled_back is None:
            return self.evaluations
        kept = list[EvaluationRow]()
        for row in reversed(self.evaluations):
            if not kept or row.global_step <= kept[-1].global_step:
                kept.append(row)
        return kept[::-1]

    def _kept(self, number: int, column: int) -> NDArray[np.bool_]:
        kept = np.ones(number, dtype=bool)
        if self.rolled_back is not None:
            for since, until in self.rolled_back[:, column : column + 2].tolist():
                kept[since:until] = False
        return kept

    @property
    def spans(self) -> NDArray[np.int64]:
        """All spans at once (n, len(Span._fields))."""
        return self.span_rows.array()

    @property
    def gradients(self) -> NDArray[np.int64]:
        """All rows of gradients at once (n, len(GradientRow._fields))."""
        return self.gradient_rows.array()
