"""One run whose workers all-reduce their gradients: arrays of all workers, step after step.

No rank is done with an all-reduce before all have entered it. So from one to the next every
worker's times are a few operations on arrays, and the all-reduce's those of its recurrence. What
was under way when the run was over is made event by event (`closing`).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.flat.arrays import TOGETHER, Limits, Spans, Start, Workers
from varsim.cluster.flat.choice import NEVER
from varsim.cluster.flat.closing import Closing
from varsim.cluster.flat.reducing import Reducing
from varsim.cluster.flat.reductions import of_gradients
from varsim.cluster.flat.strides import Strides
from varsim.cluster.rows import BLOCK, Rows
from varsim.cluster.stop import Stop
from varsim.cluster.trace import EvaluationRow, GradientRow, Outcome, Phase, Span, Trace


class MirroredRun:
    """A run in arrays; see `FlatRun`."""

    def __init__(self, start: Start, reducing: Reducing) -> None:
        cluster, workload, stop, seed, replication, workers, events = start
        self._workload = workload
        self._replication, self._workers = replication, workers
        specs = workload.problem.variables()
        self._variables = sum(spec.has_gradient for spec in specs)
        self._reductions = of_gradients(cluster, workload, workers, reducing)
        self._number = number = reducing.micro_batches
        # What closes the run goes back by a few steps.
        self._all = Workers(cluster, workload, workers, seed, replication, 3 * number)
        steps, by = self._most_steps(stop)
        time = None if stop.time is None else round(stop.time * 1e9)
        numbers = NEVER if events is None else workers + (time is not None) + events
        self._limits = Limits(steps, by, time, numbers)

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        reductions, limits = self._reductions, self._limits
        phases = [Phase.COMPUTE] * self._number
        phases += [Phase.BARRIER, Phase.WRITE] * reductions.number
        phases += [Phase.COMPUTE] * self._all.update
        iterations = [min(place, self._number - 1) for place in range(len(phases))]
        self._spans = Spans(self._all, phases, iterations, keep=record)
        self._gradients = Rows(len(GradientRow._fields))
        self._sends = Rows(len(Span._fields))  # see Trace
        self._records = record and self._replication == 0
        self._rows: list[Times] = []  # of steps that are over, but not yet recorded
        self._moved: list[Times] = []  # the same of their buckets
        self._steps: list[Times] = []  # when global_step rose
        self._read = np.full(self._workers, self._all.down)  # when each began what comes next
        start = reductions.state()
        self._strides = Strides(self._all, self._number, reductions, limits, self._keep)
        gathered = self._strides.run()
        reductions.go_on_from(start if gathered is None else gathered.state)
        closing = Closing(self._all, self._number, reductions, limits, gathered)
        closing.run()
        return self._traced(label, closing)

    def _most_steps(self, stop: Stop) -> tuple[int, str]:
        steps = stop.global_steps or NEVER
        if stop.examples is not None:
            each = self._workers * self._number * self._workload.batch_size
            enough = max(1, -(-stop.examples // each))
            if enough < steps:
                return enough, "examples"
        return steps, "global_steps"

    def _keep(self, row: Times, moved: Times) -> None:
        """A step is over; see Strides."""
        self._rows.append(row)
        if len(moved):
            self._moved.append(moved)
        if len(self._rows) * row.size > TOGETHER:
            self._record(END_OF_TIME)

    def _record(self, end: int, unfinished: Sequence[Times] = ()) -> None:
        """Record the steps that are over, and the spans of those that are not at the end (ns)."""
        self._record_sends()
        if not (self._rows or unfinished):
            return
        rows, done = np.array([*self._rows, *unfinished]), len(self._rows)
        some = max(1, BLOCK // (self._workers * self._number))  # steps that are packed together
        for first in range(0, done, some):
            self._record_gradients(rows[first : min(first + some, done)])
        self._spans.record(rows, end)
        self._rows = []

    def _record_sends(self) -> None:
        """Record the buckets of steps that are over (steps, buckets, from and to, ranks)."""
        if not (self._moved and self._records):
            return
        moved, self._moved = np.stack(self._moved), []
        steps = np.arange(1, len(moved) + 1) + sum(map(len, self._steps))
        columns = np.empty((len(Span._fields), *moved[:, :, 0].shape), dtype=np.int64)
        columns[0], columns[1] = np.arange(self._workers), Phase.WRITE
        columns[2], columns[3] = moved[:, :, 0], moved[:, :, 1]
        columns[4] = steps[:, np.newaxis, np.newaxis] * self._number - 1
        rows = columns.reshape(len(columns), -1)
        self._sends.append_columns(rows[:, rows[2] < rows[3]])

    def _record_gradients(self, rows: Times) -> None:
        """Record the gradients of the next steps (steps, places, ranks)."""
        number, first = self._number, sum(map(len, self._steps))
        self._steps.append(rows[:, -1].max(axis=1))
        begun = np.concatenate((self._read[np.newaxis], rows[:-1, -1]))
        self._read = rows[-1, -1]
        computed = rows[:, :number].transpose(0, 2, 1)  # by step, rank and micro-batch
        starts = np.concatenate((begun[..., np.newaxis], computed[..., :-1]), axis=2)
        steps = np.arange(first, first + len(rows))[:, np.newaxis, np.newaxis]
        ends = self._steps[-1][:, np.newaxis, np.newaxis]
        columns: dict[str, Any] = {
            "worker": np.arange(self._workers)[:, np.newaxis],
            "iteration": steps * number + np.arange(number),
            "read": begun[..., np.newaxis],
            "read_step": steps,
            "compute_start": starts,
            "computed": computed,
            "arrived": ends,
            "applied": ends,
            "applied_step": steps,
            "outcome": Outcome.APPLIED,
            "parts_applied": self._variables,
        }
        table = np.empty((len(columns), *computed.shape), dtype=np.int64)
        for name, column in columns.items():
            table[GradientRow._fields.index(name)] = column
        self._gradients.append(table.reshape(len(columns), -1).T)

    def _traced(self, label: str, closing: Closing) -> Trace:
        end, number = closing.now, self._number
        self._record_sends()
        hidden = self._strides.hidden + closing.hidden
        if self._records and closing.sends:
            sends = np.array(closing.sends, dtype=np.int64)
            self._sends.append(sends[sends[:, 2] < sends[:, 3]])
        rows = [row for _, row in sorted(closing.rows.items())]
        done = closing.global_step - closing.first
        for row in rows[:done]:
            self._keep(row, np.empty((0, 2, self._workers), dtype=np.int64))
        self._record(end, rows[done:])
        pending = []
        for (rank, step, micro_batch), start in closing.begun.items():
            computed = int(closing.rows[step][micro_batch, rank])
            if computed <= end:
                begun = (rank, step * number + micro_batch, int(closing.read[step][rank]), step)
                never = (-1, -1, -1, int(Outcome.PENDING), 0)
                pending.append((*begun, start, computed, *never))
        if pending:
            self._gradients.append(np.array(pending, dtype=np.int64))
        each = self._workers * number
        reductions = self._reductions
        links, sent = reductions.carried(
            closing.bucket, closing.entries, end, closing.most_computed
        )
        steps = np.concatenate([np.empty(0, dtype=np.int64), *self._steps])
        assert len(steps) == closing.global_step, "a step was lost"
        return Trace(
            strategy=label,
            replication=self._replication,
            workers=self._workers,
            variables=self._variables,
            batch_size=self._workload.batch_size,
            end=end,
            stopped_by=closing.stopped_by,
            global_step=closing.global_step,
            span_rows=self._spans.rows(),
            gradient_rows=self._gradients,
            evaluations=self._evaluations(steps, end),
            steps=steps,
            copy_staleness=np.empty(0, dtype=np.int64),
            links=links,
            sent=sent,
            sending=self._strides.sending + closing.sending,
            hidden=hidden,
            send_rows=(self._sends if hidden else Rows(len(Span._fields))).by(0, self._workers),
            heap_events=closing.numbers,
            gradients_evaluated=each * closing.evaluated,
            gradients_aggregated=each * closing.global_step,
        )

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
