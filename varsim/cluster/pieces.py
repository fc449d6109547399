"""What is pushed to servers and pulled from them again: tensors' parts, in backward order."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from varsim.cluster.description import Cluster
from varsim.cluster.placement import bytes_per_port, server_places
from varsim.cluster.topology import Place, Routing
from varsim.values.workload import Workload


class Piece(NamedTuple):
    """A part of one tensor's gradient on one server: a message of its own each way.

    `server`: the number of its place; `size` in bytes; `ready`: the share of the backward pass
    after which it is there.
    """

    server: int
    size: float
    ready: float


class Layout(NamedTuple):
    """Where the servers are, how many each place stands for, and what there is, in that order.

    A backward pass makes the last tensor first, and the parts of one at once.
    """

    places: list[Place]
    counts: list[int]
    pieces: list[Piece]


def laid_out(routing: Routing, cluster: Cluster, workload: Workload) -> Layout:
    """The gradients of a workload on the servers of a cluster, whose workers have their places."""
    tensors = workload.gradient_tensors()
    parts = [(index, part) for index, size in enumerate(tensors) for part in _cut(cluster, size)]
    whole = cluster.model_copy(update={"partitioner": None})
    placed = bytes_per_port([[size] for _, size in parts], whole)
    shards = [column for column in zip(*placed, strict=True) if any(column)]
    found = server_places(routing, cluster, placed, in_turn=True)
    counts = [1] * len(found) if len(found) == len(shards) else list(Counter(shards).values())
    ready = workload.ready_after(workload.tensors())
    pieces = [
        Piece(server, column[part], ready[parts[part][0]])
        for part in _backwards(parts, ready)
        for server, (_, column) in enumerate(found)
        if column[part]
    ]
    return Layout([place for place, _ in found], counts, pieces)


def _cut(cluster: Cluster, size: int) -> list[int]:
    """The bytes of the parts of a tensor, before they are placed."""
    return [size] if cluster.partitioner is None else cluster.partitioner.cut(size)


def _backwards(parts: Sequence[tuple[int, int]], ready: Sequence[float]) -> list[int]:
    """The numbers of parts, (tensor, bytes), in the order in which they are pushed."""
    return sorted(range(len(parts)), key=lambda part: (ready[parts[part][0]], -parts[part][0]))
