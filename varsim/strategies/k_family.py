"""Updates of the first K gradients (Dutta et al., 2018): K-async, K-batch-async and K-batch-sync.

Slow and Stale Gradients Can Win the Race. Their K-sync is the kind `backup_workers`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast import Gate
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.servers.buffer import GradientBuffer, StepOverError
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, restart_enough
from varsim.core.refusal import refused
from varsim.strategies.base import AsynchronousStrategy, Strategy
from varsim.strategies.traits import Round, Sends, Traits


class KAsynchronous(AsynchronousStrategy, ABC):
    """Base of those in which nobody gives up what it computes: K-async and K-batch-async SGD."""

    rule: ClassVar[Literal["group", "batch"]]  # of the engine for times alone

    k: PositiveInt
    """Gradients that make an update."""

    @abstractmethod
    def replica(
        self, worker: Worker, server: ParameterServer, buffer: GradientBuffer
    ) -> Activity[None]:
        """One replica's training loop."""

    def start(self, job: Job) -> None:
        server = ParameterServer(job, drops=False, policy=self.staleness_policy)
        buffer = GradientBuffer(job, server, self.k)
        job.observe(lambda: server.parameters)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, server, buffer)

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        return {"k": min(2, workers)}

    @property
    def traits(self) -> Traits:
        return Traits(Sends("gradients", to="servers"), Round("iteration", gradients=self.k))

    def holds(self, cluster: Cluster) -> Holds:
        return super().holds(cluster) + kept(self.k)

    def rules(self, cluster: Cluster) -> Gate | None:
        return Gate(self.rule, self.k) if self.staleness_policy is None else None

    others: ClassVar[Mapping[str, object]] = {**AsynchronousStrategy.others, "k": 1}


class KAsync(KAsynchronous):
    """Asynchronous SGD whose updates are of K gradients, each from a different worker.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, (4) wait for the update
    that it is part of; then only these start over at (1), and all others go on computing.
    Servers: (5) keep whole gradients in the order in which they arrive; with the mean of every K
    of them they (6) update all variables and (7) count the step.
    With K = 1 it is the kind `none`, with K = all workers a barrier.
    Dutta et al., 2018 (Slow and Stale Gradients Can Win the Race), K-async SGD. Their K-sync is the
    kind `backup_workers`.
    """

    kind: Literal["k_async"] = "k_async"
    k: PositiveInt
    """Gradients that make an update, each from a different worker."""

    def replica(
        self, worker: Worker, server: ParameterServer, buffer: GradientBuffer
    ) -> Activity[None]:
        while True:
            read = yield from server.fetch(worker)  # (1)
            gradient = yield from server.begin(worker, read)  # (2)
            yield from buffer.push_and_wait(worker, gradient)  # (3), (4)

    def start(self, job: Job) -> None:
        super().start(job)
        job.explain(restart_enough(self.k, len(job.workers), "k"))

    def check(self, cluster: Cluster) -> None:
        """K workers must be there, as each gives one gradient to an update."""
        super().check(cluster)
        if self.k > cluster.workers:
            raise refused(
                "k",
                f"{self.k} is more than there are workers ({cluster.workers}): each gives one "
                "gradient to an update and waits for it, which would never come",
            )

    rule: ClassVar[Literal["group"]] = "group"
    called: ClassVar[str] = "K-async SGD"
    about: ClassVar[str] = "updates of K workers' gradients; only these K wait, none is stopped"


class KBatchAsync(KAsynchronous):
    """Asynchronous SGD whose updates are of K gradients, whoever they come from.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, and start over at (1).
    Servers: (4) keep whole gradients in the order in which they arrive; with the mean of every K
    of them they (5) update all variables and (6) count the step.
    With K = 1 it is the kind `none`.
    Dutta et al., 2018 (Slow and Stale Gradients Can Win the Race), K-batch-async SGD.
    """

    kind: Literal["k_batch_async"] = "k_batch_async"
    k: PositiveInt
    """Gradients that make an update, whoever they come from."""

    def replica(
        self, worker: Worker, server: ParameterServer, buffer: GradientBuffer
    ) -> Activity[None]:
        while True:
            read = yield from server.fetch(worker)  # (1)
            gradient = yield from server.begin(worker, read)  # (2)
            yield from buffer.push(worker, gradient)  # (3)

    rule: ClassVar[Literal["batch"]] = "batch"
    called: ClassVar[str] = "K-batch-async SGD"
    about: ClassVar[str] = "updates of K gradients from any workers; no worker waits"


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

    kind: Literal["k_batch_sync"] = "k_batch_sync"
    k: PositiveInt
    """Gradients that end a step, whoever they come from."""

    def replica(
        self,
        job: Job,
        worker: Worker,
        server: ParameterServer,
        buffer: GradientBuffer,
    ) -> Activity[None]:
        """One replica's training loop."""
        while True:
            try:
                read = yield from server.fetch(worker)  # (1)
                while read.global_step == job.updates:  # (4)
                    gradient = yield from server.begin(worker, read)  # (2)
                    yield from buffer.push(worker, gradient)  # (3)
            except StepOverError:
                continue

    def start(self, job: Job) -> None:
        server = ParameterServer(job, drops=True)
        buffer = GradientBuffer(job, server, self.k, ends_steps=True)  # (5), (6), (7)
        job.observe(lambda: server.parameters)
        for worker in job.workers:
            job.start_on(worker, self.replica, job, worker, server, buffer)

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """As many as there are workers, but not one of each."""
        return {"k": workers}

    @property
    def traits(self) -> Traits:
        return Traits(Sends("gradients", to="servers"), Round("step", gradients=self.k))

    def iterations_per_update(self, cluster: Cluster) -> int:
        """K, and what all others than the last to come are at, in vain."""
        return self.k + cluster.workers - 1

    def holds(self, cluster: Cluster) -> Holds:
        return super().holds(cluster) + kept(self.k)

    def rules(self, cluster: Cluster) -> Gate | None:
        return Gate("race", self.k)

    called: ClassVar[str] = "K-batch-sync SGD"
    about: ClassVar[str] = "the first K gradients end the step; a fast worker gives several"
    others: ClassVar[Mapping[str, object]] = {"k": 1}
    gives_up: ClassVar[bool] = True


def kept(k: int) -> Holds:
    """The gradients of an update, each by itself until the last has come."""
    return Holds(servers=(Copies("gradients of an update", k, of="gradients"),))
