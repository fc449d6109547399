"""Strategies with one replica and one copy: the default one, and OneDeviceStrategy."""

from collections.abc import Sequence
from dataclasses import replace

from varsim.distribute.context import OUTSIDE, Context
from varsim.distribute.creation import Asked, checked, initial_value
from varsim.distribute.plain import PlainVariable
from varsim.distribute.strategy import Strategy
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import HERE, Device, Operation
from varsim.values.optimizer import Optimizer
from varsim.values.refusal import RefusedNotImplementedError, RefusedRuntimeError
from varsim.values.variable import Attributes, ReduceOp, Variable


class OneDeviceStrategy(Strategy):
    """One replica on one device; reductions hand back what they are given."""

    kind = "one_device"

    def __init__(self, device: Device = HERE) -> None:
        super().__init__([device])

    def _do_create(
        self,
        initial: object,
        attributes: Attributes,
        optimizer: Optimizer | None,
        devices: tuple[Device, ...] | None,
    ) -> Operation[DistributedVariable]:
        value = initial_value(initial)
        return PlainVariable(value, devices or self.parameters, attributes, optimizer, self)
        yield

    def _do_copies(self, variable: Variable) -> Sequence[int]:
        return [0] * len(variable.values)

    def _do_reduce(
        self, context: Context, op: ReduceOp, value: object, destination: object
    ) -> Operation[object]:
        return value
        yield

    def _do_broadcast(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        return value
        yield

    def _do_gather(
        self, context: Context, value: object, destination: object, axis: int
    ) -> Operation[object]:
        return value
        yield


class DefaultStrategy(OneDeviceStrategy):
    """No strategy: its scope changes nothing, and some of the extended API is missing."""

    kind = "default"
    has_scope = False

    @property
    def worker_devices(self) -> tuple[Device, ...]:
        """RuntimeError: it says nothing of devices."""
        raise _devices_undefined()

    @property
    def parameter_devices(self) -> tuple[Device, ...]:
        """RuntimeError: it says nothing of devices."""
        raise _devices_undefined()

    @property
    def experimental_between_graph(self) -> bool:
        """NotImplementedError."""
        raise _missing("experimental_between_graph")

    @property
    def experimental_should_init(self) -> bool:
        """NotImplementedError."""
        raise _missing("experimental_should_init")

    def _do_broadcast(
        self, context: Context, value: object, destination: object
    ) -> Operation[object]:
        raise _missing("broadcast_to")

    def colocate_vars_with(self, context: Context, variable: DistributedVariable) -> Context:
        """Any variable will do, and no scope is needed."""
        return replace(self.enter(context), colocated=variable)


def create_outside(initial: object, asked: Asked, context: Context = OUTSIDE) -> PlainVariable:
    """A variable made outside of every scope: plain, whatever it asks for."""
    return PlainVariable(initial_value(initial), (context.device,), checked(asked), asked.optimizer)


def _devices_undefined() -> RefusedRuntimeError:
    return RefusedRuntimeError(
        "devices_undefined",
        "method unsupported by default: use a strategy that has devices, such as OneDeviceStrategy",
    )


def _missing(what: str) -> RefusedNotImplementedError:
    return RefusedNotImplementedError(
        "not_implemented",
        f"{what} must be implemented in descendants, and is not without a strategy: use one, such "
        "as OneDeviceStrategy",
    )
