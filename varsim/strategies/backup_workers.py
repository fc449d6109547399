"""Synchronous SGD with backup workers as the textbook has it: the first N end the step."""

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
from varsim.strategies.base import Strategy
from varsim.strategies.traits import Round, Sends, Traits


class BackupWorkers(Strategy):
    """The first N of all workers' gradients make an update; the others are abandoned at once.

    N = `replicas_to_aggregate`; the other workers are the backups.
    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, (4) wait for the update.
    Servers: with the N-th whole gradient (5) update every variable with their mean, (6) count the
    step. Whoever is at (1) to (3) by then gives up and starts over at (1).
    With `overlap` (2) and (3) run side by side: what a layer adds to a variable is sent once the
    backward pass has computed it (wait-free back-propagation).
    There are no tokens: nobody works on an old step, and nobody makes up for another's work.
    Chen et al., 2016 (Revisiting Distributed Synchronous SGD), algorithms 3 and 4; TensorFlow's
    SyncReplicasOptimizer, which claims to be this, is `sync_replicas`.
    """

    kind: Literal["backup_workers"] = "backup_workers"
    replicas_to_aggregate: PositiveInt
    """N: gradients that make an update."""
    overlap: bool = False
    """Gradients are sent during the backward pass, layer by layer."""

    def replica(
        self, worker: Worker, server: ParameterServer, buffer: GradientBuffer
    ) -> Activity[None]:
        """One replica's training loop."""
        while True:
            try:
                read = yield from server.fetch(worker)  # (1)
                gradient = yield from server.begin(worker, read)  # (2)
                yield from buffer.push_and_wait(worker, gradient)  # (3), (4)
            except StepOverError:
                continue

    def start(self, job: Job) -> None:
        server = ParameterServer(job, drops=True, overlap=self.overlap)
        job.observe(lambda: server.parameters)
        needed = self.replicas_to_aggregate
        job.explain(restart_enough(needed, len(job.workers), "replicas_to_aggregate"))
        buffer = GradientBuffer(job, server, needed, ends_steps=True)  # (5), (6)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, server, buffer)

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        return {"replicas_to_aggregate": max(1, workers - 1)}

    @property
    def traits(self) -> Traits:
        return Traits(
            Sends("gradients", to="servers"),
            Round("step", gradients=self.replicas_to_aggregate),
            overlap=self.overlap,
        )

    def iterations_per_update(self, cluster: Cluster) -> int:
        """One of every worker, however many of them are abandoned."""
        return cluster.workers

    def holds(self, cluster: Cluster) -> Holds:
        """And the gradients of an update, each by itself until the last has come."""
        kept = Copies("gradients of an update", self.replicas_to_aggregate, of="gradients")
        # With overlap they are among those on their way.
        return super().holds(cluster) + Holds(servers=(kept,) * (not self.traits.overlaps))

    def rules(self, cluster: Cluster) -> Gate | None:
        return None if self.overlap else Gate("cutoff", self.replicas_to_aggregate)

    def check(self, cluster: Cluster) -> None:
        """Every worker gives one gradient to a step, so there must be N workers."""
        super().check(cluster)
        if self.replicas_to_aggregate > cluster.workers:
            raise refused(
                "replicas_to_aggregate",
                f"{self.replicas_to_aggregate} is more than there are workers ({cluster.workers}): "
                "a step would never end",
            )

    called: ClassVar[str] = "sync PS + backup"
    about: ClassVar[str] = (
        "textbook (K-sync): the first N gradients end the step, others are abandoned"
    )
    also_known_as: ClassVar[tuple[str, ...]] = ("backup", "k_sync")
    others: ClassVar[Mapping[str, object]] = {"replicas_to_aggregate": 1, "overlap": True}
    gives_up: ClassVar[bool] = True
