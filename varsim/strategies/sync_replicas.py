"""Synchronous replicas with accumulators, a token queue and backup workers."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import PositiveInt

from varsim.cluster.clock import Activity
from varsim.cluster.description import Cluster
from varsim.cluster.envelope import Envelope, Estimate
from varsim.cluster.job import Job
from varsim.cluster.server import ParameterServer
from varsim.cluster.waiting import Countdown, TokenQueue
from varsim.cluster.worker import Worker
from varsim.strategies.base import Strategy
from varsim.units import format_seconds
from varsim.values.accumulator import GradientAccumulator
from varsim.values.gradient import Gradient


class SyncReplicas(Strategy):
    """TensorFlow's SyncReplicasOptimizer, tokens and all.

    N = `replicas_to_aggregate` gradients make an update, T = `total_num_replicas` (default: the
    workers) is how many the tokens are made for; T - N are backup workers.
    Replicas: (R1) read the variables, (R2) compute a gradient, (R3) push it, labelled with the
    step of their last token, to one accumulator per variable, where it is dropped if that step is
    over, (R4) take a token, the barrier; its step is the next label.
    Chief: (C1) take N gradients from every accumulator, (C2) update each variable with its mean
    as soon as its own take is served, (C3) after all of them count the step, (C4) put
    max(N, T) tokens with the new step at the end of the queue.
    `initial_tokens` are there at the start (default, as in TensorFlow: N; below N - T refused).
    Abadi et al., 2016; Chen et al., 2016 (backup workers).
    """

    about: ClassVar[str] = "accumulators, token queue, stale gradients dropped, backup workers"
    uses_servers: ClassVar[bool] = True

    kind: Literal["sync_replicas"] = "sync_replicas"
    replicas_to_aggregate: PositiveInt
    total_num_replicas: PositiveInt | None = None
    initial_tokens: int | None = None

    def check(self, cluster: Cluster) -> None:
        """Initial tokens must be at least N - T, as TensorFlow demands."""
        least = self.replicas_to_aggregate - self._total(cluster)
        if self.initial_tokens is not None and self.initial_tokens < max(least, 0):
            raise ValueError(
                f"initial_tokens must be at least {max(least, 0)} (replicas_to_aggregate - "
                f"total_num_replicas, and not below 0), not {self.initial_tokens}"
            )

    def estimate(self, envelope: Envelope) -> Estimate:
        """The N-th gradient; but every update takes max(N, T) iterations of somebody."""
        cluster = envelope.cluster
        needed, tokens = self.replicas_to_aggregate, self._tokens(cluster)
        rounds = -(-needed // cluster.workers)
        kth = envelope.kth(needed - (rounds - 1) * cluster.workers)
        kth += (rounds - 1) * envelope.compute()
        moved = 2 * max(envelope.to_server(), cluster.workers * envelope.port())
        waiting, working = kth + rounds * moved, tokens / envelope.rate() + moved
        if waiting >= working:
            why = f"{format_seconds(kth)} until {needed} gradients + {format_seconds(moved)} moved"
            return Estimate(waiting, why)
        return Estimate(
            working,
            f"{tokens} iterations at {envelope.rate():.4g}/s + {format_seconds(moved)} moved",
        )

    def start(self, job: Job) -> None:
        """Start the servers, the chief and a replica on every worker."""
        server = ParameterServer(job, drops=True)
        accumulators = [GradientAccumulator() for _ in server.variables]
        tokens = TokenQueue(job.clock)
        first = self.replicas_to_aggregate if self.initial_tokens is None else self.initial_tokens
        tokens.enqueue(job.global_step, first)
        job.observe(lambda: server.parameters)
        job.spawn(
            self.chief(job, server, accumulators, tokens),
            role="chief",
            waits_for=_Takes(accumulators),
        )
        for worker in job.workers:
            job.spawn(self.replica(worker, server, accumulators, tokens))

    def replica(
        self,
        worker: Worker,
        server: ParameterServer,
        accumulators: Sequence[GradientAccumulator],
        tokens: TokenQueue,
    ) -> Activity[None]:
        """One replica's training loop."""

        def receive(variable: int, gradient: Gradient) -> None:
            if not accumulators[variable].add(gradient, gradient.local_step):
                server.drop(gradient)

        local_step = 0
        while True:
            read = yield from server.fetch(worker)  # (R1)
            gradient = yield from worker.compute_gradient(read)  # (R2)
            gradient.local_step = local_step
            yield from server.push(worker, gradient, receive)  # (R3)
            local_step = yield from tokens.dequeue(worker)  # (R4)

    def chief(
        self,
        job: Job,
        server: ParameterServer,
        accumulators: Sequence[GradientAccumulator],
        tokens: TokenQueue,
    ) -> Activity[None]:
        """The update loop; independent of worker 0's own training."""
        copies = self._tokens(job.cluster)
        while True:
            updates = Countdown(job.clock, len(accumulators))

            def update(
                variable: int, gradients: Sequence[Gradient], updates: Countdown = updates
            ) -> None:
                server.apply(variable, gradients)  # (C2)
                updates.count()

            for variable, accumulator in enumerate(accumulators):
                accumulator.take(  # (C1)
                    self.replicas_to_aggregate,
                    lambda gradients, variable=variable, update=update: update(  # type: ignore[misc]
                        variable, gradients
                    ),
                )
            yield from updates.wait()
            job.count_step()  # (C3)
            tokens.enqueue(job.global_step, copies)  # (C4)

    def _total(self, cluster: Cluster) -> int:
        return cluster.workers if self.total_num_replicas is None else self.total_num_replicas

    def _tokens(self, cluster: Cluster) -> int:
        return max(self.replicas_to_aggregate, self._total(cluster))


class _Takes:
    """What the chief waits for."""

    def __init__(self, accumulators: Sequence[GradientAccumulator]) -> None:
        self._accumulators = accumulators

    def __str__(self) -> str:
        waiting = [str(accumulator) for accumulator in self._accumulators if accumulator.waiting]
        return "; ".join(dict.fromkeys(waiting))
