"""All-reduces of gradients in arrays of all workers.

No rank is done with an all-reduce before all have entered it. So from one to the next every
worker's times are a few operations on arrays, and the all-reduce's those of its recurrence. What is
under way when the run is over is cut there.
"""

from collections.abc import Sequence
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME, Clock
from varsim.cluster.collectives.algorithms import ring_all_reduce
from varsim.cluster.collectives.carrying import Recurrence
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector, links_between, needs_messages, planned
from varsim.cluster.collectives.plan import CollectivePlan, Paths
from varsim.cluster.collectives.schedule import Times
from varsim.cluster.fast import Reading
from varsim.cluster.fast.draws import Workers
from varsim.cluster.fast.start import NotCoveredError, Start
from varsim.cluster.fast.tables import NEVER
from varsim.cluster.network.network import Network, network
from varsim.cluster.record.rows import BLOCK, Rows
from varsim.cluster.record.trace import GradientRow, LinkRow, Outcome, Phase, Span, Trace
from varsim.cluster.workers.allreduce import Reducing, ready_buckets, vectors_of
from varsim.cluster.workers.worker import Slowed, shares_of_compute


class Reductions:
    """All-reduces of some vectors, as of the buckets of gradients, one by one, again and again.

    `ready`: shares of the backward pass after which each is, where it is reduced meanwhile.
    `number`: of vectors; `overheads` (ns) of each; `shares` of a gradient's computation after which
    each is ready, where it is reduced meanwhile.
    """

    def __init__(
        self, start: Start, vectors: Sequence[Vector], ready: Sequence[float] = ()
    ) -> None:
        cluster = start.cluster
        self._network = network(Clock(), cluster.network)
        paths = _paths(self._network, start.workers, vectors[0])
        rounds = [planned(cluster, start.workload, vector, paths) for vector in vectors]
        self._plans, self.number = [one.plan for one in rounds], len(rounds)
        self.overheads = [one.overhead for one in rounds]
        self.shares = shares_of_compute(cluster, ready)
        self._share = cluster.overlap_pace if ready else None
        needs_messages(cluster.network, self._plans[0])  # makes all links, used or not
        self._pace = Slowed(0, 1.0)  # of the latest
        self._recurrence = Recurrence(self._plans[0])

    def ends(self, bucket: int, entries: Times, now: int, computed: int) -> Times:
        """When each rank is done with a bucket (ns), given when each entered, the last one now.

        `computed`: when all will have computed (ns); until then links may be slower.
        """
        if self._plans[0].idle:  # a worker alone
            return entries
        self._recurrence.turn_to(self._plans[bucket])
        share = self._share
        if share is None:
            return self._recurrence.times(entries)
        self._pace = Slowed(computed, share)
        slow = np.rint(computed - (computed - entries) * share).astype(np.int64)
        work = self._recurrence.times(np.where(entries >= computed, entries, slow))
        slow = np.rint(computed - (computed - work) / share).astype(np.int64)
        return np.maximum(now, np.where(work >= computed, work, slow))

    def carried(
        self, bucket: int, entries: Sequence[int | None], end: int, computed: int
    ) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end (ns), and `Trace.sent`; after this, no more.

        `bucket`, `entries`: of the one that not all have entered.
        """
        latest = coming = end
        if self._share is not None:
            now = Slowed(computed, self._share)
            latest = round(self._pace.work_at(end))
            entries = [None if one is None else round(now.work_at(one)) for one in entries]
            coming = round(now.work_at(end))
        self._recurrence.count(latest, self._plans[bucket], entries, END_OF_TIME, coming)
        return carried(self._network, end)


def of_gradients(start: Start, reducing: Reducing) -> Reductions:
    """All-reduces of gradients."""
    cluster, workload = start.cluster, start.workload
    buckets = ready_buckets(workload, reducing.bucketing)
    vectors = vectors_of(reducing.choice, cluster, workload, buckets, range(start.workers))
    return Reductions(
        start, vectors, [bucket.ready for bucket in buckets] if reducing.overlap else []
    )


def of_copies(start: Start) -> Reductions:
    """All-reduces of copies of the model."""
    return Reductions(start, [Vector(ring_all_reduce(start.workers), start.workload.size())])


def foretold(start: Start, rules: Reducing | Reading) -> str:
    """Why no recurrence says when its all-reduces end; empty if one does."""
    topology, choice, size = start.cluster.network, Choice("ring"), start.workload.size()
    if isinstance(rules, Reducing):
        choice, size = rules.choice, ready_buckets(start.workload, rules.bucketing)[0].size
    vector = Vector(choice.schedule_on(topology, range(start.workers), size), size)
    paths = _paths(network(Clock(), topology), start.workers, vector)
    if needs_messages(topology, CollectivePlan(vector.schedule, size, paths)):
        return "messages of its collective meet on links, or slow links"
    return ""


def idle_network(start: Start) -> Network:
    """A network on which no message is sent."""
    idle = network(Clock(), start.cluster.network)
    for rank in range(start.workers):
        idle.routing.worker(rank)
    return idle


def carried(used: Network, end: int) -> tuple[list[LinkRow], float]:
    """What every link has carried by the end (ns), and `Trace.sent`."""
    rows = [LinkRow(link.name, link.bandwidth, link.moved) for link in used.carried(end)]
    return rows, used.sent()


def _paths(used: Network, workers: int, vector: Vector) -> Paths:
    places = [used.routing.worker(rank) for rank in range(workers)]
    return links_between(used, places, side_by_side=vector.schedule.side_by_side)


# Ends of spans that are recorded at once.
TOGETHER: Final = 1 << 20


class Record:
    """Spans and gradients of a run whose workers do the same again and again.

    `phases`: of what each does in a round; `iterations`: in which of the round's.
    """

    def __init__(
        self, start: Start, workers: Workers, phases: list[Phase], iterations: list[int]
    ) -> None:
        specs = start.workload.problem.variables()
        self._variables = sum(spec.has_gradient for spec in specs)
        self._number = workers.number
        self._phases, self._iterations = np.array(phases), np.array(iterations)
        self._each = max(iterations) + 1
        self._begun = np.full(workers.number, workers.down)  # when each began what comes next
        self._rounds, self._parts, self._spans = 0, 0, Rows(len(Span._fields))
        self.gradients = Rows(len(GradientRow._fields))
        self.keeps_spans = True

    def spans(self) -> Rows:
        """All spans, by worker."""
        return self._spans if self._parts < 2 else self._spans.by(0, self._number)

    def add_spans(self, rounds: Times, end: int) -> None:
        """Record when the spans of the next rounds end, (rounds, spans, ranks), at the end (ns)."""
        if not self.keeps_spans:
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
        self._spans.append_columns(np.stack(shown))
        self._parts += 1

    def add_gradients(
        self,
        end: int,
        done: NDArray[np.bool_],
        worker: Times,
        iteration: Times,
        step: Times,
        *times: Times,
    ) -> None:
        """Record those that are computed by the end (ns): `done` or not, in the order of their end.

        `times`: when each is read, begun, computed, applied.
        """
        read, begun, computed, applied = times
        ended = np.where(done, applied, -1)
        columns = (worker, iteration, read, step, begun, computed, ended, ended)
        found = np.empty((len(GradientRow._fields), *computed.shape), dtype=np.int64)
        for place, column in enumerate(columns):
            found[place] = column
        found[8] = np.where(done, step, -1)
        found[9] = np.where(done, int(Outcome.APPLIED), int(Outcome.PENDING))
        found[10] = np.where(done, self._variables, 0)
        rows = found[:, computed <= end]
        ends = np.where(rows[7] < 0, END_OF_TIME, rows[7])
        if (ends[1:] < ends[:-1]).any():
            rows = rows[:, np.argsort(ends, kind="stable")]
        self.gradients.append_columns(rows)


class MirroredRun:
    """A run of all-reduced gradients; see `ServedRun`."""

    def __init__(self, start: Start, reducing: Reducing) -> None:
        self._start, self._workers = start, Workers(start)
        self._reductions = of_gradients(start, reducing)
        self._number = reducing.micro_batches
        self._phases = [Phase.COMPUTE] * self._number
        self._phases += [Phase.BARRIER, Phase.WRITE] * self._reductions.number
        self._phases += [Phase.COMPUTE] * self._workers.update
        iterations = [min(place, self._number - 1) for place in range(len(self._phases))]
        self._record = Record(start, self._workers, self._phases, iterations)
        self._sends = Rows(len(Span._fields))  # see Trace
        self._rows: list[Times] = []  # of steps that are not yet recorded
        self._moved: list[Times] = []  # the same of their buckets
        self._steps: list[Times] = []  # when each step's update was made, or would have been
        self._read = np.full(start.workers, self._workers.down)  # when each began what comes next
        self._sending = self._hidden = 0
        # ns; when the run is over, as far as that is known.
        self._end = start.last
        self._most, self._by = start.stop.global_steps or NEVER, "global_steps"
        if start.stop.examples is not None:
            each = start.workers * self._number * start.workload.batch_size
            enough = max(1, -(-start.stop.examples // each))
            if enough < self._most:
                self._most, self._by = enough, "examples"

    def trace(self, label: str, *, record: bool = True) -> Trace:
        """Carry it on to its end; its trace."""
        self._record.keeps_spans = record
        carried = self._go_on()
        self._add_rows()
        steps, end = np.concatenate(self._steps), self._end
        steps = steps[steps <= end]
        each = self._start.workers * self._number
        sends = self._sends if self._hidden else Rows(len(Span._fields))
        return self._start.trace(
            label,
            end,
            self._by if len(steps) == self._most else "time",
            steps,
            self._start.looks(steps, each * np.arange(1, len(steps) + 1)),
            carried,
            span_rows=self._record.spans(),
            gradient_rows=self._record.gradients,
            sending=self._sending,
            hidden=self._hidden,
            send_rows=sends.by(0, self._start.workers),
            gradients_aggregated=each * len(steps),
        )

    def _go_on(self) -> tuple[list[LinkRow], float]:
        """Make all steps, and what is begun of the next one; what links have carried by the end."""
        begun, computed_by, before = self._read, 0, 0
        for step in count():
            row = np.full((len(self._phases), self._start.workers), END_OF_TIME)
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
            if self._workers.update:
                row[-1] = self._workers.ends(row[-2], self._workers.updates)
            begun = row[-1]
            if not before <= (before := int(begun.max())):
                raise NotCoveredError("its times are too long for sums of 64 bits")
            if step + 1 == self._most:
                self._end = min(self._end, before)
            if len(self._rows) * row.size > TOGETHER:
                self._add_rows()
        if self._end == END_OF_TIME:
            raise NotCoveredError("it lasts longer than the clock counts")
        entered = [entry if entry <= self._end else None for entry in entries.tolist()]
        return self._reductions.carried(bucket, entered, self._end, computed_by)

    def _compute(self, step: int, begun: Times, row: Times) -> Sequence[Times]:
        """All compute a step; when each is ready for the first reduction, or for all of them."""
        ends = self._workers.ends
        for place in range(self._number):
            work = self._workers.work(step * self._number + place)
            start, begun = begun, ends(begun, work)
            row[place] = begun
        return [
            np.minimum(begun, ends(start, np.rint(work * share).astype(np.int64)))
            for share in self._reductions.shares
        ] or [begun]

    def _reduce(self, row: Times, moments: Sequence[Times]) -> tuple[int, Times]:
        """Reduce the buckets that all enter before the end; how many, when each enters the next."""
        reductions, place, entries = self._reductions, self._number, moments[0]
        computed = row[place - 1]
        until = int(computed.max())
        moved = np.zeros((reductions.number, 2, self._start.workers), dtype=np.int64)
        if reductions.shares:
            self._moved.append(moved)
        for bucket, overhead in enumerate(reductions.overheads):
            now = int(entries.max())
            if not 0 <= now <= self._end:
                return bucket, entries
            ends = reductions.ends(bucket, entries, now, until) + overhead
            row[place], row[place + 1] = np.maximum(computed, now), np.maximum(computed, ends)
            place, entries = place + 2, ends
            if reductions.shares:
                moved[bucket, 0], moved[bucket, 1] = now, np.where(ends <= self._end, ends, now)
                self._sending += int((moved[bucket, 1] - now).sum())
                meanwhile = np.minimum(moved[bucket, 1], computed) - now
                self._hidden += int(np.maximum(meanwhile, 0).sum())
                entries = np.maximum(moments[min(bucket + 1, len(moments) - 1)], ends)
        return reductions.number, entries

    def _add_rows(self) -> None:
        """Record the latest steps."""
        first, rows = sum(map(len, self._steps)), np.array(self._rows)
        if self._moved and self._record.keeps_spans and self._start.replication == 0:
            self._add_sends(first, np.stack(self._moved))
        some = max(1, BLOCK // (self._start.workers * self._number))  # that are packed together
        for at in range(0, len(rows), some):
            self._add_gradients(first + at, rows[at : at + some])
        self._record.add_spans(rows, self._end)
        self._rows, self._moved = [], []

    def _add_sends(self, first: int, moved: Times) -> None:
        """Record the buckets of steps (steps, buckets, from and to, ranks)."""
        steps = np.arange(first + 1, first + 1 + len(moved))
        columns = np.empty((len(Span._fields), *moved[:, :, 0].shape), dtype=np.int64)
        columns[0], columns[1] = np.arange(self._start.workers), Phase.WRITE
        columns[2], columns[3] = moved[:, :, 0], moved[:, :, 1]
        columns[4] = steps[:, np.newaxis, np.newaxis] * self._number - 1
        rows = columns.reshape(len(columns), -1)
        self._sends.append_columns(rows[:, rows[2] < rows[3]])

    def _add_gradients(self, first: int, rows: Times) -> None:
        """Record the gradients of steps (steps, places, ranks) that are computed by the end."""
        number, applied = self._number, rows[:, -1].max(axis=1)
        self._steps.append(applied)
        begun = np.concatenate((self._read[np.newaxis], rows[:-1, -1]))[..., np.newaxis]
        self._read = rows[-1, -1]
        computed = rows[:, :number].transpose(0, 2, 1)  # by step, rank and micro-batch
        starts = np.concatenate((begun, computed[..., :-1]), axis=2)
        steps = np.arange(first, first + len(rows))[:, np.newaxis, np.newaxis]
        applied = applied[:, np.newaxis, np.newaxis]
        ranks, done = np.arange(self._start.workers)[:, np.newaxis], applied <= self._end
        iterations = steps * number + np.arange(number)
        times = begun, starts, computed, applied
        self._record.add_gradients(self._end, done, ranks, iterations, steps, *times)
