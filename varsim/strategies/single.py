"""One worker, no communication: the yardstick for speed-up and for values."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from varsim.cluster.clock import Activity
from varsim.cluster.copies.mirrored import MirroredReplicas
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.core.refusal import Refusal, no_effect
from varsim.strategies.base import Strategy
from varsim.strategies.traits import Round, Sends, Traits


class Single(Strategy):
    """Plain sequential SGD on worker 0: (1) compute a gradient, (2) apply it.

    Should it die, the model is lost, and (0) nobody has it when it restarts.
    """

    kind: Literal["single"] = "single"

    def replica(self, worker: Worker, weights: MirroredReplicas) -> Activity[None]:
        """Train alone."""
        if worker.restarts:
            yield from weights.recover(worker)  # (0)
        while True:
            gradient = yield from worker.compute_gradient(weights.read(worker))  # (1)
            yield from worker.update_copy()
            weights.offer(worker, [gradient])
            weights.apply(worker)  # (2)

    def start(self, job: Job) -> None:
        weights = MirroredReplicas(job)
        job.observe(lambda: weights.parameters)
        job.start_on(job.workers[0], self.replica, job.workers[0], weights)

    conflicts: ClassVar[Sequence[Refusal]] = (
        no_effect("on", "kind: single", "one worker uses neither network nor servers"),
    )

    @property
    def traits(self) -> Traits:
        return Traits(Sends("nothing", to="nobody"), Round("step"))

    def workers(self, cluster: Cluster) -> int:
        """Only worker 0 takes part."""
        return 1

    called: ClassVar[str] = "one worker"
    about: ClassVar[str] = "one worker alone, no communication: the baseline"
    also_known_as: ClassVar[tuple[str, ...]] = ("one_device", "sequential")
