"""Parameter caches: what workers read last, with their own updates since."""

from dataclasses import replace
from typing import NamedTuple

from varsim.cluster.clock import Activity
from varsim.cluster.job import Job
from varsim.cluster.server import ParameterServer
from varsim.cluster.waiting import BoundedClocks
from varsim.cluster.worker import Read, Worker
from varsim.values.gradient import Gradient, Parameters
from varsim.values.gradient_form import IndexedSlices


class _Copy(NamedTuple):
    """What a worker holds, until it restarts; `stamp`: the slowest clock when it was read."""

    read: Read
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

    def fetch(self, worker: Worker) -> Activity[Read]:
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
