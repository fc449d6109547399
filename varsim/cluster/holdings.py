"""What workers hold of a model: copies of variables, and counts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.distribute.variable import DistributedVariable
from varsim.values.gradient import Array
from varsim.values.optimizer import State


class Held(NamedTuple):
    """All that a worker has of a model, and counts: what another one takes from it."""

    values: Sequence[Array]
    states: Sequence[State]
    counts: Sequence[int]
    rows: Sequence[NDArray[np.int64]] = ()


class Holdings(NamedTuple):
    """What workers hold, by rank: copies of variables, counts, and rows of numbers."""

    variables: Sequence[DistributedVariable]
    counts: list[list[int]]
    rows: list[NDArray[np.int64]]

    def of(self, rank: int) -> Held:
        """What one of them holds."""
        values = [variable.values[rank] for variable in self.variables]
        states = [variable.states[rank] for variable in self.variables]
        counts = [count[rank] for count in self.counts]
        return Held(values, states, counts, [row[rank].copy() for row in self.rows])

    def take(self, rank: int, held: Held) -> None:
        """One of them takes all that another one has, or had."""
        for variable, value, state in zip(self.variables, held.values, held.states, strict=True):
            variable.values[rank] = value
            variable.states[rank] = state
        for count, number in zip(self.counts, held.counts, strict=True):
            count[rank] = number
        for row, numbers in zip(self.rows, held.rows, strict=True):
            row[rank] = numbers
