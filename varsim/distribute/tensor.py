"""Tensors: immutable values on a device, with TensorFlow's arithmetic."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from varsim.core.operation import (
    DEFAULT_DEVICE,
    DeviceId,
    InvalidArgumentError,
    RefusedProgramError,
    RefusedTypeError,
    RefusedValueError,
)

Values: TypeAlias = NDArray[Any]

Number: TypeAlias = bool | int | float | complex

# The dtypes that a Python number of a type is converted to (py_seq_tensor.cc, ConvertOneBool).
_FLOATS: Final = frozenset({"float16", "bfloat16", "float32", "float64"})
_COMPLEX: Final = frozenset({"complex64", "complex128"})
_FROM_BOOL: Final = frozenset({"bool", "int32", "int64", "float16", "float32", "float64"})


class Tensor:
    """Immutable value on one device, compared by identity.

    The array is shared, not copied, and must never change; `tensor` makes one from data that may.
    ValueError for anything but numbers.
    """

    __slots__ = ("array", "device")
    __array_ufunc__ = None  # an array leaves arithmetic with a tensor to the tensor
    keeps_dtype: ClassVar[bool] = (
        False  # to the right of minus and times: a ValueError if it differs
    )

    def __init__(self, array: Values, device: DeviceId = DEFAULT_DEVICE) -> None:
        self.array: Values = array_of(array)
        self.device = device

    @property
    def size(self) -> int:
        """Bytes."""
        return self.array.nbytes

    def numpy(self) -> Values:
        """The value as an array, not to be changed."""
        return self.array

    def __float__(self) -> float:
        return float(self.array)

    def on(self, device: DeviceId) -> "Tensor":
        """A new tensor with the same value on a device."""
        return Tensor(self.array, device)

    def cast(self, dtype: DTypeLike) -> "Tensor":
        """The value in another dtype; fractions are cut off towards zero."""
        return Tensor(_cast(self.array, np.dtype(dtype)), self.device)

    def __add__(self, other: object) -> "Tensor":
        return self._with(other, np.add)

    def __radd__(self, other: object) -> "Tensor":
        return self._with(other, np.add, swapped=True)

    def __sub__(self, other: object) -> "Tensor":
        return self._with(other, np.subtract)

    def __rsub__(self, other: object) -> "Tensor":
        return self._with(other, np.subtract, swapped=True)

    def __mul__(self, other: object) -> "Tensor":
        return self._with(other, np.multiply)

    def __rmul__(self, other: object) -> "Tensor":
        return self._with(other, np.multiply, swapped=True)

    def _with(
        self, other: object, function: Callable[[Values, Values], Values], *, swapped: bool = False
    ) -> "Tensor":
        """Element by element, broadcast; InvalidArgumentError where dtypes or shapes do not fit.

        In a product with a bool tensor the other counts as whether it is 0.
        """
        mine = self.array
        if hasattr(other, "__tensor__"):  # what is read where it stands in arithmetic
            other = other.__tensor__()
        if (
            function is np.multiply
            and isinstance(other, Tensor)
            and _is_bool(other) != _is_bool(self)
        ):
            return _truth(self)._with(_truth(other), function)
        if not isinstance(other, Tensor):
            theirs = self._operand(other, function, swapped=swapped)
        elif other.keeps_dtype and function is not np.add:
            theirs = convert(other, mine.dtype)
        else:
            theirs = other.array
        if mine.dtype.kind == "b" and function is not np.multiply:
            raise InvalidArgumentError(
                "dtype_unsupported", "there is no such arithmetic with bool values: cast them first"
            )
        if theirs.dtype != mine.dtype:
            raise InvalidArgumentError(
                "dtype_mismatch",
                f"a tensor of dtype {theirs.dtype} does not go with one of {mine.dtype}: cast "
                "one of them",
            )
        try:
            with np.errstate(all="ignore"):
                return Tensor(
                    function(theirs, mine) if swapped else function(mine, theirs), self.device
                )
        except ValueError:
            raise InvalidArgumentError(
                "shape_mismatch",
                f"shapes {mine.shape} and {theirs.shape} cannot be broadcast: reshape one of them",
            ) from None

    def _operand(
        self, other: object, function: Callable[[Values, Values], Values], *, swapped: bool
    ) -> Values:
        """What is no tensor, in the dtype of this one; TypeError if it cannot be converted.

        To the right of a plus it then becomes a tensor of its own dtype, which does not fit; to the
        right of a product of bool values it counts as whether it is 0.
        """
        mine = self.array.dtype
        try:
            return convert(other, mine)
        except RefusedTypeError:
            if not swapped and function is np.multiply and mine.kind == "b":
                return _truth(Tensor(np.asarray(other))).array
            if swapped or function is not np.add:
                raise
            raise InvalidArgumentError(
                "dtype_unsupported" if mine.kind == "b" else "dtype_mismatch",
                f"{shown(other)} does not go with a tensor of {mine}: give a value of that kind, "
                "or cast it",
            ) from None

    def __repr__(self) -> str:
        return f"Tensor({self.array.tolist()}, {self.array.dtype}, {self.device})"


def _is_bool(one: Tensor) -> bool:
    return one.array.dtype.kind == "b"


def _truth(one: Tensor) -> Tensor:
    """Which elements are not 0; of complex numbers, whose real part is not."""
    return Tensor(np.asarray(np.real(one.array) != 0), one.device)


def tensor(
    data: object, dtype: DTypeLike | None = None, device: DeviceId = DEFAULT_DEVICE
) -> Tensor:
    """A tensor with a copy of the data."""
    return Tensor(np.array(data, dtype), device)


def array_of(data: object) -> Values:
    """An array of numbers; ValueError for what is none, so that no tensor holds objects."""
    array: Values = np.asarray(data)
    if kind_of(array.dtype) not in "biufc":
        raise RefusedValueError(
            "not_a_tensor",
            f"Attempt to convert a value of an unsupported type ({type(data).__name__}, elements of"
            f" {array.dtype}) to a tensor: give numbers, all in one shape; of a container take the "
            "part of one replica, or reduce it",
        )
    return array


def kind_of(dtype: np.dtype[Any]) -> str:
    """The kind of a dtype, as numpy names it: also of bfloat16, which is a float."""
    return "f" if dtype.kind == "V" and dtype.name == "bfloat16" else dtype.kind


def convert(value: object, dtype: np.dtype[Any]) -> Values:
    """A tensor, array or number as an array of this dtype (tf.convert_to_tensor).

    Tensors keep their dtype (ValueError if it is another one), arrays that are no tensors are cast,
    numbers are converted where nothing is lost in kind (else TypeError). ValueError for None,
    RefusedProgramError for anything else.
    """
    if isinstance(value, Tensor):
        if value.array.dtype != dtype:
            raise RefusedValueError(
                "dtype_mismatch",
                f"a tensor of dtype {value.array.dtype} does not fit {dtype}: cast it first",
            )
        return value.array
    if isinstance(value, np.ndarray | np.generic):
        return _cast(array_of(value), dtype)
    if isinstance(value, bool | int | float | complex):
        if _holds(dtype.name, value):
            return _cast(np.array(value), dtype)
        raise RefusedTypeError(
            "dtype_mismatch",
            f"Cannot convert {shown(value)} to {dtype}: give a value of that kind, or cast it",
        )
    if isinstance(value, list | tuple):
        if all(isinstance(item, bool | int | float | complex) for item in value):
            return np.array([convert(item, dtype) for item in value], dtype)
        return _cast(array_of([i.array if isinstance(i, Tensor) else i for i in value]), dtype)
    if value is None:
        raise RefusedValueError(
            "not_a_tensor", "Attempt to convert a value (None) to a tensor: give a value"
        )
    raise RefusedProgramError(
        "literal_attribute",
        f"a {type(value).__name__} is not a tensor and has no dtype: "
        "reduce it, or take the part of one replica",
    )


def _cast(values: Values, dtype: np.dtype[Any]) -> Values:
    """An array in another dtype: integers are cut to its bits, complex numbers to their real part.

    All of a complex number counts for whether it is 0.
    """
    if values.dtype.kind == "c" and kind_of(dtype) not in "cb":
        values = values.real
    with np.errstate(all="ignore"):
        return np.asarray(values.astype(dtype))


def _holds(dtype: str, number: Number) -> bool:
    """Whether a Python number is converted to a dtype; integers are cut to its bits."""
    if isinstance(number, bool):
        return dtype in _FROM_BOOL
    if isinstance(number, int):
        return dtype != "bool" and -(2**63) <= number < 2**63
    return dtype in _COMPLEX or (isinstance(number, float) and dtype in _FLOATS)


def shown(value: object) -> str:
    """A value as shown in messages: a number in full, an array by dtype and shape."""
    if isinstance(value, Tensor):
        value = value.array
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype} of shape {value.shape}"
    return str(value)


def add_in_order(values: Sequence[Values]) -> Values:
    """The sum, strictly from first to last, in the dtype of the values (tf.math.add_n)."""
    first = values[0]
    if first.dtype.kind == "b":
        raise InvalidArgumentError(
            "dtype_unsupported", "bool values cannot be added: cast them to int32 or float32"
        )
    if any(value.dtype != first.dtype for value in values):
        raise InvalidArgumentError(
            "dtype_mismatch", "values to be added must have the same dtype: cast them first"
        )
    if any(value.shape != first.shape for value in values):
        shapes = ", ".join(str(value.shape) for value in values)
        raise InvalidArgumentError(
            "shape_mismatch",
            f"values to be added must have the same size and shape, not {shapes}; "
            "gather them, or reduce along an axis",
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
        if total.dtype.kind == "c":  # by a number, so each component by itself
            real = np.array(count, total.real.dtype)
            parts = np.empty_like(total)
            parts.real, parts.imag = total.real / real, total.imag / real
            return parts
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
        with np.errstate(all="ignore"):
            part = np.true_divide(np.asarray(value), count)
    return _cast(part, dtype)


def tensor_of(value: object, device: DeviceId) -> Tensor:
    """A number or an array that is no tensor as one; numbers become float32, int32 or bool."""
    if isinstance(value, np.ndarray):
        return tensor(value, device=device)
    kinds: dict[type, DTypeLike] = {bool: np.bool_, int: np.int32, float: np.float32}
    return tensor(value, kinds.get(type(value)), device)
