"""Distributed variables: one logical variable, its copies, and the rule by which they combine.

`MirroredVariable`, `SyncOnReadVariable` and the enums carry TensorFlow's names and meaning
(tf.VariableSynchronization, tf.VariableAggregation). Values are never changed in place: a version
is a reference, and copies that are equal may share one.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from varsim.values.gradient import Array
from varsim.values.optimizer import Optimizer, State

# Copies compared at a time with all others, to bound memory.
_ROWS = 256


class Synchronization(Enum):
    """When the copies of a variable are brought together (tf.VariableSynchronization)."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class Aggregation(Enum):
    """How they are combined (tf.VariableAggregation)."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


class Copy(NamedTuple):
    """One copy of a variable with its optimizer's slots."""

    value: Array
    state: State


class PlainVariable:
    """One copy, on a parameter server (Synchronization.NONE)."""

    synchronization = Synchronization.NONE

    def __init__(self, initial: Array, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self.value = initial
        self.state = optimizer.init(initial)

    def apply(self, gradient: Array) -> None:
        """One step of the optimizer."""
        self.value, self.state = self._optimizer.update(gradient, self.state, self.value)


class MirroredVariable:
    """A copy on every replica, all written with the same update (Synchronization.ON_WRITE)."""

    synchronization = Synchronization.ON_WRITE

    def __init__(self, initial: Array, optimizer: Optimizer, replicas: int) -> None:
        self._optimizer = optimizer
        self.copies = [Copy(initial, optimizer.init(initial))] * replicas
        self._last: tuple[Copy, Array, Copy] | None = None

    def apply(self, replica: int, gradient: Array) -> None:
        """One step of the optimizer on one replica's copy.

        Replicas that apply the same gradient to the same version share the result.
        """
        copy = self.copies[replica]
        if self._last is None or self._last[0] is not copy or self._last[1] is not gradient:
            updated = Copy(*self._optimizer.update(gradient, copy.state, copy.value))
            self._last = (copy, gradient, updated)
        self.copies[replica] = self._last[2]

    def copies_are_equal(self) -> bool:
        """Bit for bit, with the optimizer's slots."""
        first = self.copies[0]
        return all(
            copy is first
            or (
                _same(first.value, copy.value)
                and all(_same(a, b) for a, b in zip(first.state, copy.state, strict=True))
            )
            for copy in self.copies
        )


class SyncOnReadVariable:
    """A copy on every replica, written alone, aggregated when read from outside (ON_READ)."""

    synchronization = Synchronization.ON_READ

    def __init__(
        self, initial: Array, optimizer: Optimizer, replicas: int, aggregation: Aggregation
    ) -> None:
        self._optimizer = optimizer
        self.aggregation = aggregation
        self.copies = [Copy(initial, optimizer.init(initial))] * replicas

    def apply(self, replica: int, gradient: Array) -> None:
        """One step of the optimizer on one replica's own copy."""
        copy = self.copies[replica]
        self.copies[replica] = Copy(*self._optimizer.update(gradient, copy.state, copy.value))

    def read(self) -> Array:
        """The value an outsider reads: the copies aggregated, first to last."""
        values = [copy.value for copy in self.copies]
        if self.aggregation is Aggregation.ONLY_FIRST_REPLICA:
            return values[0]
        if self.aggregation is Aggregation.NONE:
            raise ValueError(
                "an ON_READ variable with aggregation NONE cannot be read from outside; "
                "use MEAN, SUM or ONLY_FIRST_REPLICA"
            )
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total / len(values) if self.aggregation is Aggregation.MEAN else total

    def assign(self, replica: int, value: Array) -> None:
        """Write one copy from outside; under SUM each copy gets its share."""
        if self.aggregation is Aggregation.SUM:
            value = value / len(self.copies)
        self.copies[replica] = Copy(value, self.copies[replica].state)


def divergence(copies: Sequence[Sequence[Array]]) -> float:
    """Largest Euclidean distance between two copies of a model (each: one array per variable)."""
    flat = np.stack([np.concatenate([part.ravel() for part in copy]) for copy in copies])
    # The pair by matrix products, its distance by subtraction, which loses no digits.
    centred = flat - flat.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    largest, pair = -1.0, (0, 0)
    for first in range(0, len(flat), _ROWS):
        products = centred[first : first + _ROWS] @ centred.T
        distances = squares[first : first + _ROWS, None] + squares - 2.0 * products
        row, column = np.unravel_index(distances.argmax(), distances.shape)
        if not distances[row, column] <= largest:  # also where it is not a number
            largest, pair = float(distances[row, column]), (first + int(row), int(column))
    difference = flat[pair[0]] - flat[pair[1]]
    return float(np.sqrt(difference @ difference))


def _same(a: Array, b: Array) -> bool:
    return a is b or a.tobytes() == b.tobytes()
