"""Sharding: what of the model workers have shards of, among whom, and in which units."""

from typing import Literal, NamedTuple, TypeAlias

from pydantic import PositiveInt

from varsim.cluster.collectives.choice import Choice
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.workers.buckets import Bucketing
from varsim.values.workload import Workload

# What of the model is cut into equal shards, one for each worker, and what comes before it, too.
Sharding: TypeAlias = Literal["optimizer", "gradients", "parameters"]
# Whether collectives go on beside the backward pass, or beside the next forward pass, too.
Overlap: TypeAlias = bool | Literal["forward"]
# How many workers share one copy in shards.
ShardGroup: TypeAlias = PositiveInt | Literal["node"]


class Layout(NamedTuple):
    """What is sharded among whom, and by which collectives it is scattered and gathered.

    `group`: so many neighbouring ranks, those of a node or all of them, share one copy in shards.
    Of the shards that they get of a sum, groups all-reduce each with those of the others, around
    rings of the ranks with the same place in their groups (PyTorch's HYBRID_SHARD). `choice`: an
    all-reduce in a group, whose halves scatter and gather.
    """

    sharding: Sharding | None
    overlap: Overlap
    micro_batches: int
    group: ShardGroup | None
    choice: Choice

    def __str__(self) -> str:
        return "overlap forward" if self.sharding is None else f"sharding {self.sharding}"

    def check(self, collective: str, *, drops: bool) -> None:
        """Raise ValueError where settings do not go together; `drops`: micro-batches."""
        if collective not in ("ring", "hierarchical"):
            raise ValueError(
                f"{self} goes with collective ring or hierarchical, of whose reduce-scatters and "
                f"all-gathers it consists, and not with {collective}"
            )
        if drops:
            raise ValueError(
                f"{self} does not go with drop_compute: others would wait for the buckets of a "
                "micro-batch that a worker gives up"
            )
        if self.sharding == "parameters" and self.overlap == "forward":
            raise ValueError(
                "overlap forward is for what is reduced; sharding parameters gathers beside both "
                "passes with overlap: true"
            )

    def check_cluster(self, cluster: Cluster) -> None:
        """Raise ValueError where it does not fit this cluster."""
        workers, group = cluster.workers, self.shards(cluster)
        if group == 1 < workers:
            alone = ", as none shares its host (network: {kind: nodes})"
            raise ValueError(
                f"shard_group {self.group} has no effect: every worker would have a whole copy"
                f"{alone if self.group == 'node' else ''}"
            )
        if workers % group:
            raise ValueError(f"shard_group {self.group} does not divide {workers} workers evenly")
        if cluster.overlap_pace is not None:
            raise ValueError(
                f"{self} does not go with cluster.overlap_pace: that is said of all-reduces beside "
                "the backward pass alone"
            )

    def shards(self, cluster: Cluster) -> int:
        """How many workers share one copy."""
        if self.group == "node":
            return cluster.workers_of_a_host
        return self.group or cluster.workers

    @property
    def scatters_each(self) -> bool:
        """Whether the gradients of every micro-batch are scattered, not those of all, added up.

        Who keeps a shard of them only has no room for the rest (DeepSpeed, ZeRO-2 and 3; PyTorch's
        FSDP outside `no_sync`).
        """
        return self.sharding in ("gradients", "parameters")


class Unit(NamedTuple):
    """Layers whose parameters are gathered, and gradients scattered, at once; sizes in bytes.

    `begins`, `ends`: of its forward and its backward pass, the shares of a compute time.
    """

    parameters: int
    gradients: int
    forward: tuple[float, float]
    backward: tuple[float, float]


def units(workload: Workload, bucketing: Bucketing | None, cluster: Cluster) -> list[Unit]:
    """The units of a workload in forward order; without bucketing the whole model.

    Forward passes are in proportion to backward passes. A unit begins with the layer in which its
    first tensor begins.
    """
    tensors, gradients = workload.tensors(), workload.gradient_tensors()
    if bucketing is None:
        cut = [tuple(range(len(tensors)))]
    else:
        cut = [bucket.tensors for bucket in reversed(bucketing.cut(gradients, workload.blocks()))]
    ready = workload.ready_after(tensors)
    begun = [1.0 - max(ready[tensor] for tensor in group) for group in cut]
    backward = cluster.share_of_backward
    forward = 1.0 - backward
    return [
        Unit(
            sum(tensors[tensor] for tensor in group),
            sum(gradients[tensor] for tensor in group),
            (forward * begin, forward * end),
            (1.0 - backward * end, 1.0 - backward * begin),
        )
        for group, begin, end in zip(cut, begun, [*begun[1:], 1.0], strict=True)
    ]
