"""Last round of a run whose workers have copies of their own, event by event; see `closing`."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

import numpy as np

from varsim.cluster.clock import END_OF_TIME, Clock
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.flat.arrays import Limits, Workers
from varsim.cluster.flat.broadcasts import PHASES, Broadcasts
from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.reducing import Reading
from varsim.cluster.flat.reductions import Reductions
from varsim.cluster.trace import Outcome

_URGENT, _NORMAL, _LAST = 0, 1, 3
# Kinds of events: a rank begins, has computed, has updated its copy; all have met; a rank's part in
# the reduction has ended, and the overhead of that; the time is up.
BEGINS, COMPUTED, UPDATED, MET, ENDED, OVER, TIME_IS_UP = range(7)
_APPLIED, _PENDING = int(Outcome.APPLIED), int(Outcome.PENDING)
# A gradient: its rank, which of its own it is, when it was begun and is computed (ns).
_Gradient = tuple[int, int, int, int]


class Meeting(NamedTuple):
    """Moment (ns) at which the last of all ranks is there; `arrivals`: the ranks, in that order."""

    step: int
    now: int
    arrivals: list[int]
    numbers: int


class LastRound:
    """Rest of a run, from a meeting, or from the start; see LocalRun.

    `row`: when the spans of every rank end (places in a round, ranks), END_OF_TIME of what has not.
    `rows` of gradients, `staleness` of copies as they are read, `evaluations`: when, at which step
    and after how many gradients.
    """

    def __init__(
        self,
        workers: Workers,
        reading: Reading,
        reductions: Reductions | None,
        broadcasts: Broadcasts | None,
        limits: Limits,
        gradients: int,
        stack: int,
        variables: int,
        meeting: Meeting | None,
    ) -> None:
        self._workers, self._reading, self._reductions = workers, reading, reductions
        self._broadcasts = broadcasts
        self._limits, self._gradients, self._stack = limits, gradients, stack
        self._variables, number = variables, workers.number
        self._clock = Clock() if broadcasts is None else broadcasts.clock
        self._clock.time, self._clock.numbers = 0, self._numbers()
        self.numbers = 0
        self.stopped_by = ""
        first = 0 if meeting is None else meeting.step
        self.global_step, self.made = first, first * number
        self.evaluated = self.made
        self._unevaluated: dict[_Gradient, None] = {}
        self._steps, self._first = [first] * number, first
        merged = reading.write_back and not reading.broadcasts
        self._seen = [self.made if merged else first] * number
        self._left: dict[int, int] = {}  # of a step: by how many ranks it is not made
        self.in_flight: dict[_Gradient, None] = {}
        self._latest: list[_Gradient] = [(rank, -1, 0, 0) for rank in range(number)]
        self._after = 1 if reductions is None else 2  # places before the first step's
        if broadcasts is not None:
            self._after = 1 + len(PHASES)
        self._receiving = set[int]()  # who takes part in a broadcast, the first one here
        places = self._after + reading.every * (1 + workers.update)
        self.row: Times = np.full((places, number), END_OF_TIME)
        self.row[: self._after] = workers.down if meeting is None else END_OF_TIME
        self.rows: list[Sequence[int]] = []
        self.staleness: list[int] = []
        self.steps: list[int] = []
        self.evaluations: list[tuple[int, int, int]] = []
        self.entries: list[int | None] = [None] * number
        self._arrivals: list[int] = []
        timed = limits.time is not None
        if limits.time is not None:
            self._push(limits.time, _LAST, -1, TIME_IS_UP, -1)
        if meeting is None:
            self.numbers = number + timed
            self.numbers += limits.time is None or limits.time > END_OF_TIME
            for rank in range(number):
                self._push(0, _URGENT, timed + rank, BEGINS, rank)
            return
        self._clock.time, self.numbers = meeting.now, meeting.numbers
        self.row[0] = meeting.now
        *self._arrivals, last = meeting.arrivals
        self._meet(last)

    def run(self) -> None:
        """Serve events until the run is over."""
        while not self.stopped_by:
            self._clock.time, _, _, happen = heappop(self._clock.heap)
            if self.now > END_OF_TIME:
                raise NotCoveredError("it lasts longer than the clock counts")
            happen()
        if self._broadcasts is not None:
            for rank in self._receiving:
                begun = int(self.row[0, rank])
                self.row[1 : self._after, rank] = self._broadcasts.close(rank, begun, self.now)

    @property
    def now(self) -> int:
        """The time (ns)."""
        return self._clock.time

    def _happen(self, kind: int, rank: int) -> None:
        if kind == COMPUTED and self._workers.update:
            update = int(self._workers.updates[rank])
            end = self._workers.end(rank, self.now, update)
            self.row[self._place(rank) + 1, rank] = end
            self._put(end, UPDATED, rank)
        elif kind in (COMPUTED, UPDATED):
            self._apply(rank)
        elif kind == BEGINS:
            self._begin(rank, self._workers.down)
        elif kind == MET:
            arrivals, self._arrivals = self._arrivals, []
            for other in arrivals:
                self._read(other)
        elif kind == ENDED and self._reductions is not None and self._reductions.overheads[0]:
            self._put(self.now + self._reductions.overheads[0], OVER, rank)
        elif kind in (ENDED, OVER):
            self.row[1, rank] = self.now
            self._is_read(rank)
        elif not self.stopped_by:
            self.stopped_by = "time"

    def _numbers(self) -> Iterator[int]:
        """The number of every event that is put on the heap."""
        while True:
            number, self.numbers = self.numbers, self.numbers + 1
            if number == self._limits.numbers:
                self.stopped_by = self.stopped_by or "events"
            yield number

    def _put(self, time: int, kind: int, rank: int) -> None:
        self._push(time, _NORMAL, next(self._clock.numbers), kind, rank)

    def _push(self, time: int, priority: int, number: int, kind: int, rank: int) -> None:
        happen: Callable[[], object] = partial(self._happen, kind, rank)
        heappush(self._clock.heap, (time, priority, number, happen))

    def _place(self, rank: int) -> int:
        """Where in a row it is written when a rank has computed its present step."""
        step = self._steps[rank] - self._first
        return self._after + step * (1 + self._workers.update)

    def _begin(self, rank: int, start: int) -> None:
        self.staleness.append(self.made - self._seen[rank])
        step = self._steps[rank]
        work = int(self._workers.work(step)[rank])
        end = self._workers.end(rank, start, work) if rank in self._workers.slow else start + work
        gradient = self._latest[rank] = (rank, step, start, end)
        self.in_flight[gradient] = self._unevaluated[gradient] = None
        place = self._place(rank)
        if place < len(self.row):  # else the run is over
            self.row[place, rank] = end
        self._put(end, COMPUTED, rank)

    def _apply(self, rank: int) -> None:
        gradient, now = self._latest[rank], self.now
        if gradient in self._unevaluated:
            del self._unevaluated[gradient]
            others = list(islice(self._unevaluated, self._stack - 1))
            for other in others:
                del self._unevaluated[other]
            self.evaluated += 1 + len(others)
        _, step, start, end = gradient
        ended = (now, now, step, _APPLIED, self._variables)
        self.rows.append((rank, step, start, step, start, end, *ended))
        del self.in_flight[gradient]
        self._seen[rank] += 1
        self.made += 1
        self._steps[rank] += 1
        left = self._left[step] = self._left.get(step, self._workers.number) - 1
        if not left:
            self._count_step()
        if self._steps[rank] % self._reading.every:
            self._begin(rank, now)
        elif len(self._arrivals) + 1 < self._workers.number:
            self._arrivals.append(rank)
        else:
            self._meet(rank)

    def _count_step(self) -> None:
        self.global_step += 1
        self.steps.append(self.now)
        if self.global_step >= self._limits.steps:
            self.stopped_by = self.stopped_by or self._limits.by
        elif self.made >= self._gradients:
            self.stopped_by = self.stopped_by or "examples"

    def _meet(self, last: int) -> None:
        """The last is there; the others go on after it."""
        self._put(self.now, MET, -1)
        self._read(last)

    def _read(self, rank: int) -> None:
        """A rank is read, now that all have met."""
        if self._broadcasts is not None:
            if self._steps[rank] == self._first:
                self._receiving.add(rank)
            self._broadcasts.take_part(rank, self._is_read)
            return
        if self._reductions is None:
            self._is_read(rank)
            return
        self.entries[rank] = self.now
        entries = [entry for entry in self.entries if entry is not None]
        if len(entries) == len(self.entries):
            ends = self._reductions.ends(0, np.array(entries, dtype=np.int64), self.now, 0)
            self.entries = [None] * len(entries)
            for other, end in enumerate(ends.tolist()):
                self._put(end, ENDED, other)

    def _is_read(self, rank: int) -> None:
        if self._broadcasts is not None:
            begun = int(self.row[0, rank])
            self.row[1 : self._after, rank] = self._broadcasts.ends(rank, begun)
            self._receiving.remove(rank)
        if rank == 0:
            self.evaluations.append((self.now, self.global_step, self.made))
        self._begin(rank, self.now)

    def pending(self) -> list[Sequence[int]]:
        """Rows of gradients that were computed, but not applied."""
        never = (-1, -1, -1, _PENDING, 0)
        return [
            (rank, step, start, step, start, end, *never)
            for rank, step, start, end in self.in_flight
            if end <= self.now
        ]
