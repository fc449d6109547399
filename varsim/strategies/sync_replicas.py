"""Synchronous replicas with accumulators, a token queue and backup workers."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

from pydantic import PositiveInt

from varsim.cluster.clock import Activity, Ended, Stopped
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.fast import Gate
from varsim.cluster.primitives import Countdown, QueueClosedError, TokenQueue
from varsim.cluster.record.memory import Copies, Holds
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, named
from varsim.core.refusal import refused
from varsim.distribute.accumulator import GradientAccumulator, Take
from varsim.learning.gradient import Gradient, Parameters
from varsim.learning.optimizer import MovingAverages, VariableAverages
from varsim.strategies.base import Strategy
from varsim.strategies.traits import Round, Sends, Traits, Vain


class SyncReplicas(Strategy):
    """TensorFlow's SyncReplicasOptimizer, tokens and all.

    N = `replicas_to_aggregate` gradients make an update, T = `total_num_replicas` (default: the
    workers) is how many the tokens are made for; T - N are backup workers.
    Replicas: (R1) read the variables, (R2) compute a gradient, (R3) push it, labelled with the
    step of their last token, to one accumulator per variable, where it is dropped if that step is
    over, (R4) take a token, the barrier; its step is the next label.
    Chief, in worker 0's process: (C0) set the accumulators to the global step and put in the
    initial tokens; (C1) take N gradients from every accumulator, (C2) update each variable with
    its mean as soon as its own take is served, (C3) after all of them count the step, (C4) put
    max(N, T) tokens with the new step at the end of the queue, (C5) update the averages of the
    variables, if there are any; an outsider who measures the model then finds these. In good order
    it ends with (C6): it closes the queue, and whoever finds that empty ends, too.
    With `overlap` (R2) and (R3) run side by side: what a layer adds to a variable is sent once the
    backward pass has computed it (wait-free back-propagation).
    `initial_tokens`: -1, like none given, stands for N; fewer than N - T are refused; 0 or less is
    none.
    A worker that restarts is labelled with the global step and needs no token. A chief that does
    begins at (C0), after it has restored the variables if there are checkpoints. Servers,
    accumulators and queue outlive them.
    Abadi et al., 2016; Chen et al., 2016 (backup workers).
    """

    kind: Literal["sync_replicas"] = "sync_replicas"
    replicas_to_aggregate: PositiveInt
    """N: gradients that make an update."""
    total_num_replicas: PositiveInt | None = None
    """T: replicas that tokens are made for; by default the workers."""
    initial_tokens: int | None = None
    """Tokens in the queue at the start; -1, or nothing, stands for N."""
    variable_averages: VariableAverages | None = None
    """Moving averages of the variables, which are then what is measured."""
    overlap: bool = False
    """Gradients are sent during the backward pass, layer by layer."""

    def replica(
        self,
        job: Job,
        worker: Worker,
        server: ParameterServer,
        tokens: TokenQueue,
    ) -> Activity[None]:
        """One replica's training loop."""
        local_step = job.global_step
        while True:
            read = yield from server.fetch(worker)  # (R1)
            gradient = yield from server.begin(worker, read)  # (R2)
            gradient.local_step = local_step
            yield from server.finish(worker, gradient)  # (R3)
            try:
                local_step = yield from tokens.dequeue(worker)  # (R4)
            except QueueClosedError:
                return

    def chief(
        self,
        job: Job,
        server: ParameterServer,
        accumulators: Sequence[GradientAccumulator],
        tokens: TokenQueue,
        averages: MovingAverages | None,
    ) -> Activity[None]:
        """The update loop; independent of worker 0's own training."""
        for accumulator in accumulators:
            accumulator.set_global_step(job.global_step)  # (C0)
        tokens.enqueue(job.global_step, self._first())
        needed, takes = self.replicas_to_aggregate, list[Take[Gradient]]()
        try:
            while True:
                updates = Countdown(job.clock, len(server.trained))

                def update(
                    variable: int, gradients: Sequence[Gradient], updates: Countdown = updates
                ) -> None:
                    server.apply(variable, gradients)  # (C2)
                    updates.count()

                takes = [
                    accumulators[variable].take(needed, partial(update, variable))  # (C1)
                    for variable in server.trained
                ]
                yield from updates.wait()
                yield from server.commit()
                job.count_step()  # (C3)
                tokens.enqueue(job.global_step, self._tokens(job.cluster))  # (C4)
                if averages is not None:
                    averages.update(job.global_step, server.parameters)  # (C5)
        except Ended as end:
            for variable, take in zip(server.trained, takes, strict=False):
                accumulators[variable].cancel(take)
            if isinstance(end, Stopped):
                tokens.close()  # (C6)
            raise

    def start(self, job: Job) -> None:
        server = ParameterServer(
            job, drops=True, overlap=self.overlap, averages=self.variable_averages
        )
        accumulators = [GradientAccumulator() for _ in server.variables]
        tokens = server.token_queue()

        def receive(variable: int, gradient: Gradient) -> None:
            if not accumulators[variable].add(gradient, gradient.local_step):
                server.drop(gradient)

        server.on_arrival(receive)
        averages = server.averages
        if averages is None:
            job.observe(lambda: server.parameters)
        else:
            job.observe(partial(_averaged, job, server, averages))
        job.explain(partial(self._remedy, accumulators))
        job.start_on(
            job.workers[0],
            self.chief,
            job,
            server,
            accumulators,
            tokens,
            averages,
            role="chief",
            waits_for=_Takes(accumulators),
        )
        for worker in job.workers:
            job.start_on(worker, self.replica, job, worker, server, tokens)

    @classmethod
    def example(cls, workers: int) -> dict[str, object]:
        return {"replicas_to_aggregate": max(1, workers - 1)}

    @property
    def traits(self) -> Traits:
        return Traits(
            Sends("gradients", to="servers", committed_by="chief"),
            Round("step", gradients=self.replicas_to_aggregate),
            overlap=self.overlap,
        )

    def iterations_per_update(self, cluster: Cluster) -> int:
        """max(N, T): each takes one of the tokens of an update."""
        return self._tokens(cluster)

    def dropped_at_first(self) -> Vain:
        """One for each initial token that is left when the first update is made: it is old then."""
        needed, first = self.replicas_to_aggregate, self._first()
        return Vain(
            max(0, first - needed),
            f"the first update uses up {needed:,} of {first:,} initial tokens, and whoever takes "
            "one of the others computes for a step that is over; "
            f"initial_tokens: {needed} (the default) drops none",
        )

    def saved_besides(self, cluster: Cluster) -> tuple[Copies, ...]:
        return (Copies("averages of variables"),) * (self.variable_averages is not None)

    def holds(self, cluster: Cluster) -> Holds:
        """And accumulators, in which gradients are added up as they come, and the averages."""
        averages = self.saved_besides(cluster)
        accumulators = Copies("accumulators", of="gradients")
        return super().holds(cluster) + Holds(servers=(accumulators, *averages))

    def rules(self, cluster: Cluster) -> Gate | None:
        if self.overlap:
            return None
        tokens, first = self._tokens(cluster), self._first()
        return Gate("tokens", self.replicas_to_aggregate, tokens, first)

    def check(self, cluster: Cluster) -> None:
        """Initial tokens must be at least N - T, as TensorFlow demands."""
        super().check(cluster)
        least = self.replicas_to_aggregate - self._total(cluster)
        if self._first() < least:
            raise refused(
                "initial_tokens",
                f"must be at least {least} (replicas_to_aggregate - total_num_replicas), or -1 for "
                f"the default, not {self.initial_tokens}",
            )

    def _remedy(self, accumulators: Sequence[GradientAccumulator], dead: Sequence[int]) -> str:
        """What would free the run; see `Job.explain`."""
        if 0 in dead:
            return "restart the chief: it takes what has piled up, and hands out tokens again"
        missing = max(accumulator.missing for accumulator in accumulators)
        if not dead:
            return f"initial_tokens: {max(self._first(), 0) + missing} at least"
        whom = named(dead) if missing >= len(dead) else f"{missing} of {named(dead)}"
        needed = self.replicas_to_aggregate - missing
        spare = f"; with replicas_to_aggregate: {needed} it would have gone on" if needed else ""
        return f"restart {whom}, whose first gradient needs no token{spare}"

    def _first(self) -> int:
        """Tokens to begin with; none if it is negative."""
        given = self.initial_tokens
        return self.replicas_to_aggregate if given in (None, -1) else given

    def _total(self, cluster: Cluster) -> int:
        return cluster.workers if self.total_num_replicas is None else self.total_num_replicas

    def _tokens(self, cluster: Cluster) -> int:
        return max(self.replicas_to_aggregate, self._total(cluster))

    called: ClassVar[str] = "sync PS"
    about: ClassVar[str] = "accumulators, token queue, stale gradients dropped, backup workers"
    also_known_as: ClassVar[tuple[str, ...]] = (
        "sync_ps",
        "sync_replicas_optimizer",
        "syncreplicasoptimizer",
    )
    about_values: ClassVar[tuple[str, ...]] = ("variable_averages",)
    others: ClassVar[Mapping[str, object]] = {
        "replicas_to_aggregate": 1,
        "total_num_replicas": 6,
        "initial_tokens": 0,
        "variable_averages": {"decay": 0.5},
        "overlap": True,
    }


def _averaged(job: Job, server: ParameterServer, averages: MovingAverages) -> Parameters:
    """The averages after the latest update, which (C5) may not have reached at this instant."""
    averages.update(job.global_step, server.parameters)
    return averages.values


class _Takes:
    """What the chief waits for."""

    def __init__(self, accumulators: Sequence[GradientAccumulator]) -> None:
        self._accumulators = accumulators

    def __str__(self) -> str:
        waiting = [str(accumulator) for accumulator in self._accumulators if accumulator.waiting]
        return "; ".join(dict.fromkeys(waiting))
