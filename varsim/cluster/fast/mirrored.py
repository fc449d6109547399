"""One run whose workers all-reduce their gradients: arrays of all workers, step after step.

No rank is done with an all-reduce before all have entered it. So from one to the next every
worker's times are a few operations on arrays, and the all-reduce's those of its recurrence. What is
under way when the run is over is cut there.
"""

import math
from itertools import count
from typing import Any

import numpy as np

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.description.cluster import Stop
from varsim.cluster.fast.arrays import TOGETHER, Spans, Workers
from varsim.cluster.fast.reductions import of_gradients
from varsim.cluster.fast.rules import NotCoveredError, Reducing, Start
from varsim.cluster.fast.tables import NEVER
from varsim.cluster.record.rows import BLOCK, Rows
from varsim.cluster.record.trace import EvaluationRow, GradientRow, Outcome, Phase, Span, Trace


class MirroredRun:
    """A run in arrays; see `ServedRun`."""

    def __init__(self, start: Start, reducing: Reducing) -> None:
        cluster, workload, stop, seed, replication, workers = start
        self._workload = workload
        self._replication, self._workers = replication, workers
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
        links, sent = self._go_on()
        self._record()
        steps, end = np.concatenate(self._steps), self._end
        steps = steps[steps <= end]
        return Trace(
            strategy=label,
            replication=self._replication,
            workers=self._workers,
            variables=self._variables,
            batch_size=self._workload.batch_size,
            end=end,
            stopped_by=self._by if len(steps) == self._most else "time",
            global_step=len(steps),
            span_rows=self._spans.rows(),
            gradient_rows=self._gradients,
            evaluations=self._evaluations(steps, end),
            steps=steps,
            copy_staleness=np.empty(0, dtype=np.int64),
            links=links,
            sent=sent,
            sending=self._sending,
            hidden=self._hidden,
            send_rows=(self._sends if self._hidden else Rows(len(Span._fields))).by(
                0, self._workers
            ),
            gradients_aggregated=self._workers * self._number * len(steps),
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

    def _evaluations(self, steps: Times, end: int) -> list[EvaluationRow]:
        """When the model was looked at: at the start, after some steps, and at the end."""
        every = self._workload.examples_between_evaluations(self._workers)
        each = self._workers * self._number * self._workload.batch_size
        rows, then = [(0, 0, 0)], every
        for step, time in enumerate(steps.tolist(), 1):
            if step * each >= then:
                rows.append((time, step, step * each))
                then = (step * each // every + 1) * every
        if rows[-1][1] != len(steps):
            rows.append((end, len(steps), len(steps) * each))
        return [EvaluationRow(*row, math.nan, math.nan, 0.0) for row in rows]
