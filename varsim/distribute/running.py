"""Replicas of one worker, side by side: each to its next merge or its end.

Without a clock they run in turn, replica 0 first, as in TensorFlow (mirrored_run.py,
_call_for_each_replica). Effects before a failing merge stay.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from varsim.distribute.container import regroup, select
from varsim.distribute.context import Context
from varsim.distribute.scope import StrategyScope
from varsim.values.operation import Merge, Operation, SideBySide
from varsim.values.refusal import RefusedRuntimeError


class _Ended(NamedTuple):
    """A replica has returned."""

    result: object


def call_for_each_replica(
    strategy: StrategyScope,
    context: Context,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Operation[object]:
    """Call `function(context, *args)` in every replica of this worker; the results, grouped.

    Each replica gets its part of per-replica arguments. RuntimeError if some replicas end while
    others wait in a merge.
    """
    replicas = [
        _replica(strategy.replica_context(context, index), function, index, args, kwargs)
        for index in range(len(strategy.devices))
    ]
    answers: list[object] = [None] * len(replicas)
    while True:
        stops = yield SideBySide(tuple(map(_to_next_merge, replicas, answers)))
        merges = [stop for stop in stops if isinstance(stop, Merge)]
        if not merges:
            return regroup([stop.result for stop in stops if isinstance(stop, _Ended)])
        if len(merges) < len(replicas):
            for replica in replicas:
                replica.close()
            raise RefusedRuntimeError(
                "merge_call_mismatch",
                "Some replicas made a different number of merges: let every replica write the "
                "aggregated variables and call merge_call, all_reduce and all_gather equally often",
            )
        result = yield from _merge(strategy, context, merges)
        answers = [select(index, result) for index in range(len(replicas))]


def run_maybe(value: object) -> Operation[object]:
    """What a function gave: if it is an operation, its result, else the value."""
    if isinstance(value, Generator):
        return (yield from value)
    return value


def _replica(
    context: Context,
    function: Callable[..., object],
    index: int,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Operation[object]:
    """One replica's run; starts at its first turn."""
    own = [select(index, value) for value in args]
    named = {key: select(index, value) for key, value in kwargs.items()}
    return (yield from run_maybe(function(context, *own, **named)))


def _to_next_merge(replica: Operation[object], answer: object) -> Operation[Merge | _Ended]:
    """Let a replica go on until it waits for the others; what else it asks for is passed on."""
    try:
        while not isinstance(request := replica.send(answer), Merge):
            answer = yield request
    except StopIteration as end:
        return _Ended(end.value)
    return request


def _merge(strategy: StrategyScope, context: Context, merges: list[Merge]) -> Operation[object]:
    """Call the function of a merge once, in cross-replica context, with the grouped arguments."""
    first = merges[0]
    args: Any = regroup([merge.args for merge in merges])
    kwargs: Any = regroup([merge.kwargs for merge in merges])
    cross = strategy.scope_at(context.device)
    return (yield from run_maybe(first.function(cross, *args, **kwargs)))
