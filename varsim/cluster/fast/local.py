"""Workers with copies of their own, in arrays: they meet after some steps of theirs.

From one meeting to the next no worker waits for another, and who comes before whom follows from
their times: of what happens at one moment first what was begun first, then by rank.
"""

from itertools import count
from typing import Final, NamedTuple

import numpy as np

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.fast import Reading
from varsim.cluster.fast.arrays import TOGETHER, Record, carried, idle_network, of_copies
from varsim.cluster.fast.draws import Workers
from varsim.cluster.fast.start import Look, NotCoveredError, Start
from varsim.cluster.fast.tables import NEVER
from varsim.cluster.record.trace import LinkRow, Phase, Trace

# Events of rounds that are put in order together.
_MANY: Final = 1 << 14


class _LocalRound(NamedTuple):
    """Round of all: its first step, when each begins, in which turn, and each event after that."""

    step: int
    begun: Times
    turns: Times
    chain: Times


class LocalRun:
    """A run of such workers; see `ServedRun`."""

    def __init__(self, start: Start, reading: Reading) -> None:
        self._moves = reading.moves and start.workers > 1
        self._start, self._reading, self._workers = start, reading, Workers(start)
        self._reductions = of_copies(start) if self._moves else None
        each = [Phase.COMPUTE] * (1 + self._workers.update)
        phases = [Phase.BARRIER, *([Phase.WRITE] * self._moves), *(each * reading.every)]
        iterations = [-1] * (1 + self._moves)
        iterations += [step for step in range(reading.every) for _ in each]
        self._record = Record(start, self._workers, phases, iterations)
        self._rounds: list[_LocalRound] = []  # that are not yet put in order
        self._staleness: list[Times] = []
        self._steps: list[Times] = []
        self._looks: list[Look] = [(0, 0, 0)]
        self._made, self._stopped_by = 0, "time"
        # ns; when the run is over, as far as that is known. Steps, and gradients, that are enough.
        self._end = start.last
        self._last_step, self._most = start.stop.global_steps or NEVER, NEVER
        if start.stop.examples is not None:
            self._most = -(-start.stop.examples // start.workload.batch_size)

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        self._record.keeps_spans = record
        found = self._go_on()
        return self._start.trace(
            label,
            self._end,
            self._stopped_by,
            np.concatenate(self._steps),
            self._looks,
            found,
            span_rows=self._record.spans(),
            gradient_rows=self._record.gradients,
            copy_staleness=np.concatenate(self._staleness),
            gradients_aggregated=self._made,
        )

    def _go_on(self) -> tuple[list[LinkRow], float]:
        """Go on round by round until the run is over; what links have carried by then."""
        workers, every, reductions = self._workers, self._reading.every, self._reductions
        number, meeting, rows = workers.number, workers.down, list[Times]()
        begun, turns = np.full(number, meeting), np.arange(number)
        moved = np.full((int(self._moves), number), meeting)
        for step in count(0, every):
            chain = self._compute(step, begun)
            now = int(chain[-1].max())
            if chain.min() < 0:
                raise NotCoveredError("its times are too long for sums of 64 bits")
            self._rounds.append(_LocalRound(step, begun, turns, chain))
            rows.append(np.concatenate((np.full((1, number), meeting), moved, chain)))
            steps = step + every
            if now > self._end or steps >= self._last_step or steps * number >= self._most:
                break
            if len(self._rounds) * chain.size > _MANY:
                self._add_rounds()
            if len(rows) * rows[0].size > TOGETHER:
                self._record.add_spans(np.array(rows), END_OF_TIME)
                rows = []
            meeting = now
            begun = np.full(number, now)
            if reductions is not None:
                begun = reductions.ends(0, begun, now, 0) + reductions.overheads[0]
                moved = begun[np.newaxis]
            else:  # the last one goes on before the others
                before = chain[-2] if len(chain) > 1 else begun
                arrivals = np.roll(np.lexsort((turns, before, chain[-1])), 1)
                turns = np.argsort(arrivals)
        self._add_rounds(last=True)
        waits = np.full_like(rows[-1], END_OF_TIME)  # for the next meeting, those who have come
        self._record.add_spans(np.array([*rows, waits]), self._end)
        if reductions is not None:
            return reductions.carried(0, [None] * number, self._end, 0)
        return carried(idle_network(self._start), self._end)

    def _compute(self, step: int, begun: Times) -> Times:
        """When each has computed, and applied, each step of a round (events, ranks)."""
        workers, chain = self._workers, list[Times]()
        for place in range(self._reading.every):
            begun = workers.ends(begun, workers.work(step + place))
            chain.append(begun)
            if workers.update:
                begun = workers.ends(begun, workers.updates)
                chain.append(begun)
        return np.array(chain)

    def _add_rounds(self, *, last: bool = False) -> None:
        """Put the latest rounds in order and record what happens in them, but for spans."""
        rounds, self._rounds = self._rounds, []
        if not rounds:
            return
        number, updates = self._workers.number, 1 + self._workers.update
        first, chains = rounds[0].step, np.array([one.chain for one in rounds])
        begun = np.array([one.begun for one in rounds])[:, np.newaxis]
        computed, applied = chains[:, ::updates], chains[:, updates - 1 :: updates]
        starts = np.concatenate((begun, applied[:, :-1]), axis=1)
        # Events: each begins a round, and applies each of its steps.
        times = np.concatenate((begun, applied), axis=1)
        before = computed if updates > 1 else starts
        before = np.concatenate((np.full_like(begun, -1), before), axis=1)
        turns = np.broadcast_to([[one.turns] for one in rounds], times.shape)
        nth = np.broadcast_to(np.arange(len(rounds))[:, np.newaxis, np.newaxis], times.shape)
        order = np.lexsort([key.ravel() for key in (turns, before, times, nth)])
        is_end = np.ones(times.shape, dtype=np.int64)
        is_end[:, 0] = 0
        made, places = np.empty_like(times), np.empty_like(times)
        made.put(order, first * number + np.cumsum(is_end.take(order)))
        places.put(order, np.arange(len(order)))
        own = np.arange(self._reading.every)[:, np.newaxis]
        steps = np.array([one.step for one in rounds])[:, np.newaxis, np.newaxis] + own
        ends = len(order)  # places that are served
        if last:
            ends = self._end_in(times, places, made, first)
        done, there = places[:, 1:] < ends, places[:, :-1] < ends
        self._record.add_gradients(
            self._end, done, np.arange(number), steps, steps, starts, starts, computed, applied
        )
        counted = applied.max(axis=2).ravel()
        self._steps.append(counted[(places[:, 1:].max(axis=2) < ends).ravel()])
        self._made = int(made[:, 1:][done].max(initial=self._made))
        seen = steps[:, :1] * (number if self._reading.write_back else 1) + own
        self._staleness.append((made[:, :-1] - seen)[there])
        for one, place, after in zip(rounds, places[:, 0, 0], made[:, 0, 0], strict=True):
            if one.step and place < ends:
                self._looks.append((int(one.begun[0]), one.step, int(after)))

    def _end_in(self, times: Times, places: Times, made: Times, first: int) -> int:
        """End the run in the last of these rounds; how many places are served by then."""
        count_at = places[:, 1:].max(axis=2).ravel()  # at which a step is counted
        order = np.argsort(places, axis=None)
        ends = int(np.count_nonzero(times <= self._end))
        for step, place in enumerate(count_at.tolist(), first + 1):
            time, after = times.take(order[place]), made.take(order[place])
            is_last = step == self._last_step
            if (is_last or after >= self._most) and time <= self._end:
                self._end = int(time)
                self._stopped_by = "global_steps" if is_last else "examples"
                ends = place + 1
                if ends == places.size and self._reductions is None:
                    # They have all met: the last one goes on at this moment, and reads.
                    missed = after - (after if self._reading.write_back else step)
                    self._staleness.append(np.array([missed]))
                break
        if self._end >= END_OF_TIME:
            raise NotCoveredError("it lasts longer than the clock counts")
        return ends
