"""The quadratic bowl: a known optimum, a chosen condition number, and gradient noise."""

import math
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from varsim.values.stream import stream
from varsim.values.task import BLOCK, Batches, Floats, Parameters, Problem, Task, VariableSpec


class Quadratic(Problem):
    """f(x) = 1/2 sum_i a_i (x_i - x*_i)^2, with a log-spaced from 1/condition_number to 1.

    Training starts at 0; the optimum x* has equal coordinates and lies `distance` away. One
    example's gradient is exact plus normal noise of standard deviation `noise` in every
    coordinate, so that of a batch of b has noise / sqrt(b). The loss is f, 0 at the optimum.
    """

    about: ClassVar[str] = "bowl with known optimum, condition number and gradient noise"

    kind: Literal["quadratic"] = "quadratic"
    dimension: PositiveInt = Field(10, le=100_000)
    condition_number: float = Field(10.0, ge=1, description="largest curvature / smallest")
    noise: float = Field(0.0, ge=0, description="standard deviation of one example's gradient")
    distance: float = Field(1.0, gt=0, description="from the start to the optimum")

    @model_validator(mode="before")
    @classmethod
    def _one_dimension_is_round(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("dimension") == 1:
            return {"condition_number": 1.0, **data}
        return data

    @model_validator(mode="after")
    def _has_two_curvatures(self) -> Self:
        if self.dimension == 1 and self.condition_number != 1:
            raise ValueError("a quadratic of dimension 1 has condition_number 1")
        return self

    @property
    def is_random(self) -> bool:
        """By its noise alone."""
        return self.noise > 0

    def variables(self) -> tuple[VariableSpec, ...]:
        """One variable, `x`."""
        return (VariableSpec("x", (self.dimension,)),)

    def flops_per_example(self) -> float:
        """3 x forward; forward is one multiply-add per coordinate."""
        return 6.0 * self.dimension

    def task(self, seed: int, replication: int) -> "QuadraticTask":
        """The same bowl for all, with the noise of this seed and replication."""
        return QuadraticTask(self, seed, replication)


class QuadraticTask(Task):
    """The bowl; a batch is its noise vector."""

    def __init__(self, problem: Quadratic, seed: int, replication: int) -> None:
        dimension = problem.dimension
        # Powers of scalars: those of numpy arrays differ between CPUs in the last bit.
        exponents = (1.0 - index / max(dimension - 1, 1) for index in range(dimension))
        self._curvature = np.array([problem.condition_number**-exponent for exponent in exponents])
        self._optimum = np.full(dimension, problem.distance / math.sqrt(dimension))
        self._noise = problem.noise
        self._key = seed, replication

    def initial(self) -> Parameters:
        """The origin."""
        return (np.zeros(self._optimum.size),)

    def optimum(self) -> Parameters:
        """Where the loss is 0."""
        return (self._optimum.copy(),)

    def batches(self, worker: int, block: int, batch_size: int) -> Floats:
        """Noise vectors (BLOCK, dimension), averaged over `batch_size` examples."""
        shape = BLOCK, self._optimum.size
        if self._noise == 0:
            return np.zeros(shape)
        noise = stream(*self._key, "noise", worker, block).standard_normal(shape)
        noise *= self._noise / math.sqrt(batch_size)
        return noise

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        """The slope of f, a_i (x_i - x*_i), plus every row of noise."""
        (x,) = parameters
        return (self._curvature * (x - self._optimum) + batches,)

    def loss(self, parameters: Parameters) -> float:
        """The height f above the minimum."""
        (x,) = parameters
        difference = x - self._optimum
        return 0.5 * float(self._curvature @ (difference * difference))
