"""One run of one strategy, alive: clock, network, workers, and what is recorded of them."""

import math
from collections.abc import Callable, Iterator
from itertools import chain, count

import numpy as np

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.description import Cluster
from varsim.cluster.network import network
from varsim.cluster.pace import windows
from varsim.cluster.stop import Stop
from varsim.cluster.worker import Worker
from varsim.trace import (
    EvaluationRow,
    LinkRow,
    Outcome,
    Recorder,
    Trace,
)
from varsim.values.gradient import Gradient, Gradients, Parameters
from varsim.values.stream import stream
from varsim.values.workload import Workload


class DeadlockError(Exception):
    """The model stands still: nothing can happen any more, and the stop rule does not hold."""


class Job:
    """One run; strategies start their processes in it and it keeps the books.

    `lazy` and `record` exist for measurements of the simulator itself: no result depends on
    `lazy`, and without `record` a run leaves no spans.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        stop: Stop,
        *,
        seed: int,
        replication: int,
        workers: int | None = None,
        lazy: bool = True,
        record: bool = True,
    ) -> None:
        self.cluster = cluster
        self.workload = workload
        self.replication = replication
        self.clock = Clock()
        self.recorder = Recorder(spans=record)
        self.task = workload.problem.task(seed, replication)
        self.gradients = Gradients(self.task, lazy)
        self.network = network(self.clock, cluster.network)
        self.global_step = 0
        self.examples = 0.0  # in applied gradients
        self._aggregated = 0
        self.in_flight: dict[Gradient, None] = {}
        self.stopped_by = ""
        self._seed = seed
        self._stop = stop
        self._variables = len(workload.problem.variables())
        self._model: Callable[[], Parameters] | None = None
        self._divergence: Callable[[], float] | None = None
        self._roles: list[tuple[str, object]] = []
        number = cluster.workers if workers is None else workers
        self._evaluate_every = workload.examples_between_evaluations(number)
        self._next_evaluation = self._evaluate_every
        self.workers = [self._worker(rank) for rank in range(number)]
        if stop.time is not None:
            self.clock.call_last(round(stop.time * 1e9), lambda: self._end("time"))

    def spawn(self, activity: Activity[None], role: str = "", waits_for: object = None) -> None:
        """Start a process. `role` and what it waits for are named should the run stand still."""
        self.clock.process(activity)
        if role:
            self._roles.append((role, waits_for))

    def observe(
        self, model: Callable[[], Parameters], divergence: Callable[[], float] | None = None
    ) -> None:
        """Say where an outsider finds the model; it is measured from time to time, for free.

        Always at the start and at the end. In between only where there is one model; where the
        copies differ (`divergence` is given), that takes a read, for the strategy to arrange.
        """
        self._model = model
        self._divergence = divergence
        self.evaluate(model())

    def model(self) -> Parameters:
        """The model as an outsider finds it now; one array per variable."""
        assert self._model is not None, "the strategy shows no model"
        return self._model()

    def evaluate(self, parameters: Parameters, divergence: float = 0.0) -> None:
        """Measure loss and accuracy now."""
        loss = self.task.loss(parameters)
        self.recorder.evaluations.append(
            EvaluationRow(
                self.clock.time,
                self.global_step,
                round(self.examples),
                loss,
                self.task.accuracy(parameters),
                divergence,
            )
        )
        self._next_evaluation = (
            math.floor(self.examples / self._evaluate_every) + 1
        ) * self._evaluate_every
        if self._stop.loss is not None and loss <= self._stop.loss:
            self._end("loss")

    def ended(self, gradient: Gradient, global_step: int | None = None) -> None:
        """A gradient has been applied or dropped, for every variable: write its row."""
        applied, variables = gradient.applied, self._variables
        self._aggregated += applied > 0
        if applied == variables:
            outcome = 0
            self.examples += self.workload.batch_size
        elif applied == 0:
            outcome = 1
        else:
            outcome = 2
            self.examples += self.workload.batch_size * applied / variables
        read = gradient.read
        self.recorder.gradients += (
            gradient.worker,
            gradient.iteration,
            read.time,
            read.global_step,
            gradient.compute_start,
            gradient.computed,
            gradient.arrived,
            self.clock.time,
            self.global_step if global_step is None else global_step,
            outcome,
            applied,
        )
        del self.in_flight[gradient]

    def count_step(self) -> None:
        """The model has been updated once more; ends the run if that was enough."""
        self.global_step += 1
        self.recorder.steps.append(self.clock.time)
        self.recorder.pack()
        if self._divergence is None and self.examples >= self._next_evaluation:
            assert self._model is not None
            self.evaluate(self._model())
        if self._stop.global_steps is not None and self.global_step >= self._stop.global_steps:
            self._end("global_steps")
        elif self._stop.examples is not None and self.examples >= self._stop.examples:
            self._end("examples")

    def run(self, label: str) -> Trace:
        """Run until the stop rule holds; raises DeadlockError if it never will."""
        # Training may diverge; then the loss says so, and numpy need not.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            self.clock.run_until_stopped()
        if not self.stopped_by:
            raise DeadlockError(self._deadlock(label))
        end = self.clock.time
        recorder = self.recorder
        if self._model is not None and recorder.evaluations[-1].global_step != self.global_step:
            self.evaluate(self._model(), self._divergence() if self._divergence else 0.0)
        for worker in self.workers:
            worker.close(end)
        pending = [gradient for gradient in self.in_flight if gradient.computed <= end]
        for gradient in pending:
            recorder.gradients += _pending(gradient)
        begun = sum(worker.iteration + 1 for worker in self.workers)
        rows = recorder.gradient_rows()
        assert begun == len(rows) + len(self.in_flight) - len(pending), "a gradient was lost"
        return Trace(
            strategy=label,
            replication=self.replication,
            workers=len(self.workers),
            variables=self._variables,
            batch_size=self.workload.batch_size,
            end=end,
            stopped_by=self.stopped_by,
            global_step=self.global_step,
            spans=recorder.spans(end),
            gradients=rows,
            evaluations=recorder.evaluations,
            steps=np.array(recorder.steps, dtype=np.int64),
            copy_staleness=np.array(recorder.copy_staleness, dtype=np.int64),
            links=[
                LinkRow(link.name, link.bandwidth, link.moved) for link in self.network.carried(end)
            ],
            heap_events=self.clock.heap_events,
            gradients_evaluated=self.gradients.evaluated,
            gradients_aggregated=self._aggregated,
        )

    def _end(self, reason: str) -> None:
        if not self.stopped_by:
            self.stopped_by = reason
            self.clock.stop()

    def _worker(self, rank: int) -> Worker:
        cluster = self.cluster
        pace = windows(cluster.slow_workers, rank)
        factor = pace[0][1]
        times = self._compute_times(rank, factor if len(pace) == 1 else 1.0)
        batches = chain.from_iterable(
            self.task.batches(rank, block, self.workload.batch_size) for block in count()
        )
        return Worker(
            self.clock,
            rank,
            self.network.host(f"worker {rank}", cluster.network.rate_of(rank)),
            times,
            pace if len(pace) > 1 else [],
            batches,
            self.in_flight,
            self.recorder.worker_spans(rank),
        )

    def _compute_times(self, rank: int, factor: float) -> Iterator[int]:
        law = self.cluster.law(self.workload)
        seed, replication = self._seed, self.replication
        blocks = law.blocks(rank, lambda block: stream(seed, replication, "compute", rank, block))
        return chain.from_iterable(
            np.rint(block * (factor * 1e9)).astype(np.int64).tolist() for block in blocks
        )

    def _deadlock(self, label: str) -> str:
        lines = [
            f"{label}: the run stands still at {self.clock.time / 1e9:.9g} s, after "
            f"{self.global_step} updates: nothing can happen any more."
        ]
        waits: dict[str, list[str]] = {}
        for worker in self.workers:
            what = "nothing" if worker.waits_for is None else str(worker.waits_for)
            waits.setdefault(what, []).append(str(worker.rank))
        for what, ranks in waits.items():
            name = "worker" if len(ranks) == 1 else "workers"
            lines.append(f"  {name} {', '.join(ranks)}: waiting for {what}")
        lines += [f"  {role}: waiting for {what}" for role, what in self._roles]
        return "\n".join(lines)


def _pending(gradient: Gradient) -> tuple[int, ...]:
    return (
        gradient.worker,
        gradient.iteration,
        gradient.read.time,
        gradient.read.global_step,
        gradient.compute_start,
        gradient.computed,
        gradient.arrived,
        -1,
        -1,
        Outcome.PENDING,
        gradient.applied,
    )
