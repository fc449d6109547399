"""End of a run whose workers reduce gradients, event by event: who is served before it is over.

Between two moments at which all have entered a reduction workers do not meet, and when each does
what follows from arrays (`mirrored`). But which of the events of one moment still happen, and in
which order gradients were begun, says only their order on the heap.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.flat.arrays import Limits, Workers
from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.reductions import Reductions
from varsim.cluster.slowdown import Slowed
from varsim.cluster.trace import Phase, Span

_URGENT, _NORMAL, _LAST = 0, 1, 3
# Kinds of events, each for a rank: it begins, its micro-batch is computed, its part in a reduction
# has ended, and the overhead of that; its copy is updated. Its stream starts, a bucket is ready,
# its stream is done, and has ended; it has computed what is reduced meanwhile. And no rank's:
BEGINS, COMPUTED, ENDED, OVER, UPDATED = range(5)
STARTS, READY, DONE, GONE, CAUGHT_UP = range(5, 10)
TIME_IS_UP = 10


class Gathered(NamedTuple):
    """Moment (ns) at which all have entered the first reduction of a step.

    `computed`: when each rank has computed each micro-batch (micro-batches, ranks); `moments`: when
    each bucket of each is ready, where that is meanwhile; `order` of the ranks that then still
    compute; `numbers`: of events before.
    """

    step: int
    now: int
    computed: Times
    entries: Times
    moments: list[Times]
    order: Times
    numbers: int
    state: tuple[Recurrence, Slowed]


class Closing:
    """End of a run, from a moment at which all had gathered, or from the start.

    `rows`: of each step when the spans of every rank end (places in a step, ranks), END_OF_TIME of
    what has not; `read`: when each rank began it; `begun`: of each gradient that no update took
    its rank, step and micro-batch, in order, and when it was begun.
    """

    def __init__(
        self,
        workers: Workers,
        micro_batches: int,
        reductions: Reductions,
        limits: Limits,
        gathered: Gathered | None,
    ) -> None:
        self._workers, self._reductions, self._limits = workers, reductions, limits
        self._number, number = micro_batches, workers.number
        self._ranks = range(number)
        self._places = micro_batches + 2 * reductions.number + workers.update
        self._overlaps = bool(reductions.shares)
        self.now, self.numbers = 0, 0
        self.stopped_by = ""
        self.first = self.global_step = 0 if gathered is None else gathered.step
        self.rows: dict[int, Times] = {}
        self.read: dict[int, Times] = {}
        self.begun: dict[tuple[int, int, int], int] = {}
        self.steps: list[int] = []  # when global_step rose
        self.sending = self.hidden = 0
        self.sends: list[Span] = []  # see Trace
        self.most_computed = 0  # when all that compute will have (ns)
        self.entries: list[int | None] = [None] * number
        self.bucket = 0  # of the reduction that not all have entered
        self._come = 0
        self._moved_at = 0  # ns; when all had entered the latest
        self._step = [self.first - 1] * number
        self._micro_batch = [0] * number
        self._at = [0] * number  # bucket
        self._applied: dict[int, int] = {}
        self._computed = [0] * number
        self._moments: list[list[int]] = [[] for _ in self._ranks]
        self._waits = [False] * number
        self._done = [False] * number  # its stream
        self._heap: list[tuple[int, int, int, int, int]] = []
        if limits.time is not None:
            self._heap.append((limits.time, _LAST, -1, TIME_IS_UP, -1))
        if gathered is None:
            self.numbers = (limits.time is not None) + number
            self.numbers += limits.time is None or limits.time > END_OF_TIME
            first = int(limits.time is not None)
            for rank in self._ranks:
                heappush(self._heap, (0, _URGENT, first + rank, BEGINS, rank))
        else:
            self._go_on_from(gathered)

    @property
    def evaluated(self) -> int:
        """Steps of which anybody has applied the mean."""
        return self.global_step + bool(self._applied)

    def run(self) -> None:
        """Serve events until the run is over."""
        heap = self._heap
        while not self.stopped_by:
            self.now, _, _, kind, rank = heappop(heap)
            if self.now > END_OF_TIME:
                raise NotCoveredError("it lasts longer than the clock counts")
            self._happen(kind, rank)

    def _go_on_from(self, gathered: Gathered) -> None:
        self.now, self.numbers = gathered.now, gathered.numbers
        self._step = [gathered.step] * len(self._step)
        self.rows[gathered.step] = rows = np.full((self._places, len(self._step)), END_OF_TIME)
        rows[: len(gathered.computed)] = gathered.computed
        self._computed = gathered.computed[-1].tolist()
        self.most_computed = max(self._computed)
        self._micro_batch = [self._number] * len(self._step)
        if self._overlaps:
            self._moments = np.stack(gathered.moments, axis=1).tolist()
            self._waits = [end <= self.now for end in self._computed]
            for place, rank in enumerate(gathered.order.tolist()):
                if not self._waits[rank]:
                    event = (self._computed[rank], _NORMAL, place - len(self._ranks), CAUGHT_UP)
                    heappush(self._heap, (*event, rank))
        self.entries = list(gathered.entries.tolist())
        self._move()

    def _put(self, time: int, kind: int, rank: int, priority: int = _NORMAL) -> None:
        number, self.numbers = self.numbers, self.numbers + 1
        if number == self._limits.numbers:
            self._stop("events")
        heappush(self._heap, (time, priority, number, kind, rank))

    def _stop(self, reason: str) -> None:
        self.stopped_by = self.stopped_by or reason

    def _happen(self, kind: int, rank: int) -> None:
        if kind == BEGINS:
            self._begin(rank, self._workers.down)
        elif kind == COMPUTED:
            if self._micro_batch[rank] < self._number:
                self._compute(rank, self.now)
            else:
                self._enter(rank)
        elif kind == ENDED:
            overhead = self._reductions.overheads[self._at[rank]]
            if overhead:
                self._put(self.now + overhead, OVER, rank)
            else:
                self._is_reduced(rank)
        elif kind == OVER:
            self._is_reduced(rank)
        elif kind == UPDATED:
            self._apply(rank)
        elif kind == STARTS:
            self._await(rank)
        elif kind == READY:
            self._enter(rank)
        elif kind == DONE:
            self._done[rank] = True
            if self._waits[rank]:
                self._finish(rank)
        elif kind == CAUGHT_UP:
            self._catch_up(rank)
        elif kind == TIME_IS_UP:
            self._stop("time")

    def _begin(self, rank: int, start: int) -> None:
        """A worker begins with a step."""
        step = self._step[rank] = self._step[rank] + 1
        if step not in self.rows:
            self.rows[step] = np.full((self._places, len(self._step)), END_OF_TIME)
            self.read[step] = np.full(len(self._step), END_OF_TIME)
        self.read[step][rank] = start
        self._micro_batch[rank] = 0
        self._compute(rank, start)

    def _compute(self, rank: int, start: int) -> None:
        step, micro_batch = self._step[rank], self._micro_batch[rank]
        work = int(self._workers.work(step * self._number + micro_batch)[rank])
        last = micro_batch + 1 == self._number
        if rank in self._workers.slow or (self._overlaps and last):
            end = self._workers.end(rank, start, work)
        else:
            end = start + work
        self.begun[rank, step, micro_batch] = start
        self.rows[step][micro_batch, rank] = end
        self._micro_batch[rank] = micro_batch + 1
        if not (self._overlaps and last):
            self._put(end, COMPUTED, rank)
            return
        self._moments[rank] = [
            min(end, self._workers.end(rank, start, round(work * share)))
            for share in self._reductions.shares
        ]
        self._computed[rank], self._waits[rank], self._done[rank] = end, False, False
        self.most_computed = max(self.most_computed, end)
        self._at[rank] = 0
        self._put(self.now, STARTS, rank, _URGENT)
        if end > self.now:
            self._put(end, CAUGHT_UP, rank)
        else:
            self._catch_up(rank)

    def _catch_up(self, rank: int) -> None:
        if self._done[rank]:
            self._finish(rank)
        else:
            self._waits[rank] = True

    def _await(self, rank: int) -> None:
        """A stream waits until its next bucket is ready."""
        moment = self._moments[rank][self._at[rank]]
        if moment > self.now:
            self._put(moment, READY, rank)
        else:
            self._enter(rank)

    def _enter(self, rank: int) -> None:
        self.entries[rank] = self.now
        self._come += 1
        if self._come == len(self.entries):
            self._move()

    def _move(self) -> None:
        """All have entered."""
        entries = np.array(self.entries, dtype=np.int64)
        ends = self._reductions.ends(self.bucket, entries, self.now, self.most_computed)
        self.entries = [None] * len(self.entries)
        self._come, self._moved_at = 0, self.now
        for rank, end in enumerate(ends.tolist()):
            self._at[rank] = self.bucket
            self._note(rank, 0)
            if not self._reductions.idle:
                self._put(end, ENDED, rank)
        self.bucket = (self.bucket + 1) % self._reductions.number
        if self._reductions.idle:
            self._is_reduced(0)

    def _note(self, rank: int, after: int) -> None:
        """Note when a reduction began, or ended, as far as its worker sees it."""
        place = self._number + 2 * self._at[rank] + after
        seen = max(self.now, self._computed[rank]) if self._overlaps else self.now
        self.rows[self._step[rank]][place, rank] = seen

    def _is_reduced(self, rank: int) -> None:
        """A bucket is."""
        self._note(rank, 1)
        if self._overlaps:
            begun, computed = self._moved_at, self._computed[rank]
            iteration = (self._step[rank] + 1) * self._number - 1
            self.sends.append(Span(rank, Phase.WRITE, begun, self.now, iteration))
            self.sending += self.now - begun
            self.hidden += max(0, min(self.now, computed) - begun)
        self._at[rank] += 1
        if self._at[rank] == self._reductions.number:
            if self._overlaps:
                self._put(self.now, DONE, rank)
                self._put(self.now, GONE, rank)
            else:
                self._at[rank] = 0
                self._finish(rank)
        elif self._overlaps:
            self._await(rank)
        else:
            self._enter(rank)

    def _finish(self, rank: int) -> None:
        """All is reduced: its copy is updated."""
        update = int(self._workers.updates[rank])
        if not update:
            self._apply(rank)
            return
        end = self._workers.end(rank, self.now, update)
        self.rows[self._step[rank]][-1, rank] = end
        self._put(end, UPDATED, rank)

    def _apply(self, rank: int) -> None:
        step, number = self._step[rank], len(self._step)
        self._applied[step] = self._applied.get(step, 0) + 1
        if self._applied[step] == number:
            del self._applied[step]
            for key in [key for key in self.begun if key[1] == step]:
                del self.begun[key]
            self.global_step += 1
            self.steps.append(self.now)
            if self.global_step >= self._limits.steps:
                self._stop(self._limits.by)
        self._begin(rank, self.now)
