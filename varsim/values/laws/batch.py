"""Compute times that grow with the batch, as measurements of them usually show."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from varsim.units import Seconds
from varsim.values.laws.base import Floats, Law, PositiveSeconds
from varsim.values.laws.simple import Constant, Lognormal


class BatchCurve(Law):
    """`fixed` + `per_example` * batch size: the line that is fitted to times of several batches.

    With `sigma` that is the mean of a lognormal law, `sigma` the spread of its logarithm.
    """

    about: ClassVar[str] = "grows with the batch: fixed + per_example * batch_size"

    kind: Literal["batch_curve"] = "batch_curve"
    fixed: Seconds = Field(ge=0)
    per_example: PositiveSeconds
    sigma: float | None = Field(None, gt=0, le=10)

    @property
    def is_random(self) -> bool:
        """As it is for every batch."""
        return self.sigma is not None

    @property
    def needs_batch(self) -> bool:
        """It does."""
        return True

    def for_batch(self, examples: int) -> Law:
        """Constant or lognormal."""
        time = self.fixed + self.per_example * examples
        return (
            Constant(value=time) if self.sigma is None else Lognormal(mean=time, sigma=self.sigma)
        )

    def draw(self, generator: np.random.Generator) -> Floats:
        """Nothing is drawn before the batch is known."""
        raise AssertionError("a batch curve is drawn from by its batch")

    def expectation(self) -> float:
        """There is none before the batch is known."""
        raise AssertionError("the mean of a batch curve depends on the batch")
