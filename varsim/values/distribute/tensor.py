"""Tensors: immutable values on a device, and the arithmetic that TensorFlow does with them."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from varsim.values.device import HERE, Device
from varsim.values.distribute.refusal import (
    InvalidArgumentError,
    RefusedAttributeError,
    RefusedTypeError,
    RefusedValueError,
)

Values: TypeAlias = NDArray[Any]

# By the kind of a dtype, the kinds that are converted to it (py_seq_tensor.cc, IsCompatible).
_FROM: Final = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "c": "iufc"}
Number: TypeAlias = bool | int | float | complex


class Tensor:
    """One value on one device, told apart from other tensors by identity, not by its value.

    The array is shared, not copied, and must never change; `tensor` makes one from data that may.
    """

    __slots__ = ("array", "device")

    def __init__(self, array: Values, device: Device = HERE) -> None:
        self.array: Values = np.asarray(array)
        self.device = device

    @property
    def size(self) -> int:
        """Bytes."""
        return self.array.nbytes

    def on(self, device: Device) -> "Tensor":
        """A new tensor with the same value on a device."""
        return Tensor(self.array, device)

    def cast(self, dtype: DTypeLike) -> "Tensor":
        """The value in another dtype; fractions are cut off towards zero."""
        with np.errstate(all="ignore"):
            return Tensor(self.array.astype(dtype), self.device)

    def __add__(self, other: object) -> "Tensor":
        return self._with(other, np.add)

    def __radd__(self, other: object) -> "Tensor":
        return self._with(other, np.add)

    def __sub__(self, other: object) -> "Tensor":
        return self._with(other, np.subtract)

    def __mul__(self, other: object) -> "Tensor":
        return self._with(other, np.multiply)

    def __rmul__(self, other: object) -> "Tensor":
        return self._with(other, np.multiply)

    def _with(self, other: object, function: Callable[[Values, Values], Values]) -> "Tensor":
        with np.errstate(all="ignore"):
            return Tensor(function(self.array, convert(other, self.array.dtype)), self.device)

    def __repr__(self) -> str:
        return f"Tensor({self.array.tolist()}, {self.array.dtype}, {self.device})"


def tensor(data: object, dtype: DTypeLike | None = None, device: Device = HERE) -> Tensor:
    """A tensor with a copy of the data."""
    return Tensor(np.array(data, dtype), device)


def convert(value: object, dtype: np.dtype[Any]) -> Values:
    """A tensor, array or number as an array of this dtype (tf.convert_to_tensor).

    Tensors keep their dtype (ValueError if it is another one); numbers and arrays that are no
    tensors are converted where nothing is lost in kind (else TypeError). AttributeError for
    anything else.
    """
    if isinstance(value, Tensor):
        if value.array.dtype != dtype:
            raise RefusedValueError(
                "dtype_mismatch",
                f"a tensor of dtype {value.array.dtype} does not fit {dtype}: cast it first",
            )
        return value.array
    if isinstance(value, bool | int | float | complex | np.ndarray | np.generic):
        array = np.array(value)
        if array.dtype.kind in _FROM[dtype.kind]:
            return array.astype(dtype)
        raise RefusedTypeError(
            "dtype_mismatch",
            f"Cannot convert {shown(value)} to {dtype}: give a value of that kind, or cast it",
        )
    raise RefusedAttributeError(
        "literal_attribute",
        f"a {type(value).__name__} is not a tensor and has no dtype: "
        "reduce it, or take the part of one replica",
    )


def shown(value: object) -> str:
    """A value as part of a message: a number in full, of an array its dtype and shape."""
    if isinstance(value, Tensor):
        value = value.array
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype} of shape {value.shape}"
    return str(value)


def add_in_order(values: Sequence[Values]) -> Values:
    """The sum, strictly from first to last, in the dtype of the values (tf.math.add_n)."""
    first = values[0]
    if any(value.shape != first.shape for value in values):
        shapes = ", ".join(str(value.shape) for value in values)
        raise InvalidArgumentError(
            "shape_mismatch",
            f"values to be added must have the same size and shape, not {shapes}; "
            "gather them, or reduce along an axis",
        )
    if any(value.dtype != first.dtype for value in values):
        raise InvalidArgumentError(
            "dtype_mismatch", "values to be added must have the same dtype: cast them first"
        )
    if first.dtype.kind == "b":
        raise InvalidArgumentError(
            "dtype_unsupported", "bool values cannot be added: cast them to int32 or float32"
        )
    with np.errstate(all="ignore"):
        total = first
        for value in values[1:]:
            total = np.add(total, value)
    return np.asarray(total)


def divide(total: Values, count: int) -> Values:
    """The total divided; float32 for the small integers, float64 for int32 and int64 (truediv)."""
    if total.dtype.kind in "iu":
        total = total.astype(np.float32 if total.dtype.itemsize < 4 else np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(np.divide(total, np.array(count, total.dtype)))


def share(value: object, count: int, dtype: np.dtype[Any]) -> Values:
    """One of `count` equal shares of a value, cast to a dtype; integers are cut towards zero.

    TypeError for a tensor of bool.
    """
    if isinstance(value, Tensor):
        if value.array.dtype.kind == "b":
            raise RefusedTypeError(
                "dtype_mismatch",
                "a bool cannot be divided among replicas, x and y must have the same dtype: "
                "use aggregation ONLY_FIRST_REPLICA",
            )
        part = divide(value.array, count)
    else:  # plain arithmetic of Python or numpy
        part = np.true_divide(np.asarray(value), count)
    with np.errstate(all="ignore"):
        return part.astype(dtype)


def tensor_of(value: object, device: Device) -> Tensor:
    """A number or an array that is no tensor as one; numbers become float32, int32 or bool."""
    if isinstance(value, np.ndarray):
        return tensor(value, device=device)
    kinds: dict[type, DTypeLike] = {bool: np.bool_, int: np.int32, float: np.float32}
    return tensor(value, kinds.get(type(value)), device)
