"""Batches of messages between one host and others, with their schedule hop by hop."""

from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.network.link import Link, Route

_LONGEST: Final = 1 << 40  # ns; ports that are busy for longer are served one by one, in integers


class BatchServed(NamedTuple):
    """When the ports of a bank begin with a batch (ns)."""

    links: Sequence[Link]
    starts: NDArray[np.int64]


class PortBank:
    """Ports on which every batch takes the same time each (`holds`, ns), rising.

    All of a batch comes to all ports at one moment, so the port with the most bytes is the last one
    done with it, and always was.
    """

    def __init__(self, links: Sequence[Link], holds: Sequence[int]) -> None:
        self.links, self.holds = links, holds
        self.open = True
        self._takes = np.array(holds, np.int64)
        self._free = np.zeros(len(holds), np.int64)  # when each port is free again

    def serve(self, at: int) -> tuple[int, int, BatchServed]:
        """A batch comes: when the first port begins with it, when the last is done with it (ns)."""
        starts = np.maximum(self._free, at)
        self._free = free = starts + self._takes
        return int(starts[0]), int(free[-1]), BatchServed(self.links, starts)

    def close(self) -> None:
        """From now on each port is busy for itself."""
        self.open = False
        for link, time in zip(self.links, self._free.tolist(), strict=True):
            link.free_at = time


class PortBanks:
    """The banks of a network: of ports that nobody uses one by one."""

    def __init__(self) -> None:
        self._of: dict[Link, PortBank | None] = {}  # of links in use
        self.any = False

    def bank(self, ports: Sequence[tuple[int, Link]]) -> PortBank | None:
        """The bank of these ports, each with what it takes for a batch (ns), in that order."""
        holds, links = [hold for hold, _ in ports], [link for _, link in ports]
        if holds[-1] <= _LONGEST and not any(link in self._of for link in links):
            self.any = True
            self._of |= dict.fromkeys(links, made := PortBank(links, holds))
            return made
        found = self._of.get(links[0])
        if found is not None and (found.links, found.holds) == (links, holds):
            return found
        self.use(links)
        return None

    def use(self, links: Iterable[Link]) -> None:
        """These are used one by one; that is the end of the banks that they belong to."""
        for link in links:
            bank = self._of.setdefault(link, None)
            if bank is not None:
                bank.close()
                self._of |= dict.fromkeys(bank.links)


__all__ = ["BatchSchedule", "Hop", "Message", "MessageBatch", "Route"]


class Message(NamedTuple):
    """Bytes of one item (a variable) on one route."""

    item: int
    route: Route
    size: float


# Links of a batch by number, in the order in which its messages name them.
_Numbers: TypeAlias = tuple[int, ...]
# The same message with the numbers of its links.
_Part: TypeAlias = tuple[int, _Numbers, float]


class Hop(NamedTuple):
    """A link that a batch takes for `hold` ns, no sooner than so long (ns) after these others.

    `begins`: messages set off on it.
    """

    link: int
    hold: int
    after: tuple[tuple[int, int], ...]
    begins: bool


class Passed(NamedTuple):
    """After how long (ns) on each of its links a message has passed, and the latency of all."""

    item: int
    links: tuple[tuple[int, int], ...]
    latency: int


class Fan(NamedTuple):
    """A link that takes all of a batch, for so long (ns), and the others: one for each part.

    `ports`: each with its time, by that; `begins`: whether messages set off on the one link.
    """

    link: int
    hold: int
    ports: list[tuple[int, int]]
    begins: bool


# When a batch starts on each of its links (ns), by their numbers; and on the link and the ports of
# a fan.
Starts: TypeAlias = Sequence[int]
AnyStarts: TypeAlias = Starts | tuple[int, BatchServed]


class BatchSchedule:
    """Schedule of batches: whatever their sizes tell; batches over equal links share one.

    Links are numbered. `alone`: the least time (ns) that a batch needs when nothing else uses its
    links. `even`: all routes are one link up to a switch and one down from it, of equal latency.
    `pair`: for how long (ns) a batch takes the only two links that all of it passes, and their
    latency; the commonest, which has a shorter way. `fan`: all of it on one link, its parts on one
    other each.
    `connections`: links, items, and the bytes at which each item is complete, for links whose ends
    nobody knows ahead.
    """

    def __init__(self, messages: Sequence[_Part], links: Sequence[Link]) -> None:
        self.messages = messages
        self.items = 1 + max([item for item, _, _ in messages])
        self.parts = [0] * self.items
        self.loads = [0.0] * len(links)  # bytes on each
        self.relayed: list[tuple[int, float]] = []  # bytes that hosts on the way pass on
        connections: dict[_Numbers, list[_Part]] = {}
        for message in messages:
            item, route, size = message
            connections.setdefault(route, []).append(message)
            self.parts[item] += 1
            # None but in a ring.
            self.relayed += [(number, size) for number in route[1:] if links[number].begins]
        self.connections = [
            (route, [item for item, _, _ in own], list(accumulate(size for _, _, size in own)))
            for route, own in connections.items()
        ]
        latencies = [sum([links[number].latency for number in route]) for route in connections]
        self.latency = max(latencies)
        self.even = all(
            len(route) == 2 and not links[route[0]].overhead and latency == self.latency
            for route, latency in zip(connections, latencies, strict=True)
        )
        self.hops: list[Hop] = []
        self.passed: list[Passed] = []
        self.pair: tuple[int, int, int] | None = None
        # Of a pair: each item but the last, and for how long it takes the links.
        self.sooner: list[tuple[int, int, int]] = []
        self.fan: Fan | None = None
        self._schedule(list(connections), links)
        if self.even and len(connections) == 1:
            first, second = self.hops
            self.pair = first.hold, second.hold, self.latency
            for item, ((_, on_first), (_, on_second)), _ in self.passed[:-1]:
                self.sooner.append((item, on_first, on_second))
        elif self.even:
            self.fan = self._fan(len(connections))
        self.alone = max(self.arrivals(self.starts(0, [0] * len(links)), 0))

    def starts(self, now: int, free: Sequence[int]) -> list[int]:
        """When a batch starts on each link, if it is handed over now and these are free then."""
        starts = [0] * len(free)
        for number, _, after, begins in self.hops:
            start = now if begins else min([starts[other] + wait for other, wait in after])
            starts[number] = start if start > free[number] else free[number]
        return starts

    def arrivals(self, starts: Sequence[int], now: int) -> list[int]:
        """When each item is there (ns); what crosses no link, now."""
        times = [now] * self.items
        for item, links, latency in self.passed:
            if links:
                end = max([starts[number] + time for number, time in links]) + latency
                times[item] = max(times[item], end)
        return times

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

    def _schedule(self, routes: Sequence[_Numbers], links: Sequence[Link]) -> None:
        """Work out hops, in order: routes of one host are a tree, no link comes before itself."""
        sizes, holds = self.loads, [0] * len(links)
        begun: dict[int, int] = {}  # messages that have set off on it
        for item, route, size in self.messages:
            if route:
                begun[route[0]] = begun.get(route[0], 0) + 1
            passed = []
            for number in route:
                link = links[number]
                sizes[number] = sent = sizes[number] + size
                holds[number] = hold = link.hold(sent) + begun.get(number, 0) * link.overhead
                passed.append((number, hold))
            latency = sum([links[number].latency for number in route])
            self.passed.append(Passed(item, tuple(passed), latency))
        before: dict[int, dict[int, int]] = {number: {} for number in range(len(links))}
        for route in routes:
            for index, number in enumerate(route[1:]):
                before[number][route[index]] = 0 if index else links[route[0]].overhead
        ordered: Iterable[int] = range(len(links))
        if self.even:
            ordered = sorted(ordered, key=lambda number: number not in begun)
        elif len(routes) > 1:
            ordered = TopologicalSorter(before).static_order()
        for number in ordered:
            after = tuple(before[number].items())
            self.hops.append(Hop(number, holds[number], after, number in begun))


class MessageBatch:
    """Messages that one host sends or asks for at once; an item is there when all its parts are.

    It is made once and sent again and again, by a `schedule` that it may share with others
    (`known`). Where links are booked ahead, it keeps when its latest sending starts on each link,
    and `earlier` ones that were not through when somebody sent it again: what a worker that died
    had handed over. The ports of a fan may be a `bank`.
    """

    __slots__ = (
        "_marks",
        "_times",
        "alone",
        "bank",
        "due",
        "earlier",
        "items",
        "latest",
        "links",
        "schedule",
        "sent",
    )

    def __init__(
        self,
        messages: Iterable[Message],
        *,
        known: dict[object, BatchSchedule] | None = None,
    ) -> None:
        numbers: dict[Link, int] = {}
        number = numbers.setdefault
        parts = tuple(
            [
                (item, tuple([number(link, len(numbers)) for link in route]), size)
                for item, route, size in messages
            ]
        )
        self.links = links = tuple(numbers)
        known = {} if known is None else known
        key = (parts, *[(one.bandwidth, one.latency, one.overhead, one.begins) for one in links])
        if key not in known:
            known[key] = BatchSchedule(parts, links)
        self.schedule = schedule = known[key]
        self.items, self.alone = schedule.items, schedule.alone
        self.sent = 0  # how often
        self.due = 0  # when it was, or will be, there (ns)
        self.latest: AnyStarts = ()
        self.earlier: tuple[AnyStarts, ...] = ()
        self.bank: PortBank | None = None
        self._times: Sequence[int] = ()  # when each item of its latest sending is there
        self._marks: list[tuple[Route, list[int], list[float]]] = []

    @property
    def marks(self) -> list[tuple[Route, list[int], list[float]]]:
        """The connections of its schedule, with their routes."""
        if not self._marks:
            self._marks = [
                (tuple([self.links[number] for number in route]), items, marks)
                for route, items, marks in self.schedule.connections
            ]
        return self._marks

    def hand_over(self, now: int) -> int:
        """Put it on its links, first come, first served; when all of it will be there (ns)."""
        if self.due > now:
            self.earlier += (self.latest,)
        self.sent += 1
        pair = self.schedule.pair
        if pair:
            on_first, on_second, latency = pair
            first, second = self.links
            start = first.free_at
            if start < now:
                start = now
            later = second.free_at
            if later < start:
                later = start
            self.latest = start, later
            first.free_at = end = start + on_first
            second.free_at = last = later + on_second
            if last < end:
                last = end
            self.due = last + latency
            return self.due
        schedule = self.schedule
        if self.bank is not None and self.bank.open:
            assert schedule.fan is not None
            return self._hand_over_fan(schedule.fan, self.bank, now)
        starts = self.latest = schedule.starts(now, [link.free_at for link in self.links])
        for number, hold, _, _ in schedule.hops:
            self.links[number].free_at = starts[number] + hold
        self._times = schedule.arrivals(starts, now)
        self.due = max(self._times)
        return self.due

    def _hand_over_fan(self, fan: Fan, bank: PortBank, now: int) -> int:
        link, hold = self.links[fan.link], fan.hold
        if fan.begins:
            start = link.free_at if link.free_at > now else now
            _, end, served = bank.serve(start)
        else:
            start, end, served = bank.serve(now)
            if link.free_at > start:
                start = link.free_at
        link.free_at = start + hold
        self.latest = start, served
        self.due = max(start + hold, end) + self.schedule.latency
        if self.items > 1:
            self._times = self.schedule.arrivals(self._by_link(self.latest), now)
        return self.due

    def in_order(self) -> tuple[Sequence[tuple[int, int]], int]:
        """Of what was handed over last: when each item will be there (ns), and the last of them."""
        schedule = self.schedule
        if not schedule.pair:
            *sooner, last = sorted(range(self.items), key=self._times.__getitem__)
            return [(self._times[item], item) for item in sooner], last
        start, later = self.latest  # one connection keeps the order of its items
        assert isinstance(later, int)
        others = []
        for item, on_first, on_second in schedule.sooner:
            end, last = start + on_first, later + on_second
            others.append(((last if last > end else end) + schedule.latency, item))
        return others, self.items - 1

    def count(self, end: int) -> None:
        """Count the bytes that have passed each link when the run ends (ns); ends the books."""
        under_way = [*self.earlier, self.latest] if self.due > end else self.earlier
        whole = self.sent - len(under_way)
        for link, size in zip(self.links, self.schedule.loads, strict=True) if whole else ():
            link.add(whole * size, messages=whole)
        for number, size in self.schedule.relayed if whole else ():
            self.links[number].add(0.0, messages=0, relayed=whole * size)
        for starts in under_way:
            by_link = self._by_link(starts)
            for number, link in enumerate(self.links):
                sent, passed, relayed = self.passed_on(number, end - by_link[number])
                link.add(passed, sent - passed, relayed=sum(relayed))
        self.sent = self.due = 0
        self.earlier = ()

    def passed_on(self, number: int, time: int) -> tuple[float, float, list[float]]:
        """What has passed one of its links so long (ns) after it started there.

        In bytes: all that passes it, what has, and of this each message that a host on the way
        passed on.
        """
        link = self.links[number]
        sent = passed = 0.0
        relayed = []
        for _, route, size in self.schedule.messages:
            if number not in route:
                continue
            if route[0] == number:
                time -= link.overhead
            here = min(size, max(0.0, link.passed(sent + size, time) - sent))
            sent += size
            passed += here
            if link.begins and route[0] != number:
                relayed.append(here)
        return sent, passed, relayed

    def _by_link(self, starts: AnyStarts) -> Starts:
        """When it starts on each of its links (ns)."""
        if not starts or isinstance(starts[-1], int):
            return cast(Starts, starts)
        assert self.schedule.fan is not None
        begun, served = cast(tuple[int, BatchServed], starts)
        times = dict(zip(served.links, served.starts.tolist(), strict=True))
        times[self.links[self.schedule.fan.link]] = begun
        return [times[link] for link in self.links]
