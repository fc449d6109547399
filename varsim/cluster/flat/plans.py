"""Flat form of all-reduces message by message: links, what ranks send, replicas."""

from typing import Any, Final

import numpy as np

from varsim.cluster.collectives.plan import Plan, Send
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, Ints, NotCoveredError
from varsim.cluster.flat.network import pool
from varsim.cluster.flat.reductions import Reductions, carried
from varsim.cluster.link import Booking, Link
from varsim.cluster.trace import LinkRow

_LONGEST: Final = 1 << 58  # ns


class FlatPlans:
    """All-reduces of a run, laid out in memory; what links have carried when it is over."""

    def __init__(self, reductions: Reductions, workers: int) -> None:
        self._reductions, self._workers = reductions, workers
        self._sends: dict[int, Send] = {}  # by address
        self._links: dict[Link, int] = {}
        self._messages = range(0)  # their addresses
        self.most_hops = max(
            len(send.route) for plan in reductions.plans for own in plan.sends for send in own
        )

    def lay_out(
        self, building: Building, reals: list[float], messages: int
    ) -> None:
        """Lay out all of it, with room for so many messages at a time."""
        m, reductions = building.scalars, self._reductions
        m[at.SEND_SIZE] = at.SEND + 2 * self.most_hops
        reals.append(0.0)  # no address is 0
        m[at.OVERLAPS] = bool(reductions.shares)
        m[at.SHARES] = len(reals)
        reals += reductions.shares
        if reductions.pace is not None:
            m[at.PACE] = len(reals)
            reals.append(reductions.pace)
        for link in self._crossed():
            self._links[link] = building.add([0, 0, len(reals)])
            reals += [0.0, 0.0]
        plans = [self._plan(building, plan, reals) for plan in reductions.plans]
        m[at.BUCKETS] = len(plans)
        m[at.PLANS] = building.add(np.stack((plans, reductions.overheads), axis=1))
        m[at.WALKS] = building.room(2 * self._workers * at.MEMBER)
        m[at.FREE_MESSAGE] = pool(building, messages + 1, at.PASSING + self.most_hops)
        self._messages = range(
            m[at.FREE_MESSAGE], building.size, at.PASSING + self.most_hops
        )

    def carried(self, m: Any, reals: Any, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        for link, place in self._links.items():
            link.messages = int(m[place + at.PASSED_BY])
            first = m[place + at.PASSED_REALS]
            link.moved, link.relayed = float(reals[first]), float(reals[first + 1])
        for message in self._under_way(m):
            send = self._sends[int(m[message + at.SENT_AS])]
            first = message + at.PASSING
            starts = [int(start) for start in m[first : first + len(send.route)]]
            Booking(send.route, send.size, starts, sets_off=True).count(end)
        return carried(self._reductions.network, end)

    def _under_way(self, m: Any) -> list[int]:
        """Messages on their links, in the order in which they set off."""
        some = [message for message in self._messages if m[message + at.NTH_MESSAGE]]
        return sorted(some, key=lambda message: int(m[message + at.NTH_MESSAGE]))

    def _plan(self, building: Building, plan: Plan, reals: list[float]) -> int:
        ranks: list[int] = []
        for sends, receipts in zip(plan.sends, plan.receipts, strict=True):
            first = building.size
            for send in sends:
                self._sends[self._send(building, send, reals)] = send
            ranks += [first, building.size, receipts]
        return building.add(ranks)

    def _send(self, building: Building, send: Send, reals: list[float]) -> int:
        size, hops, relayed = at.SEND + 2 * self.most_hops, list[int](), 0
        route = send.route
        ahead = route[0].overhead if route else 0
        for hop, link in enumerate(route):
            hold = link.hold(send.size) + (0 if hop else ahead)
            if hold * self._workers > _LONGEST:
                raise NotCoveredError("its times are too long for sums of 64 bits")
            hops += [self._links[link], hold]
            relayed += (hop > 0 and route[1].begins and link.begins) << hop
        said = [send.times, send.target, send.needs, send.needs_more, send.turn, send.plain]
        said += [send.adding, len(reals), len(route), sum(link.latency for link in route)]
        reals.append(send.size)
        return building.add([*said, ahead, relayed, *hops, *[0] * (size - at.SEND - len(hops))])

    def _crossed(self) -> list[Link]:
        """All links that anything crosses."""
        plans = self._reductions.plans
        sends = (send for plan in plans for own in plan.sends for send in own)
        return list(dict.fromkeys(link for send in sends for link in send.route))
