"""How direct calls become operations: plain functions in threads, and what each call moved.

Inside varsim an operation is a generator that is told its context. A user of TensorFlow writes
plain functions, and the context is that of the thread. Here a plain function runs in a thread of
its own that has a turn only while its operation waits for it: no two of them run at once, and
neither do the replicas of TensorFlow's MirroredStrategy.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple, TypeVar, cast

from varsim.cluster.clock import Clock
from varsim.cluster.network.network import network
from varsim.cluster.programs import Execution, Host, ReplicaCluster
from varsim.core.operation import (
    DeviceId,
    Movement,
    Operation,
    Request,
    Transfer,
    finish_together,
)
from varsim.distribute.context import DEFAULT_CONTEXT, Context

T = TypeVar("T")


class Call(NamedTuple):
    """A call from outside of all replicas, and what it moved between devices.

    `name`: of the method, `run` for all that happened in the replicas. `movements`: one after the
    other, each in rounds of transfers that go on side by side. `seconds`: on the links of the
    cluster, 0 without one. What goes between a GPU and its own host is no message.
    """

    name: str
    movements: tuple[Movement, ...]
    seconds: float

    @property
    def messages(self) -> int:
        """How many went from one device to another."""
        return len(self._sent())

    @property
    def bytes(self) -> int:
        """How many bytes went from one device to another."""
        return sum(one.size for one in self._sent())

    def _sent(self) -> list[Transfer]:
        """All that went from one place to another, in order."""
        every = (one for moved in self.movements for sent in moved.rounds for one in sent)
        return [one for one in every if one.source[:3] != one.target[:3]]


class CallLog:
    """Carries out operations and keeps what each of them moved, and how long that took."""

    def __init__(self, cluster: ReplicaCluster | None = None) -> None:
        self.calls: list[Call] = []
        self._cluster = cluster

    def carry_out(self, name: str, operations: Sequence[Operation[T]]) -> list[T]:
        """One operation on each worker, worker 0 first; their results.

        Raises what an operation raises, and RuntimeError if a worker waits for one that has ended.
        What was moved until then is kept.
        """
        moved: list[Movement] = []
        noted = [_noted(one, rank, moved) for rank, one in enumerate(operations)]
        clock = Clock()
        try:
            if self._cluster is None:
                return finish_together(noted)
            links = _Hosts(self._cluster, clock)
            return Execution(clock, links.network, links).run(noted)
        finally:
            for one in noted:
                one.close()
            self.calls.append(Call(name, tuple(moved), clock.time / 1e9))


class _Hosts(dict[DeviceId, Host]):
    """The links of each machine, made when a device on it is met: tasks of a job are machines."""

    def __init__(self, cluster: ReplicaCluster, clock: Clock) -> None:
        self._star = cluster.network
        self.network = network(clock, cluster.network)

    def __missing__(self, device: DeviceId) -> Host:
        machine = DeviceId(device.job, device.task)
        if device != machine:
            host = self[device] = self[machine]
            return host
        served = device.job == "ps"
        rate = self._star.server_rate if served else self._star.rate_of(device.task)
        host = self[device] = self.network.host(f"{device.job} {device.task}", rate)
        return host


def _noted(operation: Operation[T], worker: int, moved: list[Movement]) -> Operation[T]:
    """The operation; what several workers move together is added once, by worker 0."""
    answer: object = None
    try:
        while True:
            request: Request = operation.send(answer)
            if isinstance(request, Movement) and (worker == 0 or request.parties == 1):
                moved.append(request)
            answer = yield request
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        operation.close()


class _Returned(NamedTuple):
    value: object


class _Raised(NamedTuple):
    error: BaseException


class _ClosedError(BaseException):
    """Nobody waits for this thread any more: it ends, whatever it was about to do."""


class _Line:
    """Between the thread of a plain function and the operation that it is part of."""

    def __init__(self) -> None:
        self.asked: SimpleQueue[Operation[Any] | _Returned | _Raised] = SimpleQueue()
        self.answers: SimpleQueue[_Returned | _Raised] = SimpleQueue()
        self.closed = False

    def ask(self, operation: Operation[T]) -> T:
        """Have an operation carried out; called in the thread."""
        if self.closed:
            raise _ClosedError
        self.asked.put(operation)
        answer = self.answers.get()
        if isinstance(answer, _Raised):
            raise answer.error
        return cast(T, answer.value)


_CONTEXT: Final[ContextVar[Context]] = ContextVar("context", default=DEFAULT_CONTEXT)
_LINE: Final[ContextVar[_Line | None]] = ContextVar("line", default=None)


def current() -> Context:
    """The context of this thread."""
    return _CONTEXT.get()


@contextmanager
def inside(context: Context) -> Iterator[None]:
    """Makes a context that of this thread, for as long as the block lasts."""
    before = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(before)


def call(name: str, ledger: CallLog, act: Callable[[Context], Operation[T]]) -> T:
    """Do something in the context of this thread: at once, or where it stands in an operation."""
    operation = act(_CONTEXT.get())
    line = _LINE.get()
    if line is not None:
        return line.ask(operation)
    (result,) = ledger.carry_out(name, [operation])
    return result


def operation_of(
    context: Context,
    function: Callable[..., object],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> Operation[Any]:
    """A plain function as an operation, in this context; its thread ends with the operation."""
    line = _Line()

    def turn() -> None:
        _CONTEXT.set(context)
        _LINE.set(line)
        try:
            line.asked.put(_Returned(function(*args, **(kwargs or {}))))
        except _ClosedError:
            pass
        except BaseException as error:  # raised again where the operation waits
            line.asked.put(_Raised(error))

    thread = Thread(target=turn, name="replica", daemon=True)
    thread.start()
    try:
        return (yield from _answered(line))
    finally:
        line.closed = True
        line.answers.put(_Raised(_ClosedError()))
        thread.join()


def _answered(line: _Line) -> Generator[Request, Any, object]:
    """Carries out what the thread asks for, until its function has returned."""
    while True:
        said = line.asked.get()
        if isinstance(said, _Returned):
            return said.value
        if isinstance(said, _Raised):
            raise said.error
        try:
            result = yield from said
        except Exception as error:  # raised again where the thread waits
            line.answers.put(_Raised(error))
        else:
            line.answers.put(_Returned(result))
