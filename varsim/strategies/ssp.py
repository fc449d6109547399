"""Stale synchronous parallel: nobody is more than some iterations ahead of the slowest."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

from pydantic import NonNegativeInt

from varsim.cluster.clock import Activity
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast import Gate
from varsim.cluster.primitives import BoundedClocks, Instant
from varsim.cluster.servers.buffer import ParameterCache
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, restart_all
from varsim.core.refusal import Refusal, refused
from varsim.learning.gradient import Gradient
from varsim.learning.workload import Workload
from varsim.strategies.base import AsynchronousStrategy
from varsim.strategies.traits import Pair, Round, Sends, Traits


class StaleSynchronous(AsynchronousStrategy):
    """Asynchronous SGD in which a worker waits while it is too far ahead of the slowest.

    Replicas: (1) read the variables, (2) compute a gradient, (3) push it, variable by variable.
    Servers: (4) apply each variable's gradient as it arrives; when all of a gradient is applied,
    (5) count the step, and an iteration on the clock of its worker.
    Replicas: (6) wait until their clock is at most `staleness` ahead of the slowest one. So a read
    contains every update older than that, and with `staleness: 0` all work on one iteration.
    With `refresh: when_stale` a replica keeps (1) what it read: (C1) while the slowest clock at the
    read was at most `staleness` behind its own, it goes on with that and its own gradients, which
    (C2) it applies there, too, as the servers do, with plain SGD.
    Ho et al., 2013 (More Effective Distributed ML via a Stale Synchronous Parallel Parameter
    Server); the cache is that of Petuum. With unlimited staleness it is the kind `none`.
    """

    kind: Literal["ssp"] = "ssp"
    staleness: NonNegativeInt
    """s: iterations that a worker may be ahead of the slowest."""
    refresh: Literal["always", "when_stale"] = "always"
    """Whether a worker reads anew in every iteration or only when what it has is too old."""

    def replica(
        self,
        worker: Worker,
        server: ParameterServer,
        clocks: BoundedClocks,
        cache: ParameterCache | None,
    ) -> Activity[None]:
        """One replica's training loop."""
        while True:
            if cache is None:
                read = yield from server.fetch(worker)  # (1)
            else:
                read = yield from cache.fetch(worker)  # (C1)
            gradient = yield from server.begin(worker, read)  # (2)
            yield from server.finish(worker, gradient)  # (3)
            if cache is not None:
                cache.apply(worker, gradient)  # (C2)
            yield from clocks.wait(worker)  # (6)

    def start(self, job: Job) -> None:
        server = ParameterServer(job, drops=False, policy=self.staleness_policy)
        clocks = BoundedClocks(job.clock, len(job.workers), self.staleness)
        cache = None
        if self.refresh == "when_stale":
            cache = ParameterCache(job, server, clocks)
        job.observe(lambda: server.parameters)
        job.explain(restart_all)

        def take_in(variable: int, gradient: Gradient) -> None:
            if job.clock.stopped:
                return
            server.apply(variable, [gradient])  # (4)
            if gradient.open == 0:
                if gradient.applied:
                    job.count_step()
                clocks.tick(gradient.worker)  # (5)

        moment = Instant(job.clock)
        server.on_arrival(
            lambda variable, gradient: moment.add(
                gradient.worker, partial(take_in, variable, gradient), variable
            )
        )
        for worker in job.workers:
            job.start_on(worker, self.replica, worker, server, clocks, cache)

    conflicts: ClassVar[Sequence[Refusal]] = (
        Refusal(
            "staleness_policy: not none",
            "refresh: when_stale",
            "a replica takes up its own gradients and cannot know what the servers make of them",
            "refresh: always goes with all",
        ),
    )

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        """One iteration ahead."""
        return {"staleness": 1}

    @property
    def traits(self) -> Traits:
        return Traits(Sends("gradients", to="servers"), Round("iteration", gradients=1))

    def rules(self, cluster: Cluster) -> Gate | None:
        if self.staleness_policy is not None:
            return None
        return Gate("bound", bound=self.staleness, keeps=self.refresh == "when_stale")

    def check_workload(self, workload: Workload) -> None:
        """A cache takes up gradients as the servers do only where these remember nothing."""
        super().check_workload(workload)
        rule = workload.update_rule()
        if self.refresh == "when_stale" and workload.has_values and rule.kind != "sgd":
            raise refused(
                "refresh",
                f": when_stale goes with plain sgd only, not {rule.kind}: a replica cannot know "
                "what the servers' optimizer remembers (refresh: always goes with all)",
            )

    called: ClassVar[str] = "bounded staleness (SSP)"
    about: ClassVar[str] = (
        "asynchronous, but no worker is ahead of the slowest by more than a bound"
    )
    also_known_as: ClassVar[tuple[str, ...]] = (
        "stale_synchronous",
        "stale_synchronous_parallel",
        "bounded_staleness",
    )
    others: ClassVar[Mapping[str, object]] = {
        **AsynchronousStrategy.others,
        "staleness": 0,
        "refresh": Pair(
            {"optimizer": {"kind": "sgd", "learning_rate": 0.1}},
            {"optimizer": {"kind": "sgd", "learning_rate": 0.1}, "refresh": "when_stale"},
        ),
    }
