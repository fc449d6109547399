"""Runs in arrays of all workers: they all-reduce gradients, or meet after some steps of their own.

Gradients: no rank is done with an all-reduce before all have entered it. So from one to the next
every worker's times are a few operations on arrays, and the all-reduce's those of its recurrence.
What is under way when the run is over is cut there.

Copies of their own: from one meeting to the next no worker waits for another, and who comes before
whom follows from their times: of what happens at one moment first what was begun first, then by
rank.
"""

from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.description.cluster import Stop
from varsim.cluster.fast.draws import Workers
from varsim.cluster.fast.reductions import carried, idle_network, of_copies, of_gradients
from varsim.cluster.fast.rules import (
    NotCoveredError,
    Reading,
    Reducing,
    Start,
    looks_at,
    trace_of,
)
from varsim.cluster.fast.tables import NEVER
from varsim.cluster.record.rows import BLOCK, Rows
from varsim.cluster.record.trace import (
    GradientRow,
    LinkRow,
    Outcome,
    Phase,
    Span,
    Trace,
)

# Ends of spans that are recorded at once.
TOGETHER: Final = 1 << 20
# Events of rounds that are put in order together.
_MANY: Final = 1 << 14


class Spans:
    """Spans of a run whose workers do the same again and again.

    `phases`: of what each does in a round; `iterations`: in which of the round's.
    """

    def __init__(
        self, workers: Workers, phases: list[Phase], iterations: list[int], *, keep: bool
    ) -> None:
        self._number, self._keep = workers.number, keep
        self._phases, self._iterations = np.array(phases), np.array(iterations)
        self._each = max(iterations) + 1
        self._begun = np.full(workers.number, workers.down)  # when each began what comes next
        self._rounds, self._rows = 0, Rows(len(Span._fields))
        self._parts = 0

    def record(self, rounds: Times, end: int) -> None:
        """Record when the spans of the next rounds end, (rounds, spans, ranks), at the end (ns)."""
        if not self._keep:
            return
        steps = np.arange(self._rounds, self._rounds + len(rounds))[:, np.newaxis] * self._each
        iterations, phases = (steps + self._iterations).ravel(), np.tile(self._phases, len(rounds))
        before = self._begun[np.newaxis]
        if not self._rounds:  # they were set up
            before = np.stack((np.zeros_like(self._begun), self._begun))
            iterations, phases = np.append(0, iterations), np.append(Phase.DOWN, phases)
        self._begun, self._rounds = rounds[-1, -1].copy(), self._rounds + len(rounds)
        times = np.concatenate((before, rounds.reshape(-1, self._number)))
        moments = np.minimum(times, end).T
        starts, ends = np.ascontiguousarray(moments[:, :-1]), np.ascontiguousarray(moments[:, 1:])
        found = starts < ends
        ranks = np.arange(self._number)[:, np.newaxis]
        columns = ranks, phases[: ends.shape[1]], starts, ends, iterations[: ends.shape[1]]
        shown = [np.broadcast_to(column, ends.shape)[found] for column in columns]
        self._rows.append_columns(np.stack(shown))
        self._parts += 1

    def rows(self) -> Rows:
        """All spans, by worker."""
        return self._rows if self._parts < 2 else self._rows.by(0, self._number)


class MirroredRun:
    """A run in arrays; see `ServedRun`."""

    def __init__(self, start: Start, reducing: Reducing) -> None:
        cluster, workload, stop, seed, replication, workers = start
        self._start, self._workload, self._workers = start, workload, workers
        self._replication = replication
        specs = workload.problem.variables()
        self._variables = sum(spec.has_gradient for spec in specs)
        self._reductions = of_gradients(cluster, workload, workers, reducing)
        self._overlaps = bool(self._reductions.shares)
        self._number = reducing.micro_batches
        self._all = Workers(cluster, workload, workers, seed, replication)
        self._most, self._by = self._most_steps(stop)
        # ns; when the run is over, as far as that is known.
        self._end = END_OF_TIME if stop.time is None else min(round(stop.time * 1e9), END_OF_TIME)

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        self._phases = [Phase.COMPUTE] * self._number
        self._phases += [Phase.BARRIER, Phase.WRITE] * self._reductions.number
        self._phases += [Phase.COMPUTE] * self._all.update
        iterations = [min(place, self._number - 1) for place in range(len(self._phases))]
        self._spans = Spans(self._all, self._phases, iterations, keep=record)
        self._gradients = Rows(len(GradientRow._fields))
        self._sends = Rows(len(Span._fields))  # see Trace
        self._records = record and self._replication == 0
        self._rows: list[Times] = []  # of steps that are not yet recorded
        self._moved: list[Times] = []  # the same of their buckets
        self._steps: list[Times] = []  # when each step's update was made, or would have been
        self._read = np.full(self._workers, self._all.down)  # when each began what comes next
        self._sending = self._hidden = 0
        found = self._go_on()
        self._record()
        steps, end = np.concatenate(self._steps), self._end
        steps = steps[steps <= end]
        each = self._workers * self._number
        sends = self._sends if self._hidden else Rows(len(Span._fields))
        return trace_of(
            self._start,
            label,
            end,
            self._by if len(steps) == self._most else "time",
            steps,
            looks_at(self._start, steps, each * np.arange(1, len(steps) + 1)),
            found,
            span_rows=self._spans.rows(),
            gradient_rows=self._gradients,
            sending=self._sending,
            hidden=self._hidden,
            send_rows=sends.by(0, self._workers),
            gradients_aggregated=each * len(steps),
        )

    def _most_steps(self, stop: Stop) -> tuple[int, str]:
        steps = stop.global_steps or NEVER
        if stop.examples is not None:
            each = self._workers * self._number * self._workload.batch_size
            enough = max(1, -(-stop.examples // each))
            if enough < steps:
                return enough, "examples"
        return steps, "global_steps"

    def _go_on(self) -> Any:
        """Make all steps, and what is begun of the next one; what links have carried by the end."""
        begun, computed_by, before = self._read, 0, 0
        for step in count():
            row = np.full((len(self._phases), self._workers), END_OF_TIME)
            moments = self._compute(step, begun, row)
            bucket, entries = 0, moments[0]
            if step < self._most:
                bucket, entries = self._reduce(row, moments)
            last_begun = row[self._number - 2] if self._number > 1 else begun
            computed = row[self._number - 1][last_begun <= self._end]
            computed_by = max(computed_by, int(computed.max(initial=0)))
            self._rows.append(row)
            if bucket < self._reductions.number:
                break
            if self._all.update:
                row[-1] = self._ends(row[-2], self._all.updates)
            begun = row[-1]
            if not before <= (before := int(begun.max())):
                raise NotCoveredError("its times are too long for sums of 64 bits")
            if step + 1 == self._most:
                self._end = min(self._end, before)
            if len(self._rows) * row.size > TOGETHER:
                self._record()
        if self._end == END_OF_TIME:
            raise NotCoveredError("it lasts longer than the clock counts")
        entered = [entry if entry <= self._end else None for entry in entries.tolist()]
        return self._reductions.carried(bucket, entered, self._end, computed_by)

    def _compute(self, step: int, begun: Times, row: Times) -> list[Times]:
        """All compute a step; when each is ready for the first reduction, or for all of them."""
        for place in range(self._number):
            work = self._all.work(step * self._number + place)
            start, row[place] = begun, self._ends(begun, work)
            begun = row[place]
        return [
            np.minimum(begun, self._ends(start, np.rint(work * share).astype(np.int64)))
            for share in self._reductions.shares
        ] or [begun]

    def _ends(self, start: Times, work: Times) -> Times:
        """When so much work of each worker ends."""
        ends: Times = start + work
        self._all.slow_down(ends, start, work)
        return ends

    def _reduce(self, row: Times, moments: list[Times]) -> tuple[int, Times]:
        """Reduce the buckets that all enter before the end; how many, when each enters the next."""
        reductions, place, entries = self._reductions, self._number, moments[0]
        computed = row[place - 1]
        until = int(computed.max())
        moved = np.zeros((reductions.number, 2, self._workers), dtype=np.int64)
        if self._overlaps:
            self._moved.append(moved)
        for bucket, overhead in enumerate(reductions.overheads):
            now = int(entries.max())
            if not 0 <= now <= self._end:
                return bucket, entries
            ends = reductions.ends(bucket, entries, now, until) + overhead
            row[place], row[place + 1] = np.maximum(computed, now), np.maximum(computed, ends)
            place, entries = place + 2, ends
            if self._overlaps:
                moved[bucket, 0], moved[bucket, 1] = now, np.where(ends <= self._end, ends, now)
                self._sending += int((moved[bucket, 1] - now).sum())
                meanwhile = np.minimum(moved[bucket, 1], computed) - now
                self._hidden += int(np.maximum(meanwhile, 0).sum())
                entries = np.maximum(moments[min(bucket + 1, len(moments) - 1)], ends)
        return reductions.number, entries

    def _record(self) -> None:
        """Record the latest steps."""
        first, rows = sum(map(len, self._steps)), np.array(self._rows)
        if self._moved and self._records:
            self._record_sends(first, np.stack(self._moved))
        some = max(1, BLOCK // (self._workers * self._number))  # steps that are packed together
        for at in range(0, len(rows), some):
            self._record_gradients(first + at, rows[at : at + some])
        self._spans.record(rows, self._end)
        self._rows, self._moved = [], []

    def _record_sends(self, first: int, moved: Times) -> None:
        """Record the buckets of steps (steps, buckets, from and to, ranks)."""
        steps = np.arange(first + 1, first + 1 + len(moved))
        columns = np.empty((len(Span._fields), *moved[:, :, 0].shape), dtype=np.int64)
        columns[0], columns[1] = np.arange(self._workers), Phase.WRITE
        columns[2], columns[3] = moved[:, :, 0], moved[:, :, 1]
        columns[4] = steps[:, np.newaxis, np.newaxis] * self._number - 1
        rows = columns.reshape(len(columns), -1)
        self._sends.append_columns(rows[:, rows[2] < rows[3]])

    def _record_gradients(self, first: int, rows: Times) -> None:
        """Record the gradients of steps (steps, places, ranks) that are computed by the end."""
        number, applied = self._number, rows[:, -1].max(axis=1)
        self._steps.append(applied)
        begun = np.concatenate((self._read[np.newaxis], rows[:-1, -1]))
        self._read = rows[-1, -1]
        computed = rows[:, :number].transpose(0, 2, 1)  # by step, rank and micro-batch
        starts = np.concatenate((begun[..., np.newaxis], computed[..., :-1]), axis=2)
        steps = np.arange(first, first + len(rows))[:, np.newaxis, np.newaxis]
        done = (applied <= self._end)[:, np.newaxis, np.newaxis]
        ends = np.where(done, applied[:, np.newaxis, np.newaxis], -1)
        columns: dict[str, Any] = {
            "worker": np.arange(self._workers)[:, np.newaxis],
            "iteration": steps * number + np.arange(number),
            "read": begun[..., np.newaxis],
            "read_step": steps,
            "compute_start": starts,
            "computed": computed,
            "arrived": ends,
            "applied": ends,
            "applied_step": np.where(done, steps, -1),
            "outcome": np.where(done, int(Outcome.APPLIED), int(Outcome.PENDING)),
            "parts_applied": np.where(done, self._variables, 0),
        }
        table = np.empty((len(columns), *computed.shape), dtype=np.int64)
        for name, column in columns.items():
            table[GradientRow._fields.index(name)] = column
        self._gradients.append_columns(table[:, computed <= self._end])


class LocalRun:
    """A run in arrays; see `ServedRun`."""

    def __init__(self, start: Start, reading: Reading) -> None:
        cluster, workload, stop, seed, replication, workers = start
        if workers == 1:
            reading = reading._replace(moves=False)
        self._start, self._reading = start, reading
        self._variables = sum(spec.has_gradient for spec in workload.problem.variables())
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
        found = self._go_on()
        steps, staleness = np.concatenate(self._steps), np.concatenate(self._staleness)
        return trace_of(
            self._start,
            label,
            self._end,
            self._stopped_by,
            steps,
            self._looks,
            found,
            span_rows=self._spans.rows(),
            gradient_rows=self._gradients,
            copy_staleness=staleness,
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
        return carried(idle_network(self._start.cluster, number), self._end)

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
