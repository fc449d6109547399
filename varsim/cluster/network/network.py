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

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.network.batch import BatchSchedule, Message, MessageBatch, PortBanks
from varsim.cluster.network.fair import FairShare
from varsim.cluster.network.link import Booking, Link, Route
from varsim.cluster.network.topologies import StarRouting
from varsim.cluster.network.topology import Place, Topology
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.worker import Worker

T = TypeVar("T")

READ, WRITE = int(Phase.READ), int(Phase.WRITE)


class Content(Protocol):
    """Content of a batch; it notes when its latest part arrived (ns)."""

    arrived: int


Arrived: TypeAlias = Callable[[int, Any], None]


class Network(ABC):
    """Network of links and routes; what `send` and `fetch` cost depends on how links are shared."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        self.clock = clock
        self.routing = topology.routing()
        self._batches: list[MessageBatch] = []
        self._schedules: dict[object, BatchSchedule] = {}  # of them, as far as they differ
        self._counts: list[Callable[[int], None]] = []
        # For who foresees a run: of each collective, how many links a round of its messages passes.
        self.crossed_in_a_round: list[Callable[[], int]] = []

    def host(self, name: str, bandwidth: float, count: int = 1) -> tuple[Link, Link]:
        """A new host of a star (or `count` equal ones): its link up to the switch, and down."""
        assert isinstance(self.routing, StarRouting), "only a star has room for any host"
        return self.routing.host(name, bandwidth, count)

    def route(self, source: Place, target: Place) -> Route:
        """The links from one place to another; none if they are on one machine."""
        return self.routing.route(source, target)

    def batch(self, messages: Sequence[Message]) -> MessageBatch:
        """Messages to be sent together, again and again."""
        batch = self._batch(messages)
        self._batches.append(batch)
        return batch

    def latency(self, route: Route) -> int:
        """How long (ns) after it has passed the links of a route a message arrives."""
        return sum([link.latency for link in route])

    def hold(self, route: Route, size: float) -> int:
        """How long (ns) a message takes to pass the links of a route, if they are free."""
        if not route:
            return 0
        return route[0].overhead + max([link.hold(size) for link in route])

    def passing(self, route: Route, size: float) -> list[tuple[Link, int, int]]:
        """Each link of a message that has them to itself: when it begins to pass, and for how long.

        Both in ns, the former from when it sets off.
        """
        later = route[0].overhead if route else 0
        return [(link, later, link.hold(size)) for link in route]

    def also_count(self, count: Callable[[int], None]) -> None:
        """Have this called at the end of the run (ns): it counts what else has passed links."""
        self._counts.append(count)

    def carried(self, end: int) -> list[Link]:
        """All links, each with the bytes that had passed it by the end of the run (ns).

        That is never more than it can carry: what is beyond, a message ended half a ns too soon.
        """
        for batch in self._batches:
            batch.count(end)
        for count in self._counts:
            count(end)
        came, went = dict[str, float](), dict[str, float]()
        for link in self.routing.links:
            came[link.into] = came.get(link.into, 0.0) + link.moved + link.left
            went[link.out_of] = went.get(link.out_of, 0.0) + link.moved + link.left
        for switch in came.keys() | went.keys():
            if switch:
                sent, received = went.get(switch, 0.0), came.get(switch, 0.0)
                assert math.isclose(sent, received, rel_tol=1e-9), "bytes were lost on the way"
        for link in self.routing.links:
            assert link.moved <= link.most(end), f"{link} carried more than it can: {link.moved}"
            link.moved = min(link.moved, link.bandwidth * end / 1e9)
        return self.routing.links

    def sent(self) -> float:
        """Bytes that went from machine to machine, each counted once; after `carried`."""
        begun = (link.moved - link.relayed for link in self.routing.links if link.begins)
        return math.fsum(begun)

    def _batch(self, messages: Sequence[Message]) -> MessageBatch:
        return MessageBatch(messages, known=self._schedules)

    @abstractmethod
    def fetch(self, worker: Worker, batch: MessageBatch, content: Callable[[], T]) -> Activity[T]:
        """Bring a batch to a worker, who waits for it; its content is that of the request."""

    @abstractmethod
    def send(
        self, worker: Worker, batch: MessageBatch, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """Send a worker's batch; `arrived(item, content)` as each item is there, to the last."""

    @abstractmethod
    def pass_on(
        self,
        route: Route,
        size: float,
        passed: Callable[[], None],
        arrived: Callable[[], None],
        sooner: int = 0,
    ) -> None:
        """Send one message: `passed` when its links are free again, `arrived` a latency later.

        `sooner`: by how much less than that of its route (ns).
        """


class Arrivals:
    """Arrivals of something that is sent in items, and these in parts.

    `parts`: of each item; `arrived(item)` is called with its last one. `all` happens when
    everything is there.
    """

    def __init__(self, clock: Clock, parts: Sequence[int], arrived: Callable[[int], None]) -> None:
        self._clock = clock
        self.all = Event(clock)
        self.awaited = True  # somebody still waits for all of it
        self._parts = list(parts)
        self._missing = len(parts)
        self._arrived = arrived

    @property
    def complete(self) -> bool:
        """Whether everything is there."""
        return not self._missing

    def part(self, item: int) -> None:
        """A part of an item is there."""
        self._parts[item] -= 1
        if self._parts[item]:
            return
        self._missing -= 1
        self._arrived(item)
        if not self._missing and self.awaited:
            self._clock.trigger(self.all)

    def part_of(self, items: Sequence[int], place: int) -> None:
        """A part of the item at a place is there."""
        self.part(items[place])


def deliver_item(clock: Clock, item: int, content: Content, arrived: Arrived) -> None:
    """An item of what was sent is there."""
    content.arrived = clock.time
    arrived(item, content)


def nothing() -> None:
    """What happens when nobody waits for links to be free again."""


class FirstComeNetwork(Network):
    """First-come network: links serve one batch after the other, by arithmetic alone."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        super().__init__(clock, topology)
        self._under_way: dict[Booking, None] = {}
        self._banks = PortBanks()
        self.also_count(self._count)

    def fetch(self, worker: Worker, batch: MessageBatch, content: Callable[[], T]) -> Activity[T]:
        """One event."""
        requested, end = content(), batch.hand_over(self.clock.time)
        worker.transferred(READ, end, batch.alone)
        yield end
        return requested

    def send(
        self, worker: Worker, batch: MessageBatch, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """One event per item."""
        clock = self.clock
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
        booking = Booking(route, size, starts)
        self._under_way[booking] = None
        self.clock.call_at(end, partial(self._passed, booking, passed))
        self.clock.call_at(end + latency - sooner, arrived)

    def _passed(self, booking: Booking, then: Callable[[], None]) -> None:
        """A message has passed its links."""
        del self._under_way[booking]
        booking.count(self.clock.time)
        then()

    def _count(self, end: int) -> None:
        for booking in self._under_way:
            booking.count(end)

    def _batch(self, messages: Sequence[Message]) -> MessageBatch:
        batch = super()._batch(messages)
        fan, links = batch.schedule.fan, batch.links
        self._banks.use(links if fan is None else [links[fan.link]])
        if fan is not None:
            batch.bank = self._banks.bank([(hold, links[number]) for hold, number in fan.ports])
        return batch


class FairNetwork(Network):
    """Fair network: all hosts that use a link share it evenly; whoever sends waits for an event."""

    def __init__(self, clock: Clock, topology: Topology) -> None:
        super().__init__(clock, topology)
        self._share = FairShare(clock)
        self.routing.on_binding.append(self._share.reroute)
        self.also_count(self._share.count)

    def fetch(self, worker: Worker, batch: MessageBatch, content: Callable[[], T]) -> Activity[T]:
        requested = content()
        yield from self._transfer(worker, batch, lambda item: None, READ)
        return requested

    def send(
        self, worker: Worker, batch: MessageBatch, content: Content, arrived: Arrived
    ) -> Activity[None]:
        deliver = partial(deliver_item, self.clock, content=content, arrived=arrived)
        yield from self._transfer(worker, batch, deliver, WRITE)

    def pass_on(
        self,
        route: Route,
        size: float,
        passed: Callable[[], None],
        arrived: Callable[[], None],
        sooner: int = 0,
    ) -> None:
        def reached(_: int) -> None:
            passed()
            self.clock.call_at(self.clock.time + self.latency(route) - sooner, arrived)

        if route:
            self._carry(route, (size,), reached, 0)
        else:
            self.clock.call_at(self.clock.time, partial(reached, 0))

    def _transfer(
        self, worker: Worker, batch: MessageBatch, deliver: Callable[[int], None], phase: int
    ) -> Activity[None]:
        clock = self.clock
        arrivals = Arrivals(clock, batch.schedule.parts, deliver)
        for route, items, marks in batch.marks:
            if route:
                there = partial(arrivals.part_of, items)
                self._carry(route, marks, there, self.latency(route))
            else:
                for item in items:
                    clock.call_at(clock.time, partial(arrivals.part, item))
        worker.waits(phase, self)
        yield arrivals.all
        worker.waits_for = None
        worker.transferred(phase, clock.time, batch.alone)

    def passing(self, route: Route, size: float) -> list[tuple[Link, int, int]]:
        slowest = max([link.hold(size) for link in route], default=0)
        return [(link, later, slowest) for link, later, _ in super().passing(route, size)]

    def _carry(
        self, route: Route, marks: Sequence[float], there: Callable[[int], None], later: int
    ) -> None:
        """Let marks[-1] bytes pass a route; `there(i)` so long (ns) after marks[i] of them have."""
        if route[0].overhead:
            self._carry_one(route, marks, there, later, 0)
        else:
            self._share.start(route, marks, there, later=later)

    def _carry_one(
        self,
        route: Route,
        marks: Sequence[float],
        there: Callable[[int], None],
        later: int,
        index: int,
    ) -> None:
        """The overhead of a message on its first link, then the message, then the next one."""
        size = marks[index] - marks[index - 1] if index else marks[0]

        def passed(_: int) -> None:
            self.clock.call_at(self.clock.time + later, partial(there, index))
            if index + 1 < len(marks):
                self._carry_one(route, marks, there, later, index + 1)

        first = route[0]
        taken = first.overhead * first.bandwidth / 1e9
        self._share.start(
            (first,),
            (taken,),
            lambda _: self._share.start(route, (size,), passed),
            empty=taken,
        )

    def __str__(self) -> str:
        return "a transfer"


def network(clock: Clock, topology: Topology) -> Network:
    """The network that a scenario describes, without anybody on it yet."""
    return (FairNetwork if topology.sharing == "fair" else FirstComeNetwork)(clock, topology)
