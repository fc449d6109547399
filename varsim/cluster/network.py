"""The network: hosts with an up and a down link to one switch, and messages over them.

Two rules, one interface. **first_come**: a message is handed to all links of its route at the
moment it is sent; every link serves messages in that order and is held size / bandwidth; a message
has arrived when its slowest link is done with it, plus the latency. So two workers that send 1 s
worth of bytes to one server at 0 arrive at 1 s and 2 s. **fair**: hosts that use a link at the
same time share it evenly (max-min over whole routes, see `fair`); both arrive at 2 s. What one
host sends to another goes over one connection, in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock, Pause
from varsim.cluster.description import Star
from varsim.cluster.fair import FairShare
from varsim.cluster.link import Link
from varsim.cluster.worker import Worker
from varsim.trace import Phase

Route: TypeAlias = tuple[Link, ...]
T = TypeVar("T")
FOREVER: Final = 2**63 - 1

_READ, _WRITE = int(Phase.READ), int(Phase.WRITE)


class Content(Protocol):
    """What can be sent: it notes when its latest part arrived (ns)."""

    arrived: int


Arrived: TypeAlias = Callable[[int, Any], None]


class Message(NamedTuple):
    """Bytes of one item (a variable) on one route."""

    item: int
    route: Route
    size: float


class Parcel:
    """Messages that one host sends or asks for at once; an item is there when all its parts are.

    `alone`: the least time (ns) it needs when nothing else uses its links.
    """

    def __init__(self, messages: Sequence[Message], latency: int) -> None:
        self.items = 1 + max(message.item for message in messages)
        self.sent = 0  # how often
        self.due = 0  # when it was, or will be, there (ns)
        # The commonest parcel, one message, has a shorter way through first-come links.
        self.single = len(messages) == 1
        # For first-come links: both links of each message, and how long each is held (ns).
        self.holds = tuple(
            (message.item, up, up.hold(message.size), down, down.hold(message.size))
            for message in messages
            for up, down in [message.route]
        )
        loads: dict[Link, float] = {}
        for message in messages:
            for link in message.route:
                loads[link] = loads.get(link, 0.0) + message.size
        self.loads = tuple(loads.items())
        self.alone = latency + max(link.hold(size) for link, size in self.loads)
        # For fair links: what goes over each connection, in order.
        connections: dict[Route, list[Message]] = {}
        for message in messages:
            connections.setdefault(message.route, []).append(message)
        self.connections = tuple(
            (
                route,
                [message.item for message in there],
                list(accumulate(message.size for message in there)),
            )
            for route, there in connections.items()
        )
        self.parts = [
            sum(message.item == item for message in messages) for item in range(self.items)
        ]


class Network(ABC):
    """A star of links; what `send` and `fetch` cost depends on how links are shared."""

    def __init__(self, clock: Clock, star: Star) -> None:
        self.clock = clock
        self.latency = round(star.delay * 1e9)
        self._links: list[Link] = []
        self._parcels: list[Parcel] = []

    def host(self, name: str, bandwidth: float, count: int = 1) -> tuple[Link, Link]:
        """A new host (or `count` equal ones): its link up to the switch and down from it."""
        up = Link(f"{name} up", bandwidth * count, count)
        down = Link(f"{name} down", bandwidth * count, count)
        self._links += (up, down)
        return up, down

    def parcel(self, messages: Sequence[Message]) -> Parcel:
        """Messages to be sent together, again and again."""
        parcel = Parcel(messages, self.latency)
        self._parcels.append(parcel)
        return parcel

    def carried(self, end: int) -> list[Link]:
        """All links, each with the bytes of what had arrived by the end of the run (ns)."""
        for parcel in self._parcels:
            arrived = parcel.sent - (parcel.due > end)
            for link, size in parcel.loads:
                link.moved += size * arrived
            parcel.sent = parcel.due = 0
        return self._links

    @abstractmethod
    def fetch(self, worker: Worker, parcel: Parcel, content: Callable[[], T]) -> Activity[T]:
        """Bring a parcel to a worker, who waits for it; its content is that of the request."""

    @abstractmethod
    def send(
        self, worker: Worker, parcel: Parcel, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """Send a worker's parcel; `arrived(item, content)` as each item is there, to the last."""

    @abstractmethod
    def pass_on(
        self, route: Route, size: float, passed: Callable[[], None], arrived: Callable[[], None]
    ) -> None:
        """Send one message: `passed` when its links are free again, `arrived` a latency later."""


class FirstComeNetwork(Network):
    """Links that serve one message after the other: arithmetic, no queue objects."""

    def fetch(self, worker: Worker, parcel: Parcel, content: Callable[[], T]) -> Activity[T]:
        """Costs no event: the end is known, and the worker's own time moves there."""
        if worker.ready_at > self.clock.time:
            yield from worker.catch_up()
        end = self._book_single(parcel) if parcel.single else max(self._book(parcel))
        parcel.due = end
        worker.transferred(_READ, end, parcel.alone)
        return content()

    def send(
        self, worker: Worker, parcel: Parcel, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """One event per item."""
        clock = self.clock
        if worker.ready_at > clock.time:
            yield from worker.catch_up()
        last = 0
        if parcel.single:
            end = self._book_single(parcel)
        else:
            times = self._book(parcel)
            order = sorted(range(len(times)), key=times.__getitem__)
            last = order.pop()
            for item in order:
                clock.call_at(times[item], partial(_deliver, clock, item, content, arrived))
            end = times[last]
        parcel.due = end
        worker.transferred(_WRITE, end, parcel.alone)
        yield Pause(clock, end)
        content.arrived = clock.time
        arrived(last, content)

    def pass_on(
        self, route: Route, size: float, passed: Callable[[], None], arrived: Callable[[], None]
    ) -> None:
        """See Network."""
        end = start = self.clock.time
        for link in route:
            start = max(start, link.free_at)
            link.free_at = start + link.hold(size)
            end = max(end, link.free_at)
        self.clock.call_at(end, partial(_passed, route, size, passed))
        self.clock.call_at(end + self.latency, arrived)

    def _book_single(self, parcel: Parcel) -> int:
        parcel.sent += 1
        _, up, up_hold, down, down_hold = parcel.holds[0]
        start = up.free_at if up.free_at > self.clock.time else self.clock.time
        up.free_at = end = start + up_hold
        if down.free_at > start:
            start = down.free_at
        down.free_at = passed = start + down_hold
        return (passed if passed > end else end) + self.latency

    def _book(self, parcel: Parcel) -> list[int]:
        """Hand all messages to their links now; when each item will have arrived (ns)."""
        now = self.clock.time
        parcel.sent += 1
        times = [0] * parcel.items
        for item, up, up_hold, down, down_hold in parcel.holds:
            start = up.free_at if up.free_at > now else now
            up.free_at = end = start + up_hold
            if down.free_at > start:
                start = down.free_at
            down.free_at = passed = start + down_hold
            if passed > end:
                end = passed
            end += self.latency
            if end > times[item]:
                times[item] = end
        return times


class FairNetwork(Network):
    """Links that all hosts using them share evenly."""

    def __init__(self, clock: Clock, star: Star) -> None:
        super().__init__(clock, star)
        self._share = FairShare(clock)

    def fetch(self, worker: Worker, parcel: Parcel, content: Callable[[], T]) -> Activity[T]:
        """See Network."""
        yield from worker.catch_up()
        requested = content()
        yield from self._transfer(worker, parcel, lambda item: None, _READ)
        return requested

    def send(
        self, worker: Worker, parcel: Parcel, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """See Network."""
        yield from worker.catch_up()
        deliver = partial(_deliver, self.clock, content=content, arrived=arrived)
        yield from self._transfer(worker, parcel, deliver, _WRITE)

    def pass_on(
        self, route: Route, size: float, passed: Callable[[], None], arrived: Callable[[], None]
    ) -> None:
        """See Network."""

        def reached(_: int) -> None:
            _passed(route, size, passed)
            self.clock.call_at(self.clock.time + self.latency, arrived)

        self._share.start(route, (size,), reached)

    def _transfer(
        self, worker: Worker, parcel: Parcel, deliver: Callable[[int], None], phase: int
    ) -> Activity[None]:
        clock, latency = self.clock, self.latency
        parcel.sent += 1
        parcel.due = FOREVER
        parts = list(parcel.parts)
        missing = parcel.items
        done = Event(clock)

        def here(item: int) -> None:
            nonlocal missing
            deliver(item)
            missing -= 1
            if missing == 0:
                done.succeed()

        def reached(items: list[int], mark: int) -> None:
            item = items[mark]
            parts[item] -= 1
            if parts[item] == 0:
                clock.call_at(clock.time + latency, partial(here, item))

        for route, items, marks in parcel.connections:
            self._share.start(route, marks, partial(reached, items))
        worker.waits(phase, self)
        yield done
        parcel.due = clock.time
        worker.waits_for = None
        worker.transferred(phase, clock.time, parcel.alone)

    def __str__(self) -> str:
        return "a transfer"


def _passed(route: Route, size: float, passed: Callable[[], None]) -> None:
    for link in route:
        link.moved += size
    passed()


def _deliver(clock: Clock, item: int, content: Content, arrived: Arrived) -> None:
    content.arrived = clock.time
    arrived(item, content)


def network(clock: Clock, star: Star) -> Network:
    """The network that a scenario describes, without hosts yet."""
    return (FairNetwork if star.sharing == "fair" else FirstComeNetwork)(clock, star)
