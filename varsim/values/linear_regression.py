"""Linear regression on made-up data: a convex problem whose optimum least squares gives."""

from typing import ClassVar, Final, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from varsim.values.stream import stream
from varsim.values.task import (
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
    examples: PositiveInt = Field(1000, le=1_000_000)
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
        """3 x forward; forward is one multiply-add per feature."""
        return 6.0 * self.features

    def task(self, seed: int, replication: int) -> "LinearRegressionTask":
        """The data of this seed, with the batches of this replication."""
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
        """Zeros."""
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
        """Half the mean squared residual."""
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
