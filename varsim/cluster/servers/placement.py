"""Placement of variables on parameter servers, and of these in the network."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.network.batch import Message, Route
from varsim.cluster.network.topology import Place, Routing
from varsim.core.refusal import refused
from varsim.learning.workload import Workload

MOST_PARTS: Final = 100_000


def traffic_per_port(workload: Workload, cluster: Cluster) -> list[list[float]]:
    """For every variable the bytes that a worker reads from, or sends to, each shard."""
    placed = bytes_per_port(workload.tensor_sizes(), cluster)
    return [
        [size * share for size in column]
        for column, share in zip(placed, workload.sent_shares(), strict=True)
    ]


def bytes_per_port(tensors: list[list[int]], cluster: Cluster) -> list[list[float]]:
    """For every variable the bytes on each shard, by the cluster's rule of placement."""
    shards = cluster.parameter_servers
    if cluster.placement == "partitioned":
        return [[sum(sizes) / shards] * shards for sizes in tensors]
    placed = [[0.0] * shards for _ in tensors]
    in_turn = [
        (size, item) for item, sizes in enumerate(_parts(tensors, cluster)) for size in sizes
    ]
    loads = [0.0] * shards
    if cluster.placement == "by_bytes":
        in_turn.sort(key=lambda tensor: -tensor[0])
    for index, (size, item) in enumerate(in_turn):
        shard = index % shards if cluster.placement == "round_robin" else loads.index(min(loads))
        placed[item][shard] += size
        loads[shard] += size
    return placed


def check_parts(workload: Workload, cluster: Cluster) -> None:
    """Raise ValueError where tensors are cut into more parts than can be placed."""
    if cluster.partitioner is not None:
        sizes = chain.from_iterable(workload.tensor_sizes())
        number = sum(map(cluster.partitioner.parts, sizes))
        if number > MOST_PARTS:
            raise refused(
                "cluster.partitioner",
                f": {number:,} parts, but at most {MOST_PARTS:,} can be placed",
            )


def _parts(tensors: list[list[int]], cluster: Cluster) -> list[list[int]]:
    """For every variable the bytes of what is placed: its tensors, or their parts."""
    if cluster.partitioner is None:
        return tensors
    cut = cluster.partitioner.cut
    return [list(chain.from_iterable(map(cut, sizes))) for sizes in tensors]


def server_places(
    routing: Routing, cluster: Cluster, sizes: list[list[float]], *, in_turn: bool = False
) -> list[tuple[Place, list[float]]]:
    """Where the servers are, each with the bytes of every variable there.

    Of a plain star, servers on machines of their own that hold the same bytes of every variable
    carry equal traffic at the same time: they become one, with links of their common bandwidth.
    Under fair sharing only if all of them do: among others, one link would get the share of one.
    Where links serve one message after the other, not if a worker has a message for each of them
    `in_turn`: the first server's is on the links while the others' wait.
    """
    network = cluster.network
    columns = {
        shard: list(column) for shard, column in enumerate(zip(*sizes, strict=True)) if any(column)
    }
    if cluster.servers_on == "workers":
        return [
            (routing.server_beside(f"ps {shard}", shard), column)
            for shard, column in columns.items()
        ]
    different = {tuple(column) for column in columns.values()}
    alike = len(different) == 1 if network.sharing == "fair" else not in_turn
    joined = alike and network.kind == "star" and network.plain
    groups: dict[object, list[int]] = {}
    for shard, column in columns.items():
        groups.setdefault(tuple(column) if joined else shard, []).append(shard)
    places = []
    for shards in groups.values():
        count = len(shards)
        place = routing.server_again(f"ps {_numbers(shards)}", count)
        places.append((place, [size * count for size in columns[shards[0]]]))
    return places


def server_messages(
    route: Callable[[Place, Place], Route],
    place: Place,
    ports: Sequence[tuple[Place, list[float]]],
    trained: Sequence[int],
    ratios: Sequence[float],
) -> tuple[list[Message], list[Message]]:
    """What a worker at a place reads from servers, and pushes to them, variable by variable.

    `trained`: the variables that it pushes a gradient of, which has so many bytes (`ratios`) for
    each of the variable.
    """
    reads, pushes = [], []
    for server, column in ports:
        reads.append(Message(0, route(server, place), sum(column)))
        way = route(place, server)
        pushes += [
            Message(item, way, column[variable] * ratios[variable])
            for item, variable in enumerate(trained)
            if column[variable]
        ]
    pushes.sort(key=lambda message: message.item)
    return reads, pushes


def _numbers(shards: Sequence[int]) -> str:
    """Which they are: `0`, `0..3` or `0, 1, 3`."""
    if len(shards) > 1 and shards[-1] - shards[0] == len(shards) - 1:
        return f"{shards[0]}..{shards[-1]}"
    return ", ".join(map(str, shards))
