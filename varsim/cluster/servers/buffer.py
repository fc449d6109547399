"""Gradient buffers of a parameter server: updates of so many whole gradients.

And caches of what workers have read, with the gradients of their own since (SSP).
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from simpy.events import Event

from varsim.cluster.clock import Activity, Ended
from varsim.cluster.failures.deaths import DeathWatch
from varsim.cluster.primitives import BoundedClocks, Instant
from varsim.cluster.record.trace import Phase
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, WorkerRead
from varsim.learning.gradient import Gradient, Parameters
from varsim.learning.gradient_form import IndexedSlices

_BARRIER = int(Phase.BARRIER)


class StepOverError(Exception):
    """Thrown into a worker whose step is over before it has come."""


class GradientBuffer:
    """Buffer of whole gradients, of which every `number` make an update of all variables.

    Those that come at one moment are taken in by rank; nobody who pushed one, or waits for the
    update with it, goes on before all of them are. Where an update `ends_steps`, whoever has not
    come by then gives up what it is at (StepOverError), and what comes later at that moment is
    dropped.
    """

    def __init__(
        self, job: Job, server: ParameterServer, number: int, *, ends_steps: bool = False
    ) -> None:
        self._job, self._clock, self._server = job, job.clock, server
        self._number = number
        self._deaths = DeathWatch(job) if ends_steps else None
        self._missing: dict[Gradient, int] = {}  # parts of those that have come in part
        self._come = Instant(job.clock)
        self._kept: list[Gradient] = []
        self._made = Event(job.clock)  # when next any are used, or dropped
        self._here: set[int] = set()  # whose gradient has come in this step, and who waits for it
        server.on_arrival(self._receive)

    def push(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Send a gradient; returns when all of it is there, and all else of that moment."""
        return self._push(worker, gradient, self._clock.let_pass())

    def push_and_wait(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Send a gradient, and wait for the update with it."""
        return self._push(worker, gradient, self._update_with(worker, gradient))

    def _push(self, worker: Worker, gradient: Gradient, then: Activity[None]) -> Activity[None]:
        try:
            yield from self._server.finish(worker, gradient)
            yield from then
        except Ended:
            if gradient.given_up:
                self._server.lose(gradient)
            raise
        finally:
            self._missing.pop(gradient, None)
            self._here.discard(worker.rank)

    def _update_with(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Wait until a gradient is used, or dropped; if it was before, until all else has come."""
        if gradient.open == 0:
            yield from self._clock.let_pass()
            return
        worker.waits(_BARRIER, self)
        while gradient.open > 0:
            yield self._made
        worker.goes_on()

    def _receive(self, variable: int, gradient: Gradient) -> None:
        missing = self._missing.get(gradient, len(self._server.trained)) - 1
        if missing:
            self._missing[gradient] = missing
            return
        self._here.add(gradient.worker)
        self._come.add(gradient.worker, partial(self._take_in, gradient))

    def _take_in(self, gradient: Gradient) -> None:
        late = self._deaths is not None and gradient.read.global_step < self._job.updates
        if gradient.open == 0 or (self._clock.stopped and not late):
            return
        if late or self._server.too_stale(gradient):
            self._server.drop_whole(gradient)
            self._wake()
            return
        self._kept.append(gradient)
        if len(self._kept) == self._number:
            self._update()

    def _update(self) -> None:
        used, self._kept = self._kept, []
        for variable in self._server.trained:
            self._server.apply(variable, used)
        self._job.count_step()
        if self._deaths is not None:
            self._end_step(self._deaths)
        self._wake()

    def _wake(self) -> None:
        """Gradients have been used, or dropped: who waits for that goes on."""
        made, self._made = self._made, Event(self._clock)
        made.succeed()

    def _end_step(self, deaths: DeathWatch) -> None:
        """Who has not come gives up what it is at, and begins anew."""
        here, self._here = self._here, set()
        for worker in self._job.workers:
            running = self._job.processes.running(worker.rank) and not worker.is_setting_up
            if running and worker.rank not in here:
                deaths.call_off(worker, StepOverError())

    def __str__(self) -> str:
        return f"an update of {self._number} gradients, of which {len(self._kept)} are there"


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
