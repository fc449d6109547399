"""Copies that train by themselves and are averaged from time to time, all or group by group."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import Activity
from varsim.cluster.collective import Collective, Vector
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.job import Job
from varsim.cluster.leading import Held
from varsim.cluster.members import MemberReplicas
from varsim.cluster.quorum import Quorum
from varsim.cluster.replicas import OutsideRead
from varsim.cluster.worker import Worker
from varsim.values.gradient import Array, Gradient, Value
from varsim.values.gradient_form import sum_in_order
from varsim.values.optimizer import State

T = TypeVar("T")

# The step after which a group of ranks meets, and its number among the groups of its size.
Meeting = tuple[int, int]


class AveragedReplicas(MemberReplicas):
    """Every worker's own copy of the model; gradients or copies are averaged by all-reduces.

    Groups are of so many neighbouring ranks each: `of_gradients` and `of_copies` are the sizes that
    occur. An all-reduce is the barrier of its group. `with_state`: the slots of the optimizer are
    sent and averaged, too. `leaves_out`: all, who average copies alone, go on without the dead
    (`Quorum`); an average that fails changes no copy.
    """

    def __init__(
        self,
        job: Job,
        of_gradients: Collection[int],
        of_copies: Collection[int],
        *,
        choice: Choice,
        with_state: bool = False,
        leaves_out: bool = False,
    ) -> None:
        super().__init__(job)
        self._with_state = with_state
        self._gradient = job.workload.size()
        self._copy = self._gradient * (1 + (self.full_slots() if with_state else 0))
        wanted = {(ranks, self._gradient) for ranks in of_gradients if ranks > 1}
        wanted |= {(ranks, self._copy) for ranks in of_copies if ranks > 1}
        if leaves_out:
            wanted.clear()
        # Where several take turns on the links, one may begin while another still sends.
        by_message = True if len(wanted) > 1 else None
        self._reductions = {
            (ranks, size): [
                Collective(
                    job,
                    choice.schedule(ranks, size),
                    size,
                    by_message=by_message,
                    members=job.workers[first : first + ranks],
                )
                for first in range(0, len(job.workers), ranks)
            ]
            for ranks, size in sorted(wanted)
        }
        # Updates by each replica that there have been, and that each copy (row) contains.
        self._updates = np.zeros(len(job.workers), dtype=np.int64)
        self._contained = np.zeros((len(job.workers), len(job.workers)), dtype=np.int64)
        self._holdings.rows.append(self._contained)
        self._contained_then = np.zeros_like(self._updates)  # in what is had by who begins again
        self._offered: dict[Meeting, dict[int, Gradient]] = {}
        self._means: _Results[list[Value]] = _Results()
        self._averages: _Results[_Average] = _Results()
        self._quorum: Quorum | None = None
        if leaves_out:
            whole = self._gradient * (1 + self.full_slots())  # a copy and its slots
            self._quorum = Quorum(
                job, job.workers, partial(_copies, choice, self._copy), whole, self
            )

    def reduce(self, worker: Worker, gradient: Gradient, ranks: int) -> Activity[None]:
        """Average a gradient with those of the worker's group, for the update that comes next."""
        if ranks == 1:
            return
        gradient.open = len(self._job.trained)
        meeting = self._meeting(worker, ranks)
        self._offered.setdefault(meeting, {})[worker.rank] = gradient
        yield from self._all_reduce(worker, ranks, self._gradient)
        if meeting in self._offered:
            offered = self._offered.pop(meeting)
            assert len(offered) == ranks
            in_order = [offered[rank] for rank in sorted(offered)]
            mean = [self._job.gradients.mean(in_order, index) for index in self._job.trained]
            self._means.put(meeting, mean, ranks)

    def update(self, worker: Worker, gradient: Gradient, ranks: int) -> None:
        """Apply a gradient, or the mean that its group has of it, to the worker's own copy."""
        rank = worker.rank
        if ranks == 1:
            self._contained[rank, rank] += 1
            self._updates[rank] += 1
            self.apply(worker, gradient)
            return
        group = slice(rank // ranks * ranks, (rank // ranks + 1) * ranks)
        contained = self._contained[rank]
        contained[group] += 1
        self._updates[group] = np.maximum(self._updates[group], contained[group])
        self.apply(worker, gradient, self._means.take(self._meeting(worker, ranks)))

    def average(self, worker: Worker, ranks: int) -> Activity[None]:
        """Average the worker's copy with those of its group, unless it has been after this step.

        In a group of 0 ranks nothing is averaged. Where all have met, the model is measured.
        """
        rank = worker.rank
        if ranks == 0 or self._read[rank] == self.steps[rank]:
            return
        meeting = self._meeting(worker, ranks)
        group: Sequence[int] = range(meeting[1] * ranks, (meeting[1] + 1) * ranks)
        if self._quorum is not None:
            group = yield from self._quorum.take_part(worker)
            if not group:
                return
        elif ranks > 1:
            yield from self._all_reduce(worker, ranks, self._copy)
        if meeting not in self._averages:  # the first to have it; the others still wait
            of_all = ranks == len(self._job.workers)
            made = self._average(meeting[0], group, of_all=of_all)
            self._averages.put(meeting, made, len(group))
        average = self._averages.take(meeting)
        for variable, value, state in zip(
            self.variables, average.read.parameters, average.states, strict=True
        ):
            variable.write(rank, value)
            if self._with_state:
                variable.states[rank] = state
        self._contained[rank] = average.contained
        self._job.failures.meet(rank)
        if self._quorum is not None:  # also updates of who has died since
            np.maximum(self._updates, average.contained, out=self._updates)
        if rank == self.members[0] and ranks == len(self._job.workers):
            self._job.evaluate(average.read.parameters, average.read.divergence)
        self.end_read(worker)
        if self._quorum is not None:
            self._quorum.passes(worker)
            yield from self._quorum.save(worker)

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again gets what all averaged last, from another one; new slots.

        Or, where the dead are left out, all that another one has after an average.
        """
        if self._quorum is not None:
            yield from self._quorum.come_back(worker)
            return
        yield from super().recover(worker)
        self._contained[worker.rank] = self._contained_then

    def leave(self, ranks: Sequence[int]) -> None:
        """See MemberReplicas; what only a dead worker's copy contained is lost."""
        super().leave(ranks)
        for rank in ranks:
            self._updates[rank] = self._contained[self.members, rank].max(initial=0)

    def restore(self, held: Held) -> None:
        super().restore(held)
        np.copyto(self._updates, self._contained[0])

    def missed(self, rank: int) -> int:
        return int(np.add.reduce(self._updates - self._contained[rank]))

    def _meeting(self, worker: Worker, ranks: int) -> Meeting:
        return self.steps[worker.rank], worker.rank // ranks

    def _all_reduce(self, worker: Worker, ranks: int, size: int) -> Activity[object]:
        return self._reductions[ranks, size][worker.rank // ranks].take_part(worker)

    def _average(self, step: int, group: Sequence[int], *, of_all: bool) -> "_Average":
        """The copies of a group, averaged in the order of their ranks."""
        values = tuple([self.mean(each, group) for each in self.variables])
        states = [
            tuple(map(_mean, zip(*(each.states[rank] for rank in group), strict=True)))
            for each in self.variables
        ]
        if not of_all:
            contained = self._contained[list(group)].max(axis=0)
            return _Average(OutsideRead(values, 0.0, 0), states, contained)
        read = OutsideRead(values, self.divergence(), self._made)
        self._latest, self._contained_then = (step, read), self._updates.copy()
        return _Average(read, states, self._contained_then)


class _Average(NamedTuple):
    """Copies averaged: the values, the slots beside each variable, updates by replica in it."""

    read: OutsideRead
    states: list[State]
    contained: NDArray[np.int64]


class _Results(Generic[T]):
    """What groups have come to in their meetings, kept until each of them has taken it."""

    def __init__(self) -> None:
        self._results: dict[Meeting, tuple[T, int]] = {}

    def put(self, meeting: Meeting, result: T, ranks: int) -> None:
        """Keep what so many will take."""
        self._results[meeting] = result, ranks

    def take(self, meeting: Meeting) -> T:
        """What was put in for a meeting; the last to take it leaves nothing."""
        result, left = self._results.pop(meeting)
        if left > 1:
            self._results[meeting] = result, left - 1
        return result

    def __contains__(self, meeting: Meeting) -> bool:
        return meeting in self._results


def _copies(choice: Choice, size: float, ranks: int) -> list[Vector]:
    """What is moved among so many ranks: their copies."""
    return [Vector(choice.schedule(ranks, size), size)]


def _mean(parts: Sequence[Array]) -> Array:
    """Arrays of one shape, added up in their order and divided by their number."""
    return sum_in_order(np.stack(parts)) / len(parts)
