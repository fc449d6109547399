"""Parameter servers: the one copy of every variable, on one or several shards."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from varsim.cluster.clock import Activity
from varsim.cluster.description.servers import Overheads
from varsim.cluster.network.batch import MessageBatch
from varsim.cluster.network.network import Arrived, Content
from varsim.cluster.primitives import Lock, TokenQueue
from varsim.cluster.record.trace import Phase
from varsim.cluster.servers.placement import (
    bytes_per_port,
    server_messages,
    server_places,
    traffic_per_port,
)
from varsim.cluster.servers.queues import (
    AnsweredTokenQueue,
    Handling,
    RequestQueues,
    Updater,
    queue_columns,
)
from varsim.cluster.workers.exchange import GradientExchange, WaitFreePush
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, WorkerRead
from varsim.core.operation import finish
from varsim.distribute.attributes import Synchronization
from varsim.distribute.central import ParameterServerStrategy
from varsim.distribute.variable import VariableOptions
from varsim.learning.gradient import Array, Gradient, Parameters, Value, mean_of_values
from varsim.learning.optimizer import MovingAverages, VariableAverages
from varsim.learning.staleness import DropAbove, StalenessPolicy

_WRITE = int(Phase.WRITE)

# What becomes of a variable's gradient, called as it arrives: receive(variable, gradient).
Receive: TypeAlias = Callable[[int, Gradient], None]


class ParameterServer(GradientExchange[Gradient]):
    """Parameter server: all shards together, each with its own port on the network.

    A worker reads the values that the variables have when its request is made, and sends each
    variable's gradient as a message of its own. `drops`: gradients may be dropped; where they never
    are, those in flight can be worked out ahead. Where the cluster has overheads, requests are
    handled one after the other, and a worker goes on when it is told to: that its gradient was
    handled, or, once there is a `token_queue`, that it has a token. With `server_update` handling a
    gradient includes applying it. `overlap`: gradients are sent while they are computed. `whole`:
    what travels is all rows of all variables, as parameters, and not what a gradient needs.
    `policy`: what becomes of stale gradients. `averages` of the variables are kept, and saved, with
    them.
    """

    def __init__(
        self,
        job: Job,
        *,
        drops: bool,
        overlap: bool = False,
        whole: bool = False,
        policy: StalenessPolicy | None = None,
        averages: VariableAverages | None = None,
    ) -> None:
        self._wait_free = WaitFreePush(job) if overlap else None
        super().__init__(job, () if self._wait_free is None else self._wait_free.ready)
        self._ledger = job.ledger
        self._policy = policy
        drops = drops or isinstance(policy, DropAbove)
        self._ahead = () if drops else self._ledger.in_flight
        strategy = ParameterServerStrategy(job.cluster.parameter_servers)
        asked = VariableOptions(Synchronization.NONE, optimizer=job.workload.update_rule())
        self.variables = [
            finish(strategy.create(strategy.scope(), value, asked)) for value in job.task.initial()
        ]
        self.trained = job.trained
        self._number = len(self.trained)
        self._learns = job.task.has_values  # else gradients are zeros, and change nothing
        self._parameters: Parameters | None = None
        if whole:
            sizes = bytes_per_port(job.workload.tensor_sizes(), job.cluster)
            ratios = [1.0] * len(sizes)
        else:
            sizes = traffic_per_port(job.workload, job.cluster)
            ratios = job.workload.gradient_ratios()
        network = job.network
        if self._wait_free is None:
            ports = server_places(network.routing, job.cluster, sizes)
        else:
            ports = self._wait_free.ports
        self.averages = None if averages is None else MovingAverages(averages, self.parameters)
        self._before_reads: list[Callable[[Worker], Activity[None]]] = []
        self._queues: RequestQueues | None = None
        if job.cluster.overheads is not None or job.cluster.server_update is not None:
            self._queues = _queues(job, sizes, ratios)
        for attach in job.on_server:
            attach(self)
        self._takes_more = bool(self._queues or self._before_reads)  # than links
        self._confirms = True
        self._content = self._read_now  # the same object each time
        self.on_arrival(_keep)
        self._reads: list[MessageBatch] = []
        self._pushes: list[MessageBatch] = []
        for worker in job.workers:
            reads, pushes = server_messages(
                network.route, worker.place, ports, self.trained, ratios
            )
            self._reads.append(job.network.batch(reads))
            self._pushes.append(job.network.batch(pushes))

    @property
    def parameters(self) -> Parameters:
        """The current values; one array per variable."""
        if self._parameters is None:
            self._parameters = tuple([variable.values[0] for variable in self.variables])
        return self._parameters

    def fetch(self, worker: Worker) -> Activity[WorkerRead]:
        """Read all variables; the values are those of the moment of the request."""
        if self._takes_more:
            return self._fetch_handled(worker)
        return self._network.fetch(worker, self._reads[worker.rank], self._content)

    def on_arrival(self, receive: Receive) -> None:
        """Say what is done with a variable's gradient as it arrives; by default it is only kept."""
        breaks_off = self._job.may_break_off
        self._receive = partial(_receive_if_wanted, receive) if breaks_off else receive

    def finish(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Send a gradient, variable by variable; returns when all of it is there and handled."""
        gradient.open = self._number
        if self._job.may_break_off:
            gradient.unsent = self._number
        if self._queues is not None:
            return self._push_handled(worker, gradient, self._receive, self._queues)
        return self._send(worker, gradient, self._receive)

    def push(self, worker: Worker, content: Content, arrived: Arrived) -> Activity[None]:
        """Send something else of every trained variable; `arrived(variable, content)` of each."""
        if self._queues is not None:
            return self._push_handled(worker, content, arrived, self._queues)
        return self._send(worker, content, arrived)

    def write(self, variable: int, value: Array) -> None:
        """Set a variable."""
        self.variables[variable].write(0, value)
        self._parameters = None

    def token_queue(self) -> TokenQueue:
        """A queue of tokens on the first server."""
        if self._queues is None:
            return TokenQueue(self._clock, self._job.recorder)
        self._confirms = False
        return AnsweredTokenQueue(self._clock, self._job.recorder, self._queues)

    def lock(self) -> Lock:
        """A lock on all variables; from now on gradients are confirmed by `confirm` alone."""
        self._confirms = False
        if self._queues is not None:
            self._queues.keep()
        return Lock(self._clock)

    def confirm(self, worker: Worker) -> Activity[None]:
        """Tell a worker that its gradient is applied."""
        if self._queues is not None:
            yield from self._queues.answer(worker)

    def commit(self) -> Activity[None]:
        """What an update loop needs from its last gradient to the new global_step."""
        if self._queues is not None:
            yield from self._queues.commit()

    def apply(self, variable: int, gradients: Sequence[Gradient]) -> None:
        """Update one variable with the mean of these gradients; of a sparse one, row by row.

        Those that are too stale are dropped.
        """
        if self._policy is not None:
            for gradient in filter(self.too_stale, gradients):
                self.drop(gradient)
            gradients = [gradient for gradient in gradients if not self.too_stale(gradient)]
            if not gradients:
                return
            mean = self._adjusted_mean(self._policy, variable, gradients)
        elif len(gradients) == 1:
            mean = self._job.gradients.value(gradients[0], variable, self._ahead)
        else:
            mean = self._job.gradients.mean(gradients, variable, by_row=True)
        if self._learns:
            self.variables[variable].apply(0, mean)
            self._parameters = None
        for gradient in gradients:
            gradient.applied += 1
            gradient.open = left = gradient.open - 1
            if not left:
                self._ledger.ended(gradient, self._clock.time)

    def apply_whole(self, worker: Worker, gradient: Gradient) -> Activity[None]:
        """Update all variables with a gradient: takes its time and a commit, seen at the end.

        One that is too stale is dropped at once.
        """
        if self.too_stale(gradient):
            self.drop_whole(gradient)
            return
        worker.waits(_WRITE, "the update with its gradient")
        if self._queues is not None:
            yield from self._queues.apply_kept(self.trained)
        yield from self.commit()
        worker.goes_on()
        for variable in self.trained:
            self.apply(variable, [gradient])

    def lose(self, gradient: Gradient) -> None:
        """The worker of a gradient has ended; what is there of it will never be applied."""
        if gradient.open > 0:
            gradient.open = 0
            gradient.given_up = True
            self._ledger.ended(gradient, self._clock.time)

    def before_reads(self, function: Callable[[Worker], Activity[None]]) -> None:
        """Have a worker do this before it reads the variables for an iteration."""
        self._before_reads.append(function)

    def changed(self) -> None:
        """Variables have been written to."""
        self._parameters = None

    def _read_now(self) -> WorkerRead:
        parameters = self._parameters or self.parameters
        return WorkerRead(parameters, self._clock.time, self._ledger.global_step)

    def drop(self, gradient: Gradient) -> None:
        """One variable's part of a gradient is not used."""
        gradient.open -= 1
        if gradient.open == 0:
            self._ledger.ended(gradient, self._clock.time)

    def drop_whole(self, gradient: Gradient) -> None:
        """All of a gradient is not used."""
        for _ in self.trained:
            self.drop(gradient)

    def too_stale(self, gradient: Gradient) -> bool:
        """Whether a gradient is to be dropped for its staleness now."""
        return self._policy is not None and self._policy.drops(self._staleness(gradient))

    def _staleness(self, gradient: Gradient) -> int:
        staleness: int = self._ledger.global_step - gradient.read.global_step
        return staleness

    def _adjusted_mean(
        self, policy: StalenessPolicy, variable: int, gradients: Sequence[Gradient]
    ) -> Value:
        """The mean of gradients of one variable, each adjusted for its staleness."""
        now = self.variables[variable].values[0]
        values = [
            policy.adjusted(
                self._job.gradients.value(gradient, variable, self._ahead),
                self._staleness(gradient),
                now,
                gradient.read.parameters[variable],
            )
            for gradient in gradients
        ]
        return values[0] if len(values) == 1 else mean_of_values(values, by_row=True)

    def _send(self, worker: Worker, content: Content, arrived: Arrived) -> Activity[None]:
        """Send a gradient over the links; `arrived(variable, gradient)` as each part is there."""
        if self._number < len(self.variables):
            arrived = partial(_arrived_of, self.trained, arrived)
        if self._wait_free is not None:
            assert isinstance(content, Gradient)
            moments = self._moments[worker.rank]
            return self._wait_free.send(worker, content, moments, arrived)
        return self._network.send(worker, self._pushes[worker.rank], content, arrived)

    def _fetch_handled(self, worker: Worker) -> Activity[WorkerRead]:
        for function in self._before_reads:
            yield from function(worker)
        if self._queues is not None:
            yield from self._queues.handle_read(worker)
        return (yield from self._network.fetch(worker, self._reads[worker.rank], self._read_now))

    def _push_handled(
        self, worker: Worker, content: Content, receive: Arrived, queues: RequestQueues
    ) -> Activity[None]:
        handling = Handling()

        def arrived(variable: int, content: Content) -> None:
            queues.take_in(variable, handling, partial(receive, variable, content))

        yield from self._send(worker, content, arrived)
        yield from queues.wait_for_push(worker, handling)
        if self._confirms:
            yield from queues.answer(worker)


def _arrived_of(
    trained: Sequence[int],
    arrived: Arrived,
    item: int,
    content: Content,
) -> None:
    """A part of a gradient is there, numbered among the variables that have one."""
    arrived(trained[item], content)


def _keep(variable: int, gradient: Gradient) -> None:
    """A part of a gradient is there, and is not applied before all of it is."""


def _receive_if_wanted(receive: Receive, variable: int, gradient: Gradient) -> None:
    """Receive a part of a gradient, unless that was given up while the part was on its way."""
    if not gradient.given_up:
        gradient.unsent -= 1
        receive(variable, gradient)


def _queues(job: Job, sizes: list[list[float]], ratios: Sequence[float]) -> RequestQueues:
    """A queue for every server, with what then applies gradients, if that takes time."""
    described = job.cluster.server_update
    columns, pushed = queue_columns(described, sizes, ratios)
    updaters = []
    if described is not None:
        updaters = [
            Updater(
                described,
                number,
                column,
                job.streams("server update", number),
            )
            for number, column in enumerate(pushed)
        ]
    overheads = job.cluster.overheads or Overheads()
    return RequestQueues(job.clock, overheads, columns, pushed, updaters)
