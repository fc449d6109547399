"""Max-min fair rates of flows that share links in any way, by progressive filling.

Progressive filling: raise the rates of all flows together until a link is full; its flows keep
that rate; go on with the others and with what is left of the links. A link need not wait for its
turn: it is a bottleneck as soon as each of its flows is promised no less by the rest of its
route. Taking all such links in one round gives the same rates in fewer rounds.

Bertsekas and Gallager, "Data Networks", section 6.5.2; for the local rule, Ros and Tsai, "A theory
of convergence order of maxmin rate allocation", INFOCOM 2001.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from heapq import heappush
from itertools import compress
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.network.link import Link, Route, relays

# Later (ns) than any time that a float of seconds can be; a run ends long before (END_OF_TIME).
NEVER: Final = 1 << 1100

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]


def max_min_rates(routes: Indices, bandwidth: Floats) -> Floats:
    """Rates (bytes/s) of all flows.

    routes: (hops, flows), the links that each flow crosses as indices into `bandwidth` (links,),
    bytes/s. A link of infinite bandwidth may fill up short routes; every flow needs a finite one.
    """
    hops, number = routes.shape
    links = len(bandwidth)
    rates = np.zeros(number)
    waiting = np.arange(number)  # flows without a rate
    left = bandwidth
    while waiting.size:
        promise = left / np.maximum(np.bincount(routes.ravel(), minlength=links), 1)
        promised = promise[routes]  # to each waiting flow by each of its links
        lowest = np.minimum.reduce(promised)
        discontent = np.bincount(routes[promised > lowest], minlength=links)
        settled = np.logical_or.reduce((discontent == 0)[routes])
        rest = (~settled).nonzero()[0]
        if not rest.size:
            rates[waiting] = lowest
            break
        done = settled.nonzero()[0]
        taken = lowest[done]
        rates[waiting[done]] = taken
        # bincount adds up in the order of the flows, one by one: the same sum on every machine.
        crossed = routes.take(done, axis=1).ravel()
        left = left - np.bincount(crossed, np.concatenate([taken] * hops), minlength=links)
        waiting, routes = waiting[rest], routes.take(rest, axis=1)
    return rates


class Flow:
    """Flow of bytes over a route, and whom to tell (`later` ns) after its marks have passed.

    `whole`: all links of its way; `route`: those that bind.
    """

    __slots__ = (
        "_empty",
        "_later",
        "entered",
        "marks",
        "number",
        "reached",
        "route",
        "step",
        "whole",
    )

    def __init__(
        self,
        whole: Route,
        route: Route,
        marks: Sequence[float],
        reached: Callable[[int], None],
        number: int,
        later: int,
        empty: float,
    ) -> None:
        self.whole, self.route = whole, route
        self.marks = marks
        self.reached = reached
        self.number = number  # flows are numbered in the order in which they were started
        self.step = 0  # the mark that it will pass next
        self.entered = 0.0  # a hub's virtual time when it came
        self._later, self._empty = later, empty  # see FairShare.start

    def tell(self, mark: int, now: int, passed: "list[Passed]") -> None:
        """A mark has passed now (ns): put it on the heap of those that are to be told."""
        heappush(passed, (now + self._later, self.number, mark, self))

    def count(self, passed: float) -> None:
        """So many of its bytes have passed its links when it, or the run, ends."""
        size = self.marks[-1] - self._empty
        passed = min(size, max(0.0, passed - self._empty))
        left = size - passed
        for link in self.whole:
            link.add(passed, left)
        for link in relays(self.whole):
            link.add(0.0, messages=0, relayed=passed)


# A mark that has passed: when it is told (ns), the flow's number, the mark's index, the flow.
Passed: TypeAlias = tuple[int, int, int, Flow]


class Sharing(ABC):
    """Flows whose rates depend on each other, and when the first of their marks is due."""

    __slots__ = ("expected",)

    expected: int  # ns; when it was last said to be due

    @abstractmethod
    def pass_marks(self, now: int, passed: list[Passed], holder: "dict[Link, Sharing]") -> int:
        """Move marks due by `now` to `passed`, flows that end off their links; what is due next.

        That may be now again, where a flow has several marks in one instant. Times in ns.
        """

    @abstractmethod
    def dissolve(self, now: int) -> list[tuple[Flow, float]]:
        """All flows in the order of their start, with the bytes passed; it is void from now on."""


class Mesh(Sharing):
    """Flows of any routes; every change of the set of flows sets all rates anew.

    Seconds count from the moment the mesh was last empty, so that they stay short and precise.
    Changes within one nanosecond are made together.
    """

    def __init__(self) -> None:
        self.expected = NEVER
        self.changed = False  # flows came or went: `share` is to be called in this instant
        self._coming: list[tuple[Flow, float]] = []  # flows, bytes passed; until `share`
        # Of each flow, with room for more: the columns of its links (hops, flows); bytes passed
        # at the last change, bytes at its next mark, rate, its next mark in seconds after the
        # epoch. Column 0 fills up short routes.
        self._routes: Indices = np.zeros((2, 16), dtype=np.intp)
        self._rows: Floats = np.zeros((4, 16))
        self._bandwidth: Floats = np.full(16, np.inf)  # of each column, with room for more
        self._clear(0)

    def _clear(self, now: int) -> None:
        self._epoch = now  # ns
        self._time = 0.0  # of the last change, seconds after the epoch
        self._columns: dict[Link, int] = {}
        self._count: dict[Link, int] = {}  # the number of flows on each link in use
        self._flows: list[Flow] = []

    def add(self, flow: Flow, passed: float, now: int, holder: dict[Link, Sharing]) -> None:
        """Take a flow of which some bytes have passed; it has a rate from the next `share` on."""
        if not self._count:
            self._clear(now)
        for link in flow.route:
            if link not in self._columns:
                self._add_column(link)
            self._count[link] = self._count.get(link, 0) + 1
            holder[link] = self
        self._coming.append((flow, passed))
        self.changed = True

    def pass_marks(self, now: int, passed: list[Passed], holder: dict[Link, Sharing]) -> int:
        """One mark of each flow that is due; see Sharing."""
        elapsed = now - self._epoch
        so_far, target, rate, due = self._rows[:, : len(self._flows)]
        ended = []
        for index in (due <= (elapsed + 1) * (1 + 1e-12) / 1e9).nonzero()[0].tolist():
            if round(float(due[index]) * 1e9) > elapsed:
                continue
            flow = self._flows[index]
            flow.tell(flow.step, now, passed)
            flow.step += 1
            if flow.step == len(flow.marks):
                ended.append(index)
            else:
                target[index] = flow.marks[flow.step]
                due[index] = self._time + (target[index] - so_far[index]) / rate[index]
        if ended:
            self._advance(float(due[ended].max()))
            self._remove(ended, holder)
        return self._next(now)

    def dissolve(self, now: int) -> list[tuple[Flow, float]]:
        self._advance((now - self._epoch) / 1e9)
        self.expected = NEVER
        return [*zip(self._flows, self._rows[0].tolist(), strict=False), *self._coming]

    def share(self, now: int) -> int:
        """Let new flows in, set all rates anew; when the next mark is due (ns)."""
        self.changed = False
        if self._coming:
            self._advance((now - self._epoch) / 1e9)
            self._append(self._coming)
            self._coming = []
        so_far, target, rate, due = self._rows[:, : len(self._flows)]
        rate[:] = self._rates()
        np.subtract(target, so_far, out=due)
        np.divide(due, rate, out=due)
        np.add(self._time, due, out=due)
        return self._next(now)

    def _rates(self) -> Floats:
        routes = self._routes[:, : len(self._flows)]
        return max_min_rates(routes, self._bandwidth[: len(self._columns) + 1])

    def _next(self, now: int) -> int:
        if not self._flows:
            return NEVER
        due = self._rows[3, : len(self._flows)]
        # Rounding may have carried a flow just beyond a mark; it is told now, not in the past.
        return max(now, self._epoch + round(float(due[due.argmin()]) * 1e9))

    def _advance(self, time: float) -> None:
        if time > self._time:
            passed, _, rate, _ = self._rows[:, : len(self._flows)]
            passed += rate * (time - self._time)
            self._time = time

    def _add_column(self, link: Link) -> None:
        """A column for a link that has none yet."""
        self._columns[link] = column = len(self._columns) + 1
        if column == len(self._bandwidth):
            self._bandwidth = np.append(self._bandwidth, self._bandwidth)
        self._bandwidth[column] = link.bandwidth

    def _append(self, coming: list[tuple[Flow, float]]) -> None:
        begin = len(self._flows)
        end = begin + len(coming)
        while end > self._rows.shape[1]:
            self._routes = np.append(self._routes, np.zeros_like(self._routes), axis=1)
            self._rows = np.append(self._rows, np.zeros_like(self._rows), axis=1)
        more = max(len(flow.route) for flow, _ in coming) - len(self._routes)
        if more > 0:
            self._routes = np.pad(self._routes, ((0, more), (0, 0)))
        self._routes[:, begin:end] = 0
        for place, (flow, passed) in enumerate(coming, begin):
            self._rows[:2, place] = passed, flow.marks[flow.step]
            for hop, link in enumerate(flow.route):
                self._routes[hop, place] = self._columns[link]
            self._flows.append(flow)

    def _remove(self, ended: list[int], holder: dict[Link, Sharing]) -> None:
        for index in ended:
            flow = self._flows[index]
            flow.count(flow.marks[-1])
            for link in flow.route:
                self._count[link] -= 1
                if not self._count[link]:
                    del self._count[link], holder[link]
        before = len(self._flows)
        if len(ended) == 1:
            index = ended[0]
            del self._flows[index]
            for block in (self._routes, self._rows):
                block[:, index : before - 1] = block[:, index + 1 : before]
        else:
            stays = np.ones(before, dtype=np.bool_)
            stays[ended] = False
            self._flows = list(compress(self._flows, stays.tolist()))
            for block in (self._routes, self._rows):
                block[:, : len(self._flows)] = block[:, :before][:, stays]
        self.changed = True
