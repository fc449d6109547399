"""Collectives of all workers, by any schedule.

What messages and copies cost besides (`overheads`) comes at the end of it all.
"""

import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import cycle
from typing import NamedTuple, Protocol

from simpy.events import Event

from varsim.cluster.clock import END_OF_TIME, Activity, Ended
from varsim.cluster.collectives.carrying import Recurrence, Walk
from varsim.cluster.collectives.plan import CollectivePlan, MessagePath, Paths
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.servers import broadcast_overhead, collective_overhead
from varsim.cluster.network.batch import Message
from varsim.cluster.network.network import Network
from varsim.cluster.network.topology import Place, Topology, WireProtocol
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Slowed, Worker
from varsim.learning.workload import Workload

_BARRIER = int(Phase.BARRIER)


class Member(Protocol):
    """Member of a collective: a worker, or what takes part beside it."""

    rank: int
    waits_for: object

    def waits(self, phase: int, what: object) -> None:
        """It waits from now on."""

    def turns_to(self, phase: int) -> None:
        """The wait turns into something else."""

    def goes_on(self) -> None:
        """The wait is over."""


class Vector(NamedTuple):
    """Vector to be moved: its schedule, its bytes, and what a worker's time meanwhile is.

    `number_bytes`: of one number in it, by default that of a parameter.
    """

    schedule: Schedule
    size: float
    phase: int = Phase.WRITE
    number_bytes: float | None = None


class CollectiveOutcome(Enum):
    """How a member's part in a round has ended."""

    DONE = 0  # it has the whole result
    FAILED = 1  # another has died on the way
    RECALLED = 2  # another has died, or has come, before all had joined: it is to join anew


# As plain names: looking up a member of an enum costs more than what is done with it.
_DONE, _FAILED, _RECALLED = CollectiveOutcome


class CollectiveRound(NamedTuple):
    """Round of a collective: its plan, its overhead (ns), the phase of who waits for it."""

    plan: CollectivePlan
    overhead: int
    phase: int


class Collective:
    """Collective in which all workers meet, for vectors of one size; used again and again.

    Where each link is one rank's, and none is slow, the times follow from the recurrence; else all
    is sent message by message over the links. Both give the same times. `paths`: how messages
    go from rank to rank, by default over the workers' own links. `more`: vectors of which each is
    for a round after that of the one before, until it is the turn of the first again. `members`:
    who takes part, by default all workers. `slowed`: at which pace messages of the so many-th round
    go, as far as is known now; by default at the links' own.

    With a dead member it stands still: who has the result keeps it, nobody else gets it. When the
    dead one has come back and taken its place again, everything is sent once more. Where anybody
    comes back before the end of the run (`Processes.disturb`), all is sent message by message, as
    others send over the same links then; but until somebody dies the recurrence says who goes on
    when, in the order in which it does otherwise.

    Where others are to go on without a dead member (`may_fail`), it is carried to its end if
    anybody has the result when one dies, and else stands still until those who wait are `release`d.
    """

    def __init__(
        self,
        job: Job,
        schedule: Schedule,
        size: float,
        phase: int = Phase.WRITE,
        number_bytes: float | None = None,
        *,
        paths: Paths | None = None,
        by_message: bool | None = None,
        more: Sequence[Vector] = (),
        members: Sequence[Member] | None = None,
        slowed: Callable[[int], Slowed] | None = None,
        may_fail: bool = False,
    ) -> None:
        self._slowed, self._may_fail = slowed, may_fail
        self._pace = Slowed(0, 1.0)  # of the latest round that all have joined
        self._joined = 0  # rounds that all have
        self._job, self._clock = job, job.clock
        self._members: Sequence[Member] = job.workers if members is None else members
        self._ranks = schedule.ranks
        # Of each member, by its rank among the workers, that in the collective.
        self._places = {member.rank: place for place, member in enumerate(self._members)}
        paths = paths or own_links(job, list(self._places), side_by_side=schedule.side_by_side)
        vectors = (Vector(schedule, size, phase, number_bytes), *more)
        rounds = [planned(job.cluster, job.workload, vector, paths) for vector in vectors]
        self._round, self._turns = rounds[0], cycle([*rounds[1:], rounds[0]])
        plan = rounds[0].plan
        self._several = len(rounds) > 1
        self._idle = plan.idle
        shared = needs_messages(job.cluster.network, plan)
        self._foreseen = by_message is None and not shared
        if by_message is None:
            by_message = shared or job.processes.disturb(may_fail=may_fail)
        self._by_message = by_message
        self._recurrence = Recurrence(plan)
        if self._by_message:
            plans = [one.plan for one in rounds]
            job.network.crossed_in_a_round.append(lambda: sum(one.crossed for one in plans))
        else:
            job.network.also_count(self._count)
        self._entries: list[int | None] = [None] * self._ranks  # to the round they come to
        self._ends: list[Event] = [Event(job.clock) for _ in range(self._ranks)]
        self._come = 0
        self._walk: Walk | None = None
        self._under_way: Walk | None = None  # of the latest round that all have joined
        self._broken = False  # one of those who had come has died: nobody sends until all are there
        self._broken_at = END_OF_TIME  # ns
        self._moving: list[Event] = []  # the ends of the latest round that all have joined
        self._latest = self._round  # what that moves
        self._missing: set[int] = set()  # who died in it before its end

    def take_part(self, worker: Member) -> Activity[CollectiveOutcome]:
        """Take part with this worker; returns when it has the whole result, or is released."""
        clock = self._clock
        if self._idle:
            return _DONE
        rank = self._places[worker.rank]
        if self._missing and rank in self._missing:
            this, end = self._latest, self._return(worker)
        else:
            this = self._round
            end = self._ends[rank]
            self._entries[rank] = clock.time
            self._come += 1
            worker.waits(_BARRIER, self)
            if self._by_message and not self._broken:
                if self._walk is None:
                    self._walk = self._walk_of(this.plan, self._joined)
                self._walk.enter(rank)
            if self._come == self._ranks:
                self._start_over()
        try:
            outcome = yield end
            if outcome is _RECALLED:
                worker.turns_to(Phase.BARRIER)
                worker.goes_on()
                return outcome
            if this.overhead:
                yield clock.time + this.overhead
        except Ended:
            self._break(worker, end)
            raise
        worker.goes_on()
        return outcome or _DONE

    def release(self) -> None:
        """Let all go on who wait here: for the end of what has lost a member, or for one more."""
        for end in self._moving if self._missing else ():
            if end.callbacks is not None:
                end.succeed(_FAILED)
        self._missing.clear()
        for place, entry in enumerate(self._entries):
            if entry is not None:
                self._ends[place].succeed(_RECALLED)
                self._ends[place] = Event(self._clock)
                self._entries[place] = None
        self._come = 0
        if self._walk is not None:
            self._walk.give_up()
            self._walk = None
        self._broken = False

    def _start_over(self) -> None:
        """Everybody has come: fix the ends of this round and be ready for the next."""
        ends = self._ends
        for member in self._members:
            member.turns_to(self._round.phase)
        self._come = 0
        self._joined += 1
        self._ends = [Event(self._clock) for _ in ends]
        self._moving = ends
        if self._several:
            self._latest, self._round = self._round, next(self._turns)
            self._recurrence.turn_to(self._latest.plan)
        if self._walk is not None:
            self._under_way, self._walk = self._walk, None
            if self._foreseen and not self._job.processes.died:
                self._foresee(ends)
            else:
                self._under_way.tell(ends)
        else:
            self._move(ends)
        self._broken = False
        self._entries = [None] * self._ranks

    def _move(self, ends: Sequence[Event]) -> None:
        """Let everything be sent; each rank is done when its event happens."""
        if not self._by_message:
            self._foresee(ends)
            return
        self._under_way = self._walk_of(self._latest.plan, self._joined - 1)
        self._under_way.tell(ends)
        for rank in range(self._ranks):
            self._under_way.enter(rank)

    def _walk_of(self, plan: CollectivePlan, number: int) -> Walk:
        """The messages of a round of this number."""
        slowed = None if self._slowed is None else partial(self._slowed, number)
        return Walk(self._clock, plan, self._under_way, slowed)

    def _foresee(self, ends: Sequence[Event]) -> None:
        """Each rank is done when the recurrence says so."""
        entries = [entry for entry in self._entries if entry is not None]
        if self._slowed is None:
            times = self._recurrence.ends(entries)
        else:
            slowed = self._pace = self._slowed(self._joined - 1)
            work = self._recurrence.ends([round(slowed.work_at(time)) for time in entries])
            times = [max(self._clock.time, round(slowed.time_of(done))) for done in work]
        for time, end in zip(times, ends, strict=True):
            self._clock.trigger_at(time, end)

    def _break(self, worker: Member, end: Event) -> None:
        """A member has died before its end: what was sent is of no use to those not done."""
        rank = self._places[worker.rank]
        if isinstance(end._value, CollectiveOutcome):
            return  # it was released
        if end is self._ends[rank]:
            self._come -= 1
            if self._may_fail:
                self._entries[rank] = None
            self._broken = True
            self._broken_at = min(self._broken_at, self._clock.time)
            if self._walk is not None:
                self._walk.give_up()
                self._walk = None
            return
        if self._may_fail and any(other.callbacks is None for other in self._moving):
            return
        self._missing.add(rank)
        if end.callbacks is None:
            return  # it had the result, but for the overhead
        if self._under_way is not None:
            self._under_way.give_up()
            self._under_way = None
        self._recurrence.give_up(self._clock.time)
        for place, (other, event) in enumerate(zip(self._members, self._moving, strict=True)):
            if event.callbacks is not None:
                self._clock.withdraw(event)
                if place not in self._missing:  # who has died in it may be back, at something else
                    other.turns_to(Phase.BARRIER)
                    other.waits_for = self

    def _count(self, end: int) -> None:
        """Count the bytes that have passed links without a message when the run ends (ns)."""
        latest, entries, coming, pace = end, self._entries, end, self._pace
        if self._slowed is not None:
            latest = round(self._pace.work_at(end))
            pace = self._slowed(self._joined)
            entries = [None if one is None else round(pace.work_at(one)) for one in entries]
            coming = round(pace.work_at(end))
        self._recurrence.count(latest, self._round.plan, entries, self._broken_at, coming)

    def _return(self, worker: Member) -> Event:
        """A member is back in the round it died in; its end."""
        rank = self._places[worker.rank]
        self._missing.discard(rank)
        worker.waits(Phase.BARRIER, self)
        if self._moving[rank].callbacks is None:
            self._moving[rank] = Event(self._clock).succeed()
        elif not any(self._moving[other].callbacks is not None for other in self._missing):
            for other, event in zip(self._members, self._moving, strict=True):
                if event.callbacks is not None:
                    other.turns_to(self._latest.phase)
            self._move([_if_open(event) for event in self._moving])
        return self._moving[rank]

    def __str__(self) -> str:
        if self._missing:
            return f"{self._latest.plan.schedule.what} that lost a member on the way"
        return f"{self._round.plan.schedule.what} that {self._come} of {self._ranks} have joined"


def planned(cluster: Cluster, workload: Workload, vector: Vector, paths: Paths) -> CollectiveRound:
    """A vector's round, sent by the protocol by which all would be done first."""
    schedule, size, phase, number_bytes = vector
    overheads, overhead = cluster.overheads, 0
    adding_rate = None if overheads is None else overheads.reduction
    plan = CollectivePlan(schedule, size, paths, adding_rate)
    if cluster.network.protocols is not None:
        others = [_sent_by(protocol, paths) for protocol in cluster.network.protocols]
        plans = [plan, *(CollectivePlan(schedule, size, other, adding_rate) for other in others)]
        plan = min(plans, key=_time_alone)
    if overheads is not None:
        parameters = math.ceil(size / (number_bytes or workload.bytes_per_parameter))
        seconds = collective_overhead(overheads, *schedule.traffic(size, parameters))
        overhead = round(seconds * 1e9)
    return CollectiveRound(plan, overhead, phase)


def _sent_by(protocol: WireProtocol, paths: Paths) -> Paths:
    """The same paths, over which messages are sent by a protocol."""

    def sent(source: int, target: int) -> MessagePath:
        path = paths(source, target)
        sooner = path.network.routing.sooner(path.route, protocol)
        return path._replace(payload=protocol.payload, sooner=sooner)

    return sent


def _time_alone(plan: CollectivePlan) -> int:
    """When the last rank is done (ns) if all enter at 0, on links that carry nothing else."""
    return max(Recurrence(plan).ends([0] * plan.schedule.ranks))


def needs_messages(topology: Topology, plan: CollectivePlan) -> bool:
    """Whether links are shared; or slow or relayed over, where the recurrence would do, too."""
    if plan.relayed:
        return True
    return not (plan.uniform or (plan.exclusive and not topology.slow_links))


def own_links(job: Job, ranks: Sequence[int] | None = None, *, side_by_side: bool = False) -> Paths:
    """Messages go over the route from one worker's place to the other's; see `Schedule`.

    `ranks`: of the workers that take part, by default all.
    """
    workers = job.workers if ranks is None else [job.workers[rank] for rank in ranks]
    return links_between(
        job.network, [worker.place for worker in workers], side_by_side=side_by_side
    )


def links_between(network: Network, places: Sequence[Place], *, side_by_side: bool) -> Paths:
    """Messages go over the route from one rank's place to the other's; see `Schedule`."""
    route = network.routing.side_by_side(places) if side_by_side else network.route
    return lambda source, target: MessagePath(network, route(places[source], places[target]))


def _if_open(event: Event) -> Event:
    """The event if it has not happened yet, else one that nobody waits for."""
    return event if event.callbacks is not None else Event(event.env)


class Broadcast:
    """Broadcast of `size` bytes from worker 0 to every other, each over its own route."""

    def __init__(self, job: Job, size: float) -> None:
        self._job = job
        first, *others = job.workers
        routes = [job.network.route(first.place, other.place) for other in others]
        messages = [Message(item, route, size) for item, route in enumerate(routes)]
        self._batch = job.network.batch(messages) if others else None
        self._arrivals = [Event(job.clock) for _ in others]
        self._copy: _CopySent | None = None  # that is being sent
        self._sent = 0  # broadcasts sent to the last
        self._received = [0] * len(others)  # the latest that has arrived
        self._taken = [0] * len(others)  # the latest that somebody has gone on with
        self._overhead = 0  # ns
        if job.cluster.overheads is not None:
            seconds = broadcast_overhead(job.cluster.overheads, len(job.workers), size)
            self._overhead = round(seconds * 1e9)

    def take_part(self, worker: Worker) -> Activity[None]:
        """Send (worker 0) or receive (the others); returns when this worker's part is done."""
        if self._batch is None:
            return
        clock = self._job.clock
        if worker.rank == 0:
            self._copy = _CopySent(self._sent + 1)
            try:
                yield from self._job.network.send(worker, self._batch, self._copy, self._arrived)
            except Ended:
                self._copy = None  # what is under way is lost; who comes back sends it again
                raise
            self._sent += 1
            if self._overhead:
                end = clock.time + self._overhead
                worker.transferred(Phase.WRITE, end, self._overhead)
                yield end
            return
        item = worker.rank - 1
        worker.waits(Phase.READ, self)
        if self._received[item] == self._taken[item]:
            yield self._arrivals[item]
        if self._overhead:
            yield clock.time + self._overhead
        self._taken[item] += 1
        worker.goes_on()

    def _arrived(self, item: int, copy: "_CopySent") -> None:
        if copy is not self._copy or self._received[item] == copy.number:
            return
        self._received[item] = copy.number
        event, self._arrivals[item] = self._arrivals[item], Event(self._job.clock)
        event.succeed()

    def __str__(self) -> str:
        return "a broadcast from worker 0"


class _CopySent:
    """A copy of the model on its way, of the broadcast of this number."""

    arrived = -1

    def __init__(self, number: int) -> None:
        self.number = number
