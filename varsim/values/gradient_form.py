"""What the gradients of a variable must look like, and how an accumulator aggregates them.

The attributes of TensorFlow's accumulators: dtype, declared shape and reduction type
(conditional_accumulator.h and sparse_conditional_accumulator.h in tensorflow/core/kernels,
python/ops/data_flow_ops.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from varsim.values.indexed_slices import IndexedSlices, mean_of_slices, sum_of_slices
from varsim.values.refusal import InvalidArgumentError, RefusedValueError

G = TypeVar("G")

Values: TypeAlias = NDArray[Any]
Reduction: TypeAlias = Literal["MEAN", "SUM"]

# A declared shape: None where nothing is declared, for the whole or for one dimension.
Shape: TypeAlias = tuple[int | None, ...] | None

DTYPES: Final = frozenset({"float16", "float32", "float64"})


class GradientForm(ABC, Generic[G]):
    """dtype, declared shape and reduction of one variable's gradients.

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
    """Gradients as arrays. Those of one round all have the shape of the first."""

    def check(self, gradient: object) -> None:
        """An array of the dtype."""
        if not isinstance(gradient, np.ndarray | np.generic):
            raise _wrong_kind(gradient, "an array")
        self._check_dtype(np.asarray(gradient))

    def check_shape(self, gradient: Values, inside: Sequence[Values]) -> None:
        """The shape of what is inside, and the declared one."""
        if inside and gradient.shape != inside[0].shape:
            raise _mismatch("a gradient of shape", inside[0].shape, gradient.shape)
        if self.shape is None:
            return
        if len(self.shape) != gradient.ndim or _differs(self.shape, gradient.shape):
            raise _mismatch("a gradient of shape", self.shape, gradient.shape)

    def aggregate(self, gradients: Sequence[Values]) -> Values:
        """The sum; for a mean divided by their number."""
        total = sum_in_order(np.stack(gradients))
        return total if self.reduction == "SUM" else total / self.dtype.type(len(gradients))


class SparseForm(GradientForm[IndexedSlices]):
    """Gradients as indexed slices. The mean of a row is over those that held it."""

    def check(self, gradient: object) -> None:
        """Indexed slices with values of the dtype."""
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
    """Whether a declared length is another than the one found at its place."""
    return any(
        one is not None and one != other for one, other in zip(declared, found, strict=False)
    )


def _wrong_kind(gradient: object, instead: str) -> RefusedValueError:
    kind = type(gradient).__name__
    return RefusedValueError("wrong_kind", f"a gradient must be {instead}, not {kind}")


def _mismatch(what: str, expected: object, found: object) -> InvalidArgumentError:
    return InvalidArgumentError("wrong_shape", f"expected {what} {expected}, got {found}")
