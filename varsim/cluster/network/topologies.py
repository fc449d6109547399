"""The networks that a scenario can have, by kind; a new one is a class and a line below."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, PositiveInt

from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.topology import (
    KIND_IS_SAID,
    ByNode,
    Place,
    Rate,
    Routing,
    Topology,
    WireProtocol,
    halves,
)
from varsim.core.refusal import RefusalError, refused
from varsim.core.table import Models
from varsim.core.units import BytesPerSecond, Seconds, format_rate, format_seconds


class Ported(Topology):
    """A network in which every host has a link up and a link down; those of servers may differ."""

    server_bandwidth: BytesPerSecond | None = Field(None, gt=0)
    """Bandwidth of each parameter server's link; by default that of the workers' links."""


class Star(Ported):
    """Every host has its own up and down link to one switch.

    `bandwidth` is each worker's, per direction; `server_bandwidth` each server's (default: the
    same). `latency` is from host to host, half of it on either link.
    """

    about: ClassVar[str] = "every host has its own link up and down to one switch"

    kind: Literal["star"] = "star"

    def routing(self) -> "StarRouting":
        return StarRouting(self)


class StarRouting(Routing):
    """A link up and a link down for every host."""

    def __init__(self, star: Ported) -> None:
        super().__init__(star)
        self._star = star
        self._ports: dict[Place, tuple[Link, Link]] = {}
        self._halves = halves(star.delay)

    def worker(self, rank: int) -> Place:
        place = super().worker(rank)
        self._ports[place] = self.host(place.name, self._star.rate_of(rank))
        return place

    def server(self, name: str, count: int = 1) -> Place:
        place = self._place(name)
        self._ports[place] = self.host(name, self._star.server_rate, count)
        return place

    def host(self, name: str, bandwidth: float, count: int = 1) -> tuple[Link, Link]:
        """The links, up and down, of a new host (or `count` equal ones) that has no place."""
        first, second = self._halves
        rate, switch = bandwidth * count, self._switch()
        return (
            self._link(f"{name} up", rate, first, sends=True, into=switch),
            self._link(f"{name} down", rate, second, out_of=switch),
        )

    def ports(self, place: Place) -> tuple[Link, Link]:
        """The links, up and down, of a place."""
        return self._ports[place]

    def _switch(self) -> str:
        """What the next host's links go to."""
        return "switch"

    def _crossed(self, source: Place, target: Place) -> Route:
        return self._ports[source][0], self._ports[target][1]


class Racks(Ported):
    """Two tiers: hosts in racks, a star each, and one link per rack and direction to the core.

    Hosts fill the racks in order: workers by rank, then servers on machines of their own. A rack's
    uplink carries `uplink_bandwidth`, or what its hosts could send together divided by
    `oversubscription`. `latency` is from host to host in a rack, `uplink_latency` (default: the
    same) is added between racks.
    """

    model_config = KIND_IS_SAID

    about: ClassVar[str] = "two tiers: racks of hosts, joined by oversubscribed uplinks"

    kind: Literal["racks"] = "racks"
    hosts_per_rack: PositiveInt
    """Hosts in a rack."""
    oversubscription: float | None = Field(None, gt=0)
    """Bandwidth of a rack's hosts together over that of its link to the core."""
    uplink_bandwidth: BytesPerSecond | None = Field(None, gt=0)
    """Bandwidth of a rack's link to the core, instead of `oversubscription`."""
    uplink_latency: Seconds | None = Field(None, ge=0)
    """How much longer a message takes between racks; by default `latency`."""

    def refusals(self) -> Iterator[RefusalError | str]:
        yield from super().refusals()
        if (self.oversubscription is None) == (self.uplink_bandwidth is None):
            yield "give either oversubscription (for example 4.0) or uplink_bandwidth"

    @property
    def uplink_rate(self) -> float:
        """Bytes/s between a rack and the core, per direction."""
        if self.uplink_bandwidth is not None:
            return self.uplink_bandwidth * self.efficiency
        assert self.oversubscription is not None
        return self.hosts_per_rack * self.worker_rate / self.oversubscription

    @property
    def uplink_delay(self) -> float:
        """Seconds that a message between racks takes more than one in a rack."""
        return self.delay if self.uplink_latency is None else self.uplink_latency

    def routing(self) -> "RackRouting":
        return RackRouting(self)

    def more_lines(self) -> list[str]:
        return [
            f"racks of {self.hosts_per_rack} hosts, {format_rate(self.uplink_rate)} each way "
            f"between a rack and the core, {format_seconds(self.uplink_delay)} more between racks"
        ]


class RackRouting(StarRouting):
    """A link up and a link down for every host, and for every rack."""

    def __init__(self, racks: Racks) -> None:
        super().__init__(racks)
        self._racks = racks
        self._uplinks: dict[int, tuple[Link, Link]] = {}

    def _switch(self) -> str:
        return f"rack {self._rack(self._machines - 1)}"

    def _rack(self, machine: int) -> int:
        return machine // self._racks.hosts_per_rack

    def _crossed(self, source: Place, target: Place) -> Route:
        up, down = super()._crossed(source, target)
        here, there = self._rack(source.machine), self._rack(target.machine)
        if here == there:
            return up, down
        return up, self._uplink(here)[0], self._uplink(there)[1], down

    def _uplink(self, rack: int) -> tuple[Link, Link]:
        if rack not in self._uplinks:
            first, second = halves(self._racks.uplink_delay)
            name, rate = f"rack {rack}", self._racks.uplink_rate
            self._uplinks[rack] = (
                self._link(f"{name} up", rate, first, out_of=name, into="core"),
                self._link(f"{name} down", rate, second, out_of="core", into=name),
            )
        return self._uplinks[rack]


class Inside(Rate):
    """What joins the workers of a node: NVLink, PCIe.

    `bandwidth` is that of each worker's link, per direction, to all others of its node; with
    `shared`, that of one bus that carries all that is sent inside the node. `latency` is from
    worker to worker.
    """

    shared: bool = False
    """One bus for all that is sent in the node, not a link each way per worker."""


class NodesProtocol(WireProtocol):
    """Another way in which collectives can send, outside and inside of nodes."""

    inside_latency: Seconds = Field(ge=0)
    """Latency between workers of one node."""


class Nodes(Ported):
    """Two levels: workers in nodes, and a star between the network cards of the nodes.

    Ranks fill the nodes in order. What goes to another node leaves by the network card of its
    worker, the place in the node modulo `nics`, and comes in by that of the other one; inside it
    crosses nothing. Rings go around side by side, as many as every node has cards of ranks in them,
    each with an equal share of the bytes: they leave a node by all these cards at once, as fast as
    the slowest; so do trees (NCCL makes both per card: src/graph/search.cc). `bandwidth` is that of
    one card, per direction; a slow link is the card of that worker. Efficiency, overhead, flows and
    `latency` (from card to card) are those outside. A server on a machine of its own has one card;
    on a node it uses the first, and inside a link like a worker's.
    """

    model_config = KIND_IS_SAID

    about: ClassVar[str] = "machines of several workers: NVLink or PCIe inside, cards outside"
    each: ClassVar[str] = "per network card each way"

    kind: Literal["nodes"] = "nodes"
    workers_per_node: PositiveInt
    """Workers on one machine."""
    nics: PositiveInt = 1
    """Network cards of one machine."""
    inside: Inside
    """The links between the workers of a machine."""
    protocols: tuple[NodesProtocol, ...] | None = Field(None, min_length=1)
    """Other ways in which collectives of workers can send; each time the fastest is taken."""

    def refusals(self) -> Iterator[RefusalError | str]:
        yield from super().refusals()
        if self.nics > self.workers_per_node:
            yield refused(
                "nics",
                f"{self.nics}: with {self.workers_per_node} workers per node the others would "
                "have no effect, as each worker uses one",
            )

    @property
    def of_a_node(self) -> bool:
        return self.nics == 1

    def is_sooner(self, protocol: WireProtocol) -> bool:
        assert isinstance(protocol, NodesProtocol)
        return super().is_sooner(protocol) or protocol.inside_latency < self.inside.delay

    def latency_of(self, protocol: WireProtocol) -> str:
        assert isinstance(protocol, NodesProtocol)
        inside = format_seconds(protocol.inside_latency)
        return f"{super().latency_of(protocol)}, inside a node {inside}"

    def machines(self, workers: int) -> int:
        return -(-workers // self.workers_per_node)

    def by_node(self, workers: Sequence[int]) -> ByNode | None:
        nodes = dict[int, list[list[int]]]()
        for rank, worker in enumerate(workers):
            node, position = divmod(worker, self.workers_per_node)
            of_card = nodes.setdefault(node, [[] for _ in range(self.nics)])
            of_card[position % self.nics].append(rank)
        in_turn = [_in_turn(of_card) for of_card in nodes.values()]
        if len(nodes) == 1 or max(map(len, in_turn), default=0) < 2:
            return None
        cards = _side_by_side([list(filter(None, of_card)) for of_card in nodes.values()])
        return ByNode(tuple(in_turn), cards)

    def routing(self) -> "NodeRouting":
        return NodeRouting(self)

    def more_lines(self) -> list[str]:
        inside = self.inside
        shared = "one bus" if inside.shared else "per worker each way"
        cards = "1 network card" if self.nics == 1 else f"{self.nics} network cards"
        return [
            f"nodes of {self.workers_per_node} workers with {cards}",
            f"inside a node {format_rate(inside.worker_rate)} {shared}, latency "
            f"{format_seconds(inside.delay)}",
        ]


class NodeRouting(Routing):
    """Links are made when the first route crosses them."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes)
        self._nodes = nodes
        self._workers = 0
        self._position: dict[Place, int] = {}  # in its node
        self._servers: set[Place] = set()  # on machines of their own
        self._made: dict[tuple[str, str], tuple[Link, Link]] = {}
        self._inside: set[Link] = set()  # nodes

    def worker(self, rank: int) -> Place:
        size = self._nodes.workers_per_node
        self._workers += 1
        return self._new(f"worker {rank}", rank // size, rank % size)

    def server(self, name: str, count: int = 1) -> Place:
        assert count == 1, "only the servers of a plain star can be one place"
        machine = max([place.machine for place in self._places], default=-1) + 1
        place = self._new(name, machine, 0)
        self._servers.add(place)
        return place

    def server_beside(self, name: str, machine: int) -> Place:
        return self._new(name, machine, 0)

    def _new(self, name: str, machine: int, position: int) -> Place:
        assert not self._routes, "all places come before the first route"
        place = Place(name, machine)
        self._position[place] = position
        self._places.append(place)
        return place

    def _crossed(self, source: Place, target: Place) -> Route:
        if source.machine != target.machine:
            return self._card(source)[0], self._card(target)[1]
        if self._nodes.inside.shared:
            return self._bus(source.machine)
        return self._own(source)[0], self._own(target)[1]

    def sooner(self, route: Route, protocol: WireProtocol) -> int:
        assert isinstance(protocol, NodesProtocol)
        if route and not self._limited(route):
            return self._saved(route, self._nodes.inside.delay, protocol.inside_latency)
        return super().sooner(route, protocol)

    def _limited(self, route: Route) -> bool:
        return route[0] not in self._inside

    def side_by_side(self, places: Sequence[Place]) -> Callable[[Place, Place], Route]:
        cards = dict[int, set[int]]()
        for place in places:
            cards.setdefault(place.machine, set()).add(self._card_of(place))
        number = _side_by_side(cards.values())
        if number == 1 or len(cards) == 1:
            return self.route

        def leaving(machine: int) -> tuple[Link, Link]:
            used = sorted(cards[machine])[:number]
            which = "" if number == self._nodes.nics else f" {', '.join(map(str, used))}"
            rate = number * min(self._rate(machine, card) for card in used)
            name = f"cards{which} of node {machine}"
            return self._pair(name, "outside", rate, self._nodes.delay, sends=True)

        @cache
        def route(source: Place, target: Place) -> Route:
            if source.machine == target.machine:
                return self.route(source, target)
            crossed = leaving(source.machine)[0], leaving(target.machine)[1]
            limit = self._nodes.flow_limit
            if limit is None:
                return crossed
            return *crossed, Link(f"flows {source.name} to {target.name}", number * limit)

        return route

    def _card(self, place: Place) -> tuple[Link, Link]:
        """The links, up and down, of the network card that a place uses."""
        nodes = self._nodes
        if place in self._servers:
            return self._pair(place.name, "outside", nodes.server_rate, nodes.delay, sends=True)
        card = self._card_of(place)
        name = (
            f"node {place.machine}" if nodes.nics == 1 else f"card {card} of node {place.machine}"
        )
        rate = self._rate(place.machine, card)
        return self._pair(name, "outside", rate, nodes.delay, sends=True)

    def _card_of(self, place: Place) -> int:
        """Which card of its node a place uses."""
        return self._position[place] % self._nodes.nics

    def _rate(self, machine: int, card: int) -> float:
        """Bytes/s of a card, each way."""
        nodes = self._nodes
        rate = nodes.worker_rate
        for slow in nodes.slow_links:
            at, position = divmod(slow.rank, nodes.workers_per_node)
            if at == machine and position % nodes.nics == card:
                rate /= slow.factor
        return rate

    def _own(self, place: Place) -> tuple[Link, Link]:
        """The links, up and down, of a place inside its node."""
        inside = self._nodes.inside
        name, switch = f"inside {place.name}", f"inside node {place.machine}"
        links = self._pair(name, switch, inside.worker_rate, inside.delay)
        self._inside.update(links)
        return links

    def _bus(self, machine: int) -> Route:
        inside = self._nodes.inside
        name = f"inside node {machine}"
        if (name, "") not in self._made:
            link = self._link(name, inside.worker_rate, round(inside.delay * 1e9))
            self._made[name, ""] = (link, link)
            self._inside.add(link)
        return self._made[name, ""][:1]

    def _pair(
        self, name: str, switch: str, rate: float, delay: float, *, sends: bool = False
    ) -> tuple[Link, Link]:
        if (name, switch) not in self._made:
            first, second = halves(delay)
            self._made[name, switch] = (
                self._link(f"{name} up", rate, first, sends=sends, into=switch),
                self._link(f"{name} down", rate, second, out_of=switch),
            )
        return self._made[name, switch]


def _side_by_side(cards: Iterable[Collection[object]]) -> int:
    """How many rings, or trees, there are, given the cards that each node has ranks of."""
    return min(map(len, cards), default=1)


def _in_turn(of_card: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """A node's ranks: the first of every card, then the second of every card, and so on."""
    return tuple(rank for turn in zip_longest(*of_card) for rank in turn if rank is not None)


class FullMesh(Topology):
    """A link each way between any two hosts, with `bandwidth` and `latency` of its own.

    A slow link makes all links of that worker slower. Links that nobody uses are not listed.
    """

    model_config = KIND_IS_SAID

    about: ClassVar[str] = "a link of its own each way between any two hosts"
    each: ClassVar[str] = "between any two hosts each way"

    kind: Literal["full_mesh"] = "full_mesh"

    def routing(self) -> "MeshRouting":
        return MeshRouting(self)


class MeshRouting(Routing):
    """One link per pair and direction."""

    def _crossed(self, source: Place, target: Place) -> Route:
        topology = self._topology
        rate = min(topology.rate_of(source.machine), topology.rate_of(target.machine))
        name = f"{source.name} to {target.name}"
        return (self._link(name, rate, round(topology.delay * 1e9), sends=True),)


TOPOLOGIES: Final[dict[str, type[Topology]]] = {
    "star": Star,
    "full_mesh": FullMesh,
    "racks": Racks,
    "nodes": Nodes,
}


NETWORKS: Final = Models("networks", "network", TOPOLOGIES, __name__, Topology, default="star")

if TYPE_CHECKING:
    AnyTopology: TypeAlias = Topology
else:
    AnyTopology = NETWORKS.type()
