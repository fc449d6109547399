"""One run whose workers have copies of their own that are read after every so many steps.

From one meeting to the next no worker waits for another. So their times are a few operations on
arrays, and who comes before whom follows from these: of what happens at one moment first what was
begun first, then by rank.
"""

import math
from itertools import count
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.fast.arrays import TOGETHER, Spans, Workers
from varsim.cluster.fast.reductions import carried, idle_network, of_copies
from varsim.cluster.fast.rules import NotCoveredError, Reading, Start
from varsim.cluster.fast.tables import NEVER
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import EvaluationRow, GradientRow, LinkRow, Outcome, Phase, Trace

# Events of rounds that are put in order together.
_MANY: Final = 1 << 14


class LocalRun:
    """A run in arrays; see `ServedRun`."""

    def __init__(self, start: Start, reading: Reading) -> None:
        cluster, workload, stop, seed, replication, workers = start
        if workers == 1:
            reading = reading._replace(moves=False)
        self._workload, self._reading, self._replication = workload, reading, replication
        self._variables = sum(spec.has_gradient for spec in workload.problem.variables())
        self._cluster = cluster
        self._reductions = of_copies(cluster, workload, workers) if reading.moves else None
        self._workers = Workers(cluster, workload, workers, seed, replication)
        self._steps_limit = stop.global_steps or NEVER
        self._most = NEVER  # gradients
        if stop.examples is not None:
            self._most = -(-stop.examples // workload.batch_size)
        # ns; when the run is over, as far as that is known.
        self._end = END_OF_TIME if stop.time is None else min(round(stop.time * 1e9), END_OF_TIME)

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        workers, reading = self._workers, self._reading
        each = [Phase.COMPUTE] * (1 + workers.update)
        phases = [Phase.BARRIER, *([Phase.WRITE] * reading.moves), *(each * reading.every)]
        iterations = [-1] * (1 + reading.moves)
        iterations += [step for step in range(reading.every) for _ in each]
        self._spans = Spans(workers, phases, iterations, keep=record)
        self._gradients = Rows(len(GradientRow._fields))
        self._rounds: list[_Round] = []  # that are not yet put in order
        self._staleness: list[Times] = []
        self._steps: list[Times] = []
        self._looks = [(0, 0, 0)]  # when, at which step, after how many gradients
        self._made, self._stopped_by = 0, "time"
        links, sent = self._go_on()
        steps, staleness = np.concatenate(self._steps), np.concatenate(self._staleness)
        if self._looks[-1][1] != len(steps):
            self._looks.append((self._end, len(steps), self._made))
        batch = self._workload.batch_size
        return Trace(
            strategy=label,
            replication=self._replication,
            workers=workers.number,
            variables=self._variables,
            batch_size=batch,
            end=self._end,
            stopped_by=self._stopped_by,
            global_step=len(steps),
            span_rows=self._spans.rows(),
            gradient_rows=self._gradients,
            evaluations=[
                EvaluationRow(time, step, made * batch, math.nan, math.nan, 0.0)
                for time, step, made in self._looks
            ],
            steps=steps,
            copy_staleness=staleness,
            links=links,
            sent=sent,
            gradients_aggregated=self._made,
        )

    def _go_on(self) -> tuple[list[LinkRow], float]:
        """Go on round by round until the run is over; what links have carried by then."""
        workers, every, reductions = self._workers, self._reading.every, self._reductions
        number, meeting, rows = workers.number, workers.down, list[Times]()
        begun, turns = np.full(number, meeting), np.arange(number)
        moved = np.full((int(self._reading.moves), number), meeting)
        for step in count(0, every):
            chain = self._compute(step, begun)
            now = int(chain[-1].max())
            if chain.min() < 0:
                raise NotCoveredError("its times are too long for sums of 64 bits")
            self._rounds.append(_Round(step, begun, turns, chain))
            rows.append(np.concatenate((np.full((1, number), meeting), moved, chain)))
            if now > self._end or self._is_enough(step + every):
                break
            if len(self._rounds) * chain.size > _MANY:
                self._record_rounds()
            if len(rows) * rows[0].size > TOGETHER:
                self._spans.record(np.array(rows), END_OF_TIME)
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
        self._record_rounds(last=True)
        waits = np.full_like(rows[-1], END_OF_TIME)  # for the next meeting, those who have come
        self._spans.record(np.array([*rows, waits]), self._end)
        if reductions is not None:
            return reductions.carried(0, [None] * number, self._end, 0)
        return carried(idle_network(self._cluster, number), self._end)

    def _is_enough(self, steps: int) -> bool:
        """Whether so many steps of all are enough for some rule."""
        return steps >= self._steps_limit or steps * self._workers.number >= self._most

    def _compute(self, step: int, begun: Times) -> Times:
        """When each has computed, and applied, each step of a round (events, ranks)."""
        workers, every = self._workers, self._reading.every
        chain = np.empty((every * (1 + workers.update), len(begun)), dtype=np.int64)
        ends = iter(chain)
        for place in range(every):
            work, end = workers.work(step + place), next(ends)
            np.add(begun, work, out=end)
            workers.slow_down(end, begun, work)
            if workers.update:
                begun, end = end, next(ends)
                np.add(begun, workers.updates, out=end)
                workers.slow_down(end, begun, workers.updates)
            begun = end
        return chain

    def _record_rounds(self, *, last: bool = False) -> None:
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
        steps = np.arange(first, first + len(rounds) * self._reading.every).reshape(
            len(rounds), -1, 1
        )
        ends = len(order)  # places that are served
        if last:
            ends = self._end_in(times, places, made, first)
        done, there = places[:, 1:] < ends, places[:, :-1] < ends
        self._record_gradients(steps, starts, computed, applied, done)
        counted = applied.max(axis=2).ravel()
        self._steps.append(counted[(places[:, 1:].max(axis=2) < ends).ravel()])
        self._made = int(made[:, 1:][done].max(initial=self._made))
        own = np.arange(self._reading.every)[:, np.newaxis]
        seen = steps[:, :1] * (number if self._reading.write_back else 1) + own
        self._staleness.append((made[:, :-1] - seen)[there])
        for one, (place, after) in zip(
            rounds, zip(places[:, 0, 0].tolist(), made[:, 0, 0].tolist(), strict=True), strict=True
        ):
            if one.step and place < ends:
                self._looks.append((int(one.begun[0]), one.step, after))

    def _end_in(self, times: Times, places: Times, made: Times, first: int) -> int:
        """End the run in the last of these rounds; how many places are served by then."""
        count_at = places[:, 1:].max(axis=2).ravel()  # at which a step is counted
        order = np.argsort(places, axis=None)
        ends = int(np.count_nonzero(times <= self._end))
        for step, place in enumerate(count_at.tolist(), first + 1):
            time, after = times.take(order[place]), made.take(order[place])
            is_last = step == self._steps_limit
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

    def _record_gradients(
        self, steps: Times, starts: Times, computed: Times, applied: Times, done: NDArray[np.bool_]
    ) -> None:
        """Record the gradients that are computed by the end."""
        columns = (
            *(np.arange(self._workers.number), steps, starts, steps, starts, computed),
            *(np.where(done, applied, -1), np.where(done, applied, -1), np.where(done, steps, -1)),
            np.where(done, int(Outcome.APPLIED), int(Outcome.PENDING)),
            np.where(done, self._variables, 0),
        )
        table = np.empty((len(columns), *applied.shape), dtype=np.int64)
        for place, column in enumerate(columns):
            table[place] = column
        rows = table[:, computed <= self._end]
        ends = np.where(rows[7] < 0, END_OF_TIME, rows[7])
        self._gradients.append_columns(rows[:, np.argsort(ends, kind="stable")])


class _Round(NamedTuple):
    """Round of all: its first step, when each begins, in which turn, and each event after that."""

    step: int
    begun: Times
    turns: Times
    chain: Times
