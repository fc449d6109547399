"""Sparse updates of one copy: `scatter_add`, `scatter_update` and the like.

(tensorflow/core/kernels/resource_variable_ops.cc, ResourceScatterUpdateOp.)
"""

from typing import Final, Literal, TypeAlias

import numpy as np

from varsim.distribute.tensor import Values, shown
from varsim.values.refusal import InvalidArgumentError

Scatter: TypeAlias = Literal["add", "sub", "mul", "div", "min", "max", "update"]

_UFUNCS: Final = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
# The methods that a kind of dtype has.
_METHODS: Final = {"b": ("update",), "c": ("add", "sub", "mul", "div", "update")}


def scattered(method: Scatter, value: Values, indices: Values, rows: Values) -> Values:
    """A value with rows `indices` updated by rows of its dtype, one for each index, or a scalar.

    Integers are divided towards zero. InvalidArgumentError for what does not fit.
    """
    _check(method, value, indices, rows)
    new = value.copy()
    with np.errstate(all="ignore"):
        if method == "update":
            new[indices] = rows
        elif method == "div" and value.dtype.kind in "iu":
            if not rows.all():
                raise InvalidArgumentError(
                    "dtype_unsupported",
                    "integers cannot be divided by 0: give updates that do not contain it",
                )
            each = np.broadcast_to(rows, indices.shape + value.shape[1:])
            for index, row in zip(indices, each, strict=True):
                new[index] = np.trunc(new[index] / row)
        else:
            _UFUNCS[method].at(new, indices, rows)
    return new


def _check(method: Scatter, value: Values, indices: Values, rows: Values) -> None:
    if method not in _METHODS.get(value.dtype.kind, (method,)):
        raise InvalidArgumentError(
            "dtype_unsupported",
            f"rows of {value.dtype} have no scatter_{method}: use scatter_update, or assign",
        )
    count = len(value) if value.ndim else 0
    if rows.shape not in ((), indices.shape + value.shape[1:]):
        raise InvalidArgumentError(
            "shape_mismatch",
            f"a sparse update of rows {indices.shape} of {value.shape} cannot have shape "
            f"{rows.shape}; give one row for each index",
        )
    if not all(0 <= index < count for index in indices.ravel().tolist()):
        raise InvalidArgumentError(
            "axis_range",
            f"indices {shown(indices)} are not all in [0, {count}): name rows that there are",
        )
