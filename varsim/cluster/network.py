"""The network: hosts with an up and a down link to one switch, and messages over them.

Two rules, one interface. **first_come**: what a host sends is handed to all links of its routes at
that moment; every link serves hosts in that order and is held for their bytes / bandwidth; a
message has arrived when the slower of its two links is done with it, plus the latency. So two
workers that send 1 s worth of bytes to one server at 0 arrive at 1 s and 2 s. **fair**: hosts that
use a link at the same time share it evenly (max-min over whole routes, see `fair`); both arrive at
2 s. Under both, what one host sends to another goes over one connection, in order.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock, Pause
from varsim.cluster.description import Star
from varsim.cluster.fair import FairShare
from varsim.cluster.link import Link
from varsim.cluster.parcel import Message, Parcel, Route
from varsim.cluster.worker import Worker
from varsim.trace import Phase

T = TypeVar("T")
FOREVER: Final = 2**63 - 1

_READ, _WRITE = int(Phase.READ), int(Phase.WRITE)


class Content(Protocol):
    """What can be sent: it notes when its latest part arrived (ns)."""

    arrived: int


Arrived: TypeAlias = Callable[[int, Any], None]


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
            for link, size in parcel.loads.items():
                link.moved += size * arrived
            parcel.sent = parcel.due = 0
        sent, received = (sum(link.moved for link in self._links[way::2]) for way in (0, 1))
        assert math.isclose(sent, received, rel_tol=1e-9), "bytes were lost on the way"
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
        if parcel.only:
            first, second = self._book_one(parcel.only)
            end = max(first + parcel.only[1], second + parcel.only[3]) + self.latency
        else:
            end = max(self._book(parcel))
        parcel.due = end
        parcel.sent += 1
        worker.transferred(_READ, end, parcel.alone)
        return content()

    def send(
        self, worker: Worker, parcel: Parcel, content: Content, arrived: Arrived
    ) -> Activity[None]:
        """One event per item."""
        clock = self.clock
        if worker.ready_at > clock.time:
            yield from worker.catch_up()
        last = parcel.items - 1
        if parcel.only:
            # One connection keeps the order of its items.
            first, second = self._book_one(parcel.only)
            end = max(first + parcel.only[1], second + parcel.only[3]) + self.latency
            for item, _, first_passed, _, second_passed in parcel.passed[:-1]:
                time = max(first + first_passed, second + second_passed) + self.latency
                clock.call_at(time, partial(_deliver, clock, item, content, arrived))
        else:
            times = self._book(parcel)
            order = sorted(range(len(times)), key=times.__getitem__)
            last = order.pop()
            for item in order:
                clock.call_at(times[item], partial(_deliver, clock, item, content, arrived))
            end = times[last]
        parcel.due = end
        parcel.sent += 1
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

    def _book_one(self, only: tuple[Link, int, Link, int]) -> tuple[int, int]:
        """Hand over what goes over one connection; when each of its links starts on it (ns)."""
        first, first_hold, second, second_hold = only
        start = first.free_at if first.free_at > self.clock.time else self.clock.time
        first.free_at = start + first_hold
        later = second.free_at if second.free_at > start else start
        second.free_at = later + second_hold
        return start, later

    def _book(self, parcel: Parcel) -> list[int]:
        """Hand over a parcel; when each of its items will have arrived (ns)."""
        starts: dict[Link, int] = {}
        for link in parcel.firsts:
            starts[link] = start = max(self.clock.time, link.free_at)
            link.free_at = start + parcel.holds[link]
        for link, sources in parcel.seconds:
            starts[link] = start = max(min(starts[source] for source in sources), link.free_at)
            link.free_at = start + parcel.holds[link]
        times = [0] * parcel.items
        for item, first, first_passed, second, second_passed in parcel.passed:
            end = max(starts[first] + first_passed, starts[second] + second_passed)
            times[item] = max(times[item], end + self.latency)
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

        for route, items, marks in parcel.marks:
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
