"""Mirrored variables: every write is all-reduced, every replica applies it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, Literal

from pydantic import Field, PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import AnyCollective, Choice
from varsim.cluster.collectives.group import PresentAllReduce, PresentReplicas
from varsim.cluster.copies.replicas import MirroredReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.device import DropCompute
from varsim.cluster.description.recovery import RandomFailures, Recovery
from varsim.cluster.record.memory import Memory, replica_memory
from varsim.cluster.workers import buckets
from varsim.cluster.workers.allreduce import AllReduce
from varsim.cluster.workers.buckets import (
    Bucketing,
    Layout,
    Overlap,
    Reducing,
    Rule,
    ShardGroup,
    Sharding,
    ready_buckets,
    units,
)
from varsim.cluster.workers.exchange import Accumulation, GradientExchange
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.layerwise import LayerwiseStep
from varsim.cluster.workers.push_pull import PushPull
from varsim.cluster.workers.worker import Worker
from varsim.core.units import Bytes
from varsim.learning.gradient import Gradient
from varsim.learning.workload import Workload
from varsim.strategies.base import Deaths, Pair, Strategy, cause
from varsim.strategies.traits import OnDeath, Round, Sends, Traits

_NOT_OF_PUSH_PULL: Final = (
    "ranks_per_group",
    "segment_size",
    "bucketing",
    "bucket_size",
    "first_bucket_size",
)
# Settings that the engine for times alone knows.
_COVERED: Final = {
    *("kind", "name", "on", "optimizer", "collective", "ranks_per_group", "segment_size"),
    *("overlap", "bucketing", "bucket_size", "first_bucket_size", "micro_batches"),
}


class OnWrite(Strategy):
    """A copy of the model on every worker, kept equal bit for bit.

    Replicas: (1) compute a gradient on their own copy, (2) take part in the all-reduce, which is
    the barrier, (3) apply the mean to their own copy. One that restarts (0) gets the model
    from another; its gradient, if it had offered one, is still in the round.
    `collective`: the algorithm of the all-reduce. Hierarchical ones go by groups of
    `ranks_per_group` neighbouring ranks, the double binary tree by segments of `segment_size`
    (default: 512 KiB, or what makes 2,000 segments of either half). With it `hierarchical` is a
    pipeline, too: what is inside groups and what is between them goes on side by side. Whatever it
    is, the gradients are added in the order of the ranks.
    With buckets, gradients are reduced bucket by bucket, one after the other, last layers first:
    `bucketing: ddp` closes one once it holds `bucket_size` (default 25 MiB, the first one
    `first_bucket_size`, 1 MiB) or more, `bytes_per_pack` once it holds more than `bucket_size`,
    `layers` closes it after every tensor. With `overlap` each begins when its gradients are ready,
    while the backward pass goes on: (1) and (2) run side by side (wait-free back-propagation).
    Values are the same whatever the buckets.
    With `collective: push_pull` the cluster's parameter servers add the gradients up (PushPull).
    Each part of a tensor, as `placement` and `partitioner` make them, is a message of its own, and
    its sum goes back to all replicas at once. Buckets, and `events`, do not go with it.
    With `micro_batches` (gradient accumulation) (1) is that many of them, one after the other, at
    the same parameters, each of `batch_size` examples and with a compute time of its own; their
    mean is all-reduced once. Only the last one's backward pass overlaps (DDP's no_sync).
    `drop_compute` lets a worker give up the rest of them (DropCompute).
    With `overlap: forward` the next forward pass goes on beside (2), too, which is in two halves: a
    reduce-scatter of each bucket in the backward pass, and an all-gather of each in the order of
    the next forward pass, where every layer waits for its own (Zhang et al., 2023, DeAR). In their
    first-in-first-out order, all-reduces end with the bucket that the forward pass needs first.
    `sharding` cuts what else every replica has into a shard for each: the `optimizer` state, with
    whose shards each replica makes a part of (3), after which the parameters are gathered (ZeRO-1),
    the `gradients`, too, as buckets are reduced (ZeRO-2), or also the `parameters`, gathered bucket
    by bucket before the forward and again before the backward pass, with `overlap` while the bucket
    before is computed (ZeRO-3, FSDP; reshard after forward). Rajbhandari et al., 2020. Buckets of
    the last two are blocks of the model, the units that FSDP is told to wrap, by default
    (`bucketing: blocks`). Gradients of which each keeps a shard are scattered, and parameters of
    which it does gathered, for every micro-batch, as DeepSpeed does (stages 2 and 3) and FSDP
    outside of `no_sync`; else once, after the last one.
    With `shard_group` so many neighbouring ranks share one copy in shards, and groups all-reduce
    the shards of gradients with each other, on a stream of its own (PyTorch: HYBRID_SHARD, HSDP).
    With `on_death: continue_with_fewer` the others go on without a worker that dies, and divide by
    how many are present. If it dies in (2), all drop their gradients and begin with (1) again
    (torchft). One that restarts (0) waits for the end of a step, and gets the model from
    another one. When nobody is left, all begin from the start.
    TensorFlow: VariableSynchronization.ON_WRITE under MirroredStrategy and
    MultiWorkerMirroredStrategy. Also known as synchronous data parallelism.
    """

    kind: Literal["on_write"] = "on_write"
    collective: AnyCollective = "ring"
    """Algorithm of the all-reduce: `varsim list collectives`."""
    ranks_per_group: PositiveInt | None = None
    """Workers in a group of a hierarchical collective."""
    segment_size: Bytes | None = Field(None, gt=0)
    """Size of the segments of `double_binary_tree`, or `hierarchical` (default: in one)."""
    overlap: Overlap = False
    """Gradients are all-reduced during the backward pass; `forward`: and during the next forward
    pass."""
    sharding: Sharding | None = None
    """What each worker keeps only a shard of: ZeRO-1, ZeRO-2, ZeRO-3 (FSDP)."""
    shard_group: ShardGroup | None = None
    """Workers that share one copy in shards, all of a `node` or so many; by default all there are.
    """
    bucketing: Rule | None = None
    """How gradients are gathered into buckets: PyTorch's rule, TensorFlow's, each layer by itself,
    or each block of the model, such as a transformer layer."""
    bucket_size: Bytes | None = Field(None, ge=1)
    """Bytes of a bucket."""
    first_bucket_size: Bytes | None = Field(None, ge=1)
    """Bytes of the first bucket (`ddp`)."""
    micro_batches: PositiveInt | None = None
    """Micro-batches of a step (gradient accumulation)."""
    drop_compute: DropCompute | None = None
    """When a worker gives up the rest of its micro-batches."""
    on_death: OnDeath | None = None
    """What others do when a worker dies (`events`): by default they wait until it is back."""

    def replica(
        self,
        worker: Worker,
        weights: MirroredReplicas,
        batches: Accumulation,
        exchange: GradientExchange[Sequence[Gradient]],
    ) -> Activity[None]:
        """One replica's training loop."""
        if worker.restarts:
            yield from self.rejoin(worker, weights, exchange)  # (0)
        while True:
            gradients = yield from batches.compute(worker, weights.read(worker))  # (1)
            weights.offer(worker, gradients)
            yield from exchange.finish(worker, gradients)  # (2)
            if weights.has_mean(worker):
                yield from worker.update_copy()
                weights.apply(worker)  # (3)

    def rejoin(
        self,
        worker: Worker,
        weights: MirroredReplicas,
        exchange: GradientExchange[Sequence[Gradient]],
    ) -> Activity[None]:
        """A replica that restarts gets the model, and ends the step that its gradient is in."""
        offered = yield from weights.recover(worker)
        if offered is not None:
            yield from exchange.finish(worker, offered)  # (2)
            if weights.has_mean(worker):
                yield from worker.update_copy()
                weights.apply(worker)  # (3)

    def layerwise_replica(
        self, worker: Worker, weights: MirroredReplicas, steps: LayerwiseStep
    ) -> Activity[None]:
        """One replica's training loop, if layers wait for collectives of their own."""
        while True:
            gradients: list[Gradient] = []
            for micro_batch in range(self._micro_batches):
                gradients.append(
                    (yield from steps.forward(worker, micro_batch, weights.read))
                )  # (1)
                if len(gradients) == self._micro_batches:
                    weights.offer(worker, gradients)
                yield from steps.backward(worker, micro_batch, gradients[-1])  # (1) (2)
            yield from steps.finish(worker)  # (2) (3)

    def start(self, job: Job) -> None:
        drop = self.drop_compute
        of_all = drop is not None and drop.divide_by == "all"
        weights: MirroredReplicas
        exchange: GradientExchange[Sequence[Gradient]]
        if self.leaves_out_the_dead:
            weights = present = PresentReplicas(job, self._choice, of_all=of_all)
        else:
            weights = MirroredReplicas(job, of_all=of_all)
        job.observe(lambda: weights.parameters)
        if self.by_layers:
            layers = units(job.workload, self._bucketing, job.cluster)
            steps = LayerwiseStep(job, layers, self._layout, weights.apply)
            for worker in job.workers:
                job.start_on(worker, self.layerwise_replica, worker, weights, steps)
            return
        if self.leaves_out_the_dead:
            exchange = PresentAllReduce(job, present)
        elif self.uses_servers:
            exchange = PushPull(job, overlap=self.overlaps)
        else:
            cut = ready_buckets(job.workload, self._bucketing)
            exchange = AllReduce(job, self._choice, cut, overlap=self.overlaps)
        batches = Accumulation(job, exchange, self._micro_batches, drop)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, weights, batches, exchange)

    def refusals(self) -> Iterator[str]:
        for key in _NOT_OF_PUSH_PULL if self.uses_servers else ():
            if getattr(self, key) is not None:
                yield (
                    f"{key} has no effect: collective push_pull sends tensors, or the parts that "
                    "cluster.placement and cluster.partitioner make of them"
                )

        self._choice.check_settings()

        why = {
            "bucketing": "what is already reduced of a gradient could not be taken back",
            "ranks_per_group": "groups are not equal without a dead worker",
        }
        for key in why if self.leaves_out_the_dead else ():
            if getattr(self, key) is not None:
                yield f"{key} does not go with on_death: {why[key]}"

        buckets.check_settings(self.bucketing, self.bucket_size, self.first_bucket_size)

        drop = self.drop_compute
        if drop is not None and self._micro_batches == 1:
            yield (
                "drop_compute has no effect with one micro-batch: a worker looks at the clock "
                "before the second (give micro_batches)"
            )

        if self.shard_group is not None and self.sharding is None:
            yield "shard_group has no effect without sharding: nothing is in shards"
        if self.by_layers:
            self._layout.check(self.collective, drops=self.drop_compute is not None)
            if self.segment_size is not None:
                yield "segment_size has no effect: halves of all-reduces are not cut"

    @property
    def traits(self) -> Traits:
        """See Strategy; what servers need for a sum says `server_update`."""
        sends = Sends("gradients", to="sums" if self.collective == "push_pull" else "workers")
        varies = self.drop_compute is not None
        step = Round("step", micro_batches=self._micro_batches, varies=varies)
        return Traits(sends, step, self.overlap, self.sharding, self.on_death)

    @property
    def _bucketing(self) -> Bucketing | None:
        """How gradients are cut; None: not at all."""
        given = (self.bucketing, self.bucket_size, self.first_bucket_size)
        nothing_said = all(value is None for value in given)
        if nothing_said and self.sharding in ("gradients", "parameters"):
            return Bucketing("blocks") if self.looks_at_layers else None
        if nothing_said and not self.overlap:
            return None
        return buckets.with_defaults(*given)

    @property
    def _micro_batches(self) -> int:
        """How many gradients a worker adds up before it sends."""
        return self.micro_batches or 1

    @property
    def _layout(self) -> Layout:
        """What replicas wait for layer by layer."""
        return Layout(
            self.sharding, self.overlap, self._micro_batches, self.shard_group, self._choice
        )

    @property
    def _choice(self) -> Choice:
        """The algorithm where replicas send to each other."""
        name = "ring" if self.collective == "push_pull" else self.collective
        return Choice(name, self.ranks_per_group, self.segment_size)

    def check(self, cluster: Cluster) -> None:
        """Groups of ranks must be equal, and what is said of all-reduces about all-reduces."""
        if self.by_layers:
            self._layout.check_cluster(cluster)
        self._choice.check_ranks(self._layout.shards(cluster))

    def check_workload(self, workload: Workload) -> None:
        """There may be too many segments, or nothing that is ready before the rest."""
        self._choice.check_size(workload.gradient_size())
        super().check_workload(workload)

    @property
    def lighter(self) -> Sequence[Mapping[str, object]]:
        """More of it in shards, of which each worker has one."""
        levels = (None, "optimizer", "gradients", "parameters")
        more = [{"sharding": level} for level in levels[levels.index(self.sharding) + 1 :]]
        return more if self.shard_group is None else [*more, {"shard_group": None}]

    def memory(self, cluster: Cluster, workload: Workload) -> Memory:
        """What a replica keeps on its device; buckets are views of its gradients."""
        return replica_memory(
            workload,
            self.optimizer or workload.optimizer,
            self._layout.shards(cluster),
            self.sharding,
            units(workload, self._bucketing, cluster),
            prefetch=bool(self.overlap),
        )

    def dies_with_workers(self, cluster: Cluster) -> str:
        """See Strategy; layers that are updated one by one are of two versions in between."""
        if self.overlap == "forward":
            return (
                "those who are left may have some layers of the model before an update, others "
                "after it"
            )
        return super().dies_with_workers(cluster)

    def check_life(
        self, failures: RandomFailures | None, recovery: Recovery | None, cluster: Cluster
    ) -> None:
        """See Strategy; an update that is made in the next forward pass has no end of its own."""
        super().check_life(failures, recovery, cluster)
        lived = failures is not None and failures.horizon is not None
        lazy = self.overlap == "forward" and self.sharding is None
        if lived and lazy and cluster.optimizer_time is not None:
            raise ValueError(
                "overlap forward does not go with failures.horizon and cluster.optimizer_time: "
                "layers are then updated in the next forward pass, so that there is no moment for "
                "a checkpoint between two steps (write overlap: true, or leave optimizer_time out)"
            )

    def check_events(self, events: Sequence[Deaths]) -> None:
        """A gradient of which some is reduced and some not yet computed cannot be taken up again.

        What others have added of it would have to be taken out.
        """
        super().check_events(events)
        if self.sharding is not None and events:
            raise ValueError(
                f"sharding does not go with {cause(events)}: a worker that dies takes its "
                "shard of the optimizer's state with it"
            )
        if self.uses_servers and events:
            raise ValueError(
                f"collective push_pull does not go with {cause(events)}: what servers have "
                "added up of a gradient whose worker dies could not be taken back"
            )
        if self.overlap and events:
            raise ValueError(
                f"overlap does not go with {cause(events)}: what is already reduced of a "
                "gradient whose worker dies in its backward pass could not be taken back"
            )

    def rules(self, cluster: Cluster) -> Reducing | None:
        """See Strategy; whatever else may be said of it than this is not covered."""
        if not self.says_only(_COVERED) or self.by_layers or self.uses_servers:
            return None
        return Reducing(self._choice, self._bucketing, self._micro_batches, self.overlaps)

    called: ClassVar[str] = "all-reduce"
    about: ClassVar[str] = "mirrored variables, all-reduced at every write"
    later: ClassVar[tuple[str, ...]] = ("on_death",)
    also_known_as: ClassVar[tuple[str, ...]] = (
        "mirrored",
        "mirrored_strategy",
        "mirroredstrategy",
        "all_reduce",
        "allreduce",
        "bsp",
        "data_parallel",
        "horovod",
        "multi_worker_mirrored",
        "synchronous",
    )
    known_with: ClassVar[Mapping[str, str]] = {
        "ddp": "overlap: true",
        "fsdp": "sharding: parameters",
        "fully_sharded": "sharding: parameters",
        "hsdp": "sharding: parameters, shard_group: node",
        "hybrid_shard": "sharding: parameters, shard_group: node",
        "zero": "sharding: parameters",
        "zero_1": "sharding: optimizer",
        "zero_2": "sharding: gradients",
        "zero_3": "sharding: parameters",
        "zero1": "sharding: optimizer",
        "zero2": "sharding: gradients",
        "zero3": "sharding: parameters",
    }
    others: ClassVar[Mapping[str, object]] = {
        "overlap": True,
        "micro_batches": 2,
        "drop_compute": Pair(
            {"micro_batches": 3, "drop_compute": DropCompute(threshold=0.15)}, {"micro_batches": 3}
        ),
        "sharding": "parameters",
        "shard_group": Pair(
            {"sharding": "parameters", "shard_group": 2}, {"sharding": "parameters"}
        ),
        "collective": "halving_doubling",
        "ranks_per_group": Pair(
            {"collective": "hierarchical", "ranks_per_group": 2},
            {"collective": "hierarchical", "ranks_per_group": 4},
        ),
        "segment_size": Pair(
            {"collective": "double_binary_tree", "segment_size": 100.0},
            {"collective": "double_binary_tree", "segment_size": 200.0},
        ),
        "bucketing": Pair(
            {"bucketing": "layers", "overlap": True}, {"bucketing": "ddp", "overlap": True}
        ),
        "bucket_size": Pair({"bucket_size": 10.0}, {"bucket_size": 2e3}),
        "first_bucket_size": Pair(
            {"bucket_size": 2e3, "first_bucket_size": 10.0}, {"bucket_size": 2e3}
        ),
        "on_death": "continue_with_fewer",
    }
