"""Copies that train by themselves, and meet now and then: averages and outer steps."""

from collections.abc import Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector
from varsim.cluster.copies.replicas import MemberReplicas, OutsideRead
from varsim.cluster.record.memory import full_slots
from varsim.cluster.workers.allreduce import BackgroundCollectives, Bucketing, Stream, ready_buckets
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, shares_of_compute
from varsim.learning.gradient import Array, Gradient, Parameters, Value
from varsim.learning.gradient_form import BYTES_ALL, Precision, Quantized, rounded, sum_in_order
from varsim.learning.optimizer import Optimizer

T = TypeVar("T")


class AveragedReplicas(MemberReplicas):
    """Every worker's own copy of the model; gradients or copies are averaged by all-reduces.

    An all-reduce is a barrier. `leaves_out`: all, who average copies alone, go on without the dead
    (`Group`); an average that fails changes no copy.
    """

    def __init__(self, job: Job, *, choice: Choice, leaves_out: bool = False) -> None:
        super().__init__(job)
        size, number = job.workload.size(), len(job.workers)
        if leaves_out:
            self.group.leave_out_the_dead(self, size * (1 + self.full_slots()))
        self.group.meet_for(partial(_copies, choice, job, size))
        # Updates by each replica that are in some copy, and that were in each copy when it was
        # averaged last: copies share that.
        self._updates = np.zeros(number, dtype=np.int64)
        self._averaged = [self._updates.copy()] * number
        self._offered: dict[int, dict[int, Gradient]] = {}  # by step and rank
        self._means: _Results[list[Value]] = _Results()
        self._averages: _Results[_Average] = _Results()

    def reduce(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Average a gradient with those of all, for the update that comes next."""
        gradient.open = len(self._job.trained)
        step = self.steps[worker.rank]
        self._offered.setdefault(step, {})[worker.rank] = gradient
        yield from self.group.meet(worker)
        if step in self._offered:  # the first to have it; the others still wait
            offered = self._offered.pop(step)
            in_order = [offered[rank] for rank in sorted(offered)]
            mean = [self._job.gradients.mean(in_order, index) for index in self._job.trained]
            self._means.put(step, mean, len(in_order))

    def update(self, worker: Worker, gradient: Gradient, *, reduced: bool) -> None:
        """Apply a gradient, or the mean that all have of it, to the worker's own copy."""
        rank = worker.rank
        if not reduced:
            self._updates[rank] += 1
            self.apply(worker, gradient)
            return
        seen, made = self._seen[rank] + len(self.steps), self._made
        self.apply(worker, gradient, self._means.take(self.steps[rank]))
        self._seen[rank], self._made = seen, max(made, seen)
        self._updates += seen > made  # the first to have it

    def average(self, worker: Worker) -> Activity[None]:
        """Average the worker's copy with all others, unless it has been after this step.

        The model is measured then.
        """
        rank, step = worker.rank, self.steps[worker.rank]
        if self._read[rank] == step:
            return
        present = yield from self.group.meet(worker)
        if not present:
            return
        if step not in self._averages:  # the first to have it; the others still wait
            self._averages.put(step, self._average(step, present), len(present))
        read, updates = self._averages.take(step)
        for variable, value in zip(self.variables, read.parameters, strict=True):
            variable.write(rank, value)
        self._seen[rank], self._averaged[rank] = read.updates, updates
        self._job.ledger.meet(rank, self._job.clock.time)
        if self.group.elastic:  # also updates of who has died since
            np.maximum(self._updates, updates, out=self._updates)
            self._made = int(self._updates.sum())
        if rank == self.members[0]:
            self._job.evaluate(read.parameters, read.divergence)
        self.end_read(worker)
        self.group.passes(worker)

    def leave(self, ranks: Sequence[int]) -> None:
        """See MemberReplicas; what only a dead worker's copy contained is lost."""
        super().leave(ranks)
        left = [self._averaged[member] for member in self.members]
        for rank in ranks:
            self._updates[rank] = max((updates[rank] for updates in left), default=0)
        self._made = int(self._updates.sum())

    def hand_over(self, source: int, rank: int) -> None:
        """See MemberReplicas; the other one has just been averaged."""
        super().hand_over(source, rank)
        self._averaged[rank] = self._averaged[source]

    def _average(self, step: int, present: Sequence[int]) -> "_Average":
        """The copies of those present, averaged in the order of their ranks."""
        values = tuple([self.mean(each, present) for each in self.variables])
        read = OutsideRead(values, self.divergence(), self._made)
        self._latest = step, read
        return _Average(read, self._updates.copy())


class _Average(NamedTuple):
    """Copies averaged, and the updates by replica that are in it."""

    read: OutsideRead
    updates: NDArray[np.int64]


class _Results(Generic[T]):
    """What all have come to after a step, kept until each of them has taken it."""

    def __init__(self) -> None:
        self._results: dict[int, tuple[T, int]] = {}

    def put(self, step: int, result: T, ranks: int) -> None:
        """Keep what so many will take."""
        self._results[step] = result, ranks

    def take(self, step: int) -> T:
        """What was put in for a step; the last to take it leaves nothing."""
        result, left = self._results.pop(step)
        if left > 1:
            self._results[step] = result, left - 1
        return result

    def __contains__(self, step: int) -> bool:
        return step in self._results


def _copies(choice: Choice, job: Job, size: float, ranks: Sequence[int]) -> list[Vector]:
    """What is moved among these workers: their copies."""
    return [Vector(choice.schedule_on(job.cluster.network, ranks, size), size)]


class OuterReplicas(MemberReplicas):
    """Every worker's own copy of the model, and the shared one that outer steps change.

    The numbers of the model, in the order of its variables, are cut into `fragments` of as equal
    length as can be, the first ones longer by one; in bytes they are equal. Syncs are numbered from
    0; which fragment is whose turn, and when, is the strategy's affair. A worker sends its outer
    gradient, what is shared less its own copy, in a `precision` (default: as parameters), and goes
    on; when it is back, and the mean of all is there, the outer step has been made. With `overlap`
    every layer of it is sent once the backward pass of the step before is through with that.
    Workers that die are left out (`Group`); a sync that fails takes its fragment of all copies
    back to the shared model.
    """

    def __init__(
        self,
        job: Job,
        fragments: int,
        outer: Optimizer,
        mixing: float,
        precision: Precision | Quantized | None,
        choice: Choice,
        *,
        overlap: bool = False,
    ) -> None:
        super().__init__(job)
        self._outer, self._mixing, self._precision = outer, mixing, precision
        own = job.workload.bytes_per_parameter
        number_bytes = own if precision is None else BYTES_ALL[precision]
        size = job.workload.size() / fragments
        sizes: list[float] = [size if precision is None else size / own * number_bytes]
        self._shares: list[float] = []  # of a step, after which parts are sent
        if overlap:
            layers = ready_buckets(job.workload, Bucketing("layers"), number_bytes)
            sizes = [layer.size for layer in layers]
            self._shares = shares_of_compute(job.cluster, [layer.ready for layer in layers])

        def vectors(ranks: Sequence[int]) -> list[Vector]:
            return [
                Vector(
                    choice.schedule_on(job.cluster.network, ranks, size),
                    size,
                    number_bytes=number_bytes,
                )
                for size in sizes
            ]

        self._number = len(sizes)  # in an outer gradient
        self._fragments = cut([each.values[0].size for each in self.variables], fragments)
        values = self._job.task.initial()
        self._points = [gathered(values, fragment) for fragment in self._fragments]
        self._states = [outer.init(point) for point in self._points]
        # A worker has its copy, what is shared, and the slots of both.
        slots = self.full_slots() + full_slots(self._states[0], self._points[0])
        streams = [Stream(job, worker) for worker in job.workers]
        self._reduction = BackgroundCollectives(job, streams, self.group.meet)
        self.failed = [0] * len(job.workers)  # syncs, by worker
        self._sent: dict[int, dict[int, Array]] = {}  # outer gradients by sync and rank
        self._steps_made: dict[int, _OuterStep] = {}  # by sync, until all have merged it
        # After which step of all each copy had each fragment from; 0: it never had.
        self._had = np.zeros((len(job.workers), fragments), dtype=np.int64)
        self._holdings.counts.extend([self.failed, self._reduction.done])
        self._holdings.rows.append(self._had)
        self.group.leave_out_the_dead(self, job.workload.size() * (2 + slots))
        self.group.meet_for(vectors, streams)

    def compute(self, worker: Worker, *, sends: bool) -> Activity[Gradient]:
        """Compute a gradient on a worker's copy; `sends`: its outer gradient follows at once."""
        if not (sends and self._shares):
            return worker.compute_gradient(self.read(worker))
        return self._compute_and_send(worker)

    def _compute_and_send(self, worker: Worker) -> Activity[Gradient]:
        gradient, moments = worker.begin_gradient(self.read(worker), self._shares)
        self._reduction.begin(worker, moments)
        yield from worker.finish_computing()
        return gradient

    def offer(self, worker: Worker, sync: int, fragment: int) -> None:
        """Hand over a worker's outer gradient of a fragment; takes it no time."""
        rank, pieces = worker.rank, self._fragments[fragment]
        own = gathered([each.values[rank] for each in self.variables], pieces)
        gradient = self._points[fragment] - own
        if self._precision is not None:
            # Piece by piece, each of one tensor.
            parts = [rounded(part, self._precision) for part in split(gradient, pieces)]
            gradient = np.concatenate(parts) if parts else gradient
        self._sent.setdefault(sync, {})[rank] = gradient
        if not self._shares:
            self._reduction.begin(worker)

    def merge(self, worker: Worker, sync: int, fragment: int, sent_after: int) -> Activity[None]:
        """Wait for a sync, and bring its fragment of the copy to the shared model, or nearer to it.

        `sent_after`: how many steps each worker had made when it sent. The model is measured. If
        the sync has failed, the fragment is again what was shared before.
        """
        sent_by = yield from self._reduction.finish(worker, (sync + 1) * self._number)
        rank = worker.rank
        if not sent_by:
            self._sent.pop(sync, None)
            self.failed[rank] += 1
            self._job.ledger.throw_away(rank, self._job.clock.time)
            parts = split(self._points[fragment], self._fragments[fragment])
            self._write(rank, fragment, parts, mixing=0.0)
            return
        if sync in self._sent:
            self._make_step(sync, fragment, sent_by)
        made = self._steps_made[sync]
        self._write(rank, fragment, made.parts, self._mixing)
        self._had[rank, fragment] = sent_after
        self._job.ledger.meet(rank, self._job.clock.time)
        made.left -= 1
        if made.left == 0:
            del self._steps_made[sync]
        if rank == self.members[0]:
            self._job.evaluate(self.shared(), made.divergence)
        self.group.passes(worker)

    def shared(self) -> Parameters:
        """The model after the latest outer step of every fragment."""
        values = [np.array(value) for value in self._job.task.initial()]
        for fragment, point in zip(self._fragments, self._points, strict=True):
            for piece, part in zip(fragment, split(point, fragment), strict=True):
                values[piece.variable].reshape(-1)[piece.start : piece.stop] = part
        return tuple(values)

    def leave(self, ranks: Sequence[int]) -> None:
        """See MemberReplicas; their updates do not count."""
        super().leave(ranks)
        self._made -= sum(self.steps[rank] for rank in ranks)

    def hand_over(self, source: int, rank: int) -> None:
        """See MemberReplicas; so many updates count as the other one has made."""
        super().hand_over(source, rank)
        self._made += self.steps[rank]

    def missed(self, rank: int) -> int:
        """How many updates, made by others, some fragment of a copy does not contain."""
        of_others = self._made - self.steps[rank]
        return of_others - (len(self.members) - 1) * int(np.minimum.reduce(self._had[rank]))

    def _write(self, rank: int, fragment: int, parts: Sequence[Array], mixing: float) -> None:
        """Set a fragment of a copy to `mixing` times itself and 1 - mixing times these parts."""
        for piece, new in zip(self._fragments[fragment], parts, strict=True):
            variable = self.variables[piece.variable]
            whole = variable.values[rank].copy()
            part = whole.reshape(-1)[piece.start : piece.stop]
            part[:] = mixing * part + (1.0 - mixing) * new if mixing else new
            variable.write(rank, whole)

    def _make_step(self, sync: int, fragment: int, sent_by: Sequence[int]) -> None:
        """The outer step, when the first worker has the mean of what these have sent."""
        sent = self._sent.pop(sync)
        mean = sum_in_order(np.stack([sent[rank] for rank in sent_by])) / len(sent_by)
        new, self._states[fragment] = self._outer.update(
            mean, self._states[fragment], self._points[fragment]
        )
        self._points[fragment] = new
        parts = split(new, self._fragments[fragment])
        self._steps_made[sync] = _OuterStep(parts, self.divergence(), len(sent_by))


class _OuterStep:
    """What an outer step made of a fragment, by piece, and how many workers still have to merge it.

    `divergence`: largest distance between two copies before.
    """

    def __init__(self, parts: list[Array], divergence: float, left: int) -> None:
        self.parts, self.divergence, self.left = parts, divergence, left


class FragmentPiece(NamedTuple):
    """Some numbers of one variable, one after the other."""

    variable: int
    start: int
    stop: int


def cut(sizes: Sequence[int], fragments: int) -> list[list[FragmentPiece]]:
    """Variables of so many numbers in fragments of equal length; the first ones have one more."""
    length, longer = divmod(sum(sizes), fragments)
    found, variable, start = [], 0, 0
    for number in range(fragments):
        left, pieces = length + (number < longer), []
        while left:
            if start == sizes[variable]:
                variable, start = variable + 1, 0
                continue
            stop = min(sizes[variable], start + left)
            pieces.append(FragmentPiece(variable, start, stop))
            left, start = left - (stop - start), stop
        found.append(pieces)
    return found


def gathered(values: Sequence[Array], fragment: Sequence[FragmentPiece]) -> Array:
    """The numbers of a fragment."""
    parts = [values[piece.variable].reshape(-1)[piece.start : piece.stop] for piece in fragment]
    return np.concatenate(parts) if parts else np.zeros(0)


def split(whole: Array, fragment: Sequence[FragmentPiece]) -> list[Array]:
    """A fragment's numbers by piece."""
    lengths = np.cumsum([piece.stop - piece.start for piece in fragment])
    return np.split(whole, lengths[:-1]) if fragment else []
