"""Gradient values: precision, IndexedSlices, and the form that an accumulator requires.

IndexedSlices and their arithmetic follow tf.IndexedSlices and SparseConditionalAccumulator; dtype,
declared shape and reduction are attributes of TensorFlow's accumulators
(tensorflow/core/kernels: conditional_accumulator.h, sparse_conditional_accumulator.h).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from varsim.core.operation import InvalidArgumentError, RefusedValueError

Precision: TypeAlias = Literal["fp32", "fp16", "bf16"]

# Those that need a scale beside the numbers.
Quantized: TypeAlias = Literal["fp8_e4m3", "fp8_e5m2", "int8", "fp4_e2m1", "fp4_e3m0"]

# Bytes of one number.
BYTES: Final[Mapping[Precision, int]] = {"fp32": 4, "fp16": 2, "bf16": 2}
BYTES_ALL: Final[Mapping[Precision | Quantized, float]] = {
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "int8": 1,
    "fp4_e2m1": 0.5,
    "fp4_e3m0": 0.5,
}


class _Grid(NamedTuple):
    """Numbers of a format: bits of the mantissa, exponent of the least normal one, largest one."""

    mantissa: int
    least: int
    largest: float


# fp8: Micikevicius et al., 2022; fp4_e2m1: OCP Microscaling Formats, 2023; fp4_e3m0: the exponents
# of Streaming DiLoCo (Douillard et al., 2025), with a bias of 3, and 0. An int8 has steps of 1.
_GRIDS: Final[Mapping[str, _Grid]] = {
    "fp8_e4m3": _Grid(3, -6, 448.0),
    "fp8_e5m2": _Grid(2, -14, 57344.0),
    "int8": _Grid(6, 6, 127.0),
    "fp4_e2m1": _Grid(1, 0, 6.0),
    "fp4_e3m0": _Grid(0, -2, 16.0),
}


def rounded(values: NDArray[np.float64], precision: Precision | Quantized) -> NDArray[np.float64]:
    """The nearest numbers that the precision has; of two equally near the one that ends in bit 0.

    First to fp32, in which devices compute, from there to fp16 or bf16. What is too large becomes
    infinite: in fp16 from 65,520 on; what is too small becomes 0 (fp16: up to 3e-8). Of fewer bits
    there is one scale for all, with which the largest becomes the largest that the format has.
    """
    if precision in _GRIDS:
        return _scaled_to(values, _GRIDS[precision])
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32)
        if precision == "fp16":
            return single.astype(np.float16).astype(np.float64)
        if precision == "bf16":
            single = _upper_half(single)
        return single.astype(np.float64)


def _scaled_to(values: NDArray[np.float64], grid: _Grid) -> NDArray[np.float64]:
    """Numbers of a format, times one scale; where anything is not finite, nothing is."""
    most = float(np.abs(values).max(initial=0.0))
    if most == 0.0:
        return values
    if not math.isfinite(most):
        return np.full_like(values, math.nan)
    scale = most / grid.largest
    exponents = np.frexp(values / scale)[1] - 1
    steps = np.ldexp(1.0, np.maximum(exponents, grid.least) - grid.mantissa)
    found: NDArray[np.float64] = np.rint(values / scale / steps) * steps * scale
    return found


def _upper_half(single: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32 with the lower 16 bits of each rounded away; nan stays nan."""
    bits = single.view(np.uint32)
    last = (bits >> np.uint32(16)) & np.uint32(1)
    upper = (bits + np.uint32(0x7FFF) + last) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(single), single, upper.view(np.float32))


Rows: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[Any]


class IndexedSlices:
    """Sparse gradient (tf.IndexedSlices): `values[i]` belongs to row `indices[i]`, others are 0.

    indices (n,), values (n, *rest). `dense_shape` is that of the whole, -1 for a length that is
    not known; None if nothing is said. A row may be named more than once: its values add up.
    """

    __slots__ = ("dense_shape", "indices", "values")

    def __init__(
        self, indices: Rows, values: Values, dense_shape: tuple[int, ...] | None = None
    ) -> None:
        self.indices = indices
        self.values = values
        self.dense_shape = dense_shape

    def summed(self) -> "IndexedSlices":
        """The same with every row named once, in ascending order."""
        if _ascends(self.indices):
            return self
        indices, place = np.unique(self.indices, return_inverse=True)
        values = np.zeros((len(indices), *self.values.shape[1:]), self.values.dtype)
        np.add.at(values, place.reshape(-1), self.values)
        return IndexedSlices(indices, values, self.dense_shape)

    def dense(self, shape: tuple[int, ...]) -> Values:
        """The same as an array of all rows."""
        whole = np.zeros(shape, self.values.dtype)
        rows = self.summed()
        whole[rows.indices] = rows.values
        return whole

    def with_values(self, values: Values) -> "IndexedSlices":
        """Other values for the same rows."""
        return IndexedSlices(self.indices, values, self.dense_shape)

    def rounded(self, precision: Precision) -> "IndexedSlices":
        """The same in fewer bits."""
        return self.with_values(rounded(self.values, precision))

    def __repr__(self) -> str:
        return f"IndexedSlices({self.indices!r}, {self.values!r}, {self.dense_shape!r})"


def sum_of_slices(gradients: Sequence[IndexedSlices]) -> tuple[IndexedSlices, Rows]:
    """Their sum, row by row in the order given, and how many gradients held each row.

    Indices are taken to ascend. As in TensorFlow, rows that are named twice in one gradient, or
    out of order, may stand more than once in the sum, each with its own count.
    """
    indices, places = _places([gradient.indices for gradient in gradients])
    first = gradients[0].values
    total = np.zeros((len(indices), *first.shape[1:]), first.dtype)
    held = np.zeros(len(indices), np.int64)
    for gradient, place in zip(gradients, places, strict=True):
        total[place] += gradient.values
        held[place] += 1
    return IndexedSlices(indices, total), held


def mean_of_slices(gradients: Sequence[IndexedSlices], by_row: bool) -> IndexedSlices:
    """Their sum divided by their number, or `by_row` by the number that held the row."""
    total, held = sum_of_slices(gradients)
    if not by_row:
        return IndexedSlices(total.indices, total.values / len(gradients))
    counts = held.astype(total.values.dtype).reshape(-1, *[1] * (total.values.ndim - 1))
    return IndexedSlices(total.indices, total.values / counts)


def _ascends(indices: Rows) -> bool:
    """Whether every row is named once, in order."""
    return bool((indices[1:] > indices[:-1]).all())


def _places(named: Sequence[Rows]) -> tuple[Rows, list[Rows]]:
    """The rows of the sum, and for each gradient where its own rows stand among them."""
    if all(_ascends(indices) for indices in named):
        rows = np.unique(np.concatenate(named))
        return rows, [rows.searchsorted(indices) for indices in named]
    return _walk(named)


def _walk(named: Sequence[Rows]) -> tuple[Rows, list[Rows]]:
    """The same where rows are not in order: both lists are walked as if they were.

    Entries are numbered as they come; `order` is how they stand in the sum.
    """
    entries: list[list[int]] = []
    row_of: list[int] = []
    order: list[int] = []
    for indices in named:
        before, order = order, []
        own: list[int] = []
        position = 0
        for row in indices.tolist():
            while position < len(before) and row_of[before[position]] < row:
                order.append(before[position])
                position += 1
            if position < len(before) and row_of[before[position]] == row:
                entry = before[position]
                position += 1
            else:
                entry = len(row_of)
                row_of.append(row)
            order.append(entry)
            own.append(entry)
        order += before[position:]
        entries.append(own)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return np.array(row_of, np.int64)[order], [place[own] for own in entries]


G = TypeVar("G")

Reduction: TypeAlias = Literal["MEAN", "SUM"]

# A declared shape: None where nothing is declared, for the whole or for one dimension.
Shape: TypeAlias = tuple[int | None, ...] | None

DTYPES: Final = frozenset({"float16", "float32", "float64"})


class GradientForm(ABC, Generic[G]):
    """Form of one variable's gradients: dtype, declared shape, reduction.

    InvalidArgumentError if there is no accumulator for the dtype, RefusedValueError if the
    reduction is none.
    """

    def __init__(
        self, dtype: DTypeLike = np.float64, shape: Shape = None, reduction: Reduction = "MEAN"
    ) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape = shape
        self.reduction = reduction
        if self.dtype.name not in DTYPES:
            raise InvalidArgumentError(
                "wrong_dtype", f"gradients of {self.dtype} cannot be accumulated: use a float"
            )
        if reduction not in ("MEAN", "SUM"):
            raise RefusedValueError(
                "wrong_reduction", f"the reduction must be MEAN or SUM, not {reduction}"
            )

    @abstractmethod
    def check(self, gradient: object) -> None:
        """RefusedValueError if it is not of this kind, or of another dtype."""

    @abstractmethod
    def check_shape(self, gradient: G, inside: Sequence[G]) -> None:
        """InvalidArgumentError if it fits neither the declared shape nor what is inside."""

    @abstractmethod
    def aggregate(self, gradients: Sequence[G]) -> G:
        """Their sum in the given order, or their mean; at least one."""

    def _check_dtype(self, values: Values) -> None:
        if values.dtype != self.dtype:
            raise RefusedValueError(
                "wrong_dtype", f"a gradient of {values.dtype} where {self.dtype} is accumulated"
            )


class DenseForm(GradientForm[Values]):
    """Form of dense gradients; those of one round have equal shapes."""

    def check(self, gradient: object) -> None:
        if not isinstance(gradient, np.ndarray | np.generic):
            raise _wrong_kind(gradient, "an array")
        self._check_dtype(np.asarray(gradient))

    def check_shape(self, gradient: Values, inside: Sequence[Values]) -> None:
        if inside and gradient.shape != inside[0].shape:
            raise _mismatch("a gradient of shape", inside[0].shape, gradient.shape)
        if self.shape is None:
            return
        if len(self.shape) != gradient.ndim or _differs(self.shape, gradient.shape):
            raise _mismatch("a gradient of shape", self.shape, gradient.shape)

    def aggregate(self, gradients: Sequence[Values]) -> Values:
        total = sum_in_order(np.stack(gradients))
        return total if self.reduction == "SUM" else total / self.dtype.type(len(gradients))


class SparseForm(GradientForm[IndexedSlices]):
    """Form of sparse gradients; the mean of a row is over the gradients that contain it."""

    def check(self, gradient: object) -> None:
        if not isinstance(gradient, IndexedSlices):
            raise _wrong_kind(gradient, "indexed slices")
        self._check_dtype(gradient.values)

    def check_shape(self, gradient: IndexedSlices, inside: Sequence[IndexedSlices]) -> None:
        """As many values as indices, rows that exist, and rows of the right shape.

        Everything fits the shape `()`, which is what SyncReplicasOptimizer declares. Negative rows
        are refused here; TensorFlow refuses them when it updates the variable.
        """
        indices, values, declared = gradient.indices, gradient.values, self.shape or ()
        if indices.ndim != 1 or values.ndim == 0 or len(values) != len(indices):
            raise _mismatch("values for the indices", indices.shape, values.shape)
        if gradient.dense_shape is not None and (
            len(declared) > len(gradient.dense_shape) or _differs(declared, gradient.dense_shape)
        ):
            raise _mismatch("indexed slices of a gradient of shape", declared, gradient.dense_shape)
        if (indices < 0).any():
            raise _mismatch("rows from", 0, indices.min())
        if declared and declared[0] is not None and (indices >= declared[0]).any():
            raise _mismatch("rows below", declared[0], indices.max())
        if inside:
            rows = inside[0].values.shape[1:]
            if values.shape[1:] != rows:
                raise _mismatch("rows of shape", rows, values.shape[1:])
        elif len(declared) > values.ndim or _differs(declared[1:], values.shape[1:]):
            raise _mismatch("rows of shape", declared[1:], values.shape[1:])

    def aggregate(self, gradients: Sequence[IndexedSlices]) -> IndexedSlices:
        """The sum row by row; for a mean each row divided by how many gradients held it."""
        if self.reduction == "SUM":
            total, _ = sum_of_slices(gradients)
        else:
            total = mean_of_slices(gradients, by_row=True)
        length = self.shape[0] if self.shape else None
        total.dense_shape = (-1 if length is None else length, *total.values.shape[1:])
        return total


def sum_in_order(rows: Values) -> Values:
    """Row 0 + row 1 + ..., strictly from first to last.

    numpy adds along the first axis of a stack row by row, unless each row is a single number,
    where it would add in pairs.
    """
    if rows[0].size > 1:
        total: Values = np.add.reduce(rows, axis=0)
        return total
    last: Values = np.add.accumulate(rows, axis=0)[-1]
    return last


def _differs(declared: Sequence[int | None], found: Sequence[int]) -> bool:
    return any(
        one is not None and one != other for one, other in zip(declared, found, strict=False)
    )


def _wrong_kind(gradient: object, instead: str) -> RefusedValueError:
    kind = type(gradient).__name__
    return RefusedValueError("wrong_kind", f"a gradient must be {instead}, not {kind}")


def _mismatch(what: str, expected: object, found: object) -> InvalidArgumentError:
    return InvalidArgumentError("wrong_shape", f"expected {what} {expected}, got {found}")
