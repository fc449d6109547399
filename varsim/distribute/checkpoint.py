"""Checkpoints: one value per variable, so that they move between strategies and replica counts.

(values_util.py: get_on_write_saveable, get_on_read_saveable, get_on_read_restore_ops.)
"""

from collections.abc import Mapping

from varsim.distribute.context import OUTSIDE, Context
from varsim.distribute.tensor import Tensor, Values
from varsim.distribute.variable import DistributedVariable
from varsim.values.operation import Operation


def save(
    variables: Mapping[str, DistributedVariable], context: Context = OUTSIDE
) -> Operation[dict[str, Values]]:
    """What each variable is when read from outside: one copy of a mirrored one, the sum or mean.

    ValueError for ON_READ without aggregation. All workers have to take part.
    """
    saved = {}
    for name, variable in variables.items():
        value = yield from variable.read(context)
        assert isinstance(value, Tensor)
        saved[name] = value.array
    return saved


def restore(
    checkpoint: Mapping[str, Values], variables: Mapping[str, DistributedVariable]
) -> Operation[None]:
    """Set the variables that the checkpoint names; a sum is shared out among the copies.

    ValueError for another shape.
    """
    for name, variable in variables.items():
        if name in checkpoint:
            yield from variable.restore(checkpoint[name])
