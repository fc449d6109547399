"""Reducing one replica's part along axes."""

import numpy as np

from varsim.distribute.component import Component
from varsim.distribute.container import tensors_of
from varsim.distribute.tensor import Tensor, Values, tensor_of
from varsim.values.operation import HERE
from varsim.values.refusal import RefusedTypeError, RefusedValueError
from varsim.values.variable import Variable


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
    if isinstance(value, Tensor | Component | Variable):
        return tensors_of(value)[0]
    return tensor_of(value, HERE)


def _check_axes(array: Values, axes: tuple[int, ...]) -> None:
    for axis in axes:
        if not -array.ndim <= axis < array.ndim:
            raise RefusedValueError(
                "axis_range",
                f"Invalid reduction dimension ({axis} for input with {array.ndim} dimension(s)): "
                "use an axis that all parts have, or None to reduce over replicas only",
            )
