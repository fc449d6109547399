"""Flat form of a first-come network: links, and the batches that workers read and push."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.batch import MessageBatch
from varsim.cluster.description import Cluster
from varsim.cluster.flat import layout as at
from varsim.cluster.flat.building import Building, NotCoveredError
from varsim.cluster.link import Link
from varsim.cluster.placement import server_messages, server_places, traffic_per_port
from varsim.cluster.trace import LinkRow
from varsim.values.workload import Workload

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_OWN: Final = 2  # links of a worker on a star
_LONGEST: Final = 1 << 58  # ns
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

    @property
    def most_hops(self) -> int:
        """Links of a batch, at most."""
        return max(len(batch.links) for both in self._batches for batch in both)

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

    def lay_out_hubs(self, building: Building, workers: Ints, reals: list[float]) -> None:
        """Lay out what fair links need beside batches (see `sharing`)."""
        m, number = building.scalars, self._workers
        hubs: list[int] = []
        m[at.GROUP_SIZE] = at.WAITER + number
        for which, field in enumerate((at.PULL_GROUP, at.PUSH_GROUP)):
            way = 1 - which  # what a worker reads comes down to it, what it pushes goes up
            marks = [both[which].marks for both in self._batches]
            ceilings = [route[way].bandwidth for ((route, _, _),) in marks]
            ((route, _, (size,)),) = marks[0]
            if size <= 0:
                raise NotCoveredError("nothing is sent")
            server = route[1 - way].bandwidth
            if size * number / min(server, *ceilings) * 1e9 > _LONGEST:
                raise NotCoveredError("its times are too long for sums of 64 bits")
            rising = sorted(set(ceilings))
            groups = np.zeros((len(rising), int(m[at.GROUP_SIZE])), dtype=np.int64)
            hubs += [0, 0, 0, len(reals), len(rising), 0, way]
            reals += [0.0, server, size]
            for place, ceiling in enumerate(rising):
                groups[place, at.VIRTUAL] = len(reals)
                reals += [0.0, 0.0, ceiling]
            hubs[-2] = building.add(groups)
            places = np.array([rising.index(ceiling) for ceiling in ceilings])[self._like]
            workers[:, field] = hubs[-2] + places * m[at.GROUP_SIZE]
        m[at.HUBS] = building.add(hubs)
        m[at.MOST_DUES] = 4 * number + 64
        m[at.PASSED], m[at.DUES_AT] = building.room(number), building.room(2 * m[at.MOST_DUES])
        m[at.WAKE_AT] = at.FOREVER
        m[at.MOVED] = len(reals)
        reals += [0.0] * (_OWN * number + 2)
        workers[:, at.FLOW_REALS] = len(reals) + 2 * np.arange(number)
        reals += [0.0] * (2 * number)

    def carried_fairly(self, m: Any, reals: Any, end: int) -> tuple[list[LinkRow], float]:
        """The same of fair links."""
        first, number = int(m[at.MOVED]), self._workers
        moved = [float(size) for size in reals[first : first + _OWN * number + 2]]
        for hub in (int(m[at.HUBS]), int(m[at.HUBS]) + at.HUB):
            clock, way = int(m[hub + at.HUB_REALS]), int(m[hub + at.WAY])
            size = float(reals[clock + at.BYTES])
            for _, rank, passed in sorted(_under_way(m, reals, hub, end)):
                passed = min(size, max(0.0, passed))
                moved[_OWN * rank + way] += passed
                moved[_OWN * number + 1 - way] += passed
        rows = [
            LinkRow(name, link.bandwidth, min(size, link.bandwidth * end / 1e9))
            for size, (name, link) in zip(moved, self._links(), strict=True)
        ]
        begun = zip(rows, self._links(), strict=True)
        return rows, math.fsum(row.moved for row, (_, link) in begun if link.begins)

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


def meets_in_one(cluster: Cluster, workload: Workload) -> bool:
    """Whether all that workers send meets in the links of one server, or of several as one."""
    network = cluster.network
    if network.kind != "star" or not network.plain or cluster.servers_on != "dedicated":
        return False
    trained = sum(spec.has_gradient for spec in workload.problem.variables())
    columns = {own for own in zip(*traffic_per_port(workload, cluster), strict=True) if any(own)}
    return trained == 1 and len(columns) == 1


def _under_way(m: Any, reals: Any, hub: int, end: int) -> list[tuple[int, int, float]]:
    """The flows of a hub at the end of a run: number, rank, bytes passed."""
    if not m[hub + at.FLOWING]:
        return []
    found = []
    gone = (end - int(m[hub + at.EPOCH])) / 1e9 - float(reals[m[hub + at.HUB_REALS]])
    for number in range(m[hub + at.GROUPS]):
        group = int(m[hub + at.GROUPS_AT] + number * m[at.GROUP_SIZE])
        virtual = float(reals[m[group + at.VIRTUAL]])
        if gone > 0:
            virtual += float(reals[m[group + at.VIRTUAL] + at.RATE]) * gone
        for place in range(m[group + at.WAITERS]):
            turn = (m[group + at.NEXT_ONE] + place) % m[at.WORKER_COUNT]
            w = int(m[group + at.WAITER + turn])
            passed = virtual - float(reals[m[w + at.FLOW_REALS] + 1])
            found.append((int(m[w + at.FLOW]), int(m[w + at.RANK]), passed))
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
