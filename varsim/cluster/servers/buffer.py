"""Gradient buffers of a parameter server: updates of so many whole gradients.

And caches of what workers have read, with the gradients of their own since (SSP).
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from simpy.events import Event

from varsim.cluster.clock import Activity, Ended
from varsim.cluster.failures.deaths import Cutoff
from varsim.cluster.primitives import BoundedClocks, Instant
from varsim.cluster.record.trace import Phase
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, WorkerRead
from varsim.learning.gradient import Gradient, Parameters
from varsim.learning.gradient_form import IndexedSlices

_BARRIER = int(Phase.BARRIER)


class GradientBuffer:
    """Buffer of whole gradients, of which every `number` make an update of all variables.

    Those that come at one moment are taken in by rank, and nobody who pushed one then goes on
    before all of them are. With `steps` an update ends a step: what came at that moment, but after
    the last gradient it needed, is dropped, and whoever is at another one gives that up.
    """

    def __init__(
        self, job: Job, server: ParameterServer, number: int, steps: Cutoff | None = None
    ) -> None:
        self._job, self._clock, self._server = job, job.clock, server
        self._number, self._steps = number, steps
        self._missing: dict[Gradient, int] = {}  # parts of those that have come in part
        self._come = Instant(job.clock)
        self._kept: list[Gradient] = []
        self._waiting: dict[Gradient, Event] = {}  # the update with each that has come
        server.on_arrival(self._receive)

    def push(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Send a gradient, and leave it to the buffer when all of it is there."""
        try:
            yield from self._server.finish(worker, gradient)
        except Ended:
            if gradient.given_up:
                self._server.lose(gradient)
            raise
        finally:
            self._missing.pop(gradient, None)
        yield from self._clock.let_pass()
        if self._steps is not None:
            self._steps.begins(worker)

    def wait(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Wait for the update with a gradient that was pushed."""
        made = self._waiting.get(gradient)
        if made is not None:
            worker.waits(_BARRIER, self)
            yield made
            worker.goes_on()

    def _receive(self, variable: int, gradient: Gradient) -> None:
        missing = self._missing.get(gradient, len(self._server.trained)) - 1
        if missing:
            self._missing[gradient] = missing
            return
        self._come.add(gradient.worker, partial(self._take_in, gradient))
        self._waiting[gradient] = Event(self._clock)
        if self._steps is not None:
            self._steps.comes(gradient.worker)

    def _take_in(self, gradient: Gradient) -> None:
        if gradient.open == 0 or self._clock.stopped:  # it has come too late
            return
        if self._server.too_stale(gradient):
            self._drop(gradient)
            return
        self._kept.append(gradient)
        if len(self._kept) == self._number:
            self._update()

    def _update(self) -> None:
        used, self._kept = self._kept, []
        for variable in self._server.trained:
            self._server.apply(variable, used)
        self._job.count_step()
        for gradient in used:
            self._waiting.pop(gradient).succeed()
        if self._steps is not None:
            for gradient in list(self._waiting):  # which came at this moment, but later
                self._drop(gradient)
            self._steps.end_step()

    def _drop(self, gradient: Gradient) -> None:
        del self._waiting[gradient]
        self._server.drop_whole(gradient)

    def __str__(self) -> str:
        return f"an update of {self._number} gradients, of which {len(self._kept)} are there"


class FirstGradients:
    """The first `number` whole gradients of a step, which make an update of all variables.

    The last of them ends the step, at once unless others may come at that moment: then all that do
    are awaited, the first ones are those of the lowest ranks, and the others are dropped.
    """

    def __init__(self, job: Job, server: ParameterServer, number: int, steps: Cutoff) -> None:
        self._job, self._clock, self._server = job, job.clock, server
        self._number, self._steps = number, steps
        self._come: list[tuple[int, int, Gradient]] = []  # when (ns), and by whom
        self._settles = False
        server.on_arrival(self._receive)

    def _receive(self, variable: int, gradient: Gradient) -> None:
        if gradient.unsent:
            return
        self._come.append((self._clock.time, gradient.worker, gradient))
        self._steps.comes(gradient.worker)
        if len(self._come) < self._number or self._settles:
            return
        if self._steps.more_may_come():
            self._settles = True
            self._clock.call_settled(self._end_step)
        else:
            self._end_step()

    def _end_step(self) -> None:
        come, self._come, self._settles = self._come, [], False
        if self._clock.stopped:
            return
        first = [gradient for *_, gradient in sorted(come, key=lambda one: one[:2])]
        for variable in self._server.trained:
            self._server.apply(variable, first[: self._number])
        self._job.count_step()
        for gradient in first[self._number :]:
            self._server.drop_whole(gradient)
        self._steps.end_step()


class _Copy(NamedTuple):
    """What a worker holds, until it restarts; `stamp`: the slowest clock when it was read."""

    read: WorkerRead
    stamp: int
    restarts: int


class ParameterCache:
    """Cache of the parameters on every worker, read anew when it is too old for the bound.

    A copy that was read when the slowest clock stood at `stamp` contains all updates up to that; it
    does for a worker at clock c while `stamp` is at least c minus the bound. A worker's own updates
    are applied to its copy by plain SGD, as the servers apply them.
    """

    def __init__(self, job: Job, server: ParameterServer, clocks: BoundedClocks) -> None:
        self._job, self._server, self._clocks = job, server, clocks
        self._copies: dict[int, _Copy] = {}

    def fetch(self, worker: Worker) -> Activity[WorkerRead]:
        """The worker's copy, if that is new enough; else what the servers send."""
        copy = self._copies.get(worker.rank)
        held = copy is not None and copy.restarts == worker.restarts
        if copy is not None and held and self._clocks.suffices(worker, copy.stamp):
            return copy.read
        stamp = self._clocks.slowest
        read = yield from self._server.fetch(worker)
        self._copies[worker.rank] = _Copy(read, stamp, worker.restarts)
        return read

    def apply(self, worker: Worker, gradient: Gradient) -> None:
        """The worker's own gradient is part of its copy from now on."""
        copy = self._copies[worker.rank]
        parameters = copy.read.parameters
        if self._job.task.has_values:
            parameters = self._updated(parameters, gradient)
        read = replace(copy.read, parameters=parameters, global_step=copy.read.global_step + 1)
        self._copies[worker.rank] = copy._replace(read=read)

    def _updated(self, parameters: Parameters, gradient: Gradient) -> Parameters:
        rule, found = self._job.workload.update_rule(), list(parameters)
        for variable in self._job.trained:
            value = self._job.gradients.value(gradient, variable)
            if isinstance(value, IndexedSlices):
                found[variable], _ = rule.update_rows(value, (), found[variable])
            else:
                found[variable], _ = rule.update(value, (), found[variable])
        return tuple(found)
