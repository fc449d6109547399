"""A full mesh: every host has a link of its own to every other one."""

from typing import ClassVar, Literal

from varsim.cluster.network.link import Route
from varsim.cluster.network.topology.base import KIND_IS_SAID, Place, Routing, Topology


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
