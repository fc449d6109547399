"""Evaluation of the model in a run: its loss, from time to time and when one is waited for."""

import math

from varsim.cluster.description.cluster import Stop
from varsim.cluster.record.trace import EvaluationRow
from varsim.cluster.workers.job import Job
from varsim.learning.gradient import Parameters
from varsim.learning.task import Floor


class Evaluation:
    """Evaluation of the model that a strategy shows (`Job.observe`); attaches itself to a job.

    Always at the start and at the end. In between only where there is one model; where copies
    differ, at reads that the strategy arranges, or when looked at from outside. But until a loss
    is reached that is waited for (that of the stop rule, or `target_loss`), every update is looked
    at, of any strategy.
    """

    def __init__(self, job: Job, stop: Stop, target_loss: float | None = None) -> None:
        self._job, self._stop = job, stop
        self._every = job.workload.examples_between_evaluations(len(job.workers))
        self._next: float = self._every  # examples, at the next evaluation on the grid
        self._evaluated_step = -1  # updates made by the latest of them
        wanted = {loss for loss in (stop.loss, target_loss) if loss is not None}
        self._awaited = sorted(wanted)  # losses not reached yet, the next one last
        self._floor: Floor | None = None  # of the model that was looked at last
        job.on_observe.append(self._evaluate)
        job.on_update.append(self._look)
        job.on_end.append(self._finish)
        job.on_rollback.append(self._roll_back)

    def measure(self) -> None:
        """Measure the model as an outsider finds it now."""
        self._evaluate(self._job.model(), self._job.divergence())

    def _evaluate(self, parameters: Parameters, divergence: float) -> None:
        loss = self._job.task.loss(parameters)
        self._record(parameters, loss, divergence, off_grid=False)
        ledger, every = self._job.ledger, self._every
        undone = ledger.examples_undone
        self._next = (math.floor((ledger.examples - undone) / every) + 1) * every + undone

    def _look(self) -> None:
        """After an update: measure it if that is due, or its loss is one that is waited for."""
        if self._job.ledger.examples >= self._next and not self._job.seen_at_reads_only:
            self.measure()
        elif self._awaited and not self._job.nobody_has_the_model:
            self._look_for_loss()

    def _look_for_loss(self) -> None:
        job = self._job
        parameters = job.model()
        if self._floor is not None and self._floor(parameters) > self._awaited[-1]:
            return
        loss = job.task.loss(parameters)
        if not loss <= self._awaited[-1]:
            self._floor = job.task.floor(parameters, loss)
        else:
            ends = self._stop.loss is not None and loss <= self._stop.loss
            self._record(parameters, loss, job.divergence(), off_grid=not ends)

    def _record(
        self, parameters: Parameters, loss: float, divergence: float, *, off_grid: bool
    ) -> None:
        job, ledger = self._job, self._job.ledger
        if not off_grid:
            self._evaluated_step = ledger.global_step
        now, accuracy = job.clock.time, job.task.accuracy(parameters)
        examples = round(ledger.examples - ledger.examples_undone)
        job.recorder.evaluations.append(
            EvaluationRow(now, job.global_step, examples, loss, accuracy, divergence, off_grid)
        )
        while self._awaited and loss <= self._awaited[-1]:
            if self._awaited.pop() == self._stop.loss:
                job.end("loss")

    def _roll_back(self) -> None:
        self._evaluated_step = -1

    def _finish(self, model_lost: bool) -> None:
        """The run is over."""
        if not model_lost and self._evaluated_step != self._job.ledger.global_step:
            self.measure()
