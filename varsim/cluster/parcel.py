"""Parcels: a batch of messages between one host and others."""

from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from varsim.cluster.link import Link, Route, relays

__all__ = ["Leg", "Message", "Parcel", "Passage", "Route", "Way"]


class Message(NamedTuple):
    """Bytes of one item (a variable) on one route."""

    item: int
    route: Route
    size: float


class Passage(NamedTuple):
    """After how long (ns) on each of its two links a message of a parcel has passed."""

    item: int
    first: Link
    first_passed: int
    second: Link
    second_passed: int


class Leg(NamedTuple):
    """A link that a parcel takes for `hold` ns, no sooner than so long (ns) after these others.

    `begins`: messages set off on it.
    """

    link: Link
    hold: int
    after: tuple[tuple[Link, int], ...]
    begins: bool


class Way(NamedTuple):
    """After how long (ns) on each of its links a message has passed, and the latency of all."""

    item: int
    passed: tuple[tuple[Link, int], ...]
    latency: int


# When a parcel starts on each of its links (ns).
Starts: TypeAlias = dict[Link, int]


class Parcel:
    """Messages that one host sends or asks for at once; an item is there when all its parts are.

    It is made once and sent again and again, so whatever its sizes tell is worked out here. Where
    links are booked ahead, it keeps when its latest sending starts on each link, and `earlier` ones
    that were not through when somebody sent it again: what a worker that died had handed over.
    `alone`: the least time (ns) it needs when nothing else uses its links. `stored`: every link
    gets a message once all of it has passed the one before.
    """

    def __init__(self, messages: Sequence[Message], *, stored: bool = False) -> None:
        self.items = 1 + max(message.item for message in messages)
        self.sent = 0  # how often
        self.due = 0  # when it was, or will be, there (ns)
        self.latest: Starts | tuple[int, int] = {}  # its starts; of a pair of links in order
        self.earlier: list[Starts | tuple[int, int]] = []
        self.loads: dict[Link, float] = {}
        self._messages = list(messages)
        self.connections: dict[Route, list[Message]] = {}
        self.parts = [0] * self.items
        for message in messages:
            self.connections.setdefault(message.route, []).append(message)
            self.parts[message.item] += 1
            for link in message.route:
                self.loads[link] = self.loads.get(link, 0.0) + message.size
        # For links whose ends nobody knows ahead: the items of each connection, and at which byte
        # each is complete.
        self.marks = [
            (
                route,
                [message.item for message in there],
                list(accumulate(message.size for message in there)),
            )
            for route, there in self.connections.items()
        ]
        self.latency = max(sum(link.latency for link in route) for route in self.connections)
        self.plain = not stored and all(map(self._is_plain, self.connections))
        # The commonest parcel goes over one connection; it has a shorter way.
        self.only: tuple[Link, int, Link, int] | None = None
        self.legs: list[Leg] = []
        self.ways: list[Way] = []
        if self.plain:
            self._of_two_links(messages)
        elif stored:
            self.alone = _alone_stored(messages)
        else:
            self._of_many_links(messages)

    def count(self, end: int) -> None:
        """Count the bytes that have passed each link when the run ends (ns); ends the books."""
        under_way = [*self.earlier, self.latest] if self.due > end else self.earlier
        whole = self.sent - len(under_way)
        for link, size in self.loads.items() if whole else ():
            link.moved += whole * size
            link.messages += whole
        for _, route, size in self._messages if whole else ():
            for link in relays(route):
                link.relayed += whole * size
        for starts in under_way:
            if isinstance(starts, tuple):
                assert self.only
                starts = {self.only[0]: starts[0], self.only[2]: starts[1]}
            for link in self.loads:
                self._count_on(link, end - starts[link])
        self.sent = self.due = 0
        self.earlier = []

    def _count_on(self, link: Link, time: int) -> None:
        """Count what has passed one of its links so long (ns) after it started there."""
        sent = passed = 0.0
        for _, route, size in self._messages:
            if link not in route:
                continue
            if route[0] is link:
                time -= link.overhead
            here = min(size, max(0.0, link.passed(sent + size, time) - sent))
            sent += size
            passed += here
            if link.begins and route[0] is not link:
                link.relayed += here
        link.add(sent, passed, relayed=False)

    def _is_plain(self, route: Route) -> bool:
        return (
            len(route) == 2
            and not route[0].overhead
            and route[0].latency + route[1].latency == self.latency
        )

    def _of_two_links(self, messages: Sequence[Message]) -> None:
        """All routes are a link up to one switch and a link down from it."""
        self.passed: list[Passage] = []
        sofar: dict[Link, float] = {}
        for item, (first, second), size in messages:
            for link in (first, second):
                sofar[link] = sofar.get(link, 0.0) + size
            holds = first.hold(sofar[first]), second.hold(sofar[second])
            self.passed.append(Passage(item, first, holds[0], second, holds[1]))
        self.holds = {link: link.hold(size) for link, size in self.loads.items()}
        self.alone = self.latency + max(self.holds.values())
        if len(self.connections) == 1:
            ((first, second),) = self.connections
            self.only = (first, self.holds[first], second, self.holds[second])
        self.firsts = list(dict.fromkeys(first for first, _ in self.connections))
        self.seconds = [
            (second, [first for first, other in self.connections if other is second])
            for second in dict.fromkeys(second for _, second in self.connections)
        ]

    def _of_many_links(self, messages: Sequence[Message]) -> None:
        """Routes of any links. Those of one host are a tree: no link comes before itself."""
        sizes: dict[Link, float] = {}
        begun: dict[Link, int] = {}  # messages that have set off on it
        for item, route, size in messages:
            if route:
                begun[route[0]] = begun.get(route[0], 0) + 1
            passed = []
            for link in route:
                sizes[link] = sizes.get(link, 0.0) + size
                passed.append((link, link.hold(sizes[link]) + begun.get(link, 0) * link.overhead))
            self.ways.append(Way(item, tuple(passed), sum(link.latency for link in route)))
        before: dict[Link, dict[Link, int]] = {link: {} for link in sizes}
        for route in self.connections:
            for index, link in enumerate(route[1:]):
                wait = route[0].overhead if index == 0 else 0
                before[link][route[index]] = wait
        for link in TopologicalSorter(before).static_order():
            hold = link.hold(sizes[link]) + begun.get(link, 0) * link.overhead
            self.legs.append(Leg(link, hold, tuple(before[link].items()), link in begun))
        self.alone = max(self.arrivals(self.starts(0, lambda _: 0), 0))

    def starts(self, now: int, free_at: Callable[[Link], int]) -> Starts:
        """When it starts on each link, if it is handed over now; free_at(link): no sooner."""
        starts: Starts = {}
        for link, _, after, begins in self.legs:
            sooner = [starts[other] + wait for other, wait in after]
            starts[link] = max(min([now, *sooner] if begins else sooner), free_at(link))
        return starts

    def arrivals(self, starts: Starts, now: int) -> list[int]:
        """When each item is there (ns); what crosses no link, now."""
        times = [now] * self.items
        for item, passed, latency in self.ways:
            if passed:
                end = max([starts[link] + time for link, time in passed]) + latency
                times[item] = max(times[item], end)
        return times


def _alone_stored(messages: Sequence[Message]) -> int:
    """When the last message is there (ns), each link in turn, first come first served."""
    coming = [(0, number, 0) for number in range(len(messages))]  # time, number, links passed
    free: dict[Link, int] = {}
    count, last = len(messages), 0
    moving = dict(enumerate(messages))
    while coming:
        time, number, passed = heappop(coming)
        message = moving.pop(number)
        if passed == len(message.route):
            last = max(last, time)
            continue
        link = message.route[passed]
        overhead = link.overhead if passed == 0 else 0
        free[link] = max(time, free.get(link, 0)) + link.hold(message.size) + overhead
        moving[count] = message
        heappush(coming, (free[link] + link.latency, count, passed + 1))
        count += 1
    return last
