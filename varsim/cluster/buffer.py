"""Gradient buffers of a parameter server: updates of so many whole gradients."""

from simpy.events import Event

from varsim.cluster.clock import Activity, Ended
from varsim.cluster.job import Job
from varsim.cluster.server import ParameterServer
from varsim.cluster.trace import Phase
from varsim.cluster.worker import Worker
from varsim.values.gradient import Gradient

_BARRIER = int(Phase.BARRIER)


class GradientBuffer:
    """Buffer of whole gradients, of which every `number` make an update of all variables.

    Those that come at one moment are taken in by rank, and nobody who pushed one then goes on
    before all of them are.
    """

    def __init__(self, job: Job, server: ParameterServer, number: int) -> None:
        self._job, self._clock, self._server = job, job.clock, server
        self._number = number
        self._come: list[Gradient] = []  # at this moment
        self._kept: list[Gradient] = []
        self._waiting: dict[int, Event] = {}  # by rank: who waits for the update with its gradient

    def push(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Send a gradient, and leave it to the buffer when all of it is there."""
        try:
            yield from self._server.finish(worker, gradient)
            yield from worker.catch_up()
        except Ended:
            self._server.lose(gradient)
            raise
        if not self._come:
            self._clock.call_settled(self._settle)
        self._come.append(gradient)
        self._waiting[worker.rank] = Event(self._clock)
        yield from self._clock.let_pass()

    def wait(self, worker: Worker) -> Activity[None]:
        """Wait for the update with the worker's latest gradient."""
        made = self._waiting.get(worker.rank)
        if made is not None:
            worker.waits(_BARRIER, self)
            yield made
            worker.goes_on()

    def _settle(self) -> None:
        come, self._come = self._come, []
        for gradient in sorted(come, key=lambda one: one.worker):
            self._kept.append(gradient)
            if len(self._kept) == self._number and not self._clock.stopped:
                self._update()

    def _update(self) -> None:
        used, self._kept = self._kept, []
        for variable in self._server.trained:
            self._server.apply(variable, used)
        self._job.count_step()
        for gradient in used:
            made = self._waiting.pop(gradient.worker, None)
            if made is not None:
                made.succeed()

    def __str__(self) -> str:
        return f"an update of {self._number} gradients, of which {len(self._kept)} are there"
