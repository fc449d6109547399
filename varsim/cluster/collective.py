"""Collectives of all workers: all-reduces by any schedule, and a broadcast of worker 0.

What messages and copies cost besides (`overheads`) comes at the end of it all.
"""

import math
from collections.abc import Sequence

from simpy.events import Event

from varsim.cluster.clock import Activity, Ended, Pause
from varsim.cluster.collectives.plan import Path, Paths, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.collectives.walk import Walk
from varsim.cluster.job import Job
from varsim.cluster.overheads import broadcast_overhead, collective_overhead
from varsim.cluster.parcel import Message
from varsim.cluster.worker import Worker
from varsim.trace import Phase


class Collective:
    """A collective in which all workers meet, for vectors of one size; used again and again.

    Where all links are equal, and each is one rank's, the times follow from the recurrence; else
    all is sent message by message over the links. Both give the same times. `paths`: how messages
    go from rank to rank, by default over the workers' own links.

    With a dead member it stands still: who has the result keeps it, nobody else gets it. When the
    dead one has come back and taken its place again, everything is sent once more.
    """

    def __init__(
        self,
        job: Job,
        schedule: Schedule,
        size: float,
        *,
        paths: Paths | None = None,
        by_message: bool | None = None,
    ) -> None:
        assert schedule.meets
        overheads = job.cluster.overheads
        adding_rate = None if overheads is None else overheads.reduction
        self._job, self._clock = job, job.clock
        self._ranks = schedule.ranks
        self._plan = plan = Plan(schedule, size, paths or own_links(job), adding_rate)
        self._idle = plan.idle
        self._by_message = not plan.uniform if by_message is None else by_message
        self._recurrence = Recurrence(plan)
        self._loads = [] if self._by_message else plan.loads
        self._entries: list[int] = [0] * self._ranks
        self._ends: list[Event] = [Event(job.clock) for _ in job.workers]
        self._come = 0
        self._walk: Walk | None = None
        self._under_way: Walk | None = None  # of the latest round that all have joined
        self._broken = False  # one of those who had come has died: nobody sends until all are there
        self._moving: list[Event] = []  # the ends of the latest round that all have joined
        self._missing: set[int] = set()  # who died in it before its end
        self._overhead = 0  # ns
        if overheads is not None:
            parameters = math.ceil(size / job.workload.bytes_per_parameter)
            seconds = collective_overhead(overheads, *schedule.traffic(size, parameters))
            self._overhead = round(seconds * 1e9)

    def take_part(self, worker: Worker) -> Activity[None]:
        """Take part with this worker; returns when it has the whole result."""
        clock = self._clock
        if worker.ready_at > clock.time:
            yield from worker.catch_up()
        if self._idle:
            return
        if self._missing and worker.rank in self._missing:
            end = self._return(worker)
        else:
            end = self._ends[worker.rank]
            self._entries[worker.rank] = clock.time
            self._come += 1
            worker.waits(Phase.BARRIER, self)
            if self._by_message and not self._broken:
                if self._walk is None:
                    self._walk = Walk(clock, self._plan, self._ends, self._under_way)
                self._walk.enter(worker.rank)
            if self._come == self._ranks:
                self._start_over()
        try:
            yield end
            if self._overhead:
                yield Pause(clock, clock.time + self._overhead)
        except Ended:
            self._break(worker, end)
            raise
        worker.goes_on()
        if not self._by_message:
            for link, size in self._loads[worker.rank]:
                link.moved += size

    def _start_over(self) -> None:
        """Everybody has come: fix the ends of this round and be ready for the next."""
        job, ends = self._job, self._ends
        for worker in job.workers:
            worker.turns_to(Phase.WRITE)
        self._come = 0
        self._ends = [Event(self._clock) for _ in job.workers]
        self._moving = ends
        if self._by_message and not self._broken:
            self._under_way, self._walk = self._walk, None
        else:
            if self._broken:
                self._entries = [self._clock.time] * self._ranks
            self._move(ends)
        self._broken = False

    def _move(self, ends: Sequence[Event]) -> None:
        """Let everything be sent; each rank is done when its event happens."""
        if self._by_message:
            self._under_way = Walk(self._clock, self._plan, ends, self._under_way)
            for rank in range(self._ranks):
                self._under_way.enter(rank)
            return
        times = self._recurrence.ends(self._entries)
        for event, time in zip(ends, times, strict=True):
            self._clock.trigger_at(time, event)

    def _break(self, worker: Worker, end: Event) -> None:
        """A member has died before its end: what was sent is of no use to those not done."""
        if end is self._ends[worker.rank]:
            self._come -= 1
            self._broken = True
            if self._walk is not None:
                self._walk.give_up()
                self._walk = None
            return
        self._missing.add(worker.rank)
        if end.callbacks is None:
            return  # it had the result, but for the overhead
        if self._under_way is not None:
            self._under_way.give_up()
            self._under_way = None
        self._recurrence.forget()
        for other, event in zip(self._job.workers, self._moving, strict=True):
            if event.callbacks is not None:
                self._clock.withdraw(event)
                if self._job.lives.running(other.rank) and other is not worker:
                    other.turns_to(Phase.BARRIER)
                    other.waits_for = self

    def _return(self, worker: Worker) -> Event:
        """A member is back in the round it died in; its end."""
        job, rank = self._job, worker.rank
        self._missing.discard(rank)
        worker.waits(Phase.BARRIER, self)
        if self._moving[rank].callbacks is None:
            self._moving[rank] = Event(self._clock).succeed()
        elif not any(self._moving[other].callbacks is not None for other in self._missing):
            self._entries = [self._clock.time] * self._ranks
            for other, event in zip(job.workers, self._moving, strict=True):
                if event.callbacks is not None:
                    other.turns_to(Phase.WRITE)
            self._move([_if_open(event) for event in self._moving])
        return self._moving[rank]

    def __str__(self) -> str:
        if self._missing:
            return f"{self._plan.schedule.what} that lost a member on the way"
        return f"{self._plan.schedule.what} that {self._come} of {self._ranks} have joined"


def own_links(job: Job) -> Paths:
    """Messages go up one worker's link and down the other's."""
    workers = job.workers
    return lambda source, target: Path(job.network, (workers[source].up, workers[target].down))


class Broadcast:
    """Worker 0 sends `size` bytes to every other worker, each over its own route."""

    def __init__(self, job: Job, size: float) -> None:
        self._job = job
        first, *others = job.workers
        self._parcel = (
            job.network.parcel(
                [Message(item, (first.up, other.down), size) for item, other in enumerate(others)]
            )
            if others
            else None
        )
        self._arrivals = [Event(job.clock) for _ in others]
        self._copy: _Copy | None = None  # that is being sent
        self._sent = 0  # broadcasts sent to the last
        self._received = [0] * len(others)  # the latest that has arrived
        self._taken = [0] * len(others)  # the latest that somebody has gone on with
        self._overhead = 0  # ns
        if job.cluster.overheads is not None:
            seconds = broadcast_overhead(job.cluster.overheads, len(job.workers), size)
            self._overhead = round(seconds * 1e9)

    def take_part(self, worker: Worker) -> Activity[None]:
        """Send (worker 0) or receive (the others); returns when this worker's part is done."""
        if self._parcel is None:
            return
        clock = self._job.clock
        if worker.rank == 0:
            self._copy = _Copy(self._sent + 1)
            try:
                yield from self._job.network.send(worker, self._parcel, self._copy, self._arrived)
            except Ended:
                self._copy = None  # what is under way is lost; who comes back sends it again
                raise
            self._sent += 1
            if self._overhead:
                end = clock.time + self._overhead
                worker.transferred(Phase.WRITE, end, self._overhead)
                yield Pause(clock, end)
            return
        yield from worker.catch_up()
        item = worker.rank - 1
        worker.waits(Phase.READ, self)
        if self._received[item] == self._taken[item]:
            yield self._arrivals[item]
        if self._overhead:
            yield Pause(clock, clock.time + self._overhead)
        self._taken[item] += 1
        worker.goes_on()

    def _arrived(self, item: int, copy: "_Copy") -> None:
        if copy is not self._copy or self._received[item] == copy.number:
            return
        self._received[item] = copy.number
        event, self._arrivals[item] = self._arrivals[item], Event(self._job.clock)
        event.succeed()

    def __str__(self) -> str:
        return "a broadcast from worker 0"


class _Copy:
    """A copy of the model on its way, of the broadcast of this number."""

    arrived = -1

    def __init__(self, number: int) -> None:
        self.number = number


def _if_open(event: Event) -> Event:
    """The event if it has not happened yet, else one that nobody waits for."""
    return event if event.callbacks is not None else Event(event.env)
