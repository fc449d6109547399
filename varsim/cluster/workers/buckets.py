"""Buckets and shards: which parts of a model travel together, and who holds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import PositiveInt

from varsim.cluster.collectives.choice import Choice
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.rules import Rules
from varsim.core.refusal import Refusal, no_effect
from varsim.distribute.cross_device_ops import group_by_size
from varsim.learning.workload import Workload

Rule: TypeAlias = Literal["ddp", "bytes_per_pack", "layers", "blocks"]

# PyTorch's bucket_cap_mb and torch.distributed._DEFAULT_FIRST_BUCKET_BYTES.
BUCKET_SIZE: Final = 25 * 2**20
FIRST_BUCKET_SIZE: Final = 2**20


class Bucket(NamedTuple):
    """Gradients that travel together: the numbers of their tensors, and their bytes."""

    tensors: tuple[int, ...]
    size: int


class Bucketing(NamedTuple):
    """How gradients are cut into buckets; sizes in bytes.

    `ddp`: PyTorch's DistributedDataParallel: a bucket is closed once its bytes reach the limit,
    the first one at a limit of its own. `bytes_per_pack`: TensorFlow's: a new one begins when the
    current one holds more than the limit. `layers`: every tensor by itself. `blocks`: the tensors
    of each block of the model, such as a transformer layer, together: the units that PyTorch's
    FullyShardedDataParallel is told to wrap (transformer_auto_wrap_policy).
    Either way in the order in which a backward pass makes them: the last tensor first.
    """

    rule: Rule = "ddp"
    size: float = BUCKET_SIZE
    first: float = FIRST_BUCKET_SIZE

    @classmethod
    def of(cls, rule: Rule | None, size: float | None, first: float | None) -> Self:
        """Buckets by what is said of them, and PyTorch's sizes where nothing is."""
        limit = size or BUCKET_SIZE
        return cls(rule or "ddp", limit, first or min(FIRST_BUCKET_SIZE, limit))

    def cut(self, tensors: Sequence[int], blocks: Sequence[int] = ()) -> list[Bucket]:
        """The buckets of tensors of these sizes (bytes, in forward order), first to last.

        `blocks`: how many of them make up each block.
        """
        backwards = list(reversed(tensors))
        if self.rule == "layers":
            groups = [[index] for index in range(len(backwards))]
        elif self.rule == "blocks":
            index = iter(range(len(backwards)))
            groups = [list(islice(index, number)) for number in reversed(blocks)]
        elif self.rule == "bytes_per_pack":
            groups = group_by_size(backwards, int(self.size))
        else:
            groups = ddp_groups(backwards, self.size, self.first)
        last = len(tensors) - 1
        return [
            Bucket(tuple([last - index for index in group]), sum(backwards[i] for i in group))
            for group in groups
        ]


def ddp_groups(sizes: Sequence[int], limit: float, first: float) -> list[list[int]]:
    """Indices of gradients of these sizes (bytes), cut as PyTorch cuts them.

    A bucket is closed once its bytes reach `limit`, the first one once they reach `first`
    (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size).
    """
    groups: list[list[int]] = [[]]
    held = 0
    for index, size in enumerate(sizes):
        groups[-1].append(index)
        held += size
        if held >= (first if len(groups) == 1 else limit):
            groups.append([])
            held = 0
    return [group for group in groups if group]


@dataclass(frozen=True)
class Reducing(Rules):
    """Gradients of so many micro-batches are added up, and all-reduced among all workers.

    `bucketing`: how they are cut; None: not at all. `overlap`: parts are reduced in the backward
    pass, as they are ready.
    """

    choice: Choice
    bucketing: Bucketing | None = None
    micro_batches: int = 1
    overlap: bool = False


class ReadyBucket(NamedTuple):
    """A bucket's bytes, and the share of the backward pass after which all of it is there."""

    size: int
    ready: float


def ready_buckets(
    workload: Workload, bucketing: Bucketing | None, number_bytes: float | None = None
) -> list[ReadyBucket]:
    """The buckets of a workload's gradients, in the order in which they are ready; None: one.

    `number_bytes`: of one number in them, by default that of a gradient.
    """
    tensors = workload.gradient_tensors(number_bytes)
    if bucketing is None:
        return [ReadyBucket(sum(tensors), 1.0)]
    ready = workload.ready_after(workload.tensors())
    return [
        ReadyBucket(bucket.size, max(ready[index] for index in bucket.tensors))
        for bucket in bucketing.cut(tensors, workload.blocks())
    ]


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


# What a strategy cannot say of its buckets.
OF_BUCKETS: Final[Sequence[Refusal]] = (
    no_effect("bucket_size", "bucketing: layers", "it has a bucket for each tensor"),
    no_effect("bucket_size", "bucketing: blocks", "it has a bucket for each block of the model"),
    Refusal(
        "bucketing: bytes_per_pack", "no bucket_size", write="for example 32 MiB", says="needs"
    ),
    no_effect(
        "first_bucket_size",
        "bucketing: layers | blocks | bytes_per_pack",
        "it has no limit for the first bucket alone",
    ),
)
