"""Scope of a strategy: devices, properties, contexts, and the replicas of one worker."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

from varsim.core.operation import (
    DEFAULT_DEVICE,
    DeviceId,
    Merge,
    Operation,
    Parallel,
    RefusedRuntimeError,
    RefusedValueError,
)
from varsim.distribute.attributes import Variable
from varsim.distribute.container import regroup, select
from varsim.distribute.context import DEFAULT_CONTEXT, Context, StrategyInterface
from varsim.distribute.variable import DistributedVariable


class StrategyScope:
    """Devices, properties and contexts of a strategy.

    `devices`: one replica of this worker on each. `parameters`: where variables live.
    """

    kind: ClassVar[str]
    has_scope: ClassVar[bool] = True  # the default strategy has none

    def __init__(self, devices: Sequence[DeviceId], parameters: Sequence[DeviceId] = ()) -> None:
        self.devices = tuple(devices)
        self.parameters = tuple(parameters) or self.devices

    # Properties, by TensorFlow's names

    experimental_require_static_shapes: ClassVar[bool] = False

    @property
    def worker_devices(self) -> tuple[DeviceId, ...]:
        """The devices of this worker's replicas."""
        return self.devices

    @property
    def parameter_devices(self) -> tuple[DeviceId, ...]:
        """The devices of variables."""
        return self.parameters

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas of all workers."""
        return len(self.devices)

    @property
    def experimental_between_graph(self) -> bool:
        """Whether each worker builds its own graph."""
        return False

    @property
    def experimental_should_init(self) -> bool:
        """Whether this worker initializes variables."""
        return True

    @property
    def should_checkpoint(self) -> bool:
        """Whether this worker writes checkpoints."""
        return True

    @property
    def should_save_summary(self) -> bool:
        """Whether this worker writes summaries."""
        return self.should_checkpoint

    @property
    def current(self) -> DeviceId:
        """The device that is current where nobody says otherwise."""
        return DEFAULT_DEVICE

    def replica_id(self, replica: int) -> int:
        """The id of one of this worker's replicas among all."""
        return replica

    # Contexts

    @property
    def _itself(self) -> StrategyInterface:
        return cast(StrategyInterface, self)

    def scope(self, context: Context = DEFAULT_CONTEXT) -> Context:
        """The context inside `with strategy.scope()`; RuntimeError in another strategy's scope."""
        return self.enter(context)

    def scope_at(self, device: DeviceId) -> Context:
        """The cross-replica context on a device."""
        return Context(self._itself, device=device)

    def enter(self, context: Context) -> Context:
        """The context, entering the scope from outside; RuntimeError in another scope."""
        if context.strategy is None:
            device = self.current if context.device == DEFAULT_DEVICE else context.device
            return Context(self._itself, device=device, aggregates=context.aggregates)
        if context.strategy is not self._itself:
            raise RefusedRuntimeError(
                "mixed_strategies",
                "Mixing different tf.distribute.Strategy objects: leave the other scope first",
            )
        return context

    def enter_cross_replica(self, context: Context) -> Context:
        """As `enter`, for what needs cross-replica context: RuntimeError in a replica."""
        if context.replica is not None:
            raise RefusedRuntimeError(
                "wrong_context",
                "Method requires being in cross-replica context: in a replica use "
                "`context.merge_call(...)`, all_reduce or all_gather instead",
            )
        return self.enter(context)

    def replica_context(self, context: Context, replica: int) -> Context:
        """The context of one replica of this worker."""
        return Context(
            self._itself, replica, device=self.devices[replica], aggregates=context.aggregates
        )

    def created(self, variable: Variable) -> bool:
        """Does this strategy own the variable (variable_created_in_scope)?"""
        return isinstance(variable, DistributedVariable) and variable.strategy is self._itself

    def colocate_vars_with(self, context: Context, variable: DistributedVariable) -> Context:
        """The context inside `colocate_vars_with`: new variables go to the devices of this one.

        RuntimeError outside of the strategy's scope, ValueError for a variable that it did not
        create.
        """
        if context.strategy is None:
            raise RefusedRuntimeError(
                "wrong_context",
                'Need to be inside "with strategy.scope()": create variables beside others there',
            )
        context = self.enter(context)
        if not self.created(variable):
            raise RefusedValueError(
                "colocate",
                "`colocate_vars_with` must only be passed a variable created in this strategy's "
                "scope: create it there",
            )
        return replace(context, colocated=variable)


class _Ended(NamedTuple):
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
        stops = yield Parallel(tuple(map(_to_next_merge, replicas, answers)))
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


def run_if_operation(value: object) -> Operation[object]:
    """Result of an operation; any other value itself."""
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
    own = [select(index, value) for value in args]
    named = {key: select(index, value) for key, value in kwargs.items()}
    return (yield from run_if_operation(function(context, *own, **named)))


def _to_next_merge(replica: Operation[object], answer: object) -> Operation[Merge | _Ended]:
    """Run a replica up to its next merge; its other requests are passed on."""
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
    return (yield from run_if_operation(first.function(cross, *args, **kwargs)))
