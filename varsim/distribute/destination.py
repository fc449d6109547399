"""Where reduced values go, and with which operation: what is accepted for both."""

from varsim.distribute.component import Component
from varsim.distribute.container import Container, devices_of
from varsim.distribute.tensor import Tensor
from varsim.values.operation import Device
from varsim.values.refusal import RefusedAssertionError, RefusedValueError
from varsim.values.variable import ReduceOp, Variable


def check_reduce_op(op: object) -> ReduceOp:
    """A reduce operation, which may be named in any case."""
    if isinstance(op, str):
        if op.upper() not in ReduceOp.__members__:
            raise RefusedValueError(
                "not_a_reduce_op", f"{op!r} is not a valid ReduceOp: use SUM or MEAN"
            )
        return ReduceOp[op.upper()]
    if not isinstance(op, ReduceOp):
        raise RefusedAssertionError(
            "assertion", f"{op!r} is not a reduce operation: use ReduceOp.SUM or ReduceOp.MEAN"
        )
    return op


def check_destination(destination: object) -> None:
    """AssertionError for a list of destinations, or none."""
    if destination is None or (
        isinstance(destination, list | tuple) and not isinstance(destination, Device)
    ):
        what = "nothing" if destination is None else "a list"
        raise RefusedAssertionError(
            "assertion", f"{what} is no destination: name one variable, value or device"
        )


def destination_devices(destination: object) -> tuple[Device, ...]:
    """The devices of a destination: a variable, a value, a device or its text."""
    if isinstance(destination, Device):
        return (destination,)
    if isinstance(destination, str):
        parts = destination.split("/")
        if len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit()):
            raise RefusedValueError(
                "destination",
                "destinations can not be empty: name a device as worker/0/1, a variable or a value",
            )
        return (Device(parts[0], int(parts[1]), int(parts[2])),)
    if isinstance(destination, Variable | Container | Tensor | Component):
        return devices_of(destination)
    raise RefusedValueError(
        "destination",
        f"a {type(destination).__name__} has no device: name a variable, a value or a device",
    )
