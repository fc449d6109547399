"""Store and forward: a message is on one link of its route at a time.

Every switch, and every host on the way, passes a message on once it has all of it. So on each link
it takes its bytes / bandwidth, plus the latency of that link, and stands in line anew at the next
one: **first_come** in the order in which messages come to the link, **fair** with an even share
among those that are on it. Over three links of 500 ns each, 1 MiB at 50 GiB/s (19,531 ns) arrives
after 3 x (19,531 + 500) = 60,093 ns; cut through it would be 19,531 + 3 x 500 = 21,031 ns.

In a collective a rank sends its next message when the one before has passed its last link.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from varsim.cluster.batch import Message, MessageBatch
from varsim.cluster.clock import Clock
from varsim.cluster.fair import FairShare
from varsim.cluster.link import Bookings, Link, Route
from varsim.cluster.topology.base import Topology
from varsim.cluster.transport import WaitingNetwork


class Forwarding(WaitingNetwork):
    """Store-and-forward network: the links of a route one after the other."""

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
