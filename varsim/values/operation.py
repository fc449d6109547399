"""Operations as generators: what they wait for, and how they are carried out without a clock.

An operation on distributed values is called as `x = yield from f()`. It yields a `Movement` when
bytes have to move, a `Computation` when a device is busy, `SideBySide` when the replicas of a
worker go on each for itself, a `Merge` when a replica waits for the others of its worker, and an
`Exchange` when a worker waits for the other workers. Who drives it decides what that costs:
`finish` and `finish_together` take no time, a cluster lets its clock run.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from varsim.values.device import Device, Movement

T = TypeVar("T")


class Merge(NamedTuple):
    """A replica waits for the others; `function(context, *args)` then runs once for all of them."""

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = {}


class Exchange(NamedTuple):
    """A worker gives its part and waits; the answer is the list of all workers' parts, in order."""

    part: object


class SideBySide(NamedTuple):
    """Operations of one worker, each going on for itself; the answer is their results, in order.

    Without a clock the first is carried out first. The first error ends them all.
    """

    operations: "tuple[Operation[Any], ...]"


class Computation(NamedTuple):
    """A device computes for one step; how long that takes is for the driver to know."""

    device: Device


class Now(NamedTuple):
    """Asks for the time, in ns; it is 0 where there is no clock."""


Request: TypeAlias = Movement | Merge | Exchange | SideBySide | Computation | Now

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
            raise left_alone(sorted(parts), sorted(results))
        answers = [[parts[worker] for worker in range(len(operations))]] * len(operations)


def left_alone(waiting: Sequence[int], ended: Sequence[int]) -> RuntimeError:
    """The error of a collective that not all workers take part in."""
    return RuntimeError(
        f"workers {list(waiting)} wait in a collective that workers {list(ended)} do not take part "
        "in; let every worker execute the same steps"
    )


def _served(request: Request, worker: int, movements: list[Movement] | None) -> object:
    """The answer to a request for which nobody else is needed."""
    if isinstance(request, SideBySide):
        return [finish(operation, movements) for operation in request.operations]
    if isinstance(request, Now):
        return 0
    if isinstance(request, Movement) and movements is not None:
        # What several workers move together each of them reports; it is counted once.
        if worker == 0 or request.parties == 1:
            movements.append(request)
        return None
    assert isinstance(request, Movement | Computation), "merged outside of a replica"
    return None
