"""Flat form of exchanges message by message: links, and what is sent over them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from varsim.cluster.collectives.plan import Plan, Send
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, Ints, check_sums
from varsim.cluster.flat.network import (
    count_flows,
    idle,
    lay_out_flows,
    lay_out_links,
    pool,
    relayed_on,
)
from varsim.cluster.flat.reductions import Reductions, carried
from varsim.cluster.link import Booking, Link, Route
from varsim.cluster.trace import LinkRow
from varsim.cluster.transport import Network


class FlatMessages(ABC):
    """Messages, laid out in memory; what links have carried when a run is over."""

    def __init__(self, network: Network, workers: int, *, fair: bool) -> None:
        self._network, self._workers, self._fair = network, workers, fair
        self._links: dict[Link, int] = {}
        self._messages = range(0)  # addresses
        self._hops = 0  # that a message has at most

    @abstractmethod
    def _sent(self, m: Any, send: int) -> tuple[Route, float]:
        """The links that a message crosses which is sent as told there, and its size (bytes)."""

    def _lay_out_links(
        self,
        building: Building,
        reals: list[float],
        messages: int,
        sent: Sequence[tuple[Route, float]],
    ) -> None:
        """Lay out links, and room for so many messages at a time.

        `sent`: all routes, each with the size of what crosses it, the largest at least (bytes).
        """
        m, self._hops = building.scalars, max([1, *(len(route) for route, _ in sent)])
        m[at.SEND_SIZE], size = at.SEND + 2 * self._hops, at.PASSING + self._hops
        crossed = list(dict.fromkeys(link for route, _ in sent for link in route))
        if self._fair:
            self._links = {link: number for number, link in enumerate(crossed)}
            lay_out_links(building, reals, np.array([link.bandwidth for link in crossed]))
            lay_out_flows(
                building, reals, len(crossed), most=messages, crossed=self._hops, marks=messages
            )
        else:
            for link in crossed:
                self._links[link] = building.add([0, 0, len(reals)])
                reals += [0.0, 0.0]
        m[at.FREE_MESSAGE] = pool(building, messages + 1, size)
        self._messages = range(m[at.FREE_MESSAGE], building.size, size)
        holds = (link.hold(size) for route, size in sent for link in route)
        check_sums(max(holds, default=0) * messages)

    def carried(self, m: Any, reals: Any, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        if self._fair:
            return self._carried_fairly(m, reals, end)
        for link, place in self._links.items():
            link.messages = int(m[place + at.PASSED_BY])
            first = m[place + at.PASSED_REALS]
            link.moved, link.relayed = float(reals[first]), float(reals[first + 1])
        under_way = [message for message in self._messages if m[message + at.NTH_MESSAGE]]
        for message in sorted(under_way, key=lambda message: int(m[message + at.NTH_MESSAGE])):
            route, size = self._sent(m, int(m[message + at.SENT_AS]))
            first = message + at.PASSING
            starts = [int(start) for start in m[first : first + len(route)]]
            Booking(route, size, starts).count(end)
        return carried(self._network, end)

    def _carried_fairly(self, m: Any, reals: Any, end: int) -> tuple[list[LinkRow], float]:
        count_flows(m, reals, end, len(self._links))
        for link, number in self._links.items():
            own = m[m[at.FAIR] + number * at.FAIR_LINK + at.LINK_REALS]
            link.messages = int(m[at.MESSAGES_SENT])  # that many at most
            link.moved = float(reals[own + at.MOVED])
            link.relayed = float(reals[own + at.RELAYED])
        return carried(self._network, end)

    def _connections(
        self,
        building: Building,
        reals: list[float],
        routes: Sequence[Route],
        lines: Ints,
        sizes: Ints,
    ) -> Ints:
        """Lay out how each message crosses fair links: one of these routes, with its size there.

        The overhead of a message, if it has one, has a connection of its own, and comes before it.
        """
        size, idles = at.CONNECTION + self._hops, np.array([idle(route) for route in routes])
        one, links = np.zeros((len(routes), size), dtype=np.int64), at.CONNECTION
        one[:, at.MARKS] = 1
        for line, route in enumerate(routes):
            one[line, at.LINKS], one[line, at.RELAYS] = len(route), relayed_on(route)
            one[line, links : links + len(route)] = [self._links[link] for link in route]
        made = one[lines]
        made[:, at.MARKS_AT] = sizes
        own: Ints = building.add(made) + size * np.arange(len(made))
        if not idles.any():
            return own
        one[:, at.LINKS], one[:, at.RELAYS], one[:, at.IDLE] = 1, 0, 1
        one[:, at.MARKS_AT] = len(reals) + np.arange(len(routes))
        reals += idles.tolist()
        made = one[lines]
        made[:, at.THEN] = own
        first: Ints = building.add(made) + size * np.arange(len(made))
        return np.where(idles[lines] > 0, first, own)

    def _record(
        self, said: Sequence[int], route: Route, size_at: int, crossed: Sequence[int]
    ) -> list[int]:
        """What is `said` of a message, and what of its links; its size is in `reals`."""
        ahead, latency = route[0].overhead if route else 0, sum(link.latency for link in route)
        more = [size_at, len(route), latency, ahead, relayed_on(route)]
        return [*said, *more, *crossed, *[0] * (2 * self._hops - len(crossed))]


class FlatWalks(FlatMessages):
    """Messages of all-reduces."""

    def __init__(self, reductions: Reductions, workers: int, *, fair: bool) -> None:
        super().__init__(reductions.network, workers, fair=fair)
        self._plans = reductions.plans
        self._sends: dict[int, Send] = {}  # by address

    def lay_out(self, building: Building, reals: list[float], messages: int) -> list[int]:
        """Lay out all, with room for so many messages at a time; where the plans are."""
        sends = (send for plan in self._plans for own in plan.sends for send in own)
        sent = [(send.route, send.size) for send in sends]
        self._lay_out_links(building, reals, messages, sent)
        building.scalars[at.WALKS] = building.room(2 * self._workers * at.MEMBER)
        return [self._plan(building, plan, reals) for plan in self._plans]

    def _sent(self, m: Any, send: int) -> tuple[Route, float]:
        return self._sends[send].route, self._sends[send].size

    def _plan(self, building: Building, plan: Plan, reals: list[float]) -> int:
        sent, ranks = [send for own in plan.sends for send in own], list[int]()
        sizes = len(reals) + np.arange(len(sent))
        reals += [send.size for send in sent]
        if self._fair:
            routes = [send.route for send in sent]
            found = self._connections(building, reals, routes, np.arange(len(sent)), sizes)
            crossed = [[place] for place in found.tolist()]
        else:
            crossed = [self._crossed(send) for send in sent]
        records = [*map(self._send, sent, sizes.tolist(), crossed)]
        first = building.add([number for record in records for number in record])
        each = int(building.scalars[at.SEND_SIZE])
        self._sends |= {first + each * place: send for place, send in enumerate(sent)}
        for own, receipts in zip(plan.sends, plan.receipts, strict=True):
            after = first + each * len(own)
            ranks += [first, after, receipts]
            first = after
        return building.add(ranks)

    def _crossed(self, send: Send) -> list[int]:
        """The first-come links that a message crosses, each with how long it is held (ns)."""
        holds = [link.hold(send.size) for link in send.route]
        if send.route:
            holds[0] += send.route[0].overhead
        links = [self._links[link] for link in send.route]
        return [number for hop in zip(links, holds, strict=True) for number in hop]

    def _send(self, send: Send, size_at: int, crossed: list[int]) -> list[int]:
        said = [send.times, send.target, send.needs, send.needs_more, send.turn, send.plain]
        return self._record([*said, send.adding], send.route, size_at, crossed)
