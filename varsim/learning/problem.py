"""The table of problems by `kind`, with the small ones: a quadratic, least squares, times only.

A new problem is a class and a line here.
"""

import math
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from varsim.core.refusal import RefusalError
from varsim.core.stream import stream
from varsim.core.table import Models
from varsim.core.units import Bytes
from varsim.learning.digits import Digits
from varsim.learning.embedding import Embedding
from varsim.learning.task import (
    BLOCK,
    Batches,
    Floats,
    Floor,
    Parameters,
    Problem,
    Task,
    VariableSpec,
    tangent,
)


class Quadratic(Problem):
    """f(x) = 1/2 sum_i a_i (x_i - x*_i)^2, with a log-spaced from 1/condition_number to 1.

    Training starts at 0; the optimum x* has equal coordinates and lies `distance` away. One
    example's gradient is exact plus normal noise of standard deviation `noise` in every
    coordinate, so that of a batch of b has noise / sqrt(b). The loss is f, 0 at the optimum.
    """

    about: ClassVar[str] = "bowl with known optimum, condition number and gradient noise"

    kind: Literal["quadratic"] = "quadratic"
    dimension: PositiveInt = Field(10, le=100_000)
    """Length of x."""
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
            raise RefusalError(
                "a quadratic of dimension 1 has condition_number 1", "condition_number"
            )
        return self

    @property
    def is_random(self) -> bool:
        return self.noise > 0

    def variables(self) -> tuple[VariableSpec, ...]:
        return (VariableSpec("x", (self.dimension,)),)

    def flops_per_example(self) -> float:
        return 6.0 * self.dimension

    def task(self, seed: int, replication: int) -> "QuadraticTask":
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
        (x,) = parameters
        difference = x - self._optimum
        return 0.5 * float(self._curvature @ (difference * difference))


_LARGEST_TABLE: Final = 50_000_000


class LinearRegression(Problem):
    """Mean of 1/2 (features . weights + bias - target)^2 over made-up examples.

    Features, true weights and true bias are standard normal; a target is the true value plus
    normal noise of standard deviation `noise`. The data depend on the seed only, so replications
    differ in their batches. Training starts at 0.
    """

    about: ClassVar[str] = "least squares on made-up data; the optimum is known"

    kind: Literal["linear_regression"] = "linear_regression"
    features: PositiveInt = Field(10, le=10_000)
    """Weights to be learned, besides the bias."""
    examples: PositiveInt = Field(1000, le=1_000_000)
    """Examples, made up from the seed."""
    noise: float = Field(0.1, ge=0, description="standard deviation of the targets' error")

    @model_validator(mode="after")
    def _fits_in_memory(self) -> Self:
        if self.features * self.examples > _LARGEST_TABLE:
            raise ValueError(f"features x examples must be at most {_LARGEST_TABLE:,}")
        return self

    def variables(self) -> tuple[VariableSpec, ...]:
        """`weights` (features,) and `bias` ()."""
        return VariableSpec("weights", (self.features,)), VariableSpec("bias", ())

    def flops_per_example(self) -> float:
        return 6.0 * self.features

    def task(self, seed: int, replication: int) -> "LinearRegressionTask":
        return LinearRegressionTask(self, seed, replication)


class LinearRegressionTask(Task):
    """The data; a batch is the numbers of its examples."""

    def __init__(self, problem: LinearRegression, seed: int, replication: int) -> None:
        generator = stream(seed, 0, "problem")
        weights = generator.standard_normal(problem.features)
        bias = generator.standard_normal()
        self._features = generator.standard_normal((problem.examples, problem.features))
        error = problem.noise * generator.standard_normal(problem.examples)
        self._targets = self._features @ weights + (bias + error)
        self._key = seed, replication

    def initial(self) -> Parameters:
        return np.zeros(self._features.shape[1]), np.zeros(())

    def optimum(self) -> Parameters:
        """The weights and bias of least loss."""
        examples = len(self._targets)
        design = np.concatenate((self._features, np.ones((examples, 1))), axis=1)
        solution = np.linalg.lstsq(design, self._targets, rcond=None)[0].astype(np.float64)
        return solution[:-1], np.array(solution[-1])

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        """Example numbers (BLOCK, batch_size), drawn with replacement."""
        generator = stream(*self._key, "batch", worker, block)
        return generator.integers(len(self._targets), size=(BLOCK, batch_size))

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        """Mean over each batch of residual * features, and of the residual."""
        weights, bias = parameters
        features = self._features.take(batches, axis=0)
        residuals = np.matmul(features, weights[..., None])[..., 0]
        residuals += bias[..., None]
        residuals -= self._targets.take(batches)
        residuals /= batches.shape[1]
        slope = np.matmul(residuals[:, None, :], features)
        return slope[:, 0, :], np.add.reduce(residuals, axis=1)

    def loss(self, parameters: Parameters) -> float:
        residuals = self._residuals(parameters)
        return 0.5 * float(residuals @ residuals) / len(residuals)

    def floor(self, parameters: Parameters, loss: float) -> Floor:
        """The tangent: least squares are convex."""
        residuals = self._residuals(parameters) / len(self._targets)
        slope = residuals @ self._features, residuals.sum()
        return tangent(loss, slope, parameters)

    def _residuals(self, parameters: Parameters) -> Floats:
        weights, bias = parameters
        return self._features @ weights + bias - self._targets


_NOTHING: Final = np.zeros((BLOCK, 0))


class Timing(Problem):
    """Gradients without content; a model profile gives sizes and FLOPs, or `size` the bytes alone.

    `parts`: the number of variables, each with an equal share of the bytes, pushed and accumulated
    on its own.
    """

    about: ClassVar[str] = "times only: no values, no loss; sizes of a model profile, or one size"

    times_only: ClassVar[bool] = True

    kind: Literal["timing"] = "timing"
    parts: PositiveInt = 1
    """Variables with equal shares of the bytes."""
    size: Bytes | None = None
    """Bytes of the model, where no model says them."""

    @model_validator(mode="after")
    def _every_part_has_bytes(self) -> Self:
        if self.size is not None and round(self.size) < self.parts:
            raise ValueError(f"size must be at least 1 byte for each of {self.parts} parts")
        return self

    @property
    def is_random(self) -> bool:
        return False

    def variables(self) -> tuple[VariableSpec, ...]:
        return tuple(VariableSpec(f"part {index}", (1,)) for index in range(self.parts))

    def flops_per_example(self) -> float:
        message = "problem timing needs a model, which says how much work a step is"
        raise RefusalError(message, "workload", "problem")

    def task(self, seed: int, replication: int) -> "TimingTask":
        return TimingTask(self.parts)


class TimingTask(Task):
    """Zeros."""

    has_values = False

    def __init__(self, parts: int) -> None:
        self._parts = parts

    def initial(self) -> Parameters:
        return tuple(np.zeros(1) for _ in range(self._parts))

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        return _NOTHING

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        return tuple(np.zeros((len(batches), 1)) for _ in parameters)

    def loss(self, parameters: Parameters) -> float:
        return float("nan")


__all__ = ["BLOCK", "PROBLEMS", "AnyProblem", "Parameters", "Problem", "Task", "VariableSpec"]

PROBLEMS: Final[dict[str, type[Problem]]] = {
    "quadratic": Quadratic,
    "linear_regression": LinearRegression,
    "embedding": Embedding,
    "digits": Digits,
    "timing": Timing,
}

ALL_PROBLEMS: Final = Models("problems", "problem", PROBLEMS, __name__, Problem)

if TYPE_CHECKING:
    AnyProblem: TypeAlias = Problem
else:
    AnyProblem = ALL_PROBLEMS.type()
