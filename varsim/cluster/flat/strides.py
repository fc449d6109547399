"""Steps of workers that all-reduce their gradients, all workers at once."""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.flat.arrays import Limits, Workers
from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.choice import NEVER
from varsim.cluster.flat.closing import Gathered
from varsim.cluster.flat.reductions import Reductions

# What is under way when a run is over was begun when the step before it was: two are made again.
_KEPT: Final = 3


class Strides:
    """Steps from the start of a run until it is over, but for the last ones.

    `keep(row, moved)` is called for each: when the spans of each rank end (places in a step, ranks)
    and, where buckets are reduced meanwhile, when each of them is (buckets, from and to, ranks).
    `sending`, `hidden`: see Trace.
    """

    def __init__(
        self,
        workers: Workers,
        micro_batches: int,
        reductions: Reductions,
        limits: Limits,
        keep: Callable[[Times, Times], None],
    ) -> None:
        self._workers, self._reductions, self._limits = workers, reductions, limits
        self._keep = keep
        self._overlaps, self._number = bool(reductions.shares), micro_batches
        self._places = self._number + 2 * reductions.number + workers.update
        self._ranks = np.arange(workers.number)
        self._turns = self._ranks  # of each rank among those that began the step
        self._moments: list[Times] = []
        self._numbers = workers.number  # of events
        self._numbers += 1 + (limits.time is not None and limits.time > END_OF_TIME)
        self.sending = self.hidden = 0

    def run(self) -> Gathered | None:
        """Take them all; from where the run is to be closed, None: from its start."""
        limits, number = self._limits, len(self._ranks)
        bounded = limits.time is not None or limits.numbers < NEVER
        latest = END_OF_TIME if limits.time is None else min(limits.time, END_OF_TIME)
        begun = np.full(number, self._workers.down)
        clock, before = np.zeros_like(begun), -1
        latest_ones: deque[_Step] = deque()  # steps that may have to be made again
        for step in count():
            row = np.empty((self._places, number), dtype=np.int64)
            entries = self._compute(step, begun, clock, row)
            now = int(entries.max())
            if not before <= now <= END_OF_TIME and not bounded:
                raise NotCoveredError("it lasts longer than the clock counts")
            last = step + 1 >= limits.steps
            over = last or now > latest or self._numbers + number > limits.numbers
            gathered = self._gathered(step, now, row, entries) if bounded or over else None
            if over and bounded:
                return latest_ones[0].gathered if len(latest_ones) == _KEPT - 1 else None
            if over:
                return gathered
            moved = np.empty((self._overlaps * self._reductions.number, 2, number), dtype=np.int64)
            sending, hidden = self._reduce(row, entries, now, moved)
            begun = clock = row[-1]
            before = now
            if gathered is None:
                self._take(_Step(gathered, row, sending, hidden, moved))
                continue
            latest_ones.append(_Step(gathered, row, sending, hidden, moved))
            if len(latest_ones) == _KEPT:
                self._take(latest_ones.popleft())
        raise AssertionError("steps have come to an end")

    def _take(self, step: "_Step") -> None:
        self.sending += step.sending
        self.hidden += step.hidden
        self._keep(step.row, step.moved)

    def _gathered(self, step: int, now: int, row: Times, entries: Times) -> Gathered:
        return Gathered(
            step,
            now,
            row[: self._number],
            entries,
            self._moments,
            np.argsort(self._turns),
            self._numbers,
            self._reductions.state(),
        )

    def _compute(self, step: int, begun: Times, clock: Times, row: Times) -> Times:
        """All compute a step that each has begun; when they enter the first reduction of it.

        `clock`: what time it was when each began, which may have been set up ahead of it.
        """
        workers, number = self._workers, self._number
        for micro_batch in range(number):
            work = workers.work(step * number + micro_batch)
            if self._overlaps and micro_batch + 1 == number:
                return self._compute_ahead(begun, clock, work, row)
            np.add(begun, work, out=row[micro_batch])
            workers.slow_down(row[micro_batch], begun, work)
            self._numbers += len(work)
            begun = clock = row[micro_batch]
            if self._overlaps:
                self._turns = _turns(self._turns, begun)
        return begun

    def _compute_ahead(self, begun: Times, clock: Times, work: Times, row: Times) -> Times:
        """The same of what is reduced meanwhile; when the first bucket of each is ready."""
        ends = self._ends(begun, work)
        row[self._number - 1] = ends
        self._moments = [
            np.minimum(ends, self._ends(begun, _rounded(work * share)))
            for share in self._reductions.shares
        ]
        first = self._moments[0]
        self._numbers += len(work) + _count(ends > clock)
        self._numbers += _count(first > clock)
        return np.maximum(first, clock)

    def _ends(self, start: Times, work: Times) -> Times:
        """See Workers.end."""
        ends: Times = start + _rounded(work * 1.0)
        self._workers.slow_down(ends, start, work)
        return ends

    def _reduce(self, row: Times, entries: Times, now: int, moved: Times) -> tuple[int, int]:
        """Buckets are reduced, and copies updated; of what is reduced meanwhile, see Trace.

        `now`: when all have entered the first.
        """
        reductions, number = self._reductions, len(entries)
        computed = row[self._number - 1]
        until = 0 if reductions.pace is None else int(computed.max())
        sending = hidden = 0
        place = self._number
        for bucket, overhead in enumerate(reductions.overheads):
            if bucket:
                now = int(entries.max())
            ends = reductions.ends(bucket, entries, now, until)
            self._numbers += number * (not reductions.idle)
            if overhead:
                ends = ends + overhead
                self._numbers += number
            if self._overlaps:
                moved[bucket] = np.broadcast_to(now, ends.shape), ends
                sending += int((ends - now).sum())
                hidden += int(np.maximum(np.minimum(ends, computed) - now, 0).sum())
                np.maximum(computed, now, out=row[place])
                np.maximum(computed, ends, out=row[place + 1])
                if bucket + 1 < reductions.number:
                    moment = self._moments[bucket + 1]
                    self._numbers += _count(moment > ends)
                    entries = np.maximum(moment, ends)
            else:
                row[place], row[place + 1] = now, ends
                entries = ends
            place += 2
        if self._overlaps:
            # Who has computed after that is the first of those that go on at a moment.
            late, self._numbers = computed <= ends, self._numbers + 2 * number
            self._turns = _turns(np.where(late, self._ranks, self._turns), late, row[place - 1])
        if self._workers.update:
            row[place] = self._ends(row[place - 1], self._workers.updates)
            self._numbers += number
            if self._overlaps:
                self._turns = _turns(self._turns, row[place])
        return sending, hidden


class _Step(NamedTuple):
    """Step that is taken; `gathered` where it may be made again."""

    gathered: Gathered | None
    row: Times
    sending: int
    hidden: int
    moved: Times


def _turns(*keys: NDArray[np.generic]) -> Times:
    """The turn of each rank in the order by these keys, the last one first."""
    turns = np.empty(len(keys[0]), dtype=np.int64)
    turns[np.lexsort(keys)] = np.arange(len(turns))
    return turns


def _rounded(times: NDArray[np.floating]) -> Times:
    rounded: Times = np.rint(times).astype(np.int64)
    return rounded


def _count(which: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(which))
