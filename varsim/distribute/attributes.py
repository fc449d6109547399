"""Variable: one logical variable with its copies on devices.

The enums carry TensorFlow's names and meaning (tf.VariableSynchronization, tf.VariableAggregation,
tf.distribute.ReduceOp). Values are never changed in place: a version is a reference, and copies
that are equal may share one. What a write or a read means to all copies together is the matter of
the classes in `distribute`: mirrored, sync-on-read, aggregating, plain, sharded.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.core.operation import DEFAULT_DEVICE, DeviceId
from varsim.learning.gradient import Array
from varsim.learning.gradient_form import IndexedSlices
from varsim.learning.optimizer import Optimizer, State

Values: TypeAlias = NDArray[Any]

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


class ReduceOp(Enum):
    """How values are reduced (tf.distribute.ReduceOp)."""

    SUM = "SUM"
    MEAN = "MEAN"


class Attributes(NamedTuple):
    """Attributes of a variable, as it reports them."""

    synchronization: Synchronization = Synchronization.AUTO
    aggregation: Aggregation = Aggregation.NONE
    trainable: bool = True
    name: str = ""


class Variable:
    """One logical variable and its copies, one per device; all start from the same value.

    `values[i]` is what copy i holds. At most one optimizer trains the variable; `states[i]` are its
    slots beside copy i.
    """

    kind: ClassVar[str] = ""
    # Whether there is a copy for each replica, so that it can stand for a per-replica value.
    replicated: ClassVar[bool] = False

    def __init__(
        self,
        initial: Values,
        devices: Sequence[DeviceId] = (DEFAULT_DEVICE,),
        attributes: Attributes = Attributes(),  # noqa: B008 - immutable
        optimizer: Optimizer | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self.attributes = attributes
        self.optimizer = optimizer
        state = optimizer.init(initial) if optimizer else ()
        self.values: list[Values] = [initial] * len(self.devices)
        self.states: list[State] = [state] * len(self.devices)

    @property
    def synchronization(self) -> Synchronization:
        """As the variable reports it; the mirrored family turns AUTO into ON_WRITE."""
        return self.attributes.synchronization

    @property
    def aggregation(self) -> Aggregation:
        """As it was asked for."""
        return self.attributes.aggregation

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of every copy."""
        dtype: np.dtype[Any] = self.values[0].dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole variable."""
        return self.values[0].shape

    @property
    def value(self) -> Values:
        """The value of the first copy: of a variable with one copy, the value."""
        return self.values[0]

    @property
    def state(self) -> State:
        """The optimizer's slots of the first copy."""
        return self.states[0]

    def train_with(self, optimizer: Optimizer) -> None:
        """Give every copy the slots of an optimizer; ValueError if it has those of another."""
        if self.optimizer is None:
            self.optimizer = optimizer
            self.states = [optimizer.init(value) for value in self.values]
        elif self.optimizer is not optimizer:
            raise ValueError("a variable is trained by one optimizer: use the one it has")

    def apply(self, replica: int, gradient: Values | IndexedSlices) -> None:
        """One step of the optimizer on one replica's copy; a sparse gradient is of some rows."""
        assert self.optimizer is not None
        values, states = self.values, self.states
        if isinstance(gradient, IndexedSlices):
            new = self.optimizer.update_rows(gradient, states[replica], values[replica])
        else:
            new = self.optimizer.update(gradient, states[replica], values[replica])
        values[replica], states[replica] = new

    def write(self, replica: int, value: Values) -> None:
        """Set one replica's copy; its slots stay."""
        self.values[replica] = value

    def forget(self, replica: int) -> None:
        """Set the slots of one replica's copy to what they were at the start."""
        if self.optimizer is not None:
            self.states[replica] = self.optimizer.init(self.values[replica])

    def share(self, value: Values) -> Values:
        """What each copy gets when the whole variable is set to a value: that value."""
        return value


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
