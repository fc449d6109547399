"""Members of all-reduces who change: the dead are left out, and who comes back is taken in."""

from collections.abc import Callable, Sequence
from typing import Protocol

from simpy.events import Event

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.collective import Collective, CollectiveOutcome, Member, Vector
from varsim.cluster.copies.replicas import received
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker


class GroupCopies(Protocol):
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
        copies: GroupCopies,
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
            if outcome is CollectiveOutcome.DONE:
                return members
            if outcome is CollectiveOutcome.FAILED:
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
