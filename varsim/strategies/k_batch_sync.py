"""K-batch-sync: the first K gradients end the step, and a worker may give several of them."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import PositiveInt

from varsim.cluster.buffer import GradientBuffer
from varsim.cluster.clock import Activity
from varsim.cluster.description import Cluster
from varsim.cluster.failures import Cutoff, StepOverError
from varsim.cluster.fast.rules import Gate
from varsim.cluster.job import Job
from varsim.cluster.memory import Copies, Holds
from varsim.cluster.server import ParameterServer
from varsim.cluster.worker import Worker
from varsim.strategies.base import Round, Sends, Strategy


class KBatchSync(Strategy):
    """Synchronous SGD whose updates are of the first K gradients, whoever they come from.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, (4) start over at (2),
    at what they read, as long as there is no update.
    Servers: (5) keep whole gradients in the order in which they arrive; with the K-th they
    (6) update all variables with the mean and (7) count the step. Whoever is at (1) to (3) by then
    gives up and starts over at (1); a gradient that is complete at the same moment as the K-th, but
    after it, is dropped. So no gradient is stale.
    Dutta et al., 2018 (Slow and Stale Gradients Can Win the Race), K-batch-sync SGD. Their K-sync,
    with one gradient of each worker, is the kind `backup_workers`.
    """

    called: ClassVar[str] = "K-batch-sync SGD"
    about: ClassVar[str] = "the first K gradients end the step; a fast worker gives several"
    others: ClassVar[Mapping[str, object]] = {"k": 1}

    gives_up: ClassVar[bool] = True

    kind: Literal["k_batch_sync"] = "k_batch_sync"
    k: PositiveInt
    """Gradients that end a step, whoever they come from."""

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """As many as there are workers, but not one of each."""
        return {"k": workers}

    @property
    def sends(self) -> Sends:
        return Sends("gradients", to="servers")

    @property
    def round(self) -> Round:
        return Round("step", gradients=self.k)

    def iterations_per_update(self, cluster: Cluster) -> int:
        """K, and what all others than the last to come are at, in vain."""
        return self.k + cluster.workers - 1

    def holds(self, cluster: Cluster) -> Holds:
        """And the gradients of an update, each by itself until the last has come."""
        kept = Copies("gradients of an update", self.k, of="gradients")
        return super().holds(cluster) + Holds(servers=(kept,))

    def rules(self, cluster: Cluster) -> Gate | None:
        return Gate("race", self.k)

    def start(self, job: Job) -> None:
        steps = job.cutoff()
        server = ParameterServer(job, drops=True)
        buffer = GradientBuffer(job, server, self.k, steps)  # (5), (6), (7)
        job.observe(lambda: server.parameters)
        for worker in job.workers:
            job.start_on(worker, self.replica, job, worker, server, buffer, steps)

    def replica(
        self,
        job: Job,
        worker: Worker,
        server: ParameterServer,
        buffer: GradientBuffer,
        steps: Cutoff,
    ) -> Activity[None]:
        """One replica's training loop."""
        steps.begins(worker)
        while True:
            try:
                read = yield from server.fetch(worker)  # (1)
                while read.global_step == job.updates:  # (4)
                    gradient = yield from server.begin(worker, read)  # (2)
                    yield from buffer.push(worker, gradient)  # (3)
            except StepOverError:
                continue
