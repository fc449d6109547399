"""Groups of workers that keep one model: who takes part, who is waited for, how one comes back."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from simpy.events import Event

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.collective import Collective, CollectiveOutcome, Member, Vector
from varsim.cluster.network.network import nothing
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Slowed, Worker, restart_all


class GroupCopies(Protocol):
    """Copies of a model, of which those of the members count."""

    def leave(self, ranks: Sequence[int]) -> None:
        """Workers are no members any more: their copies are no part of the model."""

    def hand_over(self, source: int, rank: int) -> None:
        """A worker becomes a member with a copy of all that another one has."""


class Group:
    """Workers that keep one model: who takes part, who is waited for, and how one comes back.

    Membership is fixed: all are members, and one that dies is waited for. Back again, it gets the
    model (`size` bytes) over the network from the first running worker that has it, and takes its
    place. If no running worker has it any more, it is lost, and whoever needs it waits for ever.

    Or members go on without the dead (`leave_out_the_dead`). A round is joined by all members. If
    one of them dies before all have, it is of those who are left, who join it anew. If one dies
    later, it fails for all of them; but once one has the whole result, all get it. A death is known
    after `Processes.detection`, or when the worker is back. Who comes back waits until a member is
    through with a round, and gets all that this one has then; from that moment on it is a member,
    for whom others wait. (torchft: a quorum, and the recovery of those who are behind.)

    Should the one that sends the model die before all is there, which is noticed when it should be,
    another sends it.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.members = tuple(range(len(job.workers)))
        self.elastic = False  # members go on without the dead
        self.without: set[int] = set()  # who was killed, and has not had the model since
        self._size: float = job.workload.size()
        self._copies: GroupCopies
        self._dead: dict[int, int] = {}  # members that nobody knows to be: until when (ns), by rank
        self._waiting: dict[int, Event] = {}  # for the model, by rank
        self._rings: dict[tuple[int, ...], Collective]  # by members
        job.processes.on_deaths(self._lose)
        job.explain(self._remedy)

    def leave_out_the_dead(self, copies: GroupCopies, size: float) -> None:
        """Members go on without the dead; who comes back gets `size` bytes."""
        self.elastic, self._copies, self._size = True, copies, size
        self._job.processes.on_deaths(self._died)

    def meet_for(
        self,
        vectors: Callable[[Sequence[int]], Sequence[Vector]],
        seats: Sequence[Member] = (),
        slowed: Callable[[int], Slowed] | None = None,
    ) -> None:
        """What rounds move among whom, in turn; `seats`: who takes part for each worker."""
        self._vectors, self._slowed = vectors, slowed
        self._seats = seats or self._job.workers
        self._rings = {}
        self._ring = self._ring_of(self.members)

    def meet(self, member: Member) -> Activity[Sequence[int]]:
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
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for rank, event in waiting.items():
            self.without.discard(rank)
            self._copies.hand_over(worker.rank, rank)
            self._job.recorder.handed_over(self._job.clock.time, worker.rank, rank, -1, 1)
            event.succeed(worker)
        self._change((*self.members, *waiting))

    def come_back(self, worker: Worker) -> Activity[None]:
        """Get the model, as one that has come back; returns when all of it is there."""
        if worker.rank in self._dead:
            self._leave(worker)
        whole = False
        while not whole:
            source = self._source()
            if source is None:
                served = self._waiting[worker.rank] = Event(self._job.clock)
                worker.waits(Phase.BARRIER if self.elastic else Phase.READ, self)
                source = yield served
                worker.turns_to(Phase.READ)
            whole = yield from self._receive(source, worker)
            if not whole and self.elastic:
                self._leave(worker)
        self.without.discard(worker.rank)

    def lost(self) -> bool:
        """Whether no running worker has the model any more."""
        if self.elastic:
            return self._dead.keys() >= set(self.members)
        return self._source() is None

    def _source(self) -> Worker | None:
        """Who sends the model at once."""
        running = self._job.processes.running
        for worker in () if self.elastic else self._job.workers:
            if running(worker.rank) and worker.rank not in self.without:
                return worker
        return None

    def _receive(self, source: Worker, worker: Worker) -> Activity[bool]:
        """A worker gets the model from another; whether that has lived on."""
        job, life = self._job, source.restarts
        worker.waits(Phase.READ, f"the model from worker {source.rank}")
        arrived = Event(job.clock)
        route = job.network.route(source.place, worker.place)
        job.network.pass_on(route, self._size, nothing, partial(_happen, arrived))
        yield arrived
        worker.goes_on()
        return job.processes.running(source.rank) and source.restarts == life

    def _lose(self, ranks: Sequence[int]) -> None:
        """The copies of workers that were killed are not there any more."""
        exits = self._job.processes.exits
        self.without.update(rank for rank in ranks if exits[rank].killed)

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
        if not known or (self.lost() and len(known) < len(self._dead)):
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
            self._rings[members] = Collective(
                self._job,
                *first,
                more=more,
                members=[self._seats[rank] for rank in members],
                slowed=self._slowed,
                may_fail=self.elastic,
            )
        return self._rings[members]

    def _remedy(self, dead: Sequence[int]) -> str:
        """What would free a run; see `Job.explain`."""
        if self.lost():
            return "nothing can, as no running worker has the model any more"
        return "" if self.elastic else restart_all(dead)

    def __str__(self) -> str:
        if self.elastic and self.members:
            return "the end of an all-reduce, to get the model from a member"
        return "the model, which no running worker has"


def _happen(event: Event) -> None:
    event.succeed()
