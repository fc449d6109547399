"""All-reduces of gradients: how they are cut into buckets, which are reduced one after the other.

After the backward pass, or beside it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import PositiveInt
from simpy.events import Event

from varsim.cluster.clock import END_OF_TIME, Activity, Killed, Process
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector
from varsim.cluster.collectives.group import Group
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast import Rules
from varsim.cluster.record.trace import Span
from varsim.cluster.workers.exchange import GradientExchange
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Slowed, Worker
from varsim.core.refusal import Refusal, no_effect
from varsim.distribute.cross_device_ops import group_by_size
from varsim.learning.gradient import Gradient
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


# What taking part in a collective comes to.
T = TypeVar("T")


class AllReduce(GradientExchange[Sequence[Gradient]]):
    """All-reduces of one step after the other, each of one or several buckets, one by one.

    A worker begins with a bucket when it has it and is done with the one before; the bucket moves
    as its collective says. What is reduced stays reduced: one that dies between two buckets, and
    comes back, goes on where it was.
    With `overlap` each bucket is reduced once it is ready, while the gradients are computed (Li et
    al., 2020, PyTorch Distributed). On every worker a stream of its own takes part in the
    collectives, in the order of the buckets. The worker waits for it when it has computed, and only
    that is its time to wait or to write: what it does not see of communication is hidden behind
    computation. With the cluster's `overlap_pace`, buckets move at that share of their pace until
    all workers have computed: a ring goes at the pace of its slowest rank.
    """

    def __init__(
        self,
        job: Job,
        group: Group,
        choice: Choice,
        buckets: Sequence[ReadyBucket],
        *,
        overlap: bool,
    ) -> None:
        super().__init__(job, [bucket.ready for bucket in buckets] if overlap else ())
        share = job.cluster.overlap_pace
        self._streams = [Stream(job, worker) for worker in job.workers] if overlap else []
        # When the last of those that compute will have computed (ns), by step; each's own steps.
        self._until: list[int] = []
        self._steps = [0] * len(job.workers)
        self._number = len(buckets)
        # The commonest reduction takes a shorter way: nobody dies between it and the update.
        self._plain = self._number == 1 and not overlap and not job.cluster.optimizer_time
        self._latest: list[Sequence[Gradient] | None] = [None] * len(job.workers)
        self._reduced = [0] * len(job.workers)  # buckets of the latest gradient, by rank
        self._group = group
        group.meet_for(
            partial(vectors_of, choice, job.cluster, job.workload, buckets),
            self._streams,
            partial(self._slowed, share) if overlap and share is not None else None,
        )

    def finish(
        self, worker: Worker, gradient: Sequence[Gradient]
    ) -> Activity[Sequence[int] | None]:
        """Reduce all buckets; returns when this worker has the whole mean."""
        if self._plain:
            return self._group.meet(worker)
        if self._streams:
            return self._finish_stream(worker)
        return self._reduce_rest(worker, gradient)

    def _reduce_rest(
        self, worker: Worker, gradient: Sequence[Gradient]
    ) -> Activity[Sequence[int] | None]:
        """Reduce the buckets of a gradient that are not yet reduced."""
        rank, present = worker.rank, None
        if self._latest[rank] is not gradient:
            self._latest[rank], self._reduced[rank] = gradient, 0
        while self._reduced[rank] < self._number:
            present = yield from self._group.meet(worker)
            self._reduced[rank] += 1
        return present

    def _finish_stream(self, worker: Worker) -> Activity[None]:
        stream = self._streams[worker.rank]
        step = self._steps[worker.rank]
        self._steps[worker.rank] += 1
        if step == len(self._until):
            self._until.append(0)
        self._until[step] = max(self._until[step], worker.since)
        stream.begins(worker.since)
        self._job.spawn(self._reduce(stream, self._moments[worker.rank]))
        yield from worker.finish_computing()
        yield from stream.end()

    def _reduce(self, stream: "Stream", moments: Sequence[int]) -> Activity[None]:
        """All buckets of one gradient, which are ready at these moments (ns)."""
        for moment in moments:
            yield from self._clock.sleep_until(moment)
            yield from self._group.meet(stream)
        stream.done.succeed()

    def _slowed(self, share: float, reduction: int) -> Slowed:
        """The pace of the so many-th reduction, a bucket of a step."""
        step = reduction // self._number
        return Slowed(self._until[step] if step < len(self._until) else 0, share)


def vectors_of(
    choice: Choice,
    cluster: Cluster,
    workload: Workload,
    buckets: Sequence[ReadyBucket],
    ranks: Sequence[int],
) -> list[Vector]:
    """What these workers all-reduce for each bucket."""
    number_bytes = workload.gradient_bytes
    return [
        Vector(
            choice.schedule_on(cluster.network, ranks, size),
            size,
            number_bytes=number_bytes,
        )
        for size, _ in buckets
    ]


class BackgroundCollectives(Generic[T]):
    """Collectives that workers hand over, compute on, and come back for: one after the other.

    A stream per worker takes part in them, as a communicator does, in the order in which they are
    handed over; `take_part` has one take part in the next. Only what is left when a worker comes
    back is its time to wait, to read or to write. `done(rank, number)` is called as a worker has
    the result of one; they are counted from 1.
    """

    def __init__(
        self,
        job: Job,
        streams: Sequence["Stream"],
        take_part: Callable[["Stream"], Activity[T]],
        done: Callable[[int, int], None] = lambda rank, number: None,
    ) -> None:
        ranks = len(job.workers)
        self._job, self._streams, self._take_part = job, streams, take_part
        # When the vectors of those not yet begun are ready (ns).
        self._moments: list[deque[int]] = [deque() for _ in job.workers]
        self._busy: list[Process | None] = [None] * ranks
        self.done = [0] * ranks  # how many, by worker
        self._results: list[T | None] = [None] * ranks  # of the latest
        self._awaited: list[int | None] = [None] * ranks  # how many are to be done, who waits
        self._told = done
        job.processes.on_deaths(self._died)

    def begin(self, worker: Worker, moments: Sequence[int] = (0,)) -> None:
        """Hand over the next ones; takes the worker no time.

        `moments`: when its part of each is ready (ns); by default it is, of one.
        """
        rank = worker.rank
        self._moments[rank] += moments
        if self._busy[rank] is None:
            self._busy[rank] = self._job.clock.process(self._carry_out(self._streams[rank]))

    def finish(self, worker: Worker, number: int) -> Activity[T | None]:
        """Wait until so many are done; what taking part in the latest of all has come to."""
        rank, stream = worker.rank, self._streams[worker.rank]
        if self.done[rank] < number:
            self._awaited[rank] = number
            stream.begins(self._job.clock.time)
            yield from stream.end()
            self._awaited[rank] = None
            stream.begins(END_OF_TIME)
        return self._results[rank]

    def _carry_out(self, stream: "Stream") -> Activity[None]:
        rank = stream.rank
        while self._moments[rank]:
            yield from self._job.clock.sleep_until(self._moments[rank].popleft())
            self._results[rank] = yield from self._take_part(stream)
            self.done[rank] += 1
            self._told(rank, self.done[rank])
            if self.done[rank] == self._awaited[rank]:
                stream.done.succeed()
        self._busy[rank] = None

    def _died(self, ranks: Sequence[int]) -> None:
        """Workers' streams die with them."""
        for rank in ranks:
            process, self._busy[rank] = self._busy[rank], None
            self._streams[rank].ends()
            if process is not None:
                self._job.clock.end(process, Killed())
            self._moments[rank].clear()
            self._awaited[rank] = None


class Stream:
    """A worker's part in collectives beside its computation; see `Member`.

    It is the worker that waits once this has computed; until then nobody sees it wait.
    """

    def __init__(self, job: Job, worker: Worker) -> None:
        self.rank = worker.rank
        self._job = job
        self.waits_for: object = None
        self.done: Event
        self._worker = worker
        self._phase = 0
        self._seen = False
        self.computed = END_OF_TIME  # ns
        self._begun = 0  # to move a bucket, ns

    def begins(self, computed: int) -> None:
        """The worker computes until `computed` (ns); `done` is to happen when all is reduced."""
        self.done = Event(self._job.clock)
        self.computed = computed
        self._seen = False

    def ends(self) -> None:
        """The worker has died: nobody sees it wait."""
        self._seen, self.waits_for = False, None

    def end(self) -> Activity[None]:
        """The worker has computed and waits for the stream, if that is not done."""
        if self.done.callbacks is None:
            return
        self._seen = True
        if self.waits_for is not None:
            self._worker.waits(self._phase, self.waits_for)
        yield self.done

    def waits(self, phase: int, what: object) -> None:
        """See Worker."""
        self._phase, self.waits_for = phase, what
        if self._seen:
            self._worker.waits(phase, what)

    def turns_to(self, phase: int) -> None:
        """See Worker; all are there, and a bucket moves."""
        self._phase = phase
        self._begun = self._job.clock.time
        if self._seen:
            self._worker.turns_to(phase)

    def goes_on(self) -> None:
        """See Worker; a bucket has moved."""
        self.waits_for = None
        sent = (self._phase, self._begun, self._job.clock.time, self._worker.iteration)
        self._job.ledger.has_sent(Span(self.rank, *sent), self.computed)
        if self._seen:
            self._worker.goes_on()
