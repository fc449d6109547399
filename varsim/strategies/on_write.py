"""Mirrored variables: every write is all-reduced, every replica applies it."""

from typing import ClassVar, Literal

from varsim.cluster.clock import Activity
from varsim.cluster.collective import RingAllReduce
from varsim.cluster.envelope import Envelope, Estimate
from varsim.cluster.job import Job
from varsim.cluster.replicas import MirroredReplicas
from varsim.cluster.worker import Worker
from varsim.strategies.base import Strategy
from varsim.units import format_seconds


class OnWrite(Strategy):
    """A copy of the model on every worker, kept equal bit for bit.

    Replicas: (1) compute a gradient on their own copy, (2) take part in the all-reduce, which is
    the barrier, (3) apply the mean to their own copy.
    TensorFlow: VariableSynchronization.ON_WRITE under MirroredStrategy and
    MultiWorkerMirroredStrategy. Also known as synchronous data parallelism.
    """

    about: ClassVar[str] = "mirrored variables, all-reduced at every write"

    kind: Literal["on_write"] = "on_write"

    def estimate(self, envelope: Envelope) -> Estimate:
        """The slowest replica, then the ring."""
        slowest, ring = envelope.kth(envelope.cluster.workers), envelope.ring()
        return Estimate(
            slowest + ring,
            f"{format_seconds(slowest)} slowest replica + {format_seconds(ring)} all-reduce",
        )

    def start(self, job: Job) -> None:
        """Start a replica on every worker."""
        weights = MirroredReplicas(job)
        ring = RingAllReduce(job, job.workload.size())
        job.observe(lambda: weights.parameters)
        for worker in job.workers:
            job.spawn(self.replica(worker, weights, ring))

    def replica(
        self, worker: Worker, weights: MirroredReplicas, ring: RingAllReduce
    ) -> Activity[None]:
        """One replica's training loop."""
        while True:
            gradient = yield from worker.compute_gradient(weights.read(worker))  # (1)
            weights.offer(worker, gradient)
            yield from ring.take_part(worker)  # (2)
            weights.apply(worker)  # (3)
