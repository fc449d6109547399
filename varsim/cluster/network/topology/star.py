"""A star: every host has its own link up to one switch and down from it."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.topology.base import Place, Routing, Topology, halves
from varsim.units import BytesPerSecond


class Ported(Topology):
    """A network in which every host has a link up and a link down; those of servers may differ."""

    server_bandwidth: BytesPerSecond | None = None
    """Bandwidth of each parameter server's link; by default that of the workers' links."""

    def refusals(self) -> Iterator[str]:
        yield from super().refusals()
        if self.server_bandwidth is not None and self.server_bandwidth <= 0:
            yield "a bandwidth must be above 0"


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
