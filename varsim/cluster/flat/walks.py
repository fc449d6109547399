"""Flat form of all-reduces message by message: links, and what each rank sends over them."""

from functools import cached_property
from typing import Any, Final

from varsim.cluster.collectives.plan import Plan, Send
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, NotCoveredError
from varsim.cluster.flat.network import pool
from varsim.cluster.flat.reductions import Reductions, carried
from varsim.cluster.link import Booking, Link
from varsim.cluster.trace import LinkRow

_LONGEST: Final = 1 << 58  # ns


class FlatWalks:
    """Messages of all-reduces, laid out in memory; what links have carried when a run is over."""

    def __init__(self, reductions: Reductions, workers: int) -> None:
        self._network, self._plans = reductions.network, reductions.plans
        self._workers = workers
        self._sends: dict[int, Send] = {}  # by address
        self._links: dict[Link, int] = {}
        self._messages = range(0)  # addresses

    def lay_out(self, building: Building, reals: list[float], messages: int) -> list[int]:
        """Lay out all, with room for so many messages at a time; where the plans are."""
        m = building.scalars
        m[at.SEND_SIZE], size = at.SEND + 2 * self._hops, at.PASSING + self._hops
        for link in dict.fromkeys(link for send in self._all for link in send.route):
            self._links[link] = building.add([0, 0, len(reals)])
            reals += [0.0, 0.0]
        m[at.WALKS] = building.room(2 * self._workers * at.MEMBER)
        m[at.FREE_MESSAGE] = pool(building, messages + 1, size)
        self._messages = range(m[at.FREE_MESSAGE], building.size, size)
        longest = max(link.hold(send.size) for send in self._all for link in send.route)
        if longest * messages > _LONGEST:
            raise NotCoveredError("its times are too long for sums of 64 bits")
        return [self._plan(building, plan, reals) for plan in self._plans]

    def carried(self, m: Any, reals: Any, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        for link, place in self._links.items():
            link.messages = int(m[place + at.PASSED_BY])
            first = m[place + at.PASSED_REALS]
            link.moved, link.relayed = float(reals[first]), float(reals[first + 1])
        under_way = [message for message in self._messages if m[message + at.NTH_MESSAGE]]
        for message in sorted(under_way, key=lambda message: int(m[message + at.NTH_MESSAGE])):
            send = self._sends[int(m[message + at.SENT_AS])]
            first = message + at.PASSING
            starts = [int(start) for start in m[first : first + len(send.route)]]
            Booking(send.route, send.size, starts, sets_off=True).count(end)
        return carried(self._network, end)

    @cached_property
    def _all(self) -> list[Send]:
        return [send for plan in self._plans for own in plan.sends for send in own]

    @cached_property
    def _hops(self) -> int:
        return max(len(send.route) for send in self._all)

    def _plan(self, building: Building, plan: Plan, reals: list[float]) -> int:
        ranks: list[int] = []
        for sends, receipts in zip(plan.sends, plan.receipts, strict=True):
            first = building.size
            for send in sends:
                self._sends[self._send(building, send, reals)] = send
            ranks += [first, building.size, receipts]
        return building.add(ranks)

    def _send(self, building: Building, send: Send, reals: list[float]) -> int:
        route, hops, relayed = send.route, list[int](), 0
        ahead = route[0].overhead if route else 0
        for hop, link in enumerate(route):
            hops += [self._links[link], link.hold(send.size) + (0 if hop else ahead)]
            relayed += (hop > 0 and route[1].begins and link.begins) << hop
        said = [send.times, send.target, send.needs, send.needs_more, send.turn, send.plain]
        said += [send.adding, len(reals), len(route), sum(link.latency for link in route)]
        reals.append(send.size)
        return building.add([*said, ahead, relayed, *hops, *[0] * (2 * self._hops - len(hops))])
