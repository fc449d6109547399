"""The network: links between places, and messages over routes of them.

Two rules, one interface. **first_come**: what a host sends is handed to all links of its routes at
that moment; every link serves hosts in that order and is held for their bytes / bandwidth; a
message has arrived when the slowest of its links is done with it, plus the latency. So two
workers that send 1 s worth of bytes to one server at 0 arrive at 1 s and 2 s. **fair**: hosts that
use a link at the same time share it evenly (max-min over whole routes, see `fair`); both arrive at
2 s. Under both, what one host sends to another goes over one connection, in order.

On longer routes the same holds. A message starts on a link when it has started on the link before
and the link is free; with fair links it has one rate on all of them. Say two racks, links of 1 MB/s
and an uplink of 1 MB/s, too: workers 0 and 1 of the first rack send 1 MB each to workers 2 and 3 of
the second. They meet in the uplink alone:

    first_come   0 arrives at 1 s; 1 holds its own link from 0 to 1 s, starts on the uplink at 1 s
                 and on the last link, too; it arrives at 2 s
    fair         both have half of the uplink: both arrive at 2 s

With `message_overhead` o, a message holds the first of its links o longer, and starts on the next
one o later; with fair links, o is the time in which it passes nothing, and has a share of its first
link all the same. Limited flows are a link of their own at the end of a route. What stays on a
machine crosses no link and is there at once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.network.batch import Message, MessageBatch
from varsim.cluster.network.fair import FairShare
from varsim.cluster.network.link import Bookings, Link, Route
from varsim.cluster.network.ports import PortBanks
from varsim.cluster.network.topology.base import Topology
from varsim.cluster.network.transport import (
    READ,
    WRITE,
    Arrived,
    Content,
    Network,
    WaitingNetwork,
    deliver_item,
)
from varsim.cluster.workers.worker import Worker

T = TypeVar("T")


class FirstComeNetwork(Network):
    """First-come network: links serve one batch after the other, by arithmetic alone."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        super().__init__(clock, topology)
        self._bookings = Bookings()
        self._banks = PortBanks()
        self.also_count(self._bookings.count)

    def fetch(self, worker: Worker, batch: MessageBatch, content: Callable[[], T]) -> Activity[T]:
        """Costs no event: the end is known, and the worker's own time moves there."""
        if worker.ready_at > self.clock.time:
            yield from worker.catch_up()
        worker.transferred(READ, batch.hand_over(self.clock.time), batch.alone)
        return content()

    def send(
        self, worker: Worker, batch: MessageBatch, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """One event per item."""
        clock = self.clock
        if worker.ready_at > clock.time:
            yield from worker.catch_up()
        end = batch.hand_over(clock.time)
        last = 0
        if batch.items > 1:
            others, last = batch.in_order()
            for time, item in others:
                clock.call_at(time, partial(deliver_item, clock, item, content, arrived))
        worker.transferred(WRITE, end, batch.alone)
        yield end
        content.arrived = clock.time
        arrived(last, content)

    def pass_on(
        self,
        route: Route,
        size: float,
        passed: Callable[[], None],
        arrived: Callable[[], None],
        sooner: int = 0,
    ) -> None:
        if self._banks.any:
            self._banks.use(route)
        end = start = self.clock.time
        latency = 0
        overhead = route[0].overhead if route else 0
        starts = []
        for link in route:
            start = max(start, link.free_at)
            link.free_at = start + link.hold(size)
            if overhead:
                link.free_at += overhead
                start += overhead
                overhead = 0
            starts.append(start)
            end = max(end, link.free_at)
            latency += link.latency
        booking = self._bookings.book(route, size, starts)
        self.clock.call_at(end, partial(self._bookings.passed, booking, passed))
        self.clock.call_at(end + latency - sooner, arrived)

    def _batch(self, messages: Sequence[Message]) -> MessageBatch:
        batch = super()._batch(messages)
        fan, links = batch.schedule.fan, batch.links
        self._banks.use(links if fan is None else [links[fan.link]])
        if fan is not None:
            batch.bank = self._banks.bank([(hold, links[number]) for hold, number in fan.ports])
        return batch


class FairNetwork(WaitingNetwork):
    """Fair network: all hosts that use a link share it evenly."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        super().__init__(clock, topology)
        self._share = FairShare(clock)
        self.also_count(self._share.count)

    def passing(self, route: Route, size: float) -> list[tuple[Link, int, int]]:
        slowest = max([link.hold(size) for link in route], default=0)
        return [(link, later, slowest) for link, later, _ in super().passing(route, size)]

    def _carry(self, route: Route, marks: Sequence[float], reached: Callable[[int], None]) -> None:
        overhead = route[0].overhead
        if overhead:
            self._carry_one(route, marks, reached, 0)
        else:
            self._share.start(route, marks, reached)

    def _carry_one(
        self, route: Route, marks: Sequence[float], reached: Callable[[int], None], index: int
    ) -> None:
        """The overhead of a message on its first link, then the message, then the next one."""
        size = marks[index] - marks[index - 1] if index else marks[0]

        def passed(_: int) -> None:
            reached(index)
            if index + 1 < len(marks):
                self._carry_one(route, marks, reached, index + 1)

        first = route[0]
        taken = first.overhead * first.bandwidth / 1e9
        self._share.start(
            (first,),
            (taken,),
            lambda _: self._share.start(route, (size,), passed),
            empty=taken,
        )


def network(clock: Clock, topology: Topology) -> Network:
    """The network that a scenario describes, without anybody on it yet."""
    return (FairNetwork if topology.sharing == "fair" else FirstComeNetwork)(clock, topology)
