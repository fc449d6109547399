"""The networks that a scenario can have, by kind. A new one is a class here and a line below."""

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, Union

from pydantic import Discriminator, Tag

from varsim.cluster.topology.base import Place, Routing, SlowLink, Topology
from varsim.cluster.topology.full_mesh import FullMesh
from varsim.cluster.topology.hybrid_mesh import HybridMesh
from varsim.cluster.topology.nodes import Nodes
from varsim.cluster.topology.racks import Racks
from varsim.cluster.topology.ring import Ring
from varsim.cluster.topology.star import Star

__all__ = ["TOPOLOGIES", "AnyTopology", "Place", "Routing", "SlowLink", "Star", "Topology"]

TOPOLOGIES: Final[dict[str, type[Topology]]] = {
    "star": Star,
    "ring": Ring,
    "full_mesh": FullMesh,
    "racks": Racks,
    "nodes": Nodes,
    "hybrid_mesh": HybridMesh,
}


def _kind(value: object) -> object:
    """A network without a kind is a star."""
    if isinstance(value, Topology):
        return value.kind
    return value.get("kind", "star") if isinstance(value, dict) else "star"


if TYPE_CHECKING:
    AnyTopology: TypeAlias = Topology
else:
    AnyTopology = Annotated[
        Union[tuple(Annotated[model, Tag(kind)] for kind, model in TOPOLOGIES.items())],  # noqa: UP007
        Discriminator(_kind),
    ]
