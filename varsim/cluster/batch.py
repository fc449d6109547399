"""Batches of messages between one host and others, with their schedule hop by hop."""

from collections.abc import Sequence
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from varsim.cluster.link import Link, Route, relays

__all__ = ["Hop", "Message", "MessageBatch", "Route"]


class Message(NamedTuple):
    """Bytes of one item (a variable) on one route."""

    item: int
    route: Route
    size: float


class Hop(NamedTuple):
    """A link that a batch takes for `hold` ns, no sooner than so long (ns) after these others.

    `begins`: messages set off on it.
    """

    link: Link
    hold: int
    after: tuple[tuple[Link, int], ...]
    begins: bool


class Passed(NamedTuple):
    """After how long (ns) on each of its links a message has passed, and the latency of all."""

    item: int
    links: tuple[tuple[Link, int], ...]
    latency: int


# When a batch starts on each of its links (ns).
Starts: TypeAlias = dict[Link, int]


class MessageBatch:
    """Messages that one host sends or asks for at once; an item is there when all its parts are.

    It is made once and sent again and again, so whatever its sizes tell is worked out here. Where
    links are booked ahead, it keeps when its latest sending starts on each link, and `earlier` ones
    that were not through when somebody sent it again: what a worker that died had handed over.
    `alone`: the least time (ns) it needs when nothing else uses its links. `stored`: every link
    gets a message once all of it has passed the one before. `even`: all routes are one link up to a
    switch and one down from it, of equal latency. `only`: such a pair of links that takes all of
    the batch, and for how long; the commonest batch, which has a shorter way.
    """

    def __init__(self, messages: Sequence[Message], *, stored: bool = False) -> None:
        self.items = 1 + max(message.item for message in messages)
        self.sent = 0  # how often
        self.due = 0  # when it was, or will be, there (ns)
        self.latest: Starts | tuple[int, int] = {}  # its starts; of a pair of links in order
        self.earlier: list[Starts | tuple[int, int]] = []
        self._times: list[int] = []  # when each item of its latest sending is there
        # Of `only`: each item but the last, and for how long it takes the pair of links.
        self._sooner: list[tuple[int, int, int]] = []
        self.loads: dict[Link, float] = {}
        self._messages = list(messages)
        connections: dict[Route, list[Message]] = {}
        self.parts = [0] * self.items
        for message in messages:
            connections.setdefault(message.route, []).append(message)
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
            for route, there in connections.items()
        ]
        self.latency = max(sum(link.latency for link in route) for route in connections)
        self.even = not stored and all(map(self._is_even, connections))
        self.hops: list[Hop] = []
        self.passed: list[Passed] = []
        self.only: tuple[Link, int, Link, int] | None = None
        if stored:
            self.alone = _alone_stored(messages)
            return
        self._schedule(list(connections))
        if self.even and len(connections) == 1:
            first, second = self.hops
            self.only = (first.link, first.hold, second.link, second.hold)
            for item, ((_, on_first), (_, on_second)), _ in self.passed[:-1]:
                self._sooner.append((item, on_first, on_second))
        self.alone = max(self.arrivals(self.starts(0, alone=True), 0))

    def hand_over(self, now: int) -> int:
        """Put it on its links, first come, first served; when all of it will be there (ns)."""
        if self.due > now:
            self.earlier.append(self.latest)
        self.sent += 1
        if self.only:
            first, on_first, second, on_second = self.only
            start = first.free_at
            if start < now:
                start = now
            later = second.free_at
            if later < start:
                later = start
            self.latest = start, later
            first.free_at = end = start + on_first
            second.free_at = last = later + on_second
            self.due = last = (last if last > end else end) + self.latency
            return last
        starts = self.latest = self.starts(now)
        for link, hold, _, _ in self.hops:
            link.free_at = starts[link] + hold
        self._times = self.arrivals(starts, now)
        self.due = max(self._times)
        return self.due

    def in_order(self) -> tuple[Sequence[tuple[int, int]], int]:
        """Of what was handed over last: when each item will be there (ns), and the last of them."""
        if self.items == 1:
            return (), 0
        if not isinstance(self.latest, tuple):
            *sooner, last = sorted(range(self.items), key=self._times.__getitem__)
            return [(self._times[item], item) for item in sooner], last
        start, later = self.latest  # one connection keeps the order of its items
        others = []
        for item, on_first, on_second in self._sooner:
            end, last = start + on_first, later + on_second
            others.append(((last if last > end else end) + self.latency, item))
        return others, self.items - 1

    def starts(self, now: int, *, alone: bool = False) -> Starts:
        """When it starts on each link, if it is handed over now; `alone`: whether all are free."""
        starts: Starts = {}
        for link, _, after, begins in self.hops:
            start = now if begins else min([starts[other] + wait for other, wait in after])
            starts[link] = start if alone or start > link.free_at else link.free_at
        return starts

    def arrivals(self, starts: Starts, now: int) -> list[int]:
        """When each item is there (ns); what crosses no link, now."""
        times = [now] * self.items
        for item, links, latency in self.passed:
            if links:
                end = max([starts[link] + time for link, time in links]) + latency
                times[item] = max(times[item], end)
        return times

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
                starts = dict(zip(self.loads, starts, strict=True))
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

    def _is_even(self, route: Route) -> bool:
        return (
            len(route) == 2
            and not route[0].overhead
            and route[0].latency + route[1].latency == self.latency
        )

    def _schedule(self, routes: Sequence[Route]) -> None:
        """Work out hops, in order: routes of one host are a tree, no link comes before itself."""
        sizes: dict[Link, float] = {}
        begun: dict[Link, int] = {}  # messages that have set off on it
        for item, route, size in self._messages:
            if route:
                begun[route[0]] = begun.get(route[0], 0) + 1
            passed = []
            for link in route:
                sizes[link] = sizes.get(link, 0.0) + size
                passed.append((link, link.hold(sizes[link]) + begun.get(link, 0) * link.overhead))
            latency = sum([link.latency for link in route])
            self.passed.append(Passed(item, tuple(passed), latency))
        before: dict[Link, dict[Link, int]] = {link: {} for link in sizes}
        for route in routes:
            for index, link in enumerate(route[1:]):
                before[link][route[index]] = 0 if index else route[0].overhead
        for link in sizes if len(routes) == 1 else TopologicalSorter(before).static_order():
            hold = link.hold(sizes[link]) + begun.get(link, 0) * link.overhead
            self.hops.append(Hop(link, hold, tuple(before[link].items()), link in begun))


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
