"""The networks that a scenario can have, by kind. A new one is a class here and a line below."""

from typing import TYPE_CHECKING, Final, TypeAlias

from varsim.cluster.network.topology.base import Place, Routing, SlowLink, Topology
from varsim.cluster.network.topology.full_mesh import FullMesh
from varsim.cluster.network.topology.nodes import Nodes
from varsim.cluster.network.topology.racks import Racks
from varsim.cluster.network.topology.star import Star
from varsim.values.table import Models

__all__ = [
    "NETWORKS",
    "TOPOLOGIES",
    "AnyTopology",
    "Place",
    "Routing",
    "SlowLink",
    "Star",
    "Topology",
]

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
