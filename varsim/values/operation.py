"""Operations as generators: what they wait for, and how they are carried out without a clock.

An operation on distributed values is called as `x = yield from f()`. It yields a `Movement` when
bytes have to move, a `Merge` when a replica waits for the other replicas of its worker, and an
`Exchange` when a worker waits for the other workers. Who drives it decides what that costs:
`finish` and `finish_together` take no time, a cluster lets its clock run.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from varsim.values.device import Movement

T = TypeVar("T")


class Merge(NamedTuple):
    """A replica waits for the others; `function(context, *args)` then runs once for all of them."""

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = {}


class Exchange(NamedTuple):
    """A worker gives its part and waits; the answer is the list of all workers' parts, in order."""

    part: object


Request: TypeAlias = Movement | Merge | Exchange

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
                    assert isinstance(request, Movement), "merged outside of a replica"
                    if movements is not None and (worker == 0 or request.parties == 1):
                        movements.append(request)
                    answer = None
                parts[worker] = request.part
            except StopIteration as end:
                results[worker] = end.value
        if not parts:
            return [results[worker] for worker in range(len(operations))]
        if results:
            waiting, ended = sorted(parts), sorted(results)
            raise RuntimeError(
                f"workers {waiting} wait in a collective that workers {ended} do not take part in; "
                "let every worker execute the same steps"
            )
        answers = [[parts[worker] for worker in range(len(operations))]] * len(operations)
