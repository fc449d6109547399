"""Mirrored variables: every write is all-reduced, every replica applies it."""

from typing import ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from varsim.cluster.clock import Activity
from varsim.cluster.collective import Collective
from varsim.cluster.collectives.choice import Algorithm, Choice
from varsim.cluster.description import Cluster
from varsim.cluster.envelope import Envelope, Estimate
from varsim.cluster.job import Job
from varsim.cluster.overheads import OF_REDUCTIONS
from varsim.cluster.replicas import MirroredReplicas
from varsim.cluster.worker import Worker
from varsim.strategies.base import Strategy
from varsim.units import Bytes, format_seconds
from varsim.values.workload import Workload


class OnWrite(Strategy):
    """A copy of the model on every worker, kept equal bit for bit.

    Replicas: (1) compute a gradient on their own copy, (2) take part in the all-reduce, which is
    the barrier, (3) apply the mean to their own copy. One that begins again (0) gets the model
    from another; its gradient, if it had offered one, is still in the round.
    `collective`: the algorithm of the all-reduce. Hierarchical ones go by groups of
    `ranks_per_group` neighbouring ranks, the double binary tree by segments of `segment_size`
    (default: 512 KiB, or what makes 2,000 segments of either half). Whatever it is, the gradients
    are added in the order of the ranks.
    TensorFlow: VariableSynchronization.ON_WRITE under MirroredStrategy and
    MultiWorkerMirroredStrategy. Also known as synchronous data parallelism.
    """

    about: ClassVar[str] = "mirrored variables, all-reduced at every write"

    kind: Literal["on_write"] = "on_write"
    collective: Algorithm = "ring"
    ranks_per_group: PositiveInt | None = None
    segment_size: Bytes | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _settings_of_the_collective(self) -> Self:
        self._choice.check_settings()
        return self

    @property
    def _choice(self) -> Choice:
        return Choice(self.collective, self.ranks_per_group, self.segment_size)

    def check(self, cluster: Cluster) -> None:
        """Groups of ranks must be equal."""
        self._choice.check_ranks(cluster.workers)

    def check_workload(self, workload: Workload) -> None:
        """There may be too many segments."""
        self._choice.check_size(workload.size())

    def subject_to(self) -> frozenset[str]:
        """Its all-reduce is a collective."""
        return super().subject_to() | OF_REDUCTIONS

    def estimate(self, envelope: Envelope) -> Estimate:
        """The slowest replica, then the all-reduce."""
        slowest = envelope.kth(envelope.cluster.workers)
        moving = envelope.all_reduce(self._choice)
        return Estimate(
            slowest + moving,
            f"{format_seconds(slowest)} slowest replica + {format_seconds(moving)} all-reduce",
        )

    def start(self, job: Job) -> None:
        """Start a replica on every worker."""
        weights = MirroredReplicas(job)
        size = job.workload.size()
        mean = Collective(job, self._choice.schedule(len(job.workers), size), size)
        job.observe(lambda: weights.parameters)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, weights, mean)

    def replica(
        self, worker: Worker, weights: MirroredReplicas, mean: Collective
    ) -> Activity[None]:
        """One replica's training loop."""
        if worker.restarts:
            yield from weights.recover(worker)  # (0)
            if weights.has_offered(worker):
                yield from mean.take_part(worker)
                weights.apply(worker)
        while True:
            gradient = yield from worker.compute_gradient(weights.read(worker))  # (1)
            weights.offer(worker, gradient)
            yield from mean.take_part(worker)  # (2)
            weights.apply(worker)  # (3)
