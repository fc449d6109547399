"""Members of all-reduces who change: the dead are left out, and who comes back is taken in.

And copies of a model of which those of members count: each its own, or mirrored.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from simpy.events import Event

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Collective, Member, Outcome, Vector
from varsim.cluster.copies.replicas import LocalReplicas, MirroredReplicas, received
from varsim.cluster.record.memory import full_slots
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.exchange import GradientExchange
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.distribute.attributes import Aggregation
from varsim.distribute.variable import DistributedVariable
from varsim.learning.gradient import Array, Gradient
from varsim.learning.optimizer import State


class Copies(Protocol):
    """Copies of a model, of which those of the members count."""

    def leave(self, ranks: Sequence[int]) -> None:
        """Workers are no members any more: their copies are no part of the model."""

    def hand_over(self, source: int, rank: int) -> None:
        """A worker becomes a member with a copy of all that another one has."""


class Quorum:
    """Members of all-reduces, which go on without those who have died.

    A round is joined by all members. If one of them dies before all have, it is of those who are
    left, who join it anew. If one dies later, it fails for all of them; but once one has the whole
    result, all get it. A death is known after `Processes.detection`, or when the worker is back.
    Who comes back waits until a member is through with a round, and gets all that this one has then
    (`size` bytes) over the network; from that moment on it is a member, for whom others wait.
    Should the other die before all is there, it waits for the end of another round. (torchft: a
    quorum, and the recovery of those who are behind.)

    `seats`: who takes part, by worker. `vectors`: what is moved among these.
    """

    def __init__(
        self,
        job: Job,
        seats: Sequence[Member],
        vectors: Callable[[Sequence[int]], Sequence[Vector]],
        size: float,
        copies: Copies,
    ) -> None:
        self._job, self._seats, self._vectors = job, seats, vectors
        self._size, self._copies = size, copies
        self._rings: dict[tuple[int, ...], Collective] = {}
        self._waiting: dict[int, Event] = {}  # who has come back, by rank
        self._dead: dict[int, int] = {}  # members that nobody knows to be: until when (ns), by rank
        self.members = tuple(seat.rank for seat in seats)
        self._ring = self._ring_of(self.members)
        job.processes.on_deaths(self._died)
        job.processes.without_model.append(self._nobody_left)
        job.explain(self._remedy)

    def take_part(self, member: Member) -> Activity[Sequence[int]]:
        """Take part in the next round; the ranks whose vectors are in the result, none if failed.

        A member has the results of one round after the other.
        """
        while True:
            members, ring = self.members, self._ring
            outcome = yield from ring.take_part(member)
            if outcome is Outcome.DONE:
                return members
            if outcome is Outcome.FAILED:
                return ()

    def passes(self, worker: Worker) -> None:
        """A member is through with a round; who has come back is a member from now on."""
        waiting, self._waiting = self._waiting, {}
        for rank, event in waiting.items():
            self._copies.hand_over(worker.rank, rank)
            self._job.recorder.handed_over(self._job.clock.time, worker.rank, rank, -1, 1)
            event.succeed(worker)
        if waiting:
            self._change((*self.members, *waiting))

    def come_back(self, worker: Worker) -> Activity[None]:
        """Who has come back becomes a member; returns when it has all that members have."""
        yield from worker.free()
        if worker.rank in self._dead:
            self._leave(worker)
        whole = False
        while not whole:
            served = self._waiting[worker.rank] = Event(self._job.clock)
            worker.waits(Phase.BARRIER, self)
            source: Worker = yield served
            worker.turns_to(Phase.READ)
            whole = yield from received(self._job, source, worker, self._size)
            if not whole:
                self._leave(worker)

    def _died(self, ranks: Sequence[int]) -> None:
        clock, wait = self._job.clock, self._job.processes.detection
        for rank in ranks:
            self._waiting.pop(rank, None)
            if rank in self.members and rank not in self._dead:
                self._dead[rank] = clock.time + wait
                if wait:
                    clock.call_at(clock.time + wait, self._know)
        if not wait:
            self._know()

    def _nobody_left(self) -> bool:
        return self._dead.keys() >= set(self.members)

    def _leave(self, worker: Worker) -> None:
        """A worker is there, but without the model: others know that it is no member any more."""
        self._dead[worker.rank] = self._job.clock.time
        self._know()

    def _know(self) -> None:
        """Others know by now who is dead, and go on; if nobody is left, all they made is lost.

        Then nobody is there to go on until the last death is known, too.
        """
        now = self._job.clock.time
        known = [rank for rank, when in self._dead.items() if when <= now]
        if not known or (self._nobody_left() and len(known) < len(self._dead)):
            return
        for rank in known:
            del self._dead[rank]
        left = [member for member in self.members if member not in known]
        self._change(left)
        self._copies.leave(known)
        if not self.members:
            self._job.processes.lose_model()

    def _change(self, members: Sequence[int]) -> None:
        """Whoever waits in a round that these are not the members of joins it anew."""
        self._ring.release()
        self.members = tuple(sorted(members))
        self._ring = self._ring_of(self.members)

    def _ring_of(self, members: tuple[int, ...]) -> Collective:
        if members not in self._rings:
            first, *more = self._vectors(members or (0,))
            seats = [self._seats[rank] for rank in members]
            self._rings[members] = Collective(
                self._job, *first, more=more, members=seats, may_fail=True
            )
        return self._rings[members]

    def _remedy(self, dead: Sequence[int]) -> str:
        return "" if self.members else "nothing can, as no running worker has the model any more"

    def __str__(self) -> str:
        if self.members:
            return "the end of an all-reduce, to get the model from a member"
        return "the model, which no running worker has"


class Held(NamedTuple):
    """All that a worker has of a model, and counts: what another one takes from it."""

    values: Sequence[Array]
    states: Sequence[State]
    counts: Sequence[int]
    rows: Sequence[NDArray[np.int64]] = ()


class Holdings(NamedTuple):
    """What workers hold, by rank: copies of variables, counts, and rows of numbers."""

    variables: Sequence[DistributedVariable]
    counts: list[list[int]]
    rows: list[NDArray[np.int64]]

    def of(self, rank: int) -> Held:
        """What one of them holds."""
        values = [variable.values[rank] for variable in self.variables]
        states = [variable.states[rank] for variable in self.variables]
        counts = [count[rank] for count in self.counts]
        return Held(values, states, counts, [row[rank].copy() for row in self.rows])

    def take(self, rank: int, held: Held) -> None:
        """One of them takes all that another one has, or had."""
        for variable, value, state in zip(self.variables, held.values, held.states, strict=True):
            variable.values[rank] = value
            variable.states[rank] = state
        for count, number in zip(self.counts, held.counts, strict=True):
            count[rank] = number
        for row, numbers in zip(self.rows, held.rows, strict=True):
            row[rank] = numbers


class MemberReplicas(LocalReplicas):
    """Local copies whose mean is the model; a worker's can be handed over."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, Aggregation.MEAN)
        counts = [self.steps, self._seen, self._met, self._read]
        self._holdings = Holdings(self.variables, counts, [])

    def leave(self, ranks: Sequence[int]) -> None:
        """Copies are no part of the model any more; steps that only they had to make count."""
        for rank in ranks:
            self.members.remove(rank)
        if not self.members:
            self._unfinished.clear()
        for step in sorted(self._unfinished):
            self._unfinished[step] -= sum(step >= self.steps[rank] for rank in ranks)
            if not self._unfinished[step]:
                del self._unfinished[step]
                self._job.count_step()

    def hand_over(self, source: int, rank: int) -> None:
        """A copy becomes part of the model again, with all that another one has and counts."""
        insort(self.members, rank)
        self._holdings.take(rank, self._holdings.of(source))
        self._died.discard(rank)
        for step in self._unfinished:
            self._unfinished[step] += step >= self.steps[rank]


class PresentReplicas(MirroredReplicas):
    """Mirrored copies of the model, updated with the mean gradient of the workers present.

    These are the members of a `Quorum`. If its all-reduce fails, the gradients are dropped: what
    others have added of them is lost with the sum.
    """

    def __init__(self, job: Job, choice: Choice, *, of_all: bool) -> None:
        super().__init__(job, of_all=of_all)
        size, of_number = job.workload.gradient_size(), job.workload.gradient_bytes
        first = self._trained[0]
        whole = job.workload.size() * (1 + full_slots(first.state, first.value))

        def vectors(ranks: Sequence[int]) -> list[Vector]:
            schedule = choice.schedule_on(job.cluster.network, ranks, size)
            return [Vector(schedule, size, number_bytes=of_number)]

        self._holdings = Holdings(self.variables, [self._steps], [])
        self._quorum = Quorum(job, job.workers, vectors, whole, self)

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again gets the model after an update, with the optimizer's slots."""
        yield from self._quorum.come_back(worker)

    def reduce(self, worker: Worker) -> Activity[None]:
        """Take part in the all-reduce of a step."""
        ranks = yield from self._quorum.take_part(worker)
        this = self._rounds[self._steps[worker.rank]]
        if not ranks:
            self._drop(this.gradients.pop(worker.rank), lost=False)
            self._job.ledger.throw_away(worker.rank, self._job.clock.time)
        elif this.left is None:
            for rank in this.gradients.keys() - set(ranks):
                self._drop(this.gradients.pop(rank), lost=True)
            this.left = set(ranks) & set(self._quorum.members)

    def has_mean(self, worker: Worker) -> bool:
        this = self._rounds.get(self._steps[worker.rank])
        return this is not None and this.left is not None

    def apply(self, worker: Worker) -> None:
        """Update a worker's copy with the mean; the step counts when all present have."""
        super().apply(worker)
        self._quorum.passes(worker)

    def leave(self, ranks: Sequence[int]) -> None:
        """Workers are not present any more: nobody waits for them to apply an update."""
        for step, this in sorted(self._rounds.items()):
            if this.left is not None:
                this.left.difference_update(ranks)
                if not self._quorum.members:
                    this.parameters = None  # whoever had applied it is gone, too
                if not this.left:
                    self._close(step)

    def hand_over(self, source: int, rank: int) -> None:
        """A worker is present, with the copy of another one."""
        self._holdings.take(rank, self._holdings.of(source))


class PresentAllReduce(GradientExchange[Sequence[Gradient]]):
    """Gradients of those present, which are all-reduced once they are computed."""

    def __init__(self, job: Job, copies: PresentReplicas) -> None:
        super().__init__(job)
        self._copies = copies

    def finish(self, worker: Worker, gradient: Sequence[Gradient]) -> Activity[None]:
        return self._copies.reduce(worker)
