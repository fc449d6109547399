"""Gradient accumulation: micro-batches whose gradients a worker adds up; DropCompute."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from varsim.cluster.clock import END_OF_TIME, Activity, Ended
from varsim.cluster.exchange import GradientExchange
from varsim.cluster.job import Job
from varsim.cluster.worker import Read, Worker
from varsim.units import Seconds
from varsim.values.gradient import Gradient
from varsim.values.schema import Model


class DropCompute(Model):
    """When a worker gives up the rest of its micro-batches of a step.

    `threshold`: so long after it began with the step. It looks before each micro-batch whether that
    long has passed, and ends the one it is at. `divide_by`: the sum of all gradients is divided by
    how many micro-batches have been computed, or by how many there are.
    Giladi et al., 2023 (DropCompute, arXiv 2306.10598).
    """

    threshold: Seconds = Field(gt=0)
    """Time after the beginning of a step at which a worker gives up the rest of its batches."""
    divide_by: Literal["computed", "all"] = "computed"
    """Whether the mean is over the micro-batches that were computed or over all of them."""


class Accumulation:
    """Accumulation of the gradients of `number` micro-batches a step, which are sent as one.

    Each has a batch and a compute time of its own; those that are dropped are passed over, so that
    the next step meets the same ones whatever was dropped. Only the last one's backward pass
    overlaps with the exchange, and only if it is the last for sure: one before which a worker stops
    is not known to be, and what it added up is sent when it has stopped.
    """

    def __init__(
        self,
        job: Job,
        exchange: GradientExchange[Sequence[Gradient]],
        number: int,
        drop: DropCompute | None,
    ) -> None:
        self._clock, self._ledger, self._exchange = job.clock, job.ledger, exchange
        self._number = number
        # In ns: some time, so that one micro-batch at least is computed.
        self._threshold = END_OF_TIME if drop is None else max(1, round(drop.threshold * 1e9))
        job.gradients.accumulate(number)

    def compute(self, worker: Worker, read: Read) -> Activity[list[Gradient]]:
        """Compute the gradients of a step at the parameters read; those that count."""
        if self._number == 1:  # the commonest step takes a shorter way
            return [(yield from self._exchange.begin(worker, read))]
        gradients: list[Gradient] = []
        try:
            yield from self._compute_each(worker, read, gradients)
        except Ended:
            for gradient in gradients:  # it dies with what it has added up
                gradient.open, gradient.given_up = 0, True
                # Of a copy that may be a step ahead of others.
                self._ledger.ended(gradient, self._clock.time, gradient.read.global_step)
            raise
        return gradients

    def _compute_each(
        self, worker: Worker, read: Read, gradients: list[Gradient]
    ) -> Activity[None]:
        clock = self._clock
        deadline = max(worker.ready_at, clock.time) + self._threshold
        for left in range(self._number, 0, -1):
            if clock.time >= deadline:
                worker.pass_over(left)
                break
            if left > 1:
                gradient = yield from worker.compute_gradient(read)
            else:
                gradient = yield from self._exchange.begin(worker, read)
                gradients.append(gradient)
                return
            gradients.append(gradient)
        self._exchange.is_ready(worker)
