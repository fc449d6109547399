"""Devices, properties and contexts of a strategy (distribute_lib.py)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

from varsim.distribute.context import OUTSIDE, Context, StrategyInterface
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import HERE, Device
from varsim.values.refusal import RefusedRuntimeError, RefusedValueError
from varsim.values.variable import Variable


class StrategyScope:
    """Devices, properties and contexts of a strategy.

    `devices`: one replica of this worker on each. `parameters`: where variables live.
    """

    kind: ClassVar[str]
    has_scope: ClassVar[bool] = True  # the default strategy has none

    def __init__(self, devices: Sequence[Device], parameters: Sequence[Device] = ()) -> None:
        self.devices = tuple(devices)
        self.parameters = tuple(parameters) or self.devices

    # Properties, by TensorFlow's names

    experimental_require_static_shapes: ClassVar[bool] = False

    @property
    def worker_devices(self) -> tuple[Device, ...]:
        """The devices of this worker's replicas."""
        return self.devices

    @property
    def parameter_devices(self) -> tuple[Device, ...]:
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
    def current(self) -> Device:
        """The device that is current where nobody says otherwise."""
        return HERE

    def replica_id(self, replica: int) -> int:
        """The id of one of this worker's replicas among all."""
        return replica

    # Contexts

    @property
    def _itself(self) -> StrategyInterface:
        return cast(StrategyInterface, self)

    def scope(self, context: Context = OUTSIDE) -> Context:
        """The context inside `with strategy.scope()`; RuntimeError in another strategy's scope."""
        return self.enter(context)

    def scope_at(self, device: Device) -> Context:
        """The cross-replica context on a device."""
        return Context(self._itself, device=device)

    def enter(self, context: Context) -> Context:
        """The context, entering the scope from outside; RuntimeError in another scope."""
        if context.strategy is None:
            device = self.current if context.device == HERE else context.device
            return Context(self._itself, device=device, aggregates=context.aggregates)
        if context.strategy is not self._itself:
            raise RefusedRuntimeError(
                "mixed_strategies",
                "Mixing different tf.distribute.Strategy objects: leave the other scope first",
            )
        return context

    def crossing(self, context: Context) -> Context:
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
