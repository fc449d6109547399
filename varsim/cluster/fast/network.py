"""Links and batches of a run with parameter servers as tables, and what links have carried."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast.mesh import MESH
from varsim.cluster.fast.rules import check_sums
from varsim.cluster.fast.tables import NEVER, Run, column, table
from varsim.cluster.network.batch import MessageBatch
from varsim.cluster.network.link import Link
from varsim.cluster.record.trace import LinkRow
from varsim.cluster.servers.placement import server_messages, server_places, traffic_per_port
from varsim.values.workload import Workload

Ints: TypeAlias = NDArray[np.int64]

_OWN: Final = 2  # links of a worker on a star
_WAYS: Final = ("pull", "push")


class Network:
    """Links and batches of a run, laid out in tables; what they have carried when it is over.

    On a star, workers of equal links have equal batches, which are made once. Links are numbered,
    in such a star first the two of each worker; there the n-th of a worker's own is -1 - n in a
    batch. `trained`: the variables that have a gradient.
    """

    def __init__(
        self, cluster: Cluster, workload: Workload, workers: int, trained: Sequence[int]
    ) -> None:
        topology = cluster.network
        self._routing = routing = topology.routing()
        self._workers = workers
        self._alike = (
            topology.kind == "star" and topology.flows is None and cluster.servers_on == "dedicated"
        )
        kinds: dict[float, int] = {}  # the first worker of every kind
        self._like = list(range(workers))
        if self._alike:
            rates = [topology.rate_of(rank) for rank in range(workers)]
            for rank, rate in enumerate(rates):
                kinds.setdefault(rate, rank)
            numbers = {rate: number for number, rate in enumerate(kinds)}
            self._like = [numbers[rate] for rate in rates]
        first_of = list(kinds.values()) if self._alike else range(workers)
        places = [routing.worker(rank) for rank in first_of]
        ports = server_places(routing, cluster, traffic_per_port(workload, cluster))
        ratios = workload.gradient_ratios()
        self._batches = [
            [
                MessageBatch(messages)
                for messages in server_messages(routing.route, place, ports, trained, ratios)
            ]
            for place in places
        ]
        self._own = _OWN * workers if self._alike else 0
        first = self._own - _OWN * len(places) * self._alike
        self._numbers = {link: first + number for number, link in enumerate(routing.links)}
        self._counted = first + len(routing.links)
        for both in self._batches:  # limits of flows are links that nobody counts
            for batch in both:
                for link in batch.links:
                    self._numbers.setdefault(link, first + len(self._numbers))
        every = [batch for both in self._batches for batch in both]
        self.most_hops = max(len(batch.links) for batch in every)
        self.most_parts = max(sum(batch.schedule.parts) for batch in every)
        self._items = max(batch.items for batch in every)
        # By rank and way: when batches that were sent again too soon started on links.
        self._again: dict[tuple[int, int], list[list[int]]] = {}

    def batch(self, rank: int, way: int) -> MessageBatch:
        """What a worker reads, or pushes."""
        return self._batches[self._like[rank]][way]

    def alone(self, way: int) -> Ints:
        """How long the batches of all workers take alone (ns)."""
        found = np.array([both[way].alone for both in self._batches])
        return found[self._like]

    def lay_out(self, made: dict[str, Any], fair: bool) -> None:
        """Lay out links and batches, and say which are whose."""
        laid = _Lists()
        numbers = np.array(
            [
                [laid.batch(batch, self._numbers_of(like, batch)) for batch in both]
                for like, both in enumerate(self._batches)
            ]
        )[self._like]
        hops = np.array([[len(batch.links) for batch in both] for both in self._batches])
        starts = np.cumsum(hops[self._like])
        workers = made["workers"]
        for way, name in enumerate(_WAYS):
            workers[name] = numbers[:, way]
            workers[f"{name}_starts"] = np.append(0, starts[:-1]).reshape(-1, 2)[:, way]
        made["starts"] = table("starts", int(starts[-1]))
        made["there"] = table("there", 2 * self._items)
        total = self._own + len(self._numbers)
        made["free_at"], made["links"] = table("free_at", total), table("links", total)
        links = enumerate(link for _, link in self._links()) if fair else ()
        made["links"]["bandwidth"] = 1.0
        for index, link in links:
            made["links"]["bandwidth"][index] = link.bandwidth
        for link, index in self._numbers.items():
            if index >= self._counted:
                made["links"]["bandwidth"][index] = link.bandwidth
        laid.into(made)
        check_sums(max([hop[1] for hop in laid.rows["hops"]], default=0) * self._workers)

    def lay_out_flows(self, made: dict[str, Any], transfers: int) -> None:
        """Lay out room for what is sent over fair links, for so many transfers at a time."""
        state, batches = made["state"], [batch for both in self._batches for batch in both]
        flows = transfers * max(len(batch.marks) for batch in batches)
        hops = max(len(route) for batch in batches for route, _, _ in batch.marks)
        links = len(made["links"])
        state["most_hops"], state["items"] = max(1, hops), self._items
        sizes = {
            "transfers": transfers + 2, "missing": (transfers + 2) * self._items,
            "flows": flows + 2, "crossed": (flows + 2) * max(1, hops), "groups": flows + 2,
            "hubs": min(flows, links) + 3, "mesh": flows, "used": links, "open_links": links,
            "open_flows": 2 * flows, "passed": 2 * (transfers * self.most_parts + 1),
            "agenda": 3 * (4 * flows + 1024),
        }  # fmt: skip
        for name, size in sizes.items():
            made[name] = table(name, size)
        state["most_dues"] = 4 * flows + 1024
        for name, first in (("transfer", 1), ("flow", 1), ("hub", 2), ("group", 1)):
            pool = made[f"{name}s"]["next"]
            pool[:-1] = np.arange(1, len(pool))
            state[f"free_{name}"] = first
        made["hubs"]["due"] = NEVER

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
            for rank, like in enumerate(self._like)
            for number, way in enumerate(("up", "down"))
        ]
        return named + [(link.name, link) for link in links[_OWN * len(self._batches) :]]

    def keep_starts(self, run: Run, now: int) -> None:
        """Keep when batches that were sent again too soon started on links, if they still pass."""
        kept = {key: [s for s in starts if s[-1] > now] for key, starts in self._again.items()}
        self._again = {key: starts for key, starts in kept.items() if starts}
        place, used = 0, int(run.state.again)
        while place < used:
            rank, way = int(run.again[place]), int(run.again[place + 1])
            batch = self.batch(rank, way)
            after = place + 2 + len(batch.links)
            starts = [int(start) for start in run.again[place + 2 : after]]
            through = max(s + hop.hold for s, hop in zip(starts, batch.schedule.hops, strict=True))
            if through > now:
                self._again.setdefault((rank, way), []).append([*starts, through])
            place = after
        run.state.again = 0

    def carried(self, run: Run, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        counts = [column(run.workers, f"{way}_count") for way in _WAYS]
        total = self._own + len(self._numbers)
        moved, relayed = np.zeros(total), np.zeros(total)
        for like, both in enumerate(self._batches):
            ranks = np.flatnonzero(np.array(self._like) == like)
            for way, batch in enumerate(both):
                numbers = self._numbers_of(like, batch)
                times = counts[way][ranks]
                loads = [*zip(range(len(numbers)), batch.schedule.loads, strict=True)]
                for sums, found in ((moved, loads), (relayed, batch.schedule.relayed)):
                    for link, size in found:
                        to = np.broadcast_to(_own(numbers[link], ranks), times.shape)
                        np.add.at(sums, to, times * size)
        left = self._left_of_flows(run, end) if run.state.fair else self._left(run, end)
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
        under_way = [(key, starts) for key, found in self._again.items() for starts in found]
        for way, name in enumerate(_WAYS):
            firsts = column(run.workers, f"{name}_starts")
            for rank in np.flatnonzero(column(run.workers, f"{name}_due") > end).tolist():
                first = int(firsts[rank])
                after = first + len(self.batch(rank, way).links)
                under_way.append(((rank, way), [int(start) for start in run.starts[first:after]]))
        left = list[tuple[int, float, float, float]]()
        for (rank, way), starts in under_way:
            batch = self.batch(rank, way)
            numbers = self._numbers_of(self._like[rank], batch)
            for hop, start in zip(batch.schedule.hops, starts, strict=False):
                size, passed, passed_on = batch.passed_on(hop.link, end - start)
                relayed = sum(size for link, size in batch.schedule.relayed if link == hop.link)
                number = _own(numbers[hop.link], rank)
                left.append((number, size, passed, relayed - sum(passed_on)))
        return left

    def _left_of_flows(self, run: Run, end: int) -> list[tuple[int, float, float, float]]:
        """The same of fair links."""
        left = list[tuple[int, float, float, float]]()
        if not isinstance(run.flows, list):
            run = Run(*[rows.view(np.recarray) for rows in run])
        for f, passed in _under_way(run, end):
            connection = run.connections[run.flows[f].connection]
            size = float(run.sizes[connection.marks + connection.marked - 1])
            passed = min(size, max(0.0, passed))
            first = f * int(run.state.most_hops)
            for hop, number in enumerate(run.crossed[first : first + connection.hops]):
                passed_on = connection.relays >> hop & 1
                left.append((int(number), size, passed, (size - passed) * passed_on))
        return left


class _Lists:
    """Lists of what batches consist of, as they are laid out one after the other."""

    def __init__(self) -> None:
        self.rows: dict[str, list[list[int]]] = {
            name: [] for name in ("batches", "hops", "messages", "connections")
        }
        self._numbers: list[int] = []
        self._sizes: list[float] = []

    def batch(self, batch: MessageBatch, numbers: Sequence[int]) -> int:
        """Add a batch over links of these numbers; its number."""
        schedule, hops, messages = batch.schedule, self.rows["hops"], self.rows["messages"]
        connections, of = self.rows["connections"], dict(zip(batch.links, numbers, strict=True))
        place = {hop.link: number for number, hop in enumerate(schedule.hops)}
        firsts = len(hops), len(messages), len(connections)
        for link, hold, after, begins in schedule.hops:
            waits = self._number([one for other, wait in after for one in (place[other], wait)])
            hops.append([numbers[link], hold, int(begins), waits, len(after)])
        for item, passed, latency in schedule.passed:
            passes = self._number([one for link, time in passed for one in (place[link], time)])
            messages.append([item, latency, passes, len(passed)])
        for route, items, marks in batch.marks:
            relays = sum(link.begins << hop for hop, link in enumerate(route) if hop)
            links = self._number([of[link] for link in route])
            lag = sum(link.latency for link in route)
            said = [len(route), links, len(self._sizes), self._number(items), len(items), lag]
            connections.append([*said, relays])
            self._sizes += marks
        row = [batch.items, int(schedule.pair is not None), schedule.latency]
        row += [firsts[0], len(schedule.hops), firsts[1], len(schedule.passed)]
        row += [firsts[2], len(batch.marks), self._number(schedule.parts)]
        self.rows["batches"].append(row)
        return len(self.rows["batches"]) - 1

    def into(self, made: dict[str, Any]) -> None:
        """Make them tables."""
        for name, rows in self.rows.items():
            made[name] = table(name, len(rows))
            made[name][: len(rows)] = np.array([tuple(row) for row in rows], made[name].dtype)
        made["numbers"] = np.array(self._numbers, dtype=np.int64)
        made["sizes"] = np.array(self._sizes)

    def _number(self, numbers: Sequence[int]) -> int:
        """Add integers; the place of the first."""
        self._numbers += numbers
        return len(self._numbers) - len(numbers)


def _own(number: int, rank: Any) -> Any:
    """The number of a link, which may be one of the worker's own."""
    return number if number >= 0 else _OWN * rank - 1 - number


def _under_way(run: Run, end: int) -> list[tuple[int, float]]:
    """The flows at the end of a run (ns), by their start, and the bytes passed of each."""
    found, state = list[tuple[int, float]](), run.state
    for h in sorted({int(holder) for holder in column(run.links, "holder")} - {0}):
        hub = run.hubs[h]
        gone = max(0.0, (end - int(hub.epoch)) / 1e9 - float(hub.time))
        if h == MESH:
            for place in range(state.mesh_flows + state.coming):
                flow = run.flows[run.mesh[place]]
                rate = flow.rate if place < state.mesh_flows else 0.0
                found.append((int(run.mesh[place]), float(flow.passed + rate * gone)))
            continue
        g = hub.group
        while g:
            group = run.groups[g]
            virtual, f = group.virtual + group.rate * gone, group.first
            while f:
                found.append((int(f), float(virtual - run.flows[f].entered)))
                f = run.flows[f].next
            g = group.next
    return sorted(found, key=lambda one: int(run.flows[one[0]].number))
