"""What every network of a scenario says of its links, and how routes are made of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, Field, PositiveInt

from varsim.cluster.network.link import Link, Route
from varsim.core import presets
from varsim.core.refusal import Refusal, RefusalError, refused
from varsim.core.schema import Model
from varsim.core.units import BytesPerSecond, Seconds, format_rate, format_seconds


def _kind_is_said(schema: dict[str, Any]) -> None:
    """Without a kind a network is a star: all others must say theirs."""
    schema["required"] = ["kind", *schema.get("required", [])]


# Of every network but the star.
KIND_IS_SAID = ConfigDict(json_schema_extra=_kind_is_said)


class ByNode(NamedTuple):
    """The ranks of a collective by the node that they are on, of which there are several.

    `cards`: network cards by which they can leave each node; as many ranks, the first of each node,
    have one of their own.
    """

    ranks: tuple[tuple[int, ...], ...]
    cards: int


class SlowLink(Model):
    """A worker whose link, both ways, has 1/factor of the bandwidth of the others."""

    rank: int = Field(ge=0)
    """Which worker's link."""
    factor: float = Field(gt=0)
    """By how much its bandwidth is divided."""


class Rate(Model):
    """The bandwidth and the latency of a kind of link: given, or those of a preset.

    `efficiency`: the share of the bandwidth that is left for what is sent.
    """

    preset: str | None = None
    """Name of a kind of link: `varsim list links`."""
    bandwidth: BytesPerSecond | None = Field(None, gt=0)
    """Bandwidth each way."""
    latency: Seconds | None = Field(None, ge=0)
    """Time from end to end, besides that of the bytes."""
    efficiency: float = Field(1.0, gt=0, le=1)
    """Share of the bandwidth that an application gets."""

    def refusals(self) -> Iterator[RefusalError | str]:
        if (self.preset is None) == (self.bandwidth is None):
            yield "give either a preset or a bandwidth"
        preset = None if self.preset is None else presets.link(self.preset)
        if self.latency is None and (preset is None or preset.latency is None):
            yield refused("latency", "is missing (for example latency: 20 us)")

    @property
    def worker_rate(self) -> float:
        """Bytes/s that one link carries of what is sent, per direction."""
        if self.bandwidth is not None:
            return self.bandwidth * self.efficiency
        assert self.preset is not None
        return presets.link(self.preset).bandwidth * self.efficiency

    @property
    def delay(self) -> float:
        """Seconds for a message of no length: what `latency` means for this network."""
        if self.latency is not None:
            return self.latency
        assert self.preset is not None
        latency = presets.link(self.preset).latency
        assert latency is not None
        return latency


class WireProtocol(Model):
    """Another way in which collectives can send: sooner there, at less of the rate.

    `latency` takes the place of the network's. `payload`: of what is sent, the rest are flags by
    which the receiver sees that it is there. NCCL's LL and LL128 are two (src/graph/tuning.cc).
    """

    latency: Seconds = Field(ge=0)
    """Time from end to end, besides that of the bytes."""
    payload: float = Field(gt=0, le=1)
    """Share of what is sent that is data."""


class Topology(Rate, ABC):
    """A network: its links, how they are shared, and what messages cost on them.

    `efficiency`: the share of the bandwidth that an application gets. `message_overhead`: every
    message holds the sender's link that much longer. `flows` connections from each host to each
    other one, none of which gets more than `flow_bandwidth`. A message is on all links of its route
    at once (cut through). `sharing: fair` splits a link evenly between the hosts using it (max-min
    over whole routes); `first_come` serves one message after the other. `slow_links`: workers with
    slower links. Of the `protocols` and its own way, what workers reduce or gather is sent in that
    in which it would be there first if all began together on idle links (NCCL takes the least of
    its modelled times, too).
    """

    # Whose bandwidth it is that is given, in words.
    each: ClassVar[str] = "per worker each way"

    kind: str
    message_overhead: Seconds = Field(0.0, ge=0)
    """Time for which a message holds its sender's link, besides that of its bytes."""
    flows: PositiveInt | None = None
    """Connections from host to host, of which none gets more than `flow_bandwidth`."""
    flow_bandwidth: BytesPerSecond | None = Field(None, gt=0)
    """The most that one connection gets, as TCP streams do on fast links."""
    sharing: Literal["fair", "first_come"] = "fair"
    """Whether messages divide a link (max-min over whole routes) or go one after the other."""
    slow_links: tuple[SlowLink, ...] = ()
    """Workers whose link is slower than the others'."""
    protocols: tuple[WireProtocol, ...] | None = Field(None, min_length=1)
    """Other ways in which collectives of workers can send; each time the fastest is taken."""
    conflicts: ClassVar[Sequence[Refusal]] = (
        Refusal(
            "flows",
            "no flow_bandwidth",
            "what one of them reaches at most",
            "for example flow_bandwidth: 10 Gbit/s",
            says="needs",
        ),
        Refusal(
            "flow_bandwidth", "no flows", "how many there are", "for example flows: 1", says="needs"
        ),
    )

    def refusals(self) -> Iterator[RefusalError | str]:
        yield from super().refusals()
        for index, protocol in enumerate(self.protocols or ()):
            if not self.is_sooner(protocol):
                yield refused(
                    f"protocols.{index}",
                    "has no effect: its latency is not below the network's, "
                    "and more is not sent in less time",
                )

        preset = None if self.preset is None else presets.link(self.preset)
        if preset is not None and preset.per_node and not self.of_a_node:
            rate = format_rate(preset.bandwidth)
            yield refused(
                "preset",
                f"{self.preset} is what all network cards of a node have together, not one "
                "link: it goes with network kind nodes and nics 1, and what one of several cards "
                f"has is given as its bandwidth (if each link has all of it, bandwidth: {rate})",
            )

    @abstractmethod
    def routing(self) -> "Routing":
        """The links, made as places come and routes are asked for."""

    @property
    def server_rate(self) -> float:
        """Bytes/s of a server's link, per direction."""
        given: float | None = getattr(self, "server_bandwidth", None)
        return self.worker_rate if given is None else given * self.efficiency

    @property
    def says_of_servers(self) -> bool:
        """Whether something is said here that only concerns servers."""
        return getattr(self, "server_bandwidth", None) is not None

    @property
    def of_a_node(self) -> bool:
        """Whether the bandwidth is that of all that a node of several workers has."""
        return False

    @property
    def plain(self) -> bool:
        """Whether a message is one piece on all its links, and costs nothing but its bytes."""
        return self.flows is None and self.message_overhead == 0

    @property
    def flow_limit(self) -> float | None:
        """Bytes/s that all flows of a route reach together at most."""
        if self.flows is None or self.flow_bandwidth is None:
            return None
        return self.flows * self.flow_bandwidth

    def rate_of(self, rank: int) -> float:
        """Bytes/s of the link of one worker, per direction."""
        rate = self.worker_rate
        for slow in self.slow_links:
            if slow.rank == rank:
                rate /= slow.factor
        return rate

    def is_sooner(self, protocol: WireProtocol) -> bool:
        """Whether a message arrives sooner anywhere if it is sent by a protocol."""
        return protocol.latency < self.delay

    def check_workers(self, workers: int) -> None:
        """Raise ValueError where so many workers cannot be on it."""

    def machines(self, workers: int) -> int:
        """On how many machines the workers are."""
        return workers

    def by_node(self, workers: Sequence[int]) -> ByNode | None:
        """A collective's ranks by node, rank i being a worker; None: none has several of them."""
        return None

    def lines(self) -> list[str]:
        """What it is, in words: links, what messages cost, slow links."""
        lines = [
            f"{format_rate(self.worker_rate)} {self.each}, latency "
            f"{format_seconds(self.delay)}, {self.sharing.replace('_', ' ')} links"
        ]
        lines += self.more_lines()
        if self.efficiency < 1:
            lines.append(f"that is {self.efficiency:.4g} of the line rate")
        if self.message_overhead:
            lines.append(f"each message takes {format_seconds(self.message_overhead)} more")
        if self.flow_limit is not None:
            lines.append(f"at most {format_rate(self.flow_limit)} between two hosts")
        lines += [
            f"worker {link.rank} has 1/{link.factor:g} of that bandwidth"
            for link in self.slow_links
        ]
        lines += [
            f"collectives may send with latency {self.latency_of(protocol)}, "
            f"{protocol.payload:.4g} of the bytes for data"
            for protocol in self.protocols or ()
        ]
        return lines

    def latency_of(self, protocol: WireProtocol) -> str:
        """What a protocol has in place of the network's latency, in words."""
        return format_seconds(protocol.latency)

    def more_lines(self) -> list[str]:
        """What only this kind of network has, in words."""
        return []


class Place:
    """Where routes begin and end: a worker, or a server, on a machine; identity is what counts."""

    __slots__ = ("machine", "name")

    def __init__(self, name: str, machine: int) -> None:
        self.name = name
        self.machine = machine  # numbered from 0 as they came

    def __repr__(self) -> str:
        return f"Place({self.name!r}, {self.machine})"


class Routing(ABC):
    """The links of a network and the routes over them; no clock.

    Workers come first, in order of their ranks; then servers. Routes are asked for when all are
    there.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._links: list[Link] = []
        self._places: list[Place] = []
        self._machines = 0
        self._named: dict[str, Place] = {}
        self._routes: dict[tuple[Place, Place], Route] = {}
        self._overhead = round(topology.message_overhead * 1e9)
        self._fair = topology.sharing == "fair"
        self.on_binding: list[Callable[[], None]] = []  # called when links bind that did not

    @property
    def links(self) -> list[Link]:
        """All of them, in the order in which they were made."""
        return self._links

    def worker(self, rank: int) -> Place:
        """The next worker's place; ranks come in order."""
        return self._place(f"worker {rank}")

    def server(self, name: str, count: int = 1) -> Place:
        """A machine of its own for a server; `count` equal ones only in a plain star."""
        assert count == 1, "only the servers of a plain star can be one place"
        return self._place(name)

    def server_beside(self, name: str, machine: int) -> Place:
        """A server on a machine of workers."""
        return self._places[machine]

    def server_again(self, name: str, count: int = 1) -> Place:
        """The server of this name, which may be there already."""
        if name not in self._named:
            self._named[name] = self.server(name, count)
        return self._named[name]

    def route(self, source: Place, target: Place) -> Route:
        """The links from one place to another, the same tuple whenever it is asked for."""
        key = (source, target)
        if key not in self._routes:
            route = self._crossed(source, target) if source is not target else ()
            limit = self._topology.flow_limit
            if limit is not None and route and self._limited(route):
                route = (*route, Link(f"flows {source.name} to {target.name}", limit))
            self._routes[key] = route
            if self._fair:
                self._note(route)
        return self._routes[key]

    def _note(self, route: Route) -> None:
        """Say which links may hold up flows, now that there is such a route."""
        binding = [link.is_on(route) for link in route]
        if self._overhead and route:  # which is a flow over the first link alone
            binding.append(route[0].is_on(route[:1]))
        for function in self.on_binding if any(binding) else ():
            function()

    def side_by_side(self, places: Sequence[Place]) -> Callable[[Place, Place], Route]:
        """The links from one to another of these places in rings, or trees, side by side."""
        return self.route

    def sooner(self, route: Route, protocol: WireProtocol) -> int:
        """How much sooner (ns) what crosses these links arrives if it is sent by a protocol."""
        return self._saved(route, self._topology.delay, protocol.latency)

    def _saved(self, route: Route, own: float, other: float) -> int:
        """A latency less another (ns), at most what there is; 0 where nothing is crossed."""
        if not route:
            return 0
        return min(round(own * 1e9) - round(other * 1e9), sum(link.latency for link in route))

    @abstractmethod
    def _crossed(self, source: Place, target: Place) -> Route:
        """The links from one place to another one."""

    def _limited(self, route: Route) -> bool:
        """Whether the limit of flows holds for such a route."""
        return True

    def _place(self, name: str) -> Place:
        assert not self._routes, "all places come before the first route"
        place = Place(name, self._machines)
        self._machines += 1
        self._places.append(place)
        return place

    def _link(
        self,
        name: str,
        bandwidth: float,
        latency: int,
        *,
        sends: bool = False,
        into: str = "",
        out_of: str = "",
    ) -> Link:
        """A new link; `sends`: messages set off on it."""
        overhead = self._overhead if sends else 0
        link = Link(
            name,
            bandwidth,
            latency=latency,
            overhead=overhead,
            begins=sends,
            into=into,
            out_of=out_of,
        )
        self._links.append(link)
        return link


def halves(seconds: float) -> tuple[int, int]:
    """A latency over two links (ns): half on each, together as long to the nanosecond."""
    whole = round(seconds * 1e9)
    return whole // 2, whole - whole // 2
