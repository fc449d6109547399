"""K-async: every K finished gradients make an update, and only who gave them waits for it."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import PositiveInt

from varsim.cluster.buffer import GradientBuffer
from varsim.cluster.clock import Activity
from varsim.cluster.deadlock import restart_enough
from varsim.cluster.description import Cluster
from varsim.cluster.fast.rules import Gate
from varsim.cluster.job import Job
from varsim.cluster.memory import Copies, Holds
from varsim.cluster.server import ParameterServer
from varsim.cluster.worker import Worker
from varsim.strategies.base import AsynchronousStrategy, Round, Sends


class KAsync(AsynchronousStrategy):
    """Asynchronous SGD whose updates are of K gradients, each from a different worker.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, (4) wait for the update
    that it is part of; then only these start over at (1), and all others go on computing.
    Servers: (5) keep whole gradients in the order in which they arrive; with the mean of every K
    of them they (6) update all variables and (7) count the step.
    With K = 1 it is the kind `none`, with K = all workers a barrier.
    Dutta et al., 2018 (Slow and Stale Gradients Can Win the Race), K-async SGD. Their K-sync is the
    kind `backup_workers`.
    """

    called: ClassVar[str] = "K-async SGD"
    about: ClassVar[str] = "updates of K workers' gradients; only these K wait, nobody is stopped"
    others: ClassVar[Mapping[str, object]] = {**AsynchronousStrategy.others, "k": 1}

    kind: Literal["k_async"] = "k_async"
    k: PositiveInt
    """Gradients that make an update, each from a different worker."""

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        return {"k": min(2, workers)}

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
        return Gate("group", self.k) if self.staleness_policy is None else None

    def check(self, cluster: Cluster) -> None:
        """K workers must be there, as each gives one gradient to an update."""
        if self.k > cluster.workers:
            raise ValueError(
                f"k {self.k} is more than there are workers ({cluster.workers}): each gives one "
                "gradient to an update and waits for it, which would never come"
            )

    def start(self, job: Job) -> None:
        server = ParameterServer(job, drops=False, policy=self.staleness_policy)
        buffer = GradientBuffer(job, server, self.k)  # (5), (6), (7)
        job.observe(lambda: server.parameters)
        job.explain(restart_enough(self.k, len(job.workers), "k"))
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
            yield from buffer.wait(worker, gradient)  # (4)
