"""One copy on the parameter servers, read and written by every replica without waiting."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from varsim.cluster.clock import Activity, Ended
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast import Gate
from varsim.cluster.primitives import Lock
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Gradient
from varsim.strategies.base import AsynchronousStrategy
from varsim.strategies.traits import Round, Sends, Traits


class NoSynchronization(AsynchronousStrategy):
    """Asynchronous SGD: nobody waits for anybody, except where updates take turns.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, variable by variable.
    Servers: (4) apply each variable's gradient as it arrives; when all of a gradient is applied,
    (5) count the step. So a read may find one variable of a gradient updated and another not.
    With `use_locking` replicas (3) push it, variable by variable, which is only kept; when all of
    it is there, they (L4) take the lock, first come, first served, (L5) update all variables, which
    is seen at once at its end, (L6) count the step and leave the lock to the next. Reads take no
    lock. TensorFlow's flag locks one variable at a time: that keeps a variable whole, which it is
    here without a lock, but not a read of several.
    With `overlap` (2) and (3) run side by side: what a layer adds to a variable is sent once the
    backward pass has computed it (wait-free back-propagation), and (4) is when all of it is there.
    TensorFlow: VariableSynchronization.NONE, a parameter server without SyncReplicasOptimizer.
    Also known as Downpour SGD (Dean et al., 2012) or, without locks, Hogwild.
    """

    kind: Literal["none"] = "none"
    use_locking: bool = False
    """Whether whole gradients are applied one after the other, under one lock."""
    overlap: bool = False
    """Gradients are sent during the backward pass, layer by layer."""

    def replica(self, worker: Worker, server: ParameterServer) -> Activity[None]:
        """One replica's training loop."""
        while True:
            read = yield from server.fetch(worker)  # (1)
            gradient = yield from server.begin(worker, read)  # (2)
            yield from server.finish(worker, gradient)  # (3)

    def locking_replica(
        self, job: Job, worker: Worker, server: ParameterServer, lock: Lock
    ) -> Activity[None]:
        """One replica's training loop with `use_locking`."""
        while True:
            read = yield from server.fetch(worker)  # (1)
            gradient = yield from server.begin(worker, read)  # (2)
            try:
                yield from server.finish(worker, gradient)  # (3)
                yield from lock.acquire(worker)  # (L4)
                yield from server.apply_whole(worker, gradient)  # (L5)
            except Ended:
                server.lose(gradient)
                lock.release(worker)
                raise
            if gradient.applied:
                job.count_step()  # (L6)
            lock.release(worker)
            yield from server.confirm(worker)

    def start(self, job: Job) -> None:
        server = ParameterServer(
            job, drops=False, overlap=self.overlap, policy=self.staleness_policy
        )
        job.observe(lambda: server.parameters)
        if self.use_locking:
            lock = server.lock()
            for worker in job.workers:
                job.start_on(worker, self.locking_replica, job, worker, server, lock)
            return

        def receive(variable: int, gradient: Gradient) -> None:
            server.apply(variable, [gradient])  # (4)
            if gradient.open == 0 and gradient.applied:
                job.count_step()  # (5)

        server.on_arrival(receive)
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, server)

    @property
    def traits(self) -> Traits:
        return Traits(
            Sends("gradients", to="servers", committed_by="lock" if self.use_locking else ""),
            Round("iteration", gradients=1),
            overlap=self.overlap,
        )

    def holds(self, cluster: Cluster) -> Holds:
        """And whole gradients, of which one is applied at a time."""
        waiting = Copies("gradients that wait for the lock", cluster.workers, of="gradients")
        waits = self.use_locking and not self.traits.overlaps  # else they are on their way
        return super().holds(cluster) + Holds(servers=(waiting,) * waits)

    def rules(self, cluster: Cluster) -> Gate | None:
        covered = not (self.overlap or self.use_locking) and self.staleness_policy is None
        return Gate("free") if covered else None

    called: ClassVar[str] = "async PS"
    about: ClassVar[str] = "one copy on the parameter servers, updated asynchronously"
    also_known_as: ClassVar[tuple[str, ...]] = (
        "async",
        "asynchronous",
        "asgd",
        "async_ps",
        "async_sgd",
        "downpour",
        "hogwild",
        "parameter_server",
        "ps",
    )
    others: ClassVar[Mapping[str, object]] = {
        **AsynchronousStrategy.others,
        "use_locking": True,
        "overlap": True,
    }
