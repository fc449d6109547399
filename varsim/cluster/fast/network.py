"""Links and batches of a run with parameter servers as tables, and what links have carried."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.links import pass_due
from varsim.cluster.fast.start import Start, check_sums
from varsim.cluster.fast.tables import FastRun, table
from varsim.cluster.network.batch import MessageBatch
from varsim.cluster.network.link import Link
from varsim.cluster.record.trace import LinkRow
from varsim.cluster.servers.placement import server_messages, server_places, traffic_per_port

Ints: TypeAlias = NDArray[np.int64]

_OWN: Final = ("up", "down")  # links of a worker on a star
_WAYS: Final = ("pull", "push")
_FIELDS: Final = 3  # of a record of `sends` before its starts


class _Left(NamedTuple):
    """What is on a link at the end: its bytes, those passed, and those not yet passed on."""

    link: int
    size: float
    passed: float
    held: float


class _Hub(NamedTuple):
    """A link in which flows meet, and the most (bytes/s) that their other links let each have."""

    link: Link
    ceiling: float


class FastNetwork:
    """Links and batches of a run, laid out in tables; what they have carried when it is over.

    On a star, workers of equal links have equal batches, which are made once. Links are numbered,
    in such a star first the two of each worker; there the n-th of a worker's own is -1 - n in a
    batch. `meets`: all flows of a way meet in one link, and are equal.
    """

    def __init__(self, start: Start) -> None:
        cluster, workload, workers = start.cluster, start.workload, start.workers
        topology = cluster.network
        routing = topology.routing()
        alike = topology.kind == "star" and topology.flows is None
        alike = alike and cluster.servers_on == "dedicated"
        rates = [topology.rate_of(rank) if alike else float(rank) for rank in range(workers)]
        kinds: dict[float, int] = {}  # the first worker of every kind
        for rank, rate in enumerate(rates):
            kinds.setdefault(rate, rank)
        numbers = {rate: number for number, rate in enumerate(kinds)}
        self._like = np.array([numbers[rate] for rate in rates])
        places = [routing.worker(rank) for rank in kinds.values()]
        ports = server_places(routing, cluster, traffic_per_port(workload, cluster))
        ratios = workload.gradient_ratios()
        self._batches = [
            [
                MessageBatch(messages)
                for messages in server_messages(routing.route, place, ports, [0], ratios)
            ]
            for place in places
        ]
        own = len(_OWN) * len(places) * alike  # links that stand for those of equal workers
        self._links = [(link.name, link) for link in routing.links]
        self._numbers = {link: number for number, link in enumerate(routing.links)}
        if alike:
            self._links[:own] = [
                (f"worker {rank} {way}", routing.links[len(_OWN) * like + number])
                for rank, like in enumerate(self._like.tolist())
                for number, way in enumerate(_OWN)
            ]
            for link, number in self._numbers.items():
                further = number - own + len(_OWN) * workers
                self._numbers[link] = further if number >= own else -1 - number % len(_OWN)
        every = [batch for both in self._batches for batch in both]
        self._uncounted = list[Link]()  # limits of flows
        for batch in every:
            for link in batch.links:
                if link not in self._numbers:
                    self._numbers[link] = len(self._links) + len(self._uncounted)
                    self._uncounted.append(link)
        for link in routing.links[own:] if alike and workers > 1 else ():
            link.binds = True  # others cross it, too, over links of their own
        self.width = _FIELDS + max(len(batch.links) for batch in every)
        self.flows = max(len(batch.marks) for batch in every)  # of a batch
        self._hubs = [hub for way in (at.READ, at.WRITE) if (hub := self._hub(way))]
        self.meets = len(self._hubs) == len({hub.link for hub in self._hubs}) == len(_WAYS)

    def _hub(self, way: int) -> "_Hub | None":
        """The link in which all flows of a way meet, if they share no other and are equal."""
        routes = [
            [link for link in route if link.binds]
            for both in self._batches
            for route, _, _ in both[way].marks
        ]
        if self.flows > 1 or not all(routes):
            return None
        hub = routes[0][0 if way == at.READ else -1]
        others = [[link for link in route if link is not hub] for route in routes]
        own = [link for each in others for link in each]
        ceilings = {min([link.bandwidth for link in each], default=math.inf) for each in others}
        if len(set(own)) < len(own) or len(ceilings) > 1 or any(hub not in one for one in routes):
            return None
        return _Hub(hub, ceilings.pop())

    def lay_out(self, made: dict[str, Any]) -> None:
        """Lay out links and batches, and say which are whose."""
        laid = _Lists(self._numbers)
        for way, name in enumerate(_WAYS):
            batches = [both[way] for both in self._batches]
            made["workers"][name] = np.array([laid.add(batch) for batch in batches])[self._like]
            made["workers"][f"{name}_alone"] = np.array([one.alone for one in batches])[self._like]
        links = [*(link for _, link in self._links), *self._uncounted]
        made["links"] = table("links", len(links))
        made["links"]["bandwidth"] = [link.bandwidth for link in links]
        made["hubs"] = table("hubs", 3)
        made["hubs"]["due"] = at.NEVER
        for way, (link, ceiling) in enumerate(self._hubs if self.meets else ()):
            made["hubs"][way].bandwidth, made["hubs"][way].ceiling = link.bandwidth, ceiling
        for name, rows in laid.rows.items():
            made[name] = table(name, len(rows))
            made[name][: len(rows)] = np.array([tuple(row) for row in rows], at.RECORDS[name])
        made["numbers"] = np.array([*laid.numbers, 0], dtype=np.int64)
        made["state"]["hops"] = max(1, *made["connections"]["hops"])
        check_sums(float(made["hops"]["hold"].max()) * len(self._like))

    def carried(self, run: FastRun, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        number = len(self._links)
        moved, relayed = np.zeros((2, number + len(self._uncounted)))
        for like, both in enumerate(self._batches):
            ranks = np.flatnonzero(self._like == like)
            for name, batch in zip(_WAYS, both, strict=True):
                times = run.workers["pulls" if name == "pull" else "pushes"][ranks]
                numbers = [self._numbers[link] for link in batch.links]
                for sums, found in (
                    (moved, [*enumerate(batch.schedule.loads)]),
                    (relayed, batch.schedule.relayed),
                ):
                    for link, size in found:
                        to = np.broadcast_to(_own(numbers[link], ranks), times.shape)
                        np.add.at(sums, to, times * size)
        left = list(_left_of_flows(run, end) if run.state[0].fair else self._left(run, end))
        for one in left:  # first all that is whole: so sums are those of SimPy
            moved[one.link] -= one.size
        for one in left:
            moved[one.link] += one.passed
            relayed[one.link] -= one.held
        rates = np.array([link.bandwidth for _, link in self._links])
        carried = np.minimum(moved[:number], rates * end / 1e9)
        names = [name for name, _ in self._links]
        rows = list(map(LinkRow, names, rates.tolist(), carried.tolist()))
        sent = (carried - relayed[:number])[[link.begins for _, link in self._links]]
        return rows, math.fsum(sent.tolist())

    def _left(self, run: FastRun, end: int) -> Iterator[_Left]:
        """What is on first-come links at the end."""
        for rank, way, _, *starts in under_way(run, end).tolist():
            batch: MessageBatch = self._batches[self._like[rank]][way]
            for hop, start in zip(batch.schedule.hops, starts, strict=False):
                size, passed, passed_on = batch.passed_on(hop.link, end - start)
                whole = sum(size for link, size in batch.schedule.relayed if link == hop.link)
                number = _own(self._numbers[batch.links[hop.link]], rank)
                yield _Left(number, size, passed, whole - sum(passed_on))


def under_way(run: FastRun, now: int) -> Ints:
    """The records of `sends` whose batches are not there yet (n, width)."""
    state = run.state[0]
    sends: Ints = run.sends[: state.sends * state.width].reshape(-1, state.width)
    return sends[sends[:, 2] > now]


def _left_of_flows(run: FastRun, end: int) -> Iterator[_Left]:
    """What is on fair links at the end."""
    state = run.state[0]
    pass_due(run)
    flows = [(run.hubs[at.MESH], run.flows[f]) for f in range(state.flows)]
    for way in (at.READ, at.WRITE):
        hub = run.hubs[way]
        places = np.arange(hub.first, hub.first + hub.count) % state.workers
        flows += [(hub, run.flows[way * state.workers + place]) for place in places]
    for hub, flow in flows:
        connection, rank = run.connections[flow.connection], int(flow.who) % at.MOST_WORKERS
        gone = max(0.0, (end - hub.epoch) / 1e9 - hub.time)
        so_far, rate = flow.passed, flow.rate
        if state.meet:
            so_far, rate = hub.virtual - so_far, hub.rate
        size = float(connection.load)
        passed = min(size, max(0.0, float(so_far + rate * gone)))
        numbers = run.numbers[connection.links :][: connection.hops].tolist()
        for hop, number in enumerate(numbers):
            relays = int(connection.relays) >> hop & 1
            yield _Left(_own(number, rank), size, passed, (size - passed) * relays)


def _own(number: int, rank: Any) -> Any:
    """The number of a link, which may be one of the worker's own."""
    return number if number >= 0 else len(_OWN) * rank - 1 - number


class _Lists:
    """Lists of what batches consist of, as they are laid out one after the other."""

    def __init__(self, links: dict[Link, int]) -> None:
        self._of, self.numbers = links, list[int]()
        self.rows: dict[str, list[list[float]]] = {
            name: [] for name in ("batches", "hops", "messages", "connections")
        }

    def add(self, batch: MessageBatch) -> int:
        """Add a batch; its number."""
        schedule, (batches, hops, messages, connections) = batch.schedule, self.rows.values()
        place = {hop.link: number for number, hop in enumerate(schedule.hops)}
        row: list[float] = [len(hops), len(schedule.hops), len(messages), len(schedule.passed)]
        batches.append([*row, len(connections), len(batch.marks)])
        for link, hold, after, begins in schedule.hops:
            waits = self._number([one for other, wait in after for one in (place[other], wait)])
            hops.append([self._of[batch.links[link]], hold, int(begins), waits, len(after)])
        for _, passed, latency in schedule.passed:
            passes = self._number([one for link, time in passed for one in (place[link], time)])
            messages.append([latency if passed else 0, passes, len(passed)])
        for route, _, marks in batch.marks:
            ordered, later = sorted(route, key=lambda link: not link.binds), route[1:]
            binding = sum(link.binds for link in route)
            relays = sum((one.begins and one in later) << hop for hop, one in enumerate(ordered))
            links = self._number([self._of[link] for link in ordered])
            lag = sum(link.latency for link in route)
            connections.append([len(route), binding, links, lag, relays, marks[-1]])
        return len(batches) - 1

    def _number(self, numbers: Sequence[int]) -> int:
        """Add integers; the place of the first."""
        self.numbers += numbers
        return len(self.numbers) - len(numbers)
