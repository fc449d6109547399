"""Networks of machines and of other simulators, added to varsim as a user would."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import ClassVar, Final, Literal, Self, TypeAlias

from pydantic import Field, PositiveInt, model_validator

from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.topologies import Ported, StarRouting
from varsim.cluster.network.topology import KIND_IS_SAID, Place, Rate, Routing, Topology, halves
from varsim.core.schema import Model
from varsim.core.units import format_rate

# A ring of hosts: every one has a link each way to the next and to the one before.


class Ring(Topology):
    """Hosts in a circle; what is not for a neighbour is passed on, the shortest way.

    Workers stand in order of their ranks, then servers on machines of their own. Halfway around,
    messages go clockwise, towards the next rank. `bandwidth` is that of a link, per direction;
    `latency` is per hop. A slow link makes all links of that worker slower.
    """

    model_config = KIND_IS_SAID

    about: ClassVar[str] = "hosts in a circle with links to their neighbours, the shortest way"
    each: ClassVar[str] = "between neighbours each way"

    kind: Literal["ring"] = "ring"

    def routing(self) -> "RingRouting":
        return RingRouting(self)

    def more_lines(self) -> list[str]:
        return ["a ring of hosts; the latency is per hop"]


class RingRouting(Routing):
    """Links between neighbours, both ways; of two hosts, one link each way."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring)
        self._clockwise: list[Link] = []  # from each place to the next
        self._back: list[Link] = []  # from each place to the one before

    def _crossed(self, source: Place, target: Place) -> Route:
        if not self._clockwise:
            self._close()
        count, first = len(self._places), source.machine
        ahead = (target.machine - first) % count
        if ahead <= count - ahead:
            return tuple(self._clockwise[(first + hop) % count] for hop in range(ahead))
        return tuple(self._back[(first - hop) % count] for hop in range(count - ahead))

    def _close(self) -> None:
        count = len(self._places)
        for place in self._places:
            after = self._places[(place.machine + 1) % count]
            self._clockwise.append(self._between(place, after, "clockwise"))
        for place in self._places if count > 2 else ():
            before = self._places[place.machine - 1]
            self._back.append(self._between(place, before, "back"))

    def _between(self, source: Place, target: Place, way: str) -> Link:
        topology = self._topology
        rate = min(topology.rate_of(source.machine), topology.rate_of(target.machine))
        latency = round(topology.delay * 1e9)
        return self._link(f"{source.name} {way}", rate, latency, sends=True)


# A hybrid mesh: one machine whose workers have links to some of the others, more to some.
#
# Such are the NVLinks of a DGX-1: a cube of GPUs, one or two links between those that are joined.
# Where no link joins two, what is sent goes through the host's memory, over PCIe.


MOST_WORKERS: Final = 8  # of a machine; more have too many rings to look through
_MOST_TRIED: Final = 100_000

# The links of a worker to each other one, by their ranks.
_Table: TypeAlias = tuple[tuple[int, int, int], ...]
_INSIDE: Final = ((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2))
# As nvidia-smi topo -m and NCCL's own topology files have them: two quads, and links between them.
_PRESETS: Final[Mapping[str, _Table]] = {
    "dgx1_p100": (
        *((a, b, 1) for a, b, _ in _INSIDE),
        *((a + 4, b + 4, 1) for a, b, _ in _INSIDE),
        *((a, a + 4, 1) for a in range(4)),
    ),
    "dgx1_v100": (
        *_INSIDE,
        *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
        *((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1)),
    ),
}


class Joined(Model):
    """Two workers, and how many links join them."""

    ranks: tuple[int, int]
    """The two workers."""
    links: PositiveInt = 1
    """How many links join them."""


class HybridMesh(Ported):
    """One machine whose workers are `joined` by links: those of a preset, or a list of pairs.

    `bandwidth` is that of one link, per direction; `latency` is per message. Messages of joined
    workers have all links between them. Other messages, and those from and to servers, go through
    `host`: a link each way of every worker, and of every server on a machine of its own.
    A ring all-reduce of all workers goes around as many rings at once as fit on the links, no link
    being in two of them, each with an equal share of the bytes; where none fits, through `host`.
    """

    model_config = KIND_IS_SAID

    about: ClassVar[str] = "one machine, several links between some of its workers: NVLinks"
    each: ClassVar[str] = "per link each way"

    kind: Literal["hybrid_mesh"] = "hybrid_mesh"
    joined: Literal["dgx1_p100", "dgx1_v100"] | tuple[Joined, ...] = Field(
        description="a preset, or pairs of workers with the links between them"
    )
    host: Rate
    """The links by way of the host (PCIe), for what has no link, and for servers."""

    @model_validator(mode="after")
    def _pairs_are_pairs(self) -> Self:
        pairs = [frozenset(one[:2]) for one in self.table]
        if any(len(pair) < 2 for pair in pairs):
            raise ValueError("joined: a pair must be two different ranks")
        if len(set(pairs)) < len(pairs):
            raise ValueError("joined: a pair is given twice; give its links once")
        return self

    @property
    def table(self) -> _Table:
        """Two ranks and the links between them, for every joined pair."""
        if isinstance(self.joined, str):
            return _PRESETS[self.joined]
        return tuple((*pair.ranks, pair.links) for pair in self.joined)

    @property
    def server_rate(self) -> float:
        given = self.server_bandwidth
        return self.host.worker_rate if given is None else given * self.host.efficiency

    def check_workers(self, workers: int) -> None:
        if workers > MOST_WORKERS:
            raise ValueError(f"a hybrid_mesh has at most {MOST_WORKERS} workers, not {workers}")
        there = [rank for pair in self.table for rank in pair[:2]]
        if not isinstance(self.joined, str) and not all(0 <= rank < workers for rank in there):
            rank = next(rank for rank in there if not 0 <= rank < workers)
            raise ValueError(
                f"network.joined: rank {rank} does not exist: ranks go from 0 to "
                f"{workers - 1} (workers: {workers})"
            )

    def routing(self) -> "HybridMeshRouting":
        return HybridMeshRouting(self)

    def more_lines(self) -> list[str]:
        return [
            f"{len(self.table)} pairs of workers are joined, by up to "
            f"{max(links for *_, links in self.table)} links; others reach each other through the "
            f"host, at {format_rate(self.host.worker_rate)}"
        ]


class HybridMeshRouting(StarRouting):
    """The ports of a star are those to the host; links of pairs and rings come as they are used."""

    def __init__(self, mesh: HybridMesh) -> None:
        super().__init__(mesh)
        self._mesh = mesh
        self._halves = halves(mesh.host.delay)
        self._table = {frozenset(pair[:2]): pair[2] for pair in mesh.table}
        self._workers: dict[Place, int] = {}
        self._hops: dict[tuple[Place, Place], Route] = {}  # of rings

    def worker(self, rank: int) -> Place:
        place = self._place(f"worker {rank}")
        rate = self._mesh.host.worker_rate * self._mesh.rate_of(rank) / self._mesh.worker_rate
        self._ports[place] = self.host(f"{place.name} host", rate)
        self._workers[place] = rank
        return place

    def side_by_side(self, places: Sequence[Place]) -> Callable[[Place, Place], Route]:
        return self._around if len(places) == len(self._workers) else self.route

    def _around(self, source: Place, target: Place) -> Route:
        rings = most_rings(self._mesh.table, len(self._workers))
        if not rings:
            ports = self._ports
            return ports[source][0], ports[target][1]
        if (source, target) not in self._hops:
            self._hops[source, target] = (self._wire(source, target, rings, "in rings "),)
        return self._hops[source, target]

    def _crossed(self, source: Place, target: Place) -> Route:
        ranks = [self._workers.get(place, -1) for place in (source, target)]
        links = self._table.get(frozenset(ranks))
        if not links:
            return super()._crossed(source, target)
        return (self._wire(source, target, links, ""),)

    def _wire(self, source: Place, target: Place, links: int, how: str) -> Link:
        ranks = (self._workers[source], self._workers[target])
        rate = links * min(map(self._mesh.rate_of, ranks))
        name = f"{how}{source.name} to {target.name}"
        return self._link(name, rate, round(self._mesh.delay * 1e9), sends=True)

    def _switch(self) -> str:
        return "host"


@cache
def most_rings(table: _Table, workers: int) -> int:
    """How many rings of the first `workers` ranks fit at once on links that are full duplex.

    A ring visits everybody once, in one direction; the other one is a ring of its own. Searched
    for, one ring after the other, and for no longer than a second.
    """
    free = [[0] * workers for _ in range(workers)]
    for a, b, links in table:
        if max(a, b) < workers:
            free[a][b] = free[b][a] = links
    if workers <= 2:
        return free[0][-1]
    rings = list(_rings(free, [0]))
    best = tried = 0

    def search(first: int, found: int) -> None:
        nonlocal best, tried
        best = max(best, found)
        for index in range(first, len(rings)):
            tried += 1
            if tried > _MOST_TRIED or found + min(map(sum, free)) <= best:
                return
            hops = rings[index]
            if all(free[a][b] for a, b in hops):
                for a, b in hops:
                    free[a][b] -= 1
                search(index, found + 1)
                for a, b in hops:
                    free[a][b] += 1

    search(0, 0)
    return best


def _rings(free: list[list[int]], way: list[int]) -> Iterator[list[tuple[int, int]]]:
    """All ways around that go on from this one, hop by hop."""
    if len(way) == len(free):
        if free[way[-1]][way[0]]:
            yield list(zip(way, [*way[1:], way[0]], strict=True))
        return
    for rank in range(len(free)):
        if free[way[-1]][rank] and rank not in way:
            yield from _rings(free, [*way, rank])
