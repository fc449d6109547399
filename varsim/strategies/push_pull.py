"""Mirrored variables whose gradients parameter servers add up: push and pull (BytePS)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from varsim.cluster.clock import Activity
from varsim.cluster.copies.mirrored import Accumulation, MirroredReplicas
from varsim.cluster.description.device import DropCompute
from varsim.cluster.workers.exchange import ServerSums
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.core.refusal import Refusal, no_effect


class PushPull(NamedTuple):
    """Sums of all workers' gradients on parameter servers, in place of an all-reduce.

    Replicas: (1) compute a gradient on their own copy, (2) push each part that lies on a server
    when it is ready, as the backward pass makes it with `overlap`, else all of them after it, last
    layers first, (3) pull the sums: a server adds a part to those of others, for which it needs
    what the cluster's `server_update` says, and sends the sum to all workers at once when it has
    all of them, in order of rank; so sums of early parts go one way while later parts go the other.
    With all sums they (4) apply the mean to their own copy.
    Jiang et al., OSDI 2020 (BytePS); Peng et al., SOSP 2019 (ByteScheduler).
    """

    overlap: bool
    micro_batches: int
    drop: DropCompute | None

    def replica(
        self, worker: Worker, weights: MirroredReplicas, batches: Accumulation, sums: ServerSums
    ) -> Activity[None]:
        """One replica's training loop."""
        while True:
            gradients = yield from batches.compute(worker, weights)  # (1)
            yield from sums.finish(worker, gradients)  # (2, 3)
            yield from weights.apply_mean(worker)  # (4)

    def start(self, job: Job) -> None:
        """Start a replica on every worker."""
        weights = MirroredReplicas(job, drop=self.drop)
        sums = ServerSums(job, overlap=self.overlap)
        batches = Accumulation(job, sums, self.micro_batches, self.drop)
        job.observe(lambda: weights.parameters)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, weights, batches, sums)


OF_PUSH_PULL: Final[Sequence[Refusal]] = (
    *(
        no_effect(
            key,
            "collective: push_pull",
            "it sends tensors, or the parts that cluster.placement and cluster.partitioner make of "
            "them",
        )
        for key in ("bucketing", "bucket_size", "first_bucket_size")
    ),
    Refusal(
        "collective: push_pull",
        "events",
        "what servers have added up of a gradient whose worker dies could not be taken back",
    ),
)
