"""Flat form of a first-come network: links, and the batches that workers read and push."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.batch import MessageBatch
from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, check_sums
from varsim.cluster.link import Link, Route
from varsim.cluster.placement import server_messages, server_places, traffic_per_port
from varsim.cluster.trace import LinkRow
from varsim.values.workload import Workload

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_OWN: Final = 2  # links of a worker on a star
# Of both batches of a worker: how often it was sent, when it is due, when it starts on each link.
_SENDING: Final = (
    *(at.PULLED, at.PULL_DUE, at.PULL_STARTS),
    *(at.PUSHED, at.PUSH_DUE, at.PUSH_STARTS),
)


class FlatNetwork:
    """Links and batches of a run, laid out in memory; what they have carried when it is over.

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
        self._like = np.arange(workers)
        if self._alike:
            rates = [topology.rate_of(rank) for rank in range(workers)]
            for rank, rate in enumerate(rates):
                kinds.setdefault(rate, rank)
            numbers = {rate: number for number, rate in enumerate(kinds)}
            self._like = np.array([numbers[rate] for rate in rates])
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
        self._total = first + len(self._numbers)

    @property
    def most_hops(self) -> int:
        """Links of a batch, at most."""
        return max(len(batch.links) for both in self._batches for batch in both)

    @property
    def most_parts(self) -> int:
        """Parts of a batch, at most."""
        return max(sum(batch.schedule.parts) for both in self._batches for batch in both)

    def lay_out(self, memory: Building) -> Ints:
        """Lay out links and batches; of each worker its own links, both batches, and their hops."""
        free = memory.room(self._own + len(self._numbers))
        addresses = np.array(
            [
                [0, *(self._batch(memory, batch, free, like) for batch in both)]
                + [len(batch.links) for batch in both]
                for like, both in enumerate(self._batches)
            ]
        )[self._like]
        addresses[:, 0] = free + _OWN * np.arange(self._workers)
        return addresses

    def lay_out_fairly(
        self, building: Building, workers: Ints, reals: list[float], each: int
    ) -> None:
        """Lay out what fair links need (see `sharing`), for so many transfers of each worker."""
        m, number = building.scalars, self._workers * each
        total = self._total
        bandwidths = np.ones(total)
        for index, (_, link) in enumerate(self._links()):
            bandwidths[index] = link.bandwidth
        for link, index in self._numbers.items():
            if index >= self._counted:
                bandwidths[index] = link.bandwidth
        lay_out_links(building, reals, bandwidths)
        batches = [batch for both in self._batches for batch in both]
        whole = max(
            sum(sizes[-1] + len(sizes) * idle(route) for route, _, sizes in batch.marks)
            for batch in batches
        )
        check_sums(whole * number / bandwidths.min(initial=math.inf) * 1e9)
        made = np.array(
            [
                [self._fair_batch(building, batch, like, reals) for batch in both]
                for like, both in enumerate(self._batches)
            ]
        )
        workers[:, [at.PULL, at.PUSH]] = made[self._like]
        items = max(batch.items for batch in batches)
        m[at.FREE_TRANSFER] = pool(building, number + 1, at.PARTS_LEFT + items)
        lay_out_flows(
            building,
            reals,
            total,
            most=number * max(len(batch.marks) for batch in batches),
            crossed=max(len(route) for batch in batches for route, _, _ in batch.marks),
            marks=number * self.most_parts,
        )

    def _fair_batch(
        self, building: Building, batch: MessageBatch, like: int, reals: list[float]
    ) -> int:
        schedule, record, connections = batch.schedule, [0] * at.BATCH, []
        for route, items, marks in batch.marks:
            numbers = [self._link(link, like) for link in route]
            relays = relayed_on(route)
            lag = schedule.latency if schedule.even else sum(link.latency for link in route)
            flows, after = [(numbers, relays, items, marks)], 0
            if idle(route):  # before every message
                sizes = [marks[0], *(mark - before for before, mark in pairwise(marks))]
                flows = [
                    one
                    for item, size in zip(items, sizes, strict=True)
                    for one in (
                        (numbers[:1], 0, [], [idle(route)]),
                        (numbers, relays, [item], [size]),
                    )
                ]
            for crossed, passed_on, parts, sizes in reversed(flows):
                said = [len(crossed), len(sizes), len(reals), lag, passed_on, after, not parts]
                after = building.add([*said, *crossed, *parts])
                reals += sizes
            connections.append(after)
        record[at.ITEMS], record[at.ALONE], record[at.EVEN] = (
            batch.items,
            batch.alone,
            schedule.even,
        )
        record[at.PARTS_OF] = building.add(schedule.parts)
        record[at.CONNECTIONS] = building.add(connections)
        record[at.CONNECTION_COUNT] = len(connections)
        return building.add(record)

    def carried_fairly(self, m: Any, reals: Any, end: int) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`."""
        count_flows(m, reals, end, self._total)
        first, rows, sent = int(m[m[at.FAIR] + at.LINK_REALS]), list[LinkRow](), list[float]()
        for index, (name, link) in enumerate(self._links()):
            own = first + at.LINK_NUMBERS * index
            moved = min(float(reals[own + at.MOVED]), link.bandwidth * end / 1e9)
            rows.append(LinkRow(name, link.bandwidth, moved))
            if link.begins:
                sent.append(moved - float(reals[own + at.RELAYED]))
        return rows, math.fsum(sent)

    def carried(
        self, m: Any, workers: Ints, again: dict[tuple[int, int], list[int]], end: int
    ) -> tuple[list[LinkRow], float]:
        """What every link has carried by the end of the run (ns), and `Trace.sent`.

        `again`: by rank, and whether pushed, when batches started on their links that were sent
        again before they were through.
        """
        sending = workers[:, _SENDING].reshape(-1, 2, 3)
        late = sending[:, :, 1] > end
        under_way = {key: _cut(starts, self._hops(*key)) for key, starts in again.items()}
        for rank, which in np.argwhere(late).tolist():
            first, hops = int(sending[rank, which, 2]), self._hops(rank, which)
            now = [int(start) for start in m[first : first + hops]]
            under_way[rank, which] = [*under_way.get((rank, which), []), now]
        whole = sending[:, :, 0]
        for (rank, which), begun in under_way.items():
            whole[rank, which] -= len(begun)
        moved, relayed = _Sums(), _Sums()
        ends = np.cumsum(np.bincount(self._like))
        groups = np.split(np.argsort(self._like, kind="stable"), ends[:-1])
        for like, (both, group) in enumerate(zip(self._batches, groups, strict=True)):
            ranks: Any = group if len(group) > 1 else int(group[0])
            for which, batch in enumerate(both):
                loads, relays = self._loads(batch, like)
                for sums, found in ((moved, loads), (relayed, relays)):
                    for link, size in found:
                        number = link if link >= 0 else _OWN * ranks - 1 - link
                        sums.add(2 * ranks + which, number, whole[ranks, which] * size)
        for (rank, which), begun in under_way.items():
            like, own, key = int(self._like[rank]), _OWN * rank - 1, 2 * rank + which
            batch = self._batches[like][which]
            for starts in begun:
                for hop, start in zip(batch.schedule.hops, starts, strict=True):
                    link = self._link(batch.links[hop.link], like)
                    _, passed, passed_on = batch.passed_on(hop.link, end - start)
                    moved.add(key, link if link >= 0 else own - link, passed)
                    for size in passed_on:
                        relayed.add(key, link, size)
        links = self._links()
        speeds = np.array([link.bandwidth for _, link in links])
        carried = np.minimum(moved.totals(len(links)), speeds * end / 1e9)
        left = (carried - relayed.totals(len(links))).tolist()
        names = [name for name, _ in links]
        rows = list(map(LinkRow, names, speeds.tolist(), carried.tolist()))
        sent = (size for size, (_, link) in zip(left, links, strict=True) if link.begins)
        return rows, math.fsum(sent)

    def _hops(self, rank: int, which: int) -> int:
        """Links of a worker's batch."""
        return len(self._batches[self._like[rank]][which].links)

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

    def _link(self, link: Link, like: int) -> int:
        """A link's number, or what stands for a link of the worker's own."""
        number = self._numbers[link]
        if number >= self._own:
            return number
        return -1 - (number - self._numbers[self._routing.links[0]] - _OWN * like)

    def _batch(self, memory: Building, batch: MessageBatch, free: int, like: int) -> int:
        schedule = batch.schedule
        place = {hop.link: number for number, hop in enumerate(schedule.hops)}
        hops: list[int] = []
        for one, hold, after, begins in schedule.hops:
            number = self._link(batch.links[one], like)
            waits = memory.add([one for other, wait in after for one in (place[other], wait)])
            hops += [number if number < 0 else free + number, hold, begins, waits, len(after)]
        messages: list[int] = []
        for item, links, latency in schedule.passed:
            passes = memory.add([one for link, time in links for one in (place[link], time)])
            messages += [item, latency, passes, len(links)]
        record = [0] * at.BATCH
        record[at.ITEMS], record[at.ALONE] = batch.items, batch.alone
        record[at.LATENCY], record[at.PAIR] = schedule.latency, schedule.pair is not None
        record[at.HOPS], record[at.HOP_COUNT] = memory.add(hops), len(schedule.hops)
        record[at.MESSAGES], record[at.MESSAGE_COUNT] = memory.add(messages), len(schedule.passed)
        return memory.add(record)

    def _loads(
        self, batch: MessageBatch, like: int
    ) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """What a batch puts on links, and what it is passed on over."""
        numbers = [self._link(link, like) for link in batch.links]
        return (
            [(numbers[link], size) for link, size in enumerate(batch.schedule.loads)],
            [(numbers[link], size) for link, size in batch.schedule.relayed],
        )


def idle(route: Route) -> float:
    """The bytes for which the overhead of a message keeps the first link of its route busy."""
    return route[0].overhead * route[0].bandwidth / 1e9 if route else 0.0


def relayed_on(route: Route) -> int:
    """On which links of a route hosts on the way pass a message on, as bits (link.relays)."""
    return sum(link.begins << hop for hop, link in enumerate(route) if hop)


def pool(
    building: Building,
    number: int,
    size: int,
    numbers: tuple[int, int] | None = None,
    reals: Sequence[float] = (),
) -> int:
    """Free records, each with the address of the next one; the first.

    `numbers`: which field says where its own are in `reals`, and how many there are.
    """
    records = np.zeros((number, size), dtype=np.int64)
    records[:-1, 0] = building.size + size * np.arange(1, number)
    if numbers is not None:
        assert isinstance(reals, list)
        field, each = numbers
        records[:, field] = len(reals) + each * np.arange(number)
        reals += [0.0] * (each * number)
    return building.add(records)


def lay_out_links(building: Building, reals: list[float], bandwidths: Floats) -> None:
    """Lay out links that are shared fairly, of these bandwidths."""
    total = len(bandwidths)
    links = np.zeros((total, at.FAIR_LINK), dtype=np.int64)
    links[:, at.LINK_REALS] = len(reals) + at.LINK_NUMBERS * np.arange(total)
    numbers = np.zeros((total, at.LINK_NUMBERS))
    numbers[:, 0] = bandwidths
    reals += numbers.ravel().tolist()
    building.scalars[at.FAIR] = building.add(links)


def lay_out_flows(
    building: Building, reals: list[float], total: int, *, most: int, crossed: int, marks: int
) -> None:
    """Lay out room for so many flows at a time, with so many marks in all, over `total` links."""
    m, flows = building.scalars, (at.FLOW_REALS, at.FLOW_NUMBERS)
    m[at.FREE_FLOW] = pool(building, most, at.FLOW_SIZE + crossed, flows, reals)
    groups = at.GROUP_REALS, at.GROUP_NUMBERS
    m[at.FREE_GROUP] = pool(building, most, at.GROUP, groups, reals)
    m[at.MESH] = pool(building, min(most, total) + 1, at.HUB, (at.HUB_REALS, 1), reals)
    m[at.FREE_HUB] = m[at.MESH] + at.HUB
    m[at.MESH_FLOWS] = building.room(most)
    m[at.USED], m[at.UNFILLED_LINKS] = building.room(total), building.room(total)
    m[at.UNFILLED], m[at.FILLED] = building.room(most), building.room(most)
    m[at.ROUTES], m[at.MESH_HOPS] = building.room(most * crossed), crossed
    for row in (at.SO_FAR, at.TARGETS, at.RATES, at.DUES_OF):
        m[row] = len(reals)
        reals += [0.0] * most
    m[at.NO_LINK] = len(reals)
    reals += [math.inf] * at.LINK_NUMBERS
    m[at.PASSED], m[at.TOLD] = building.room(2 * marks), building.room(2 * marks)
    m[at.MOST_DUES] = 4 * most + 1024
    m[at.DUES_AT] = building.room(3 * m[at.MOST_DUES])
    m[at.WAKE_AT] = at.FOREVER


def count_flows(m: Any, reals: Any, end: int, total: int) -> None:
    """Count what has passed links of the flows that are there at the end of a run (ns)."""
    first = int(m[at.FAIR])
    fair = range(first, first + at.FAIR_LINK * total, at.FAIR_LINK)
    for flow, passed in _under_way(m, reals, end, fair):
        connection = int(m[flow + at.CONNECTION_OF])
        if m[connection + at.IDLE]:
            continue
        size = reals[m[connection + at.MARKS_AT] + m[connection + at.MARKS] - 1]
        for hop in range(m[connection + at.LINKS]):
            own = m[m[flow + at.FLOW_SIZE + hop] + at.LINK_REALS]
            reals[own + at.MOVED] += min(size, max(0.0, passed))
            if m[connection + at.RELAYS] >> hop & 1:
                reals[own + at.RELAYED] += min(size, max(0.0, passed))


def _under_way(m: Any, reals: Any, end: int, links: range) -> list[tuple[int, float]]:
    """The flows at the end of a run, in the order in which links count them: bytes passed."""
    found = list[tuple[int, float]]()
    for holder in sorted({int(m[link]) for link in links} - {0}):
        gone = max(0.0, (end - int(m[holder + at.EPOCH])) / 1e9 - reals[m[holder + at.HUB_REALS]])
        if holder == m[at.MESH]:
            for place in range(m[at.MESH_SIZE] + m[at.COMING]):
                flow = int(m[m[at.MESH_FLOWS] + place])
                passed = float(reals[m[at.SO_FAR] + place])
                if gone > 0 and place < m[at.MESH_SIZE]:
                    passed += float(reals[m[at.RATES] + place]) * gone
                found.append((flow, passed))
            continue
        here = list[tuple[int, int, float]]()
        group = m[holder + at.FIRST_GROUP]
        while group:
            own, left = m[group + at.GROUP_REALS], [int(m[group + at.ROOT])]
            virtual = float(reals[own + at.VIRTUAL])
            if gone > 0:
                virtual += float(reals[own + at.GROUP_RATE]) * gone
            while left:
                flow = left.pop()
                passed = virtual - float(reals[m[flow + at.FLOW_REALS] + at.ENTERED])
                here.append((int(m[flow + at.NTH_FLOW]), flow, passed))
                left += [int(m[flow + to]) for to in (at.CHILD, at.SIBLING) if m[flow + to]]
            group = m[group]
        found += [(flow, passed) for _, flow, passed in sorted(here)]
    return found


class _Sums:
    """Sums of what is added to each link, in the order of keys and for one key as it is added.

    Floats are added one after the other in that order, as the other engine does.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any, Any]] = []

    def add(self, keys: Any, links: Any, sizes: Any) -> None:
        """Add sizes to links: arrays, where only the links may be one number, or numbers."""
        if isinstance(keys, np.ndarray):
            links = np.broadcast_to(links, keys.shape)
        self._parts.append((keys, links, sizes))

    def totals(self, number: int) -> Floats:
        """The sums of the first so many links."""
        if not self._parts:
            return np.zeros(number)
        keys, links, sizes = (
            np.concatenate([np.atleast_1d(part) for part in column])
            for column in zip(*self._parts, strict=True)
        )
        order = np.argsort(keys, kind="stable")
        found = np.zeros(max(number, int(links.max()) + 1))
        np.add.at(found, links[order], sizes[order].astype(np.float64))
        return found[:number]


def _cut(numbers: Sequence[int], length: int) -> list[Sequence[int]]:
    """Numbers in parts of a length."""
    return [numbers[first : first + length] for first in range(0, len(numbers), max(1, length))]
