"""Mirrored variables whose replicas wait layer by layer: ZeRO, FSDP and HSDP; DeAR."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from varsim.cluster.clock import Activity
from varsim.cluster.copies.mirrored import MirroredReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.record.memory import Memory, replica_memory
from varsim.cluster.workers.allreduce import Bucketing, Layout, Sharding, units
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.layerwise import LayerwiseStep
from varsim.cluster.workers.worker import Worker
from varsim.core.refusal import Refusal, no_effect, refused
from varsim.learning.gradient import Gradient
from varsim.learning.optimizer import Optimizer
from varsim.learning.workload import Workload

# What is in shards, each with all before it: the stages of ZeRO.
LEVELS: Final[tuple[Sharding | None, ...]] = (None, "optimizer", "gradients", "parameters")


class Sharded(NamedTuple):
    """Shards of what else every replica has whole, or a forward pass beside the all-reduce.

    Replicas: (1) compute the forward pass of each layer once its parameters are there, (2) its
    backward pass, after which its gradients are handed over, (3) wait for what comes of it, make
    the update, and gather what the next step needs.
    `sharding` cuts into a shard for each the `optimizer` state, with whose shards each replica
    makes a part of the update, after which the parameters are gathered (ZeRO-1), the `gradients`,
    too, as buckets are reduced (ZeRO-2), or also the `parameters`, gathered bucket by bucket before
    the forward and again before the backward pass, with `overlap` while the bucket before is
    computed (ZeRO-3, FSDP; reshard after forward). Rajbhandari et al., 2020. Buckets of the last
    two are blocks of the model, the units that FSDP is told to wrap, by default (`bucketing:
    blocks`; of ZeRO-2 with `overlap`, else all is one). Gradients of which each keeps a shard are
    scattered, and parameters of which it does gathered, for every micro-batch, as DeepSpeed does
    (stages 2 and 3) and FSDP outside of `no_sync`; else once, after the last one.
    With `shard_group` so many neighbouring ranks share one copy in shards, and groups all-reduce
    the shards of gradients with each other, on a stream of its own (PyTorch: HYBRID_SHARD, HSDP).
    With `overlap: forward` the next forward pass goes on beside the all-reduce, which is in two
    halves: a reduce-scatter of each bucket in the backward pass, and an all-gather of each in the
    order of the next forward pass, where every layer waits for its own (Zhang et al., 2023, DeAR).
    In their first-in-first-out order, all-reduces end with the bucket that the forward pass needs
    first.
    """

    layout: Layout
    bucketing: Bucketing | None

    def replica(
        self, worker: Worker, weights: MirroredReplicas, steps: LayerwiseStep
    ) -> Activity[None]:
        """One replica's training loop."""
        while True:
            gradients: list[Gradient] = []
            for batch in range(self.layout.micro_batches):
                gradients.append((yield from steps.forward(worker, batch, weights.read)))  # (1)
                if len(gradients) == self.layout.micro_batches:
                    weights.offer(worker, gradients)
                yield from steps.backward(worker, batch, gradients[-1])  # (2)
            yield from steps.finish(worker)  # (3)

    def start(self, job: Job) -> None:
        """Start a replica on every worker."""
        weights = MirroredReplicas(job)
        job.observe(lambda: weights.parameters)
        layers = units(job.workload, self.bucketing, job.cluster)
        steps = LayerwiseStep(job, layers, self.layout, weights.apply)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, weights, steps)

    def check(self, cluster: Cluster) -> None:
        """Raise RefusalError where groups of ranks are not equal."""
        workers, own = cluster.workers, self.layout.group
        group = self.layout.shards(cluster)
        if own is not None and group == 1 < workers:
            alone = ", as none shares its host (network: {kind: nodes})"
            raise refused(
                "shard_group",
                f"{own} has no effect: every worker would have a whole copy"
                f"{alone if own == 'node' else ''}",
            )
        if workers % group:
            raise refused("shard_group", f"{own} does not divide {workers} workers evenly")
        self.layout.choice.check_ranks(group)

    def memory(self, cluster: Cluster, workload: Workload, optimizer: Optimizer | None) -> Memory:
        """What a replica keeps on its device; buckets are views of its gradients."""
        stage, whole = LEVELS.index(self.layout.sharding), 0.0
        layers = units(workload, self.bucketing, cluster)
        if stage == 3:
            several = pairwise(layers) if self.layout.overlap else ()
            pairs = [one.parameters + other.parameters for one, other in several]
            whole += max([*pairs, *(unit.parameters for unit in layers)])
        if stage >= 2:
            whole += max(unit.gradients for unit in layers)
        return replica_memory(workload, optimizer, self.layout.shards(cluster), stage, whole)

    @property
    def lighter(self) -> Sequence[Mapping[str, object]]:
        """More of it in shards, of which each worker has one."""
        more = [{"sharding": level} for level in LEVELS[LEVELS.index(self.layout.sharding) + 1 :]]
        return more if self.layout.group is None else [*more, {"shard_group": None}]


OF_SHARDS: Final[Sequence[Refusal]] = (
    no_effect("shard_group", "no sharding", "nothing is in shards"),
    *(
        refusal
        for key in ("sharding", "overlap: forward")
        for refusal in (
            Refusal(
                key,
                "collective: not ring | hierarchical",
                "it consists of reduce-scatters and all-gathers",
                "write ring or hierarchical",
            ),
            Refusal(
                key,
                "drop_compute",
                "others would wait for the buckets of a micro-batch that a worker gives up",
            ),
            no_effect("segment_size", key, "halves of all-reduces are not cut"),
            Refusal(
                key,
                "cluster.overlap_pace",
                "that is said of all-reduces beside the backward pass alone",
            ),
        )
    ),
    Refusal(
        "overlap: forward",
        "sharding: parameters",
        "it is for what is reduced",
        "overlap: true gathers beside both passes",
    ),
    Refusal(
        "sharding", "events", "a worker that dies takes its shard of the optimizer's state with it"
    ),
)
