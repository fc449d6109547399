"""A ring of hosts: every one has a link each way to the next and to the one before."""

from typing import ClassVar, Literal

from varsim.cluster.network.link import Link, Route
from varsim.cluster.network.topology import KIND_IS_SAID, Place, Routing, Topology


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
