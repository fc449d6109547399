"""Reducing and broadcasting one value, as the strategies share it (cross_device_ops.py)."""

import numpy as np

from varsim.values.device import HERE, Transfer, movement
from varsim.values.distribute.component import Component
from varsim.values.distribute.container import Mirrored, is_per_replica, regroup, tensors_of
from varsim.values.distribute.destination import destination_devices
from varsim.values.distribute.reduction import CrossDeviceOps, same_devices
from varsim.values.distribute.refusal import RefusedAttributeError, RefusedValueError
from varsim.values.distribute.tensor import Tensor, shown, tensor_of
from varsim.values.operation import Operation
from varsim.values.variable import ReduceOp, Variable


def reduce_parts(
    algorithm: CrossDeviceOps, op: ReduceOp, value: object, destination: object, workers: int = 1
) -> Operation[object]:
    """The parts of a value reduced onto a destination; a single part already there stays."""
    devices = destination_devices(destination)
    if is_per_replica(value) or isinstance(value, Tensor | Component | Variable):
        tensors = tensors_of(value)
    else:
        tensors = [tensor_of(value, HERE)]
    if workers == 1 and len(tensors) == 1 and same_devices(tensors, devices):
        return tensors[0].on(tensors[0].device)
    results = yield from algorithm.reduce(op, tensors, devices)
    return regroup(results, Mirrored)


def reduce_one_value(
    op: ReduceOp, value: object, destination: object, replicas: int
) -> Operation[object]:
    """A value that is one object in all replicas (reduce_non_distributed_value).

    MEAN takes it as it is. So does SUM with one replica; with several, ValueError: whether to
    multiply it is not clear. Arrays of zeros stay zeros; a Python 0 is an AttributeError.
    """
    if isinstance(value, bool | int | float | complex) and value == 0:
        raise RefusedAttributeError(
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
    return (yield from broadcast(value, destination))


def broadcast(value: object, destination: object) -> Operation[object]:
    """A copy of a value on each device of a destination, as tensors."""
    devices = destination_devices(destination)
    if isinstance(value, Tensor | Component | Variable):
        source = tensors_of(value)[0]
    else:
        source = tensor_of(value, devices[0])
    yield from movement(
        "broadcast", [Transfer(source.device, device, source.size) for device in devices]
    )
    return regroup([source.on(device) for device in devices], Mirrored)


def broadcast_to(value: object, destination: object) -> Operation[object]:
    """As `broadcast`, but a Python number passes unchanged."""
    if isinstance(value, int | float):
        return value
    return (yield from broadcast(value, destination))


def gather_parts(
    algorithm: CrossDeviceOps, value: object, destination: object, axis: int
) -> Operation[object]:
    """The parts of a value joined along an axis, on each device of a destination."""
    devices = destination_devices(destination)
    results = yield from algorithm.gather(tensors_of(value), devices, axis)
    return regroup(results, Mirrored)


def _named(value: object) -> str:
    """A value as part of a message."""
    return value.attributes.name or value.kind if isinstance(value, Variable) else shown(value)
