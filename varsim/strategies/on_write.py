"""Mirrored variables: every write is all-reduced, every replica applies it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, Literal

from pydantic import Field, PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.choice import OF_ALL_REDUCES, AnyCollective, Choice
from varsim.cluster.copies.mirrored import Accumulation, MirroredReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.device import DropCompute
from varsim.cluster.record.memory import Memory
from varsim.cluster.workers.allreduce import (
    BUCKET_SIZE,
    OF_BUCKETS,
    AllReduce,
    Bucketing,
    Layout,
    Overlap,
    Reducing,
    Rule,
    ShardGroup,
    Sharding,
    ready_buckets,
)
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.core.refusal import Refusal, RefusalError, no_effect, refused
from varsim.core.units import Bytes, format_bytes
from varsim.learning.workload import Workload
from varsim.strategies.base import Strategy
from varsim.strategies.push_pull import OF_PUSH_PULL, PushPull
from varsim.strategies.sharded import OF_SHARDS, Sharded
from varsim.strategies.traits import OF_THE_DEAD, OnDeath, Pair, Round, Sends, Traits


class OnWrite(Strategy):
    """A copy of the model on every worker, kept equal bit for bit.

    Replicas: (1) compute a gradient on their own copy, (2) take part in the all-reduce, which is
    the barrier, (3) apply the mean to their own copy. One that restarts (0) gets the model
    from another; its gradient, if it had offered one, is still in the round.
    (1) is an Accumulation of `micro_batches`, of which `drop_compute` gives some up. (2) is the
    all-reduce of a Choice, `collective`, of the buckets of a Bucketing. With `overlap` each bucket
    begins when its gradients are ready, while the backward pass goes on: (1) and (2) run side by
    side (wait-free back-propagation). Values are the same whatever the buckets. With `collective:
    push_pull` parameter servers add up: PushPull. With `sharding`, or `overlap: forward`, replicas
    are Sharded.
    With `on_death: continue_with_fewer` the others go on without a worker that dies, and divide by
    how many are present. If it dies in (2), all drop their gradients and begin with (1) again
    (torchft). One that restarts (0) waits for the end of a step, and gets the model from
    another one. When nobody is left, all begin from the start.
    TensorFlow: VariableSynchronization.ON_WRITE under MirroredStrategy and
    MultiWorkerMirroredStrategy. Also known as synchronous data parallelism.
    """

    kind: Literal["on_write"] = "on_write"

    def replica(
        self,
        worker: Worker,
        weights: MirroredReplicas,
        batches: Accumulation,
        exchange: AllReduce,
    ) -> Activity[None]:
        """One replica's training loop."""
        if worker.restarts:
            yield from weights.recover(worker)  # (0)
        while True:
            gradients = yield from batches.compute(worker, weights)  # (1)
            present = yield from exchange.finish(worker, gradients)  # (2)
            yield from weights.apply_mean(worker, present)  # (3)

    def start(self, job: Job) -> None:
        traits, drop = self.traits, self.drop_compute
        if traits.by_layers or traits.uses_servers:
            (self._sharded if traits.by_layers else self._push_pull).start(job)
            return
        weights = MirroredReplicas(job, drop=drop, leaves_out=traits.leaves_out_the_dead)
        buckets = ready_buckets(job.workload, self._bucketing)
        exchange = AllReduce(
            job, weights.group, self._choice, buckets, overlap=self.traits.overlaps
        )
        batches = Accumulation(job, exchange, self._micro_batches, drop)
        job.observe(lambda: weights.parameters)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, weights, batches, exchange)

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

    @property
    def traits(self) -> Traits:
        sends = Sends("gradients", to="sums" if self.collective == "push_pull" else "workers")
        varies = self.drop_compute is not None
        step = Round("step", micro_batches=self._micro_batches, varies=varies)
        return Traits(sends, step, self.overlap, self.sharding, self.on_death)

    @property
    def _micro_batches(self) -> int:
        """How many gradients a worker adds up before it sends."""
        return self.micro_batches or 1

    @property
    def _choice(self) -> Choice:
        """The algorithm where replicas send to each other."""
        name = "ring" if self.traits.uses_servers else self.collective
        return Choice(name, self.ranks_per_group, self.segment_size)

    @property
    def _bucketing(self) -> Bucketing | None:
        """How gradients are cut; None: not at all."""
        given = (self.bucketing, self.bucket_size, self.first_bucket_size)
        if any(given):
            return Bucketing.of(*given)
        if self.sharding in ("gradients", "parameters"):
            return Bucketing("blocks") if self.traits.looks_at_layers else None
        return Bucketing() if self.overlap else None

    @property
    def _push_pull(self) -> PushPull:
        """What replicas do where servers add gradients up."""
        return PushPull(self.traits.overlaps, self._micro_batches, self.drop_compute)

    @property
    def _sharded(self) -> Sharded:
        """What replicas wait for layer by layer."""
        layout = Layout(
            self.sharding, self.overlap, self._micro_batches, self.shard_group, self._choice
        )
        return Sharded(layout, self._bucketing)

    conflicts: ClassVar[Sequence[Refusal]] = (
        *OF_ALL_REDUCES,
        *OF_BUCKETS,
        *OF_PUSH_PULL,
        *OF_THE_DEAD,
        *(
            Refusal(
                key, "on_death", "what is already reduced of a gradient could not be taken back"
            )
            for key in ("bucketing", "bucket_size", "first_bucket_size")
        ),
        Refusal("ranks_per_group", "on_death", "groups are not equal without a dead worker"),
        no_effect(
            "drop_compute",
            "micro_batches: 1",
            "a worker looks at the clock before the second",
            "give micro_batches",
        ),
        *OF_SHARDS,
        Refusal(
            "overlap",
            "events",
            "what is already reduced of a gradient whose worker dies in its backward pass could "
            "not be taken back",
        ),
    )
    left_out: ClassVar[Mapping[str, object]] = {"micro_batches": 1}

    def refusals(self) -> Iterator[RefusalError]:
        first, limit = self.first_bucket_size, self.bucket_size or BUCKET_SIZE
        if first is not None and first > limit:
            says = f"must be at most bucket_size, {format_bytes(limit)}"
            yield refused("first_bucket_size", says)

    def check(self, cluster: Cluster) -> None:
        """Groups of ranks must be equal, and what is said of all-reduces about all-reduces."""
        super().check(cluster)
        self._sharded.check(cluster)

    def check_workload(self, workload: Workload) -> None:
        """There may be too many segments, or nothing that is ready before the rest."""
        self._choice.check_size(workload.gradient_size())
        super().check_workload(workload)

    @property
    def lighter(self) -> Sequence[Mapping[str, object]]:
        return self._sharded.lighter

    def memory(self, cluster: Cluster, workload: Workload) -> Memory:
        return self._sharded.memory(cluster, workload, self.optimizer or workload.optimizer)

    def check_life(self, cluster: Cluster, policy: str, fewest: int) -> None:
        """An update that is made in the next forward pass has no end of its own."""
        super().check_life(cluster, policy, fewest)
        lazy = self.overlap == "forward" and self.sharding is None
        if lazy and cluster.optimizer_time is not None:
            raise refused(
                "overlap",
                "forward does not go with failures.horizon and cluster.optimizer_time: layers are "
                "then updated in the next forward pass, so that there is no moment for a "
                "checkpoint between two steps (write overlap: true, or leave optimizer_time out)",
            )

    def rules(self, cluster: Cluster) -> Reducing | None:
        if not self.says_only(_COVERED) or self.traits.by_layers or self.traits.uses_servers:
            return None
        return Reducing(self._choice, self._bucketing, self._micro_batches, self.traits.overlaps)

    @property
    def known_name(self) -> str:
        if self.sharding is not None:
            hybrid = self.sharding == "parameters" and self.shard_group is not None
            return "HSDP" if hybrid else _SHARDED[self.sharding]
        if self.collective == "push_pull":
            return "push-pull (BytePS)"
        return "all-reduce (DDP)" if self.overlap is True else super().known_name

    called: ClassVar[str] = "all-reduce"
    made_of: ClassVar[Sequence[type]] = (Accumulation, Choice, Bucketing, PushPull, Sharded)
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


# What is sharded, and whose that is.
_SHARDED: Final = {"optimizer": "ZeRO-1", "gradients": "ZeRO-2", "parameters": "FSDP"}
# Settings that the engine for times alone knows.
_COVERED: Final = {
    *("kind", "name", "on", "optimizer", "collective", "ranks_per_group", "segment_size"),
    *("overlap", "bucketing", "bucket_size", "first_bucket_size", "micro_batches"),
}
