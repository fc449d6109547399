"""Copies that train by themselves and are averaged from time to time."""

from collections.abc import Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector
from varsim.cluster.copies.replicas import MemberReplicas, OutsideRead
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Gradient, Value

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
