"""One copy on the parameter servers, read and written by every replica without waiting."""

from typing import ClassVar, Literal

from varsim.cluster.clock import Activity
from varsim.cluster.envelope import Envelope, Estimate
from varsim.cluster.job import Job
from varsim.cluster.server import ParameterServer
from varsim.cluster.worker import Worker
from varsim.strategies.base import Strategy
from varsim.units import format_seconds
from varsim.values.gradient import Gradient


class NoSynchronization(Strategy):
    """Asynchronous SGD: nobody waits for anybody.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, variable by variable.
    Servers: (4) apply each variable's gradient as it arrives; when all of a gradient is applied,
    (5) count the step.
    TensorFlow: VariableSynchronization.NONE, a parameter server without SyncReplicasOptimizer.
    Also known as Downpour SGD (Dean et al., 2012) or, without locks, Hogwild.
    """

    about: ClassVar[str] = "one copy on the parameter servers, updated asynchronously"
    uses_servers: ClassVar[bool] = True

    kind: Literal["none"] = "none"

    def estimate(self, envelope: Envelope) -> Estimate:
        """All workers' iterations side by side, unless the servers' ports are the bottleneck."""
        moved, port = 2 * envelope.to_server(), envelope.port()
        update = 1 / envelope.rate(moved)
        if port > update:
            return Estimate(port, f"{format_seconds(port)} per gradient at a server's port")
        return Estimate(
            update,
            f"{envelope.cluster.workers} workers side by side, each {format_seconds(moved)} for "
            "read and push besides its compute",
        )

    def start(self, job: Job) -> None:
        """Start the servers and a replica on every worker."""
        server = ParameterServer(job, drops=False)
        job.observe(lambda: server.parameters)
        for worker in job.workers:
            job.spawn(self.replica(job, worker, server))

    def replica(self, job: Job, worker: Worker, server: ParameterServer) -> Activity[None]:
        """One replica's training loop."""

        def receive(variable: int, gradient: Gradient) -> None:
            server.apply(variable, [gradient])  # (4)
            if gradient.open == 0:
                job.count_step()  # (5)

        while True:
            read = yield from server.fetch(worker)  # (1)
            gradient = yield from worker.compute_gradient(read)  # (2)
            yield from server.push(worker, gradient, receive)  # (3)
