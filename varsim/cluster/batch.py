"""Batches of messages between one host and others, with their schedule hop by hop."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from varsim.cluster.link import Link, Route, relays
from varsim.cluster.ports import PortBank, Served

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


class Fan(NamedTuple):
    """A link that takes all of a batch, for so long (ns), and the others: one for each part.

    `ports`: each with its time, by that; `begins`: whether messages set off on the one link.
    """

    link: Link
    hold: int
    ports: list[tuple[int, Link]]
    begins: bool


# When a batch starts on each of its links (ns).
Starts: TypeAlias = dict[Link, int]
# The same of a pair of links in order, and of a fan: on its link, and on its ports.
AnyStarts: TypeAlias = Starts | tuple[int, int] | tuple[int, Served]


class MessageBatch:
    """Messages that one host sends or asks for at once; an item is there when all its parts are.

    It is made once and sent again and again, so whatever its sizes tell is worked out here. Where
    links are booked ahead, it keeps when its latest sending starts on each link, and `earlier` ones
    that were not through when somebody sent it again: what a worker that died had handed over.
    `alone`: the least time (ns) it needs when nothing else uses its links. `stored`: every link
    gets a message once all of it has passed the one before. `even`: all routes are one link up to a
    switch and one down from it, of equal latency. `only`: such a pair of links that takes all of
    the batch, and for how long; the commonest batch, which has a shorter way. `fan`: all of it on
    one link, its parts on one other each, where these may be a `bank`, which is another.
    """

    def __init__(self, messages: Sequence[Message], *, stored: bool = False) -> None:
        self.items = 1 + max(message.item for message in messages)
        self.sent = 0  # how often
        self.due = 0  # when it was, or will be, there (ns)
        self.latest: AnyStarts = {}
        self.earlier: list[AnyStarts] = []
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
        self._connections = connections
        self.latency = max(sum(link.latency for link in route) for route in connections)
        self.even = not stored and all(map(self._is_even, connections))
        self.hops: list[Hop] = []
        self.passed: list[Passed] = []
        self.only: tuple[Link, int, Link, int] | None = None
        self.fan: Fan | None = None
        self.bank: PortBank | None = None
        if stored:
            for _, route, size in messages:
                for link in route:
                    self.loads[link] = self.loads.get(link, 0.0) + size
            self.alone = _alone_stored(messages)
            return
        self._schedule(list(connections))
        if self.even and len(connections) == 1:
            first, second = self.hops
            self.only = (first.link, first.hold, second.link, second.hold)
            for item, ((_, on_first), (_, on_second)), _ in self.passed[:-1]:
                self._sooner.append((item, on_first, on_second))
        elif self.even:
            self.fan = self._fan(len(connections))
        self.alone = max(self.arrivals(self.starts(0, alone=True), 0))

    @cached_property
    def marks(self) -> list[tuple[Route, list[int], list[float]]]:
        """The items of each connection, for links whose ends nobody knows ahead.

        And the bytes of it at which each is complete.
        """
        return [
            (route, [one.item for one in there], list(accumulate(one.size for one in there)))
            for route, there in self._connections.items()
        ]

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
        if self.bank is not None and self.bank.open:
            assert self.fan is not None
            return self._hand_over_fan(self.fan, self.bank, now)
        starts = self.latest = self.starts(now)
        for link, hold, _, _ in self.hops:
            link.free_at = starts[link] + hold
        self._times = self.arrivals(starts, now)
        self.due = max(self._times)
        return self.due

    def _hand_over_fan(self, fan: Fan, bank: PortBank, now: int) -> int:
        link, hold, _, begins = fan
        if begins:
            start = link.free_at if link.free_at > now else now
            _, end, served = bank.serve(start)
        else:
            start, end, served = bank.serve(now)
            if link.free_at > start:
                start = link.free_at
        link.free_at = start + hold
        self.latest = start, served
        self.due = max(start + hold, end) + self.latency
        if self.items > 1:
            self._times = self.arrivals(_by_link(self.latest, self.loads, fan), now)
        return self.due

    def in_order(self) -> tuple[Sequence[tuple[int, int]], int]:
        """Of what was handed over last: when each item will be there (ns), and the last of them."""
        if self.only is None:
            *sooner, last = sorted(range(self.items), key=self._times.__getitem__)
            return [(self._times[item], item) for item in sooner], last
        assert isinstance(self.latest, tuple)
        start, later = self.latest  # one connection keeps the order of its items
        assert isinstance(later, int)
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
        for link, size in self.passed_on_over() if whole else ():
            link.relayed += whole * size
        for starts in under_way:
            by_link = _by_link(starts, self.loads, self.fan)
            for link in self.loads:
                sent, passed, relayed = self.passed_on(link, end - by_link[link])
                link.add(sent, passed, relayed=False)
                for size in relayed:
                    link.relayed += size
        self.sent = self.due = 0
        self.earlier = []

    def passed_on_over(self) -> list[tuple[Link, float]]:
        """Links that it is passed on over by hosts on the way, each with what is on it (bytes)."""
        return [(link, size) for _, route, size in self._messages for link in relays(route)]

    def passed_on(self, link: Link, time: int) -> tuple[float, float, list[float]]:
        """What has passed one of its links so long (ns) after it started there.

        In bytes: all that passes it, what has, and of this each message that a host on the way
        passed on.
        """
        sent = passed = 0.0
        relayed = []
        for _, route, size in self._messages:
            if link not in route:
                continue
            if route[0] is link:
                time -= link.overhead
            here = min(size, max(0.0, link.passed(sent + size, time) - sent))
            sent += size
            passed += here
            if link.begins and route[0] is not link:
                relayed.append(here)
        return sent, passed, relayed

    def _is_even(self, route: Route) -> bool:
        return (
            len(route) == 2
            and not route[0].overhead
            and route[0].latency + route[1].latency == self.latency
        )

    def _fan(self, connections: int) -> Fan | None:
        """The batch as a fan, if it is one."""
        (first, *_), last = self.hops, self.hops[-1]
        one = first if first.begins and not self.hops[1].begins else last
        ports = [(hop.hold, hop.link) for hop in self.hops if hop is not one]
        if len(ports) < connections or any(
            hop.begins == one.begins for hop in self.hops if hop is not one
        ):
            return None
        return Fan(one.link, one.hold, sorted(ports, key=lambda port: port[0]), one.begins)

    def _schedule(self, routes: Sequence[Route]) -> None:
        """Work out hops, in order: routes of one host are a tree, no link comes before itself."""
        sizes, holds = self.loads, dict[Link, int]()
        begun: dict[Link, int] = {}  # messages that have set off on it
        for item, route, size in self._messages:
            if route:
                begun[route[0]] = begun.get(route[0], 0) + 1
            passed = []
            for link in route:
                sizes[link] = sent = sizes.get(link, 0.0) + size
                holds[link] = hold = link.hold(sent) + begun.get(link, 0) * link.overhead
                passed.append((link, hold))
            latency = sum([link.latency for link in route])
            self.passed.append(Passed(item, tuple(passed), latency))
        before: dict[Link, dict[Link, int]] = {link: {} for link in sizes}
        for route in routes:
            for index, link in enumerate(route[1:]):
                before[link][route[index]] = 0 if index else route[0].overhead
        ordered: Iterable[Link] = sizes
        if self.even:
            ordered = sorted(sizes, key=lambda link: link not in begun)
        elif len(routes) > 1:
            ordered = TopologicalSorter(before).static_order()
        for link in ordered:
            self.hops.append(Hop(link, holds[link], tuple(before[link].items()), link in begun))


def _by_link(starts: AnyStarts, links: Iterable[Link], fan: Fan | None) -> Starts:
    """When a batch starts on each of these links, in their order (ns)."""
    if not isinstance(starts, tuple):
        return starts
    begun, other = starts
    if isinstance(other, int):
        return dict(zip(links, (begun, other), strict=True))
    assert fan is not None
    return {**other.bank.starts(other), fan.link: begun}


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
