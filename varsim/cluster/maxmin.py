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
from itertools import compress
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.link import Link, note_passed

# Later (ns) than any time that a float of seconds can be; a run ends long before (END_OF_TIME).
NEVER: Final = 1 << 1100

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]


def max_min_rates(routes: Indices, bandwidth: Floats) -> Floats:
    """Rates (bytes/s) of all flows.

    routes: (hops, flows), the links that each flow crosses as indices into `bandwidth` (links,),
    bytes/s. A link of infinite bandwidth may fill up short routes; every flow needs a finite one.
    """
    links = len(bandwidth)
    rates = np.zeros(routes.shape[1])
    left = bandwidth.copy()
    waiting = np.arange(routes.shape[1])  # flows without a rate
    while waiting.size:
        flows = np.bincount(routes.ravel(), minlength=links)
        promise = left / np.maximum(flows, 1)  # to each waiting flow of a link
        lowest = promise[routes].min(axis=0)
        content = np.bincount(routes[promise[routes] == lowest], minlength=links)
        settled = (content == flows)[routes].any(axis=0)
        rates[waiting[settled]] = lowest[settled]
        # bincount adds up in the order of the flows, one by one: the same sum on every machine.
        taken = np.broadcast_to(lowest, routes.shape)[:, settled].ravel()
        left = left - np.bincount(routes[:, settled].ravel(), taken, minlength=links)
        waiting, routes = waiting[~settled], routes[:, ~settled]
    return rates


class Flow:
    """Flow of bytes over a route, and whom to tell when its marks have passed."""

    __slots__ = ("_empty", "_sets_off", "entered", "marks", "number", "reached", "route", "step")

    def __init__(
        self,
        route: tuple[Link, ...],
        marks: Sequence[float],
        reached: Callable[[int], None],
        number: int,
        empty: float = 0.0,
        sets_off: bool = True,
    ) -> None:
        self.route = route
        self.marks = marks
        self.reached = reached
        self.number = number  # flows are numbered in the order in which they were started
        self.step = 0  # the mark that it will pass next
        self.entered = 0.0  # a hub's virtual time when it came
        self._empty, self._sets_off = empty, sets_off  # see FairShare.start

    def ends(self) -> None:
        """All of it has passed its links."""
        note_passed(self.route, self.marks[-1] - self._empty, sets_off=self._sets_off)

    def count(self, passed: float) -> None:
        """Of its bytes so many have passed its links when the run ends."""
        size = self.marks[-1] - self._empty
        passed = min(size, max(0.0, passed - self._empty))
        for hop, link in enumerate(self.route):
            relayed = link.begins and (hop > 0 or not self._sets_off)
            link.add(size, passed, relayed=relayed)


# A mark that has passed: the flow's number, the mark's index, the flow. Sorts as it is told.
Passed: TypeAlias = tuple[int, int, Flow]


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
        self._users: dict[Link, int] = {}  # the number of flows on each link in use
        self._coming: list[tuple[Flow, float]] = []  # flows, bytes passed; until `share`
        self._clear(0)

    def _clear(self, now: int) -> None:
        self._epoch = now  # ns
        self._time = 0.0  # of the last change, seconds after the epoch
        self._columns: dict[Link, int] = {}
        self._bandwidth: Floats = np.array([np.inf])  # column 0 fills up short routes
        self._flows: list[Flow] = []
        self._routes: Indices = np.zeros((1, 0), dtype=np.intp)  # (hops, flows), columns
        self._passed: Floats = np.zeros(0)  # bytes of each flow at the last change
        self._target: Floats = np.zeros(0)  # bytes at its next mark
        self._rates: Floats = np.zeros(0)
        self._due: Floats = np.zeros(0)  # its next mark, seconds after the epoch

    def add(self, flow: Flow, passed: float, now: int, holder: dict[Link, Sharing]) -> None:
        """Take a flow of which some bytes have passed; it has a rate from the next `share` on."""
        if not self._users:
            self._clear(now)
        for link in flow.route:
            self._users[link] = self._users.get(link, 0) + 1
            holder[link] = self
        self._coming.append((flow, passed))
        self.changed = True

    def pass_marks(self, now: int, passed: list[Passed], holder: dict[Link, Sharing]) -> int:
        """One mark of each flow that is due; see Sharing."""
        ended = []
        for index in np.flatnonzero(np.rint(self._due * 1e9) <= now - self._epoch).tolist():
            flow = self._flows[index]
            passed.append((flow.number, flow.step, flow))
            flow.step += 1
            if flow.step == len(flow.marks):
                ended.append(index)
            else:
                self._target[index] = flow.marks[flow.step]
                still = (self._target[index] - self._passed[index]) / self._rates[index]
                self._due[index] = self._time + still
        if ended:
            self._advance(float(self._due[ended].max()))
            self._remove(ended, holder)
        return self._next(now)

    def dissolve(self, now: int) -> list[tuple[Flow, float]]:
        """See Sharing."""
        self._advance((now - self._epoch) / 1e9)
        return [*zip(self._flows, self._passed.tolist(), strict=True), *self._coming]

    def share(self, now: int) -> int:
        """Let new flows in, set all rates anew; when the next mark is due (ns)."""
        self.changed = False
        if self._coming:
            self._advance((now - self._epoch) / 1e9)
            self._append(self._coming)
            self._coming = []
        self._rates = max_min_rates(self._routes, self._bandwidth)
        self._due = self._time + (self._target - self._passed) / self._rates
        return self._next(now)

    def _next(self, now: int) -> int:
        if not self._flows:
            return NEVER
        # Rounding may have carried a flow just beyond a mark; it is told now, not in the past.
        return max(now, self._epoch + round(float(self._due.min()) * 1e9))

    def _advance(self, time: float) -> None:
        if time > self._time:
            self._passed += self._rates * (time - self._time)
            self._time = time

    def _append(self, coming: list[tuple[Flow, float]]) -> None:
        columns = self._columns
        flows = [flow for flow, _ in coming]
        for flow in flows:
            for link in flow.route:
                columns.setdefault(link, len(columns) + 1)
        new = [link.bandwidth for link in list(columns)[len(self._bandwidth) - 1 :]]
        self._bandwidth = np.append(self._bandwidth, new)
        hops = max(len(self._routes), *(len(flow.route) for flow in flows))
        routes = np.zeros((hops, len(self._flows) + len(flows)), dtype=np.intp)
        routes[: len(self._routes), : len(self._flows)] = self._routes
        for place, flow in enumerate(flows, len(self._flows)):
            for hop, link in enumerate(flow.route):
                routes[hop, place] = columns[link]
        self._routes = routes
        self._flows += flows
        self._passed = np.append(self._passed, [passed for _, passed in coming])
        self._target = np.append(self._target, [flow.marks[flow.step] for flow in flows])

    def _remove(self, ended: list[int], holder: dict[Link, Sharing]) -> None:
        for index in ended:
            self._flows[index].ends()
            for link in self._flows[index].route:
                self._users[link] -= 1
                if not self._users[link]:
                    del self._users[link], holder[link]
        stays = np.ones(len(self._flows), dtype=np.bool_)
        stays[ended] = False
        self._flows = list(compress(self._flows, stays.tolist()))
        self._routes = self._routes[:, stays]
        self._passed, self._target = self._passed[stays], self._target[stays]
        self._rates, self._due = self._rates[stays], self._due[stays]
        self.changed = True
