"""Programs of variables on a cluster: their operations, carried out on a clock, and their runs.

The same operations take no time under `varsim.core.operation.finish`; the values are the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from simpy.events import Event

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.description.stragglers import SlowWorker, Straggler, check_ranks, stragglers
from varsim.cluster.network.link import Link
from varsim.cluster.network.network import Network, network
from varsim.cluster.network.topologies import Star
from varsim.cluster.primitives import Countdown
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import GradientRow, LinkRow, Phase, Trace
from varsim.cluster.workers.worker import end_of, slowness
from varsim.core.blas import one_blas_thread
from varsim.core.distributions import AnyDistribution, check_no_batch
from varsim.core.operation import (
    DEFAULT_DEVICE,
    Computation,
    CurrentTime,
    DeviceId,
    Exchange,
    Movement,
    Operation,
    Parallel,
    Request,
    Transfer,
    collective_mismatch,
)
from varsim.core.refusal import RefusalError, refused
from varsim.core.schema import Model
from varsim.core.stream import keyed, stream
from varsim.distribute.program import ACTIONS, Program, VariableDescription
from varsim.distribute.program_run import (
    CROSS_REPLICA,
    ActionRecord,
    Algorithm,
    Mode,
    ProgramRun,
    Spent,
    VariableView,
)

T = TypeVar("T")

# The link up to the switch, and the link down from it.
Host: TypeAlias = tuple[Link, Link]


class Sent(NamedTuple):
    """Message from one device to another over the network; times in ns."""

    what: str
    movement: int  # number of the movement in the run, from 0
    round: int  # of the movement, from 0
    source: DeviceId
    target: DeviceId
    size: int
    start: int
    end: int  # when they had arrived


class Execution:
    """Carries out the operations of one or several workers on the links of a network; used once.

    `hosts`: the links of each device; what goes from one device to another behind the same links
    takes no time. `compute_end(device)`: when a step of compute that a device begins now ends (ns).
    What went over the network is handed to `note`, or without one added to `sent`.
    """

    def __init__(
        self,
        clock: Clock,
        network: Network,
        hosts: Mapping[DeviceId, Host],
        compute_end: Callable[[DeviceId], int] = lambda _: 0,
        note: Callable[[Sent], None] | None = None,
    ) -> None:
        self.sent: list[Sent] = []
        self._note = note or self.sent.append
        self._clock, self._network, self._hosts = clock, network, hosts
        self._compute_end = compute_end
        self._movements = 0
        self._error: Exception | None = None

    def run(self, operations: Sequence[Operation[T]]) -> list[T]:
        """Carry out one operation on each worker, all at once; the clock stops with the last.

        The first error ends the run. RuntimeError if a worker waits for one that has ended.
        """
        meeting = _ProgramMeeting(self._clock, len(operations))
        results: dict[int, T] = {}

        def ended() -> None:
            if len(results) == len(operations):
                self._clock.stop()  # a fair network may have put a later moment on the heap

        for worker, operation in enumerate(operations):
            activity = self._carry_out(operation, meeting, worker)
            self._clock.process(_then(self._branch(worker, activity, results), ended))
        self._clock.run_until_stopped()
        if self._error is not None:
            raise self._error
        if len(results) < len(operations):
            raise collective_mismatch(sorted(meeting.parts), sorted(results))
        return [results[worker] for worker in range(len(operations))]

    def _branch(self, number: int, activity: Activity[T], results: dict[int, T]) -> Activity[None]:
        """A process of its own; an error in it ends the run."""
        try:
            results[number] = yield from activity
        except Exception as error:
            if self._error is None:  # somebody else may have failed in the same event
                self._error = error
            self._clock.stop()

    def _carry_out(
        self, operation: Operation[T], meeting: "_ProgramMeeting", worker: int
    ) -> Activity[T]:
        """One operation, request by request."""
        answer: object = None
        while True:
            try:
                request = operation.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = yield from self._served(request, meeting, worker)

    def _served(
        self, request: Request, meeting: "_ProgramMeeting", worker: int
    ) -> Activity[object]:
        """The answer to a request, when its time has come."""
        clock = self._clock
        if isinstance(request, CurrentTime):
            return clock.time
        if isinstance(request, Computation):
            yield from clock.sleep_until(self._compute_end(request.device))
            return None
        if isinstance(request, Movement):
            moving = self._move(request)
            if request.parties == 1:
                yield from moving
            else:  # every one of them reports it
                yield from meeting.wait(worker, None, moving)
            return None
        if isinstance(request, Exchange):
            return (yield from meeting.wait(worker, request.part))
        assert isinstance(request, Parallel), "merged outside of a replica"
        return (yield from self._side_by_side(request, meeting, worker))

    def _side_by_side(
        self, request: Parallel, meeting: "_ProgramMeeting", worker: int
    ) -> Activity[list[Any]]:
        """Every operation in a process of its own; all that they return, in order."""
        number = len(request.operations)
        results: dict[int, Any] = {}
        left = Countdown(self._clock, number)
        for index, operation in enumerate(request.operations):
            activity = self._carry_out(operation, meeting, worker)
            self._clock.process(_then(self._branch(index, activity, results), left.count))
        if number:
            yield from left.wait()
        return [results[index] for index in range(number)]

    def _move(self, movement: Movement) -> Activity[None]:
        """All rounds, one after the other."""
        number = self._movements
        self._movements += 1
        for index, transfers in enumerate(movement.rounds):
            yield from self._round(movement.what, number, index, transfers)

    def _round(
        self, what: str, movement: int, index: int, transfers: Sequence[Transfer]
    ) -> Activity[None]:
        """Transfers side by side, until the last has arrived."""
        hosts, start = self._hosts, self._clock.time
        away = [one for one in transfers if hosts[one.source] != hosts[one.target]]
        if not away:
            return
        left = Countdown(self._clock, len(away))

        def arrived(one: Transfer) -> None:
            row = (one.source, one.target, one.size, start, self._clock.time)
            self._note(Sent(what, movement, index, *row))
            left.count()

        for one in away:
            route = (hosts[one.source][0], hosts[one.target][1])
            self._network.pass_on(route, one.size, _nothing, partial(arrived, one))
        yield from left.wait()


class _ProgramMeeting:
    """Where workers meet: each gives a part and waits; all get the parts of all, in order."""

    def __init__(self, clock: Clock, workers: int) -> None:
        self.parts: dict[int, object] = {}
        self._clock, self._workers = clock, workers
        self._event = Event(clock)

    def wait(
        self, worker: int, part: object, last: Activity[None] | None = None
    ) -> Activity[list[object]]:
        """Come, and wait until all have come and the last of them has done `last`."""
        self.parts[worker] = part
        if len(self.parts) < self._workers:
            parts: list[object] = yield self._event
            return parts
        if last is not None:
            yield from last
        parts = [self.parts[rank] for rank in range(self._workers)]
        event, self._event, self.parts = self._event, Event(self._clock), {}
        event.succeed(parts)
        return parts


def _then(activity: Activity[None], function: Callable[[], None]) -> Activity[None]:
    yield from activity
    function()


def _nothing() -> None:
    """Nobody waits for links that are free again."""


class ReplicaCluster(Model):
    """Workers with one replica each, parameter servers, and the network between their machines.

    `compute`: how long the action `compute` takes. The outside acts on the machine of worker 0.
    """

    workers: PositiveInt = Field(le=1_000)
    """How many workers, each with one replica."""
    compute: AnyDistribution | None = None
    """Distribution of the times of the action `compute`."""
    slow_workers: tuple[SlowWorker, ...] = ()
    """Workers that are slower than the others."""
    parameter_servers: PositiveInt = Field(1, le=1_000)
    """How many servers share the variables of mode `none`, in turn."""
    network: Star
    """The links between the machines."""

    def refusals(self) -> Iterator[RefusalError | str]:
        if self.compute is not None:
            check_no_batch(self.compute, "compute")
        check_ranks(self.workers, self.slow_workers, self.network)
        if not self.network.plain or self.network.protocols is not None:
            yield refused(
                "network",
                ": programs of variables go over a star without message_overhead, flows or "
                "protocols",
            )

    @property
    def stragglers(self) -> tuple[Straggler, ...]:
        """The slow workers one by one, an entry for each slowdown of each."""
        return stragglers(self.slow_workers, self.workers, self.network)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTrace(Trace):
    """One finished run of a program under one mode, a step of it an update; and what was done.

    The acts of the outside are worker 0's. Before `began`, workers wait for their variables.
    """

    mode: Mode
    all_acts: int  # of which `acts` may hold the first only
    all_sent: int  # messages of the whole run, of which `sent_rows` may hold the first only
    acts: list[ActionRecord]  # in the order in which they ended
    sent_rows: list[Sent]  # in the order in which they arrived
    views: list[VariableView]  # of every variable


@one_blas_thread()
def run_program(
    cluster: ReplicaCluster,
    program: Program,
    variables: Sequence[VariableDescription],
    mode: Mode,
    *,
    label: str,
    seed: int,
    replication: int,
    algorithm: Algorithm = "ring",
    most_acts: int | None = None,
    most_sent: int | None = None,
) -> ProgramTrace:
    """Run a program from start to end; what is written and computed depends on no mode.

    All is counted, of acts and messages the first `most_acts` and `most_sent` are kept.
    """
    clock = Clock()
    run = ProgramRun(
        program,
        variables,
        mode,
        cluster.workers,
        cluster.parameter_servers,
        # Streams are numbered from 0: the outside is the first.
        lambda replica: stream(seed, replication, "program", replica - CROSS_REPLICA),
        algorithm,
        most_acts,
    )
    star = network(clock, cluster.network)
    hosts: dict[DeviceId, Host] = {}
    for rank, device in enumerate(run.devices):
        hosts[device] = star.host(f"worker {rank}", cluster.network.rate_of(rank))
    hosts[DEFAULT_DEVICE] = hosts[run.devices[0]]
    if mode == "none":
        for task in range(cluster.parameter_servers):
            hosts[DeviceId("ps", task)] = star.host(f"ps {task}", cluster.network.server_rate)
    slow = slowness(cluster.stragglers)
    times = [_compute_times(cluster, rank, seed, replication) for rank in range(cluster.workers)]

    def compute_end(device: DeviceId) -> int:
        return end_of(slow.get(device.task, [(0, 1.0)]), clock.time, next(times[device.task]))

    ledger = _Ledger(run, most_sent)
    execution = Execution(clock, star, hosts, compute_end, ledger.note)
    (end,) = execution.run([run.operation()])
    spent = np.array(run.spent, dtype=np.int64).reshape(-1, len(Spent._fields))
    return ProgramTrace(
        strategy=label,
        replication=replication,
        workers=cluster.workers,
        variables=len(variables),
        batch_size=0,
        end=end,
        stopped_by="global_steps",
        global_step=program.steps,
        span_rows=Rows.of(_spans(spent, ledger, cluster.workers, run.began, end)),
        gradient_rows=Rows(len(GradientRow._fields)),
        evaluations=[],
        steps=_steps(spent, program.steps, run.began),
        copy_staleness=np.empty(0, dtype=np.int64),
        links=[LinkRow(link.name, link.bandwidth, link.moved) for link in star.carried(end)],
        gradients_aggregated=0,
        sent=float(ledger.sent),
        mode=mode,
        began=run.began,
        moved=ledger.moved,
        messages=ledger.messages,
        all_acts=run.count,
        all_sent=ledger.count,
        acts=run.acts,
        sent_rows=ledger.kept,
        views=run.views(),
    )


class _Ledger:
    """What was sent: all of it counted, the first rows kept, and when each movement began."""

    def __init__(self, run: ProgramRun, most: int | None) -> None:
        self.kept: list[Sent] = []
        self.count = self.messages = self.moved = self.sent = 0
        self.starts: dict[int, int] = {}
        self._run, self._most = run, most

    def note(self, row: Sent) -> None:
        """One more message has arrived."""
        self.count += 1
        self.sent += row.size
        self.starts.setdefault(row.movement, row.start)  # its first round is the first to arrive
        if self._most is None or self.count <= self._most:
            self.kept.append(row)
        if row.movement >= self._run.created:
            self.messages += 1
            self.moved += row.size


# What a worker does in an act of each of ACTIONS.
_PHASES: Final = np.array(
    [
        {"compute": Phase.COMPUTE, "read": Phase.READ, "save": Phase.READ}.get(kind, Phase.WRITE)
        for kind in ACTIONS
    ]
)


def _spans(
    spent: NDArray[np.int64], ledger: _Ledger, workers: int, began: int, end: int
) -> NDArray[np.int64]:
    """The time of every worker, with the fields of Span, by worker.

    An act for which something is sent begins with a wait until all who take part have come.
    """
    found = []
    for worker in range(workers):
        # The outside acts in the place of worker 0, when nobody else does.
        own = spent[(spent[:, 0] == worker) | ((spent[:, 0] == CROSS_REPLICA) & (worker == 0))]
        steps, kinds, begins, ends, movements = own.T[1:]
        sent = [ledger.starts.get(number, 0) for number in movements.tolist()]
        met = np.maximum(begins, np.array(sent, dtype=np.int64))
        # From the end of each to its meeting a wait, from there to its own end the act.
        bounds = np.concatenate([[0, began], np.stack([met, ends], axis=1).ravel(), [end]])
        phases = np.full(len(bounds) - 1, int(Phase.BARRIER))
        phases[0], phases[2:-1:2] = Phase.READ, _PHASES[kinds]
        iterations = np.concatenate([[0], np.repeat(steps - 1, 2), steps[-1:] - 1, [0]])
        rows = [np.full(len(phases), worker), phases, bounds[:-1], bounds[1:]]
        rows.append(iterations[: len(phases)])
        found.append(np.stack(rows, axis=1)[bounds[1:] > bounds[:-1]])
    return np.concatenate(found)


def _steps(spent: NDArray[np.int64], steps: int, began: int) -> NDArray[np.int64]:
    """When each step had ended for all; one in which nothing happens ends with that before it."""
    ends = np.full(steps, began, dtype=np.int64)
    np.maximum.at(ends, spent[:, 1] - 1, spent[:, 4])
    return np.maximum.accumulate(ends)


def _compute_times(
    cluster: ReplicaCluster, rank: int, seed: int, replication: int
) -> Iterator[int]:
    """How long each step of compute takes at full pace (ns): the draws of a training run."""
    if cluster.compute is None:
        return iter(())
    blocks = cluster.compute.together(rank, keyed(seed, replication))
    return chain.from_iterable(np.rint(block * 1e9).astype(np.int64).tolist() for block in blocks)
