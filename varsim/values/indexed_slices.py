"""Gradients of a few rows of a variable: what they are, and how they are added up.

TensorFlow's tf.IndexedSlices and the arithmetic of its SparseConditionalAccumulator
(tensorflow/core/kernels/sparse_conditional_accumulator.h).
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.values.precision import Precision, rounded

Rows: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[Any]


class IndexedSlices:
    """A gradient that is 0 but for the rows named: `values[i]` belongs to row `indices[i]`.

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

    def rounded(self, precision: Precision) -> "IndexedSlices":
        """The same in fewer bits."""
        return IndexedSlices(self.indices, rounded(self.values, precision), self.dense_shape)

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
