"""One run whose workers all-reduce their gradients: arrays of all workers, step after step.

No rank is done with an all-reduce before all have entered it. So from one to the next every
worker's times are a few operations on arrays, and the all-reduce's those of its recurrence. What
was under way when the run was over is made event by event (`closing`).
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.description import Cluster
from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.choice import NEVER
from varsim.cluster.flat.closing import Closing, Limits, Mirrored
from varsim.cluster.flat.draws import ComputeTimes
from varsim.cluster.flat.reducing import Reducing
from varsim.cluster.flat.reductions import Reductions
from varsim.cluster.flat.strides import Strides
from varsim.cluster.rows import Rows
from varsim.cluster.slowdown import windows
from varsim.cluster.stop import Stop
from varsim.cluster.trace import EvaluationRow, GradientRow, Outcome, Phase, Span, Trace
from varsim.values.distribution import BLOCK
from varsim.values.workload import Workload

_TOGETHER: Final = 1 << 20  # ends of spans that are recorded at once


class MirroredRun:
    """A run in arrays; see `FlatRun`. NotCoveredError where messages have to be sent one by one."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        stop: Stop,
        reducing: Reducing,
        *,
        seed: int,
        replication: int,
        workers: int,
        events: int | None = None,
    ) -> None:
        self._cluster, self._workload, self._reducing = cluster, workload, reducing
        self._replication, self._workers = replication, workers
        specs = workload.problem.variables()
        self._variables = sum(spec.has_gradient for spec in specs)
        self._reductions = Reductions(cluster, workload, workers, reducing)
        if self._reductions.reason_against:
            raise NotCoveredError(self._reductions.reason_against)
        self._times = ComputeTimes(cluster, workload, workers, seed, replication)
        self._blocks: dict[int, Times] = {}
        self._mirrored = self._described()
        self._number = self._mirrored.micro_batches
        phases = [Phase.COMPUTE] * self._number
        phases += [Phase.BARRIER, Phase.WRITE] * self._reductions.number
        phases += [Phase.COMPUTE] * any(self._mirrored.updates)
        self._phases = np.array(phases)  # of the spans of a step, and of which micro-batch they are
        self._iterations = np.minimum(np.arange(len(phases)), self._number - 1)
        steps, by = self._most_steps(stop)
        time = None if stop.time is None else round(stop.time * 1e9)
        numbers = NEVER if events is None else workers + (time is not None) + events
        self._limits = Limits(steps, by, time, numbers)

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        mirrored, reductions, limits = self._mirrored, self._reductions, self._limits
        self._keeps_spans, self._spans = record, Rows(len(Span._fields))
        self._parts = 0  # in which spans were recorded
        self._gradients = Rows(len(GradientRow._fields))
        self._rows: list[Times] = []  # of steps that are over, but not yet recorded
        self._steps: list[Times] = []  # when global_step rose
        self._read = np.full(self._workers, mirrored.down)  # when each began what comes next
        start = reductions.state()
        self._strides = Strides(mirrored, reductions, limits, self._keep)
        gathered = self._strides.run()
        reductions.go_on_from(start if gathered is None else gathered.state)
        closing = Closing(mirrored, reductions, limits, gathered)
        closing.run()
        return self._traced(label, closing)

    def _described(self) -> Mirrored:
        cluster, ranks = self._cluster, range(self._workers)
        slowness = {
            entry.rank: windows(cluster.slow_workers, entry.rank)
            for entry in cluster.slow_workers
            if entry.rank < self._workers
        }
        always = {rank: found[0][1] for rank, found in slowness.items() if len(found) == 1}
        seconds = cluster.optimizer_time or 0.0
        updates = [round(seconds * always.get(rank, 1.0) * 1e9) for rank in ranks]
        if any(updates) and not all(updates):
            raise NotCoveredError("some workers update their copies in no time")
        overheads = cluster.overheads
        return Mirrored(
            self._workers,
            self._reducing.micro_batches,
            self._work,
            [round(update * 1.0) for update in updates],
            {rank: found for rank, found in slowness.items() if len(found) > 1},
            0 if overheads is None else round(overheads.first_iteration * 1e9),
        )

    def _most_steps(self, stop: Stop) -> tuple[int, str]:
        steps = stop.global_steps or NEVER
        if stop.examples is not None:
            each = self._workers * self._mirrored.micro_batches * self._workload.batch_size
            enough = max(1, -(-stop.examples // each))
            if enough < steps:
                return enough, "examples"
        return steps, "global_steps"

    def _work(self, iteration: int) -> Times:
        """Compute times of all in an iteration (ns)."""
        block = iteration // BLOCK
        if block not in self._blocks:
            self._blocks[block] = np.ascontiguousarray(self._times.of_all(block).T)
            # What closes the run goes back by a few steps.
            self._blocks.pop(block - 3 - 3 * self._mirrored.micro_batches // BLOCK, None)
        times: Times = self._blocks[block][iteration % BLOCK]
        return times

    def _keep(self, row: Times) -> None:
        """A step is over: when the spans of each rank end in it (places, ranks)."""
        self._rows.append(row)
        if len(self._rows) * row.size > _TOGETHER:
            self._record(END_OF_TIME)

    def _record(self, end: int, unfinished: Sequence[Times] = ()) -> None:
        """Record the steps that are over, and the spans of those that are not at the end (ns)."""
        first = sum(map(len, self._steps))
        begun = self._read
        if self._rows:
            rows = np.stack(self._rows)
            self._steps.append(rows[:, -1].max(axis=1))
            self._read = rows[-1, -1]
            before = np.concatenate((begun[np.newaxis], rows[:-1, -1]))
            self._record_gradients(rows, before, first)
        if self._keeps_spans:
            self._record_spans(np.stack([*self._rows, *unfinished]), begun, first, end)
        self._rows = []

    def _record_gradients(self, rows: Times, begun: Times, first: int) -> None:
        """Record the gradients of steps from the `first` on (steps, places, ranks)."""
        number = self._number
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

    def _record_spans(self, rows: Times, begun: Times, first: int, end: int) -> None:
        """Record the spans of such steps, of which each rank began the first then."""
        steps = np.arange(first, first + len(rows))[:, np.newaxis] * self._number
        iterations = (steps + self._iterations).ravel()
        phases = np.tile(self._phases, len(rows))
        ends = rows.transpose(2, 0, 1).reshape(self._workers, -1)
        if first == 0:  # they were set up
            ends = np.concatenate((begun[:, np.newaxis], ends), axis=1)
            iterations, phases = np.append(0, iterations), np.append(Phase.DOWN, phases)
            begun = np.zeros_like(begun)
        ends = np.minimum(ends, end)
        starts = np.concatenate((begun[:, np.newaxis], ends[:, :-1]), axis=1)
        there = starts < ends
        worker = np.repeat(np.arange(self._workers), there.sum(axis=1))
        place = np.nonzero(there)[1]
        columns = (worker, phases[place], starts[there], ends[there], iterations[place])
        self._spans.append(np.stack(columns).T)
        self._parts += 1

    def _span_rows(self) -> Rows:
        """All spans, by worker."""
        if self._parts < 2:
            return self._spans
        found = Rows(self._spans.columns)
        for rows in self._spans.of_each(Span._fields.index("worker"), self._workers):
            found.append(rows)
        return found

    def _traced(self, label: str, closing: Closing) -> Trace:
        end, number = closing.now, self._number
        rows = [row for _, row in sorted(closing.rows.items())]
        done = closing.global_step - closing.first
        for row in rows[:done]:
            self._keep(row)
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
            span_rows=self._span_rows(),
            gradient_rows=self._gradients,
            evaluations=self._evaluations(steps, end),
            steps=steps,
            copy_staleness=np.empty(0, dtype=np.int64),
            links=links,
            sent=sent,
            sending=self._strides.sending + closing.sending,
            hidden=self._strides.hidden + closing.hidden,
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
