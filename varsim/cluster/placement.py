"""How variables lie on the parameter servers."""

from varsim.cluster.description import Cluster
from varsim.values.workload import Workload


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
    in_turn = [(size, item) for item, sizes in enumerate(tensors) for size in sizes]
    loads = [0.0] * shards
    if cluster.placement == "by_bytes":
        in_turn.sort(key=lambda tensor: -tensor[0])
    for index, (size, item) in enumerate(in_turn):
        shard = index % shards if cluster.placement == "round_robin" else loads.index(min(loads))
        placed[item][shard] += size
        loads[shard] += size
    return placed
