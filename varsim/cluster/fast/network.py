"""Links and batches of a run with parameter servers as tables, and what links have carried."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast import tables as at
from varsim.cluster.fast.start import check_sums
from varsim.cluster.fast.tables import Run, table
from varsim.cluster.network.batch import MessageBatch
from varsim.cluster.network.link import Link
from varsim.cluster.record.trace import LinkRow
from varsim.cluster.servers.placement import server_messages, server_places, traffic_per_port
from varsim.learning.workload import Workload

Ints: TypeAlias = NDArray[np.int64]

_OWN: Final = 2  # links of a worker on a star
_WAYS: Final = ("pull", "pulls"), ("push", "pushes")  # which it is, and how often
_FIELDS: Final = 3  # of a record of `sends` before its starts


class Network:
    """Links and batches of a run, laid out in tables; what they have carried when it is over.

    On a star, workers of equal links have equal batches, which are made once. Links are numbered,
    in such a star first the two of each worker; there the n-th of a worker's own is -1 - n in a
    batch. `meets`: all flows of a way meet in one link, and are equal.
    """

    def __init__(self, cluster: Cluster, workload: Workload, workers: int) -> None:
        topology = cluster.network
        self._routing = routing = topology.routing()
        self._alike = (
            topology.kind == "star" and topology.flows is None and cluster.servers_on == "dedicated"
        )
        kinds: dict[float, int] = {}  # the first worker of every kind
        self._like = np.arange(workers)
        if self._alike:
            rates = [topology.rate_of(rank) for rank in range(workers)]
            for rank, rate in enumerate(rates):
                kinds.setdefault(rate, rank)
            numbers = {rate: number for number, rate in enumerate(kinds)}
            self._like = np.array([numbers[rate] for rate in rates])
        places = [routing.worker(rank) for rank in kinds.values() or range(workers)]
        ports = server_places(routing, cluster, traffic_per_port(workload, cluster))
        ratios = workload.gradient_ratios()
        self._batches = [
            [
                MessageBatch(messages)
                for messages in server_messages(routing.route, place, ports, [0], ratios)
            ]
            for place in places
        ]
        self._own = _OWN * workers if self._alike else 0
        first = self._own - _OWN * len(places) * self._alike
        self._numbers = {link: first + number for number, link in enumerate(routing.links)}
        self._counted = first + len(routing.links)
        every = [batch for both in self._batches for batch in both]
        for batch in every:  # limits of flows are links that nobody counts
            for link in batch.links:
                self._numbers.setdefault(link, first + len(self._numbers))
        self._total = self._own + len(self._numbers)
        self.width = _FIELDS + max(len(batch.links) for batch in every)
        self.flows = max(len(batch.marks) for batch in every)  # of a batch
        self.meets = self._alike and len(self._batches) == 1 and self.flows == 1

    def batch(self, rank: int, way: int) -> MessageBatch:
        """What a worker reads, or pushes."""
        both: list[MessageBatch] = self._batches[self._like[rank]]
        return both[way]

    def lay_out(self, made: dict[str, Any]) -> None:
        """Lay out links and batches, and say which are whose."""
        laid = _Lists()
        numbers = np.array(
            [
                [laid.batch(batch, self._numbers_of(like, batch)) for batch in both]
                for like, both in enumerate(self._batches)
            ]
        )[self._like]
        for way, (name, _) in enumerate(_WAYS):
            made["workers"][name] = numbers[:, way]
            alone = np.array([both[way].alone for both in self._batches])
            made["workers"][f"{name}_alone"] = alone[self._like]
        made["links"] = table("links", self._total)
        made["links"]["bandwidth"] = 1.0
        named = self._links()
        made["links"]["bandwidth"][: len(named)] = [link.bandwidth for _, link in named]
        for link, index in self._numbers.items():
            if index >= self._counted:
                made["links"]["bandwidth"][index] = link.bandwidth
        made["state"]["hops"] = max(1, *(row[0] for row in laid.rows["connections"]))
        made["hubs"] = table("hubs", 3)
        made["hubs"]["due"] = at.NEVER
        for way, batch in enumerate(self._batches[0] if self.meets else ()):
            ((route, _, _),) = batch.marks
            own, server = (route[1], route[0]) if way == at.READ else route
            made["hubs"][way].bandwidth, made["hubs"][way].ceiling = server.bandwidth, own.bandwidth
        laid.into(made)
        longest = max([hop[1] for hop in laid.rows["hops"]], default=0)
        check_sums(longest * len(self._like))

    def _numbers_of(self, like: int, batch: MessageBatch) -> list[int]:
        """The numbers of a batch's links, or what stands for links of the worker's own."""
        first = self._numbers[self._routing.links[0]] + _OWN * like if self._alike else 0
        numbers = [self._numbers[link] for link in batch.links]
        return [first - 1 - one if one < self._own else one for one in numbers]

    def _links(self) -> list[tuple[str, Link]]:
        """Every link that is counted, by its name; one that stands for those of equal workers."""
        links = self._routing.links
        if not self._alike:
            return [(link.name, link) for link in links]
        named = [
            (f"worker {rank} {way}", links[_OWN * like + number])
            for rank, like in enumerate(self._like.tolist())
            for number, way in enumerate(("up", "down"))
        ]
        return named + [(link.name, link) for link in links[_OWN * len(self._batches) :]]

    def carried(self, run: Run, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        moved, relayed = np.zeros(self._total), np.zeros(self._total)
        for like, both in enumerate(self._batches):
            ranks = np.flatnonzero(self._like == like)
            for way, batch in enumerate(both):
                times = run.workers[_WAYS[way][1]][ranks]
                numbers = self._numbers_of(like, batch)
                for sums, found in (
                    (moved, [*enumerate(batch.schedule.loads)]),
                    (relayed, batch.schedule.relayed),
                ):
                    for link, size in found:
                        to = np.broadcast_to(_own(numbers[link], ranks), times.shape)
                        np.add.at(sums, to, times * size)
        left = self._left_of_flows(run, end) if run.state[0].fair else self._left(run, end)
        for number, size, _, _ in left:  # first all that is whole: so sums are those of SimPy
            moved[number] -= size
        for number, _, passed, passed_on in left:
            moved[number] += passed
            relayed[number] -= passed_on
        links = self._links()
        rates = np.array([link.bandwidth for _, link in links])
        carried = np.minimum(moved[: len(links)], rates * end / 1e9)
        names = [name for name, _ in links]
        rows = list(map(LinkRow, names, rates.tolist(), carried.tolist()))
        sent = (carried - relayed[: len(links)])[[link.begins for _, link in links]]
        return rows, math.fsum(sent.tolist())

    def _left(self, run: Run, end: int) -> list[tuple[int, float, float, float]]:
        """What is on first-come links at the end: link, bytes, passed, and not yet passed on."""
        left = list[tuple[int, float, float, float]]()
        for rank, way, _, *starts in under_way(run, end).tolist():
            batch = self.batch(rank, way)
            numbers = self._numbers_of(self._like[rank], batch)
            for hop, start in zip(batch.schedule.hops, starts, strict=False):
                size, passed, passed_on = batch.passed_on(hop.link, end - start)
                whole = sum(size for link, size in batch.schedule.relayed if link == hop.link)
                number = _own(numbers[hop.link], rank)
                left.append((number, size, passed, whole - sum(passed_on)))
        return left

    def _left_of_flows(self, run: Run, end: int) -> list[tuple[int, float, float, float]]:
        """The same of fair links."""
        left, state = list[tuple[int, float, float, float]](), run.state[0]
        for hub, flow, links in _flows(run):
            connection = run.connections[flow.connection]
            gone = max(0.0, (end - hub.epoch) / 1e9 - hub.time)
            so_far, rate = flow.passed, flow.rate
            if state.meet:
                so_far, rate = hub.virtual - so_far, hub.rate
            size = float(connection.load)
            passed = min(size, max(0.0, float(so_far + rate * gone)))
            for hop, number in enumerate(links):
                passed_on = int(connection.relays) >> hop & 1
                left.append((number, size, passed, (size - passed) * passed_on))
        return left


def under_way(run: Run, now: int) -> Ints:
    """The records of `sends` whose batches are not there yet (n, width)."""
    state = run.state[0]
    sends: Ints = run.sends[: state.sends * state.width].reshape(-1, state.width)
    return sends[sends[:, 2] > now]


def _flows(run: Run) -> list[tuple[Any, Any, list[int]]]:
    """The flows at the end of a run, each with its hub or mesh and its links."""
    state = run.state[0]
    flows = [(run.hubs[at.MESH], run.flows[f]) for f in range(state.flows)]
    for way in (at.READ, at.WRITE):
        hub = run.hubs[way]
        places = np.arange(hub.first, hub.first + hub.count) % state.workers
        flows += [(hub, run.flows[way * state.workers + place]) for place in places]
    found = list[tuple[Any, Any, list[int]]]()
    for hub, flow in flows:
        connection, rank = run.connections[flow.connection], int(flow.who) % at.MOST_WORKERS
        numbers = run.numbers[connection.links :][: connection.hops].tolist()
        found.append((hub, flow, [_own(number, rank) for number in numbers]))
    return found


class _Lists:
    """Lists of what batches consist of, as they are laid out one after the other."""

    def __init__(self) -> None:
        self.rows: dict[str, list[list[float]]] = {
            name: [] for name in ("batches", "hops", "messages", "connections")
        }
        self._numbers: list[int] = []

    def batch(self, batch: MessageBatch, numbers: Sequence[int]) -> int:
        """Add a batch over links of these numbers; its number."""
        schedule, hops, messages = batch.schedule, self.rows["hops"], self.rows["messages"]
        connections, of = self.rows["connections"], dict(zip(batch.links, numbers, strict=True))
        place = {hop.link: number for number, hop in enumerate(schedule.hops)}
        row: list[float] = [len(hops), len(schedule.hops), len(messages), len(schedule.passed)]
        row += [len(connections), len(batch.marks)]
        for link, hold, after, begins in schedule.hops:
            waits = self._number([one for other, wait in after for one in (place[other], wait)])
            hops.append([numbers[link], hold, int(begins), waits, len(after)])
        for _, passed, latency in schedule.passed:
            passes = self._number([one for link, time in passed for one in (place[link], time)])
            messages.append([latency if passed else 0, passes, len(passed)])
        for route, _, marks in batch.marks:
            relays = sum(link.begins << hop for hop, link in enumerate(route) if hop)
            links = self._number([of[link] for link in route])
            lag = sum(link.latency for link in route)
            connections.append([len(route), links, lag, relays, marks[-1]])
        self.rows["batches"].append(row)
        return len(self.rows["batches"]) - 1

    def into(self, made: dict[str, Any]) -> None:
        """Make them tables."""
        for name, rows in self.rows.items():
            made[name] = table(name, len(rows))
            made[name][: len(rows)] = np.array([tuple(row) for row in rows], at.RECORDS[name])
        made["numbers"] = np.array([*self._numbers, 0], dtype=np.int64)

    def _number(self, numbers: Sequence[int]) -> int:
        """Add integers; the place of the first."""
        self._numbers += numbers
        return len(self._numbers) - len(numbers)


def _own(number: int, rank: Any) -> Any:
    """The number of a link, which may be one of the worker's own."""
    return number if number >= 0 else _OWN * rank - 1 - number
