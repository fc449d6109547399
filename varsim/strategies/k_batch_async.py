"""K-batch-async: every K gradients make an update, and nobody waits for anybody."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import PositiveInt

from varsim.cluster.buffer import GradientBuffer
from varsim.cluster.clock import Activity
from varsim.cluster.description import Cluster
from varsim.cluster.fast.rules import Gate
from varsim.cluster.job import Job
from varsim.cluster.memory import Copies, Holds
from varsim.cluster.server import ParameterServer
from varsim.cluster.worker import Worker
from varsim.strategies.base import AsynchronousStrategy, Round, Sends


class KBatchAsync(AsynchronousStrategy):
    """Asynchronous SGD whose updates are of K gradients, whoever they come from.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, and start over at (1).
    Servers: (4) keep whole gradients in the order in which they arrive; with the mean of every K
    of them they (5) update all variables and (6) count the step.
    With K = 1 it is the kind `none`.
    Dutta et al., 2018 (Slow and Stale Gradients Can Win the Race), K-batch-async SGD.
    """

    called: ClassVar[str] = "K-batch-async SGD"
    about: ClassVar[str] = "updates of K gradients, whoever they come from; nobody waits"
    others: ClassVar[Mapping[str, object]] = {**AsynchronousStrategy.others, "k": 1}

    kind: Literal["k_batch_async"] = "k_batch_async"
    k: PositiveInt
    """Gradients that make an update, whoever they come from."""

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        return {"k": 2}

    @property
    def sends(self) -> Sends:
        return Sends("gradients", to="servers")

    @property
    def round(self) -> Round:
        return Round("iteration", gradients=self.k)

    def holds(self, cluster: Cluster) -> Holds:
        """And the gradients of an update, each by itself until the last has come."""
        kept = Copies("gradients of an update", self.k, of="gradients")
        return super().holds(cluster) + Holds(servers=(kept,))

    def rules(self, cluster: Cluster) -> Gate | None:
        return Gate("batch", self.k) if self.staleness_policy is None else None

    def start(self, job: Job) -> None:
        server = ParameterServer(job, drops=False, policy=self.staleness_policy)
        buffer = GradientBuffer(job, server, self.k)  # (4), (5), (6)
        job.observe(lambda: server.parameters)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, server, buffer)

    def replica(
        self, worker: Worker, server: ParameterServer, buffer: GradientBuffer
    ) -> Activity[None]:
        """One replica's training loop."""
        while True:
            read = yield from server.fetch(worker)  # (1)
            gradient = yield from server.begin(worker, read)  # (2)
            yield from buffer.push(worker, gradient)  # (3)
