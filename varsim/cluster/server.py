"""Parameter servers: the one copy of every variable, on one or several shards."""

from collections.abc import Callable, Sequence

from varsim.cluster.clock import Activity
from varsim.cluster.job import Job
from varsim.cluster.link import Link
from varsim.cluster.parcel import Message, Parcel
from varsim.cluster.placement import bytes_per_port
from varsim.cluster.worker import Read, Worker
from varsim.values.distribute.central import ParameterServerStrategy
from varsim.values.distribute.creation import Asked
from varsim.values.gradient import Gradient, Parameters
from varsim.values.operation import finish
from varsim.values.variable import Synchronization


class ParameterServer:
    """All shards together, each with its own port; what is asked of it takes place on the links.

    A worker reads the values that the variables have when its request is made, and sends each
    variable's gradient as a message of its own. `drops`: gradients may be dropped; where they never
    are, those in flight can be worked out ahead.
    """

    def __init__(self, job: Job, *, drops: bool) -> None:
        self._job, self._clock, self._network = job, job.clock, job.network
        self._ahead = () if drops else job.in_flight
        strategy = ParameterServerStrategy(job.cluster.parameter_servers)
        asked = Asked(Synchronization.NONE, optimizer=job.workload.update_rule())
        self.variables = [
            finish(strategy.create(strategy.scope(), value, asked)) for value in job.task.initial()
        ]
        self._number = len(self.variables)
        self._parameters: Parameters | None = None
        sizes = bytes_per_port(job.workload.tensor_sizes(), job.cluster)
        ports = _ports(job, sizes)
        self._reads: list[Parcel] = []
        self._pushes: list[Parcel] = []
        for worker in job.workers:
            reads, pushes = [], []
            for (up, down), column in ports:
                reads.append(Message(0, (up, worker.down), sum(column)))
                pushes += [
                    Message(item, (worker.up, down), size)
                    for item, size in enumerate(column)
                    if size
                ]
            pushes.sort(key=lambda message: message.item)
            self._reads.append(job.network.parcel(reads))
            self._pushes.append(job.network.parcel(pushes))

    @property
    def parameters(self) -> Parameters:
        """The current values; one array per variable."""
        if self._parameters is None:
            self._parameters = tuple([variable.values[0] for variable in self.variables])
        return self._parameters

    def fetch(self, worker: Worker) -> Activity[Read]:
        """Read all variables; the values are those of the moment of the request."""
        return self._network.fetch(worker, self._reads[worker.rank], self._read_now)

    def push(
        self, worker: Worker, gradient: Gradient, receive: Callable[[int, Gradient], None]
    ) -> Activity[None]:
        """Send a gradient, variable by variable; `receive(variable, gradient)` as each arrives."""
        gradient.open = self._number
        return self._network.send(worker, self._pushes[worker.rank], gradient, receive)

    def apply(self, variable: int, gradients: Sequence[Gradient]) -> None:
        """Update one variable with the mean of these gradients."""
        if len(gradients) == 1:
            mean = self._job.gradients.value(gradients[0], variable, self._ahead)
        else:
            mean = self._job.gradients.mean(gradients, variable)
        self.variables[variable].apply(0, mean)
        self._parameters = None
        for gradient in gradients:
            gradient.applied += 1
            gradient.open -= 1
            if gradient.open == 0:
                self._job.ended(gradient)

    def _read_now(self) -> Read:
        parameters = self._parameters or self.parameters
        return Read(parameters, self._clock.time, self._job.global_step)

    def drop(self, gradient: Gradient) -> None:
        """One variable's part of a gradient is not used."""
        gradient.open -= 1
        if gradient.open == 0:
            self._job.ended(gradient)


def _ports(job: Job, sizes: list[list[float]]) -> list[tuple[tuple[Link, Link], list[float]]]:
    """The servers' links, each with the bytes of every variable behind it.

    Shards that hold the same bytes of every variable always carry equal traffic: they become one
    link of their common bandwidth.
    """
    columns: dict[tuple[float, ...], list[int]] = {}
    for shard, column in enumerate(zip(*sizes, strict=True)):
        if any(column):
            columns.setdefault(column, []).append(shard)
    rate = job.cluster.network.server_rate
    ports = []
    for column, shards in columns.items():
        count = len(shards)
        name = f"ps {shards[0]}" if count == 1 else f"ps {shards[0]}..{shards[-1]}"
        links = job.network.host(name, rate, count)
        ports.append((links, [size * count for size in column]))
    return ports
