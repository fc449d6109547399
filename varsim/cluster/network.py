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
machine crosses no link and is there at once. For `store_and_forward`, see `Forwarding`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar

from varsim.cluster.batch import Message, MessageBatch
from varsim.cluster.clock import Activity, Clock
from varsim.cluster.fair import FairShare
from varsim.cluster.link import Bookings, Link, Route
from varsim.cluster.ports import PortBanks
from varsim.cluster.topology.base import Topology
from varsim.cluster.transport import (
    READ,
    WRITE,
    Arrived,
    Content,
    Network,
    WaitingNetwork,
    deliver_item,
)
from varsim.cluster.worker import Worker

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
        self, route: Route, size: float, passed: Callable[[], None], arrived: Callable[[], None]
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
        self.clock.call_at(end + latency, arrived)

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


class Forwarding(WaitingNetwork):
    """Store-and-forward network: a message is on one link of its route at a time.

    Every switch, and every host on the way, passes a message on once it has all of it. So on each
    link it takes its bytes / bandwidth, plus the latency of that link, and stands in line anew at
    the next one: **first_come** in the order in which messages come to the link, **fair** with an
    even share among those that are on it. Over three links of 500 ns each, 1 MiB at 50 GiB/s
    (19,531 ns) arrives after 3 x (19,531 + 500) = 60,093 ns; cut through it would be
    19,531 + 3 x 500 = 21,031 ns. In a collective a rank sends its next message when the one before
    has passed its last link.
    """

    cuts_through: ClassVar[bool] = False

    def latency(self, route: Route) -> int:
        """See Network; what the other links have is part of passing them."""
        return route[-1].latency if route else 0

    def hold(self, route: Route, size: float) -> int:
        if not route:
            return 0
        between = sum([link.latency for link in route[:-1]])
        return route[0].overhead + between + sum([link.hold(size) for link in route])

    def passing(self, route: Route, size: float) -> list[tuple[Link, int, int]]:
        later, found = route[0].overhead if route else 0, []
        for link in route:
            found.append((link, later, link.hold(size)))
            later += link.hold(size) + link.latency
        return found

    def _batch(self, messages: Sequence[Message]) -> MessageBatch:
        return MessageBatch(messages, stored=True, known=self._schedules)


class FirstComeForwarding(Forwarding):
    """First-come store and forward: links serve messages in the order in which they come."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        super().__init__(clock, topology)
        self._bookings = Bookings()  # of one link each
        self.also_count(self._bookings.count)

    def _batch(self, messages: Sequence[Message]) -> MessageBatch:
        batch = super()._batch(messages)
        # The first link takes them in the order of the batch, whatever their routes.
        schedule = batch.schedule
        schedule.connections = [(way, [item], [size]) for item, way, size in schedule.messages]
        return batch

    def _carry(self, route: Route, marks: Sequence[float], reached: Callable[[int], None]) -> None:
        before = 0.0
        for index, mark in enumerate(marks):
            self._enter(route, 0, mark - before, partial(reached, index))
            before = mark

    def _enter(self, route: Route, hop: int, size: float, reached: Callable[[], None]) -> None:
        """A message has come to a link of its route."""
        link = route[hop]
        start = max(self.clock.time, link.free_at) + (0 if hop else link.overhead)
        link.free_at = start + link.hold(size)
        if hop + 1 == len(route):
            then, there = reached, link.free_at
        else:
            then = partial(self._enter, route, hop + 1, size, reached)
            there = link.free_at + link.latency
        booking = self._bookings.book((link,), size, [start], sets_off=hop == 0)
        self.clock.call_at(there, partial(self._bookings.passed, booking, then))


class FairForwarding(Forwarding):
    """Fair store and forward: all messages on a link share it, one of each connection."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        super().__init__(clock, topology)
        self._share = FairShare(clock)
        self.also_count(self._share.count)

    def _carry(self, route: Route, marks: Sequence[float], reached: Callable[[int], None]) -> None:
        waiting: list[deque[int]] = [deque() for _ in route]  # the first of each is on the link

        def come(hop: int, index: int) -> None:
            waiting[hop].append(index)
            if len(waiting[hop]) == 1:
                begin(hop)

        def begin(hop: int) -> None:
            link, index = route[hop], waiting[hop][0]
            size = marks[index] - (marks[index - 1] if index else 0.0)
            empty = 0.0 if hop else link.overhead * link.bandwidth / 1e9
            self._share.start(
                (link,), (size + empty,), lambda _: passed(hop), empty=empty, sets_off=hop == 0
            )

        def passed(hop: int) -> None:
            index = waiting[hop].popleft()
            if waiting[hop]:
                begin(hop)
            if hop + 1 == len(route):
                reached(index)
            else:
                there = self.clock.time + route[hop].latency
                self.clock.call_at(there, partial(come, hop + 1, index))

        for index in range(len(marks)):
            come(0, index)


def network(clock: Clock, topology: Topology) -> Network:
    """The network that a scenario describes, without anybody on it yet."""
    fair = topology.sharing == "fair"
    if topology.forwarding == "store_and_forward":
        return (FairForwarding if fair else FirstComeForwarding)(clock, topology)
    return (FairNetwork if fair else FirstComeNetwork)(clock, topology)
