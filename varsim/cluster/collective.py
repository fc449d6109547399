"""Collectives: ring all-reduce and broadcast, moved over the links of the workers.

Ring all-reduce of n bytes over p ranks (Patarasu and Yuan, 2009): the vector is cut in p chunks;
in each of 2(p - 1) rounds every rank sends one chunk to the next rank, first adding up
(reduce-scatter), then passing on the sums (all-gather). A rank sends in round s as soon as it has
started, has sent in round s - 1 and has received in round s - 1.
"""

from collections.abc import Sequence

import numpy as np
from simpy.events import Event

from varsim.cluster.clock import Activity
from varsim.cluster.job import Job
from varsim.cluster.link import Link
from varsim.cluster.parcel import Message
from varsim.cluster.worker import Worker
from varsim.trace import Phase


class RingAllReduce:
    """A ring over all workers for vectors of one size; used again for every round.

    Where all links are equal the times follow from the recurrence; else the chunks are sent one
    by one over the links. Both give the same times.
    """

    def __init__(self, job: Job, size: float, chunk_by_chunk: bool | None = None) -> None:
        self._job = job
        self._ranks = len(job.workers)
        self._chunk = size / self._ranks
        workers = job.workers
        self._moved = 2 * (self._ranks - 1) * self._chunk  # per link
        self._routes = [
            (worker.up, workers[(worker.rank + 1) % self._ranks].down) for worker in workers
        ]
        rates = {link.bandwidth for route in self._routes for link in route}
        self._by_chunk = len(rates) > 1 if chunk_by_chunk is None else chunk_by_chunk
        slowest = min((link for route in self._routes for link in route), key=_bandwidth)
        self._hold = slowest.hold(self._chunk)
        self._entries: list[int] = [0] * self._ranks
        self._ends: list[Event] = [Event(job.clock) for _ in workers]
        self._come = 0
        self._walk: _Walk | None = None

    def take_part(self, worker: Worker) -> Activity[None]:
        """Take part with this worker; returns when it has the whole result."""
        yield from worker.catch_up()
        if self._ranks == 1:
            return
        clock = self._job.clock
        end = self._ends[worker.rank]
        self._entries[worker.rank] = clock.time
        self._come += 1
        worker.waits(Phase.BARRIER, self)
        if self._by_chunk:
            if self._walk is None:
                self._walk = _Walk(self._job, self._routes, self._chunk, self._ends)
            self._walk.enter(worker.rank)
        if self._come == self._ranks:
            self._start_over()
        yield end
        worker.goes_on()
        if not self._by_chunk:
            worker.up.moved += self._moved
            worker.down.moved += self._moved

    def _start_over(self) -> None:
        """Everybody has come: fix the ends of this round and be ready for the next."""
        job, ends = self._job, self._ends
        for worker in job.workers:
            worker.turns_to(Phase.WRITE)
        self._come = 0
        self._ends = [Event(job.clock) for _ in job.workers]
        if self._by_chunk:
            self._walk = None
            return
        times = ring_ends(self._entries, self._hold, job.network.latency)
        for event, time in zip(ends, times, strict=True):
            job.clock.trigger_at(time, event)

    def __str__(self) -> str:
        return f"an all-reduce that {self._come} of {self._ranks} have joined"


def ring_ends(entries: Sequence[int], hold: int, latency: int) -> list[int]:
    """When each rank of a ring over equal, idle links is done (ns), given when each entered.

    A rank's end is the latest, over all ranks j, of: j's entry, plus m rounds passed on along the
    ring to this rank (hold + latency each), plus the other 2(p - 1) - m rounds spent sending
    (hold each); m is the longest way around, at most 2(p - 1).
    """
    ranks = len(entries)
    rounds = 2 * (ranks - 1)
    entered = np.asarray(entries, dtype=np.int64)
    position = np.arange(ranks, dtype=np.int64)
    # With m = ranks + (rank - j) for j up to this rank, and one lap more for j after the next.
    sooner = entered - latency * position
    behind = np.maximum.accumulate(sooner) + latency * (position + ranks)
    # Rank 0 is the next of the last, so not a lap and more behind it.
    behind[-1] = sooner[1:].max() + latency * (2 * ranks - 1)
    lapped = entered - latency * (position - ranks)
    ahead = np.maximum.accumulate(lapped[::-1])[::-1] + latency * ranks
    following = np.roll(entered, -1) + latency * (ranks - 1)
    ends = np.maximum(behind, following)
    ends[: ranks - 2] = np.maximum(ends[: ranks - 2], ahead[2:] + latency * position[: ranks - 2])
    result: list[int] = (ends + rounds * hold).tolist()
    return result


class _Walk:
    """One all-reduce, chunk by chunk over the links."""

    def __init__(
        self, job: Job, routes: list[tuple[Link, Link]], chunk: float, ends: list[Event]
    ) -> None:
        ranks = len(routes)
        self._job, self._routes, self._chunk, self._ends = job, routes, chunk, ends
        self._rounds = 2 * (ranks - 1)
        self._entered = [False] * ranks
        self._sending = [False] * ranks
        self._sent = [0] * ranks
        self._received = [0] * ranks

    def enter(self, rank: int) -> None:
        self._entered[rank] = True
        self._go_on(rank)

    def _go_on(self, rank: int) -> None:
        sent = self._sent[rank]
        if sent == self._rounds:
            if self._received[rank] == self._rounds and not self._sending[rank]:
                self._ends[rank].succeed()
            return
        if self._entered[rank] and not self._sending[rank] and self._received[rank] >= sent:
            self._sending[rank] = True
            self._sent[rank] += 1
            self._job.network.pass_on(
                self._routes[rank],
                self._chunk,
                lambda: self._passed(rank),
                lambda: self._arrived((rank + 1) % len(self._routes)),
            )

    def _passed(self, rank: int) -> None:
        self._sending[rank] = False
        self._go_on(rank)

    def _arrived(self, rank: int) -> None:
        self._received[rank] += 1
        self._go_on(rank)


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

    def take_part(self, worker: Worker) -> Activity[None]:
        """Send (worker 0) or receive (the others); returns when this worker's part is done."""
        if self._parcel is None:
            return
        if worker.rank == 0:
            yield from self._job.network.send(worker, self._parcel, _Copy(), self._arrived)
            return
        yield from worker.catch_up()
        worker.waits(Phase.READ, self)
        yield self._arrivals[worker.rank - 1]
        worker.goes_on()

    def _arrived(self, item: int, _: "_Copy") -> None:
        event, self._arrivals[item] = self._arrivals[item], Event(self._job.clock)
        event.succeed()

    def __str__(self) -> str:
        return "a broadcast from worker 0"


class _Copy:
    """A copy of the model on its way."""

    arrived = -1


def _bandwidth(link: Link) -> float:
    return link.bandwidth
