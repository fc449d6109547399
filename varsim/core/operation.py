"""Operations on distributed values as generators, and the requests that they yield.

An operation is called as `x = yield from f()`. Who drives it decides what its requests cost:
`finish` and `finish_together` take no time, a cluster runs its clock.

Errors of operations that TensorFlow refuses have its type of error and a category: the reason,
independent of words. Every one says what to do instead. `tensorflow` is the name of the type that
TensorFlow raises, which the error also is where Python has that type. Where TensorFlow fails by
accident the error has a type of its own.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar


class DistributionError(Exception):
    """An operation on distributed values that TensorFlow refuses as well."""

    tensorflow: ClassVar[str] = "Exception"

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category


class RefusedValueError(DistributionError, ValueError):
    """TensorFlow raises ValueError."""

    tensorflow = "ValueError"


class RefusedTypeError(DistributionError, TypeError):
    """TensorFlow raises TypeError."""

    tensorflow = "TypeError"


class RefusedRuntimeError(DistributionError, RuntimeError):
    """TensorFlow raises RuntimeError."""

    tensorflow = "RuntimeError"


class RefusedProgramError(DistributionError):
    """TensorFlow fails by accident: AttributeError, IndexError or an assertion of its own."""

    tensorflow = "an internal error"


class RefusedNotImplementedError(DistributionError, NotImplementedError):
    """TensorFlow raises NotImplementedError."""

    tensorflow = "NotImplementedError"


class InvalidArgumentError(DistributionError):
    """TensorFlow's own tf.errors.InvalidArgumentError."""

    tensorflow = "InvalidArgumentError"


class DeviceId(NamedTuple):
    """Device of a task: `worker/0/1` is device 1 of worker 0."""

    job: str = "worker"
    task: int = 0
    number: int = 0
    kind: str = "cpu"

    def __str__(self) -> str:
        return f"{self.job}/{self.task}/{self.number}"


# The device that is current where nobody says otherwise.
DEFAULT_DEVICE = DeviceId()


class Transfer(NamedTuple):
    """Bytes that go from one device to another."""

    source: DeviceId
    target: DeviceId
    size: int


class Movement(NamedTuple):
    """Data movement of an operation, in rounds of concurrent transfers.

    A round starts when the one before has ended. `parties` workers take part; if there are several,
    each of them reports the whole movement, and it is to be counted once.
    """

    what: str
    rounds: tuple[tuple[Transfer, ...], ...]
    parties: int = 1

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(transfer.size for transfers in self.rounds for transfer in transfers)


def movement(what: str, *rounds: Iterable[Transfer], parties: int = 1) -> list[Movement]:
    """The movement made of these rounds, or none if nothing has to leave its device."""
    moving = [
        tuple(one for one in transfers if one.source != one.target and one.size)
        for transfers in rounds
    ]
    kept = tuple(transfers for transfers in moving if transfers)
    return [Movement(what, kept, parties)] if kept else []


T = TypeVar("T")


class Merge(NamedTuple):
    """Request: wait for all replicas, then run `function(context, *args)` once (merge_call)."""

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = {}


class Exchange(NamedTuple):
    """Request: wait for all workers; the answer is the list of their parts, in order."""

    part: object


class Parallel(NamedTuple):
    """Request: run operations of one worker concurrently; the answer is their results, in order.

    Without a clock they run one after the other. The first error ends them all.
    """

    operations: "tuple[Operation[Any], ...]"


class Computation(NamedTuple):
    """Request: compute one step on a device, for a time that the driver knows."""

    device: DeviceId


class CurrentTime(NamedTuple):
    """Request: the time in ns; 0 without a clock."""


Request: TypeAlias = Movement | Merge | Exchange | Parallel | Computation | CurrentTime

# Something that may have to wait. Call it as `x = yield from f()`; alone it does nothing.
Operation: TypeAlias = Generator[Request, Any, T]


def finish(operation: Operation[T], movements: list[Movement] | None = None) -> T:
    """Carry out one worker's operation at once; what it moves is added to `movements`."""
    (result,) = finish_together([operation], movements)
    return result


def finish_together(
    operations: Sequence[Operation[T]], movements: list[Movement] | None = None
) -> list[T]:
    """Carry out the same step on all workers, worker 0 first, each up to its next exchange.

    The first error ends the step. RuntimeError if a worker waits for one that has ended.
    """
    results: dict[int, T] = {}
    answers: list[object] = [None] * len(operations)
    while True:
        parts: dict[int, object] = {}
        for worker, operation in enumerate(operations):
            if worker in results:
                continue
            answer = answers[worker]
            try:
                while not isinstance(request := operation.send(answer), Exchange):
                    answer = _served(request, worker, movements)
                parts[worker] = request.part
            except StopIteration as end:
                results[worker] = end.value
        if not parts:
            return [results[worker] for worker in range(len(operations))]
        if results:
            raise collective_mismatch(sorted(parts), sorted(results))
        answers = [[parts[worker] for worker in range(len(operations))]] * len(operations)


def collective_mismatch(waiting: Sequence[int], ended: Sequence[int]) -> RuntimeError:
    """The error of a collective that not all workers take part in."""
    return RuntimeError(
        f"workers {list(waiting)} wait in a collective that workers {list(ended)} do not take part "
        "in; let every worker execute the same steps"
    )


def _served(request: Request, worker: int, movements: list[Movement] | None) -> object:
    """The answer to a request for which nobody else is needed."""
    if isinstance(request, Parallel):
        return [finish(operation, movements) for operation in request.operations]
    if isinstance(request, CurrentTime):
        return 0
    if isinstance(request, Movement) and movements is not None:
        # What several workers move together each of them reports; it is counted once.
        if worker == 0 or request.parties == 1:
            movements.append(request)
        return None
    assert isinstance(request, Movement | Computation), "merged outside of a replica"
    return None
