"""Problem and Task: named variables, and real gradients of a real loss."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.core.schema import Model
from varsim.learning.gradient_form import IndexedSlices

Floats: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = tuple[Floats, ...]  # one array per variable

# k gradients, per variable (k, *shape), or a list of k where they are of a few rows only.
StackedGradients: TypeAlias = tuple[Floats | list[IndexedSlices], ...]

# Of any parameters a number that their loss is not below.
Floor: TypeAlias = Callable[[Parameters], float]

# Rows of example numbers, or of noise: each task has its own dtype.
Batches: TypeAlias = NDArray[Any]

# Batches drawn from one random stream; part of every result: do not change.
BLOCK: Final = 64

_ROUNDING: Final = 1e-6


class VariableSpec(NamedTuple):
    """A variable's name and shape.

    `has_gradient`: one without is left alone; what a task gives as its gradient is not looked at.
    `rows_per_example`: of how many rows an example reads the values and gives a gradient, where
    that is not all; gradients are then `IndexedSlices`.
    """

    name: str
    shape: tuple[int, ...]
    rows_per_example: int | None = None
    has_gradient: bool = True

    @property
    def size(self) -> int:
        """Number of parameters in it."""
        size = 1
        for length in self.shape:
            size *= length
        return size


class Task(ABC):
    """Instance of a problem for one seed and replication: data, start, batches, gradients.

    It is deterministic, and nothing it is given is ever changed.
    """

    # False where gradients are zeros and need not be worked out.
    has_values: ClassVar[bool] = True

    @abstractmethod
    def initial(self) -> Parameters:
        """The parameters that training starts from, one float64 array per variable."""

    @abstractmethod
    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        """Batches `block * BLOCK` and the following of a worker, (BLOCK, m): one row is one batch.

        What a row holds is the task's own affair; it goes back in through `gradients`. Each block
        has a random stream of its own, so it is the same whichever blocks were asked for before.
        """

    @abstractmethod
    def gradients(self, parameters: Parameters, batches: Batches) -> StackedGradients:
        """The gradients at `parameters` for k batches (k, m): per variable (k, *shape).

        Of a variable of which a batch touches a few rows only, a list of k `IndexedSlices`, each
        with ascending indices.

        `parameters` are the same for all batches (per variable: shape), or each batch has its own
        (k, *shape). Row i has the same bits as a call with batch i alone. Diverged parameters give
        inf or nan.
        """

    @abstractmethod
    def loss(self, parameters: Parameters) -> float:
        """The training loss over all examples."""

    def floor(self, parameters: Parameters, loss: float) -> Floor | None:
        """Lower bound of the loss elsewhere, from these parameters; None if the loss is as cheap.

        `loss`: that of `parameters`. With it few updates need to be measured to find when a loss is
        first reached.
        """
        return None

    def accuracy(self, parameters: Parameters) -> float:
        """The share of test examples answered correctly; nan where there is no such thing."""
        return float("nan")


def tangent(loss: float, slope: Parameters, touched: Parameters) -> Floor:
    """Lower bound of a convex loss: its tangent plane, less a margin for rounding."""
    if math.isnan(loss):
        return lost(touched)

    def floor(parameters: Parameters) -> float:
        pairs = zip(slope, parameters, touched, strict=True)
        rise = sum(float(np.vdot(along, there - here)) for along, there, here in pairs)
        return loss + rise - _ROUNDING * (abs(loss) + abs(rise))

    return floor


def lost(parameters: Parameters) -> Floor:
    """Lower bound from parameters with nan: infinite while that parameter stays nan."""
    for number, part in enumerate(parameters):
        if np.isnan(part).any():
            place = np.unravel_index(int(np.isnan(part).argmax()), part.shape)
            return lambda now: math.inf if math.isnan(now[number][place]) else -math.inf
    return lambda now: -math.inf


class Problem(Model, ABC):
    """What is minimised. Fields are its settings; `task` makes it concrete."""

    # Whether gradients are zeros that nobody works out.
    times_only: ClassVar[bool] = False

    @property
    def is_random(self) -> bool:
        """Whether values may differ between replications, by what they start from or by batches."""
        return True

    @abstractmethod
    def variables(self) -> tuple[VariableSpec, ...]:
        """The variables, in the order of every tuple of parameters and gradients."""

    @abstractmethod
    def flops_per_example(self) -> float:
        """FLOPs of a training step for one example: 3 x forward, a multiply-add being 2."""

    @abstractmethod
    def task(self, seed: int, replication: int) -> Task:
        """The problem made concrete; the same arguments give the same task in any process."""
