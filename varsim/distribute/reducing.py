"""Reduction, gathering and broadcast of one value, shared by the strategies."""

from collections.abc import Sequence

import numpy as np

from varsim.core.operation import (
    DEFAULT_DEVICE,
    DeviceId,
    Operation,
    RefusedProgramError,
    RefusedTypeError,
    RefusedValueError,
    Transfer,
    movement,
)
from varsim.distribute.attributes import ReduceOp, Variable
from varsim.distribute.container import (
    Container,
    ContainerPart,
    Mirrored,
    PerReplica,
    devices_of,
    part_on,
    regroup,
    tensors_of,
)
from varsim.distribute.context import Context
from varsim.distribute.cross_device_ops import CrossDeviceOps, Options, same_devices
from varsim.distribute.tensor import Tensor, Values, shown, tensor_of
from varsim.distribute.variable import DistributedVariable


def check_reduce_op(op: object) -> ReduceOp:
    """A reduce operation, which may be named in any case."""
    if isinstance(op, str):
        if op.upper() not in ReduceOp.__members__:
            raise RefusedValueError(
                "not_a_reduce_op", f"{op!r} is not a valid ReduceOp: use SUM or MEAN"
            )
        return ReduceOp[op.upper()]
    if not isinstance(op, ReduceOp):
        raise RefusedProgramError(
            "assertion", f"{op!r} is not a reduce operation: use ReduceOp.SUM or ReduceOp.MEAN"
        )
    return op


def check_destination(destination: object) -> None:
    """RefusedProgramError for a list of destinations, or none."""
    if destination is None or (
        isinstance(destination, list | tuple) and not isinstance(destination, DeviceId)
    ):
        what = "nothing" if destination is None else "a list"
        raise RefusedProgramError(
            "assertion", f"{what} is no destination: name one variable, value or device"
        )


def destination_devices(destination: object) -> tuple[DeviceId, ...]:
    """The devices of a destination: a variable, a value, a device or its text."""
    if isinstance(destination, DeviceId):
        return (destination,)
    if isinstance(destination, str):
        parts = destination.split("/")
        if len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit()):
            raise RefusedValueError(
                "destination",
                "destinations can not be empty: name a device as worker/0/1, a variable or a value",
            )
        return (DeviceId(parts[0], int(parts[1]), int(parts[2])),)
    if isinstance(destination, Variable | Container | Tensor | ContainerPart):
        return devices_of(destination)
    raise RefusedValueError(
        "destination",
        f"a {type(destination).__name__} has no device: name a variable, a value or a device",
    )


def sum_along(value: object, axes: tuple[int, ...]) -> Tensor:
    """One replica's part summed along axes, in its dtype; ValueError for an axis it lacks.

    TypeError for bool.
    """
    part = _one_tensor(value)
    if part.array.dtype.kind == "b":
        raise RefusedTypeError(
            "dtype_unsupported", "bool values are not summed: cast them to int32 or float32"
        )
    _check_axes(part.array, axes)
    with np.errstate(all="ignore"):
        return Tensor(np.sum(part.array, axis=axes, dtype=part.array.dtype), part.device)


def count_along(value: object, axes: tuple[int, ...]) -> Tensor:
    """How many elements of one replica's part are summed."""
    part = _one_tensor(value)
    count = int(np.prod([part.array.shape[axis] for axis in axes], dtype=np.int64))
    return Tensor(np.array(count, np.int64), part.device)


def _one_tensor(value: object) -> Tensor:
    if isinstance(value, Tensor | ContainerPart | Variable):
        return tensors_of(value)[0]
    return tensor_of(value, DEFAULT_DEVICE)


def _check_axes(array: Values, axes: tuple[int, ...]) -> None:
    for axis in axes:
        if not -array.ndim <= axis < array.ndim:
            raise RefusedValueError(
                "axis_range",
                f"Invalid reduction dimension ({axis} for input with {array.ndim} dimension(s)): "
                "use an axis that all parts have, or None to reduce over replicas only",
            )


def parts_of(context: Context, value: object) -> list[Tensor]:
    """The parts of a value: of a container or a variable, else the value itself as a tensor."""
    if isinstance(value, Container):
        return [tensor for part in value.values for tensor in parts_of(context, part)]
    if isinstance(value, Tensor | ContainerPart | Variable):
        return tensors_of(value)
    return [tensor_of(value, context.device)]


def reduce_parts(
    context: Context,
    algorithm: CrossDeviceOps,
    op: ReduceOp,
    value: object,
    destination: object,
    workers: int = 1,
) -> Operation[object]:
    """The parts of a value reduced onto a destination; a single part already there stays."""
    devices = destination_devices(destination)
    tensors = parts_of(context, value)
    if workers == 1 and len(tensors) == 1 and same_devices(tensors, devices):
        return tensors[0].on(tensors[0].device)
    results = yield from algorithm.reduce(op, tensors, devices)
    return regroup(results, Mirrored)


def batch_reduce_parts(
    context: Context,
    algorithm: CrossDeviceOps,
    op: ReduceOp,
    pairs: Sequence[tuple[object, object]],
    options: Options,
    workers: int = 1,
) -> Operation[list[object]]:
    """Several values, each with its destination; single parts already there are handed back."""
    lists = [
        (
            tensors_of(value) if isinstance(value, Container) else parts_of(context, value),
            destination_devices(place),
        )
        for value, place in pairs
    ]
    first = tuple(tensor.device for tensor in lists[0][0])
    if (
        workers == 1
        and len(first) == 1
        and all(
            same_devices(tensors, places) and same_devices(tensors, first)
            for tensors, places in lists
        )
    ):
        return [
            value if isinstance(value, Variable) else regroup(tensors, Mirrored)
            for (value, _), (tensors, _) in zip(pairs, lists, strict=True)
        ]
    results = yield from algorithm.batch_reduce(op, lists, options)
    return [regroup(tensors, Mirrored) for tensors in results]


def reduce_one_value(
    context: Context, op: ReduceOp, value: object, destination: object, replicas: int
) -> Operation[object]:
    """A value that is one object in all replicas (reduce_non_distributed_value).

    MEAN takes it as it is. So does SUM with one replica; with several, ValueError: whether to
    multiply it is not clear. Arrays of zeros stay zeros; a Python 0 is a RefusedProgramError.
    """
    if isinstance(value, bool | int | float | complex) and value == 0:
        raise RefusedProgramError(
            "literal_attribute",
            "a Python 0 has no attribute 'shape' and cannot be reduced: use a tensor of zeros per "
            "replica, or a numpy array of zeros",
        )
    if isinstance(value, np.ndarray) and not value.any():
        return np.zeros_like(value)
    if op is ReduceOp.MEAN:
        return value
    if replicas > 1:
        raise RefusedValueError(
            "same_value_sum",
            f"A non-DistributedValues value {_named(value)} cannot be reduced with the given "
            f"reduce op {op.name}: give each replica a tensor of its own, or use MEAN",
        )
    return (yield from broadcast(context, value, destination))


def broadcast(context: Context, value: object, destination: object) -> Operation[object]:
    """A copy of a value on each device of a destination, as tensors.

    Of copies that stand for one value the one on that device, of a variable what is read there; of
    a per-replica value all parts.
    """
    copies, transfers = [], []
    for device in destination_devices(destination):
        if isinstance(value, PerReplica):
            sources = tensors_of(value)
        else:
            sources = [(yield from _read_on(context.at(device), value))]
        transfers += [Transfer(source.device, device, source.size) for source in sources]
        moved = [source.on(device) for source in sources]
        copies.append(PerReplica(moved) if isinstance(value, PerReplica) else moved[0])
    yield from movement("broadcast", transfers)
    return regroup(copies, Mirrored)


def broadcast_to(context: Context, value: object, destination: object) -> Operation[object]:
    """As `broadcast`, but a Python number passes unchanged."""
    if isinstance(value, int | float):
        return value
    return (yield from broadcast(context, value, destination))


def gather_parts(
    context: Context,
    algorithm: CrossDeviceOps,
    value: object,
    destination: object,
    axis: int,
    workers: int = 1,
) -> Operation[object]:
    """The parts of a value joined along an axis, on each device of a destination.

    A single part already there stays, whatever the axis.
    """
    devices, tensors = destination_devices(destination), parts_of(context, value)
    if workers == 1 and len(tensors) == 1 and same_devices(tensors, devices):
        return tensors[0].on(tensors[0].device)
    results = yield from algorithm.gather(tensors, devices, axis)
    return regroup(results, Mirrored)


def _read_on(context: Context, value: object) -> Operation[Tensor]:
    """A value as one tensor, on the current device if it has a copy there; a variable is read."""
    value = part_on(context.device, value)
    if isinstance(value, DistributedVariable):
        value = yield from value.as_tensor(context)
    if isinstance(value, Tensor | ContainerPart | Variable):
        return tensors_of(value)[0]
    return tensor_of(value, context.device)


def _named(value: object) -> str:
    return value.attributes.name or value.kind if isinstance(value, Variable) else shown(value)
