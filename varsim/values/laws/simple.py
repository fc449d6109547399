"""Laws of independent compute times, each drawn from one distribution."""

import math
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from varsim.units import Seconds
from varsim.values.laws.base import BLOCK, Floats, Law, PositiveSeconds


class Constant(Law):
    """Every step takes `value`."""

    about: ClassVar[str] = "every step takes the same time"

    kind: Literal["constant"] = "constant"
    value: PositiveSeconds

    @property
    def varies(self) -> bool:
        """It does not."""
        return False

    def draw(self, generator: np.random.Generator) -> Floats:
        """The value, again and again."""
        return np.full(BLOCK, self.value)

    def expectation(self) -> float:
        """The value."""
        return self.value


class Uniform(Law):
    """Any time from `low` to `high`, equally likely."""

    about: ClassVar[str] = "equally likely between two times"

    kind: Literal["uniform"] = "uniform"
    low: Seconds = Field(ge=0)
    high: PositiveSeconds

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError("high must be above low (for one fixed time use kind: constant)")
        return self

    def draw(self, generator: np.random.Generator) -> Floats:
        """Stretched from [0, 1)."""
        return self.low + (self.high - self.low) * generator.random(BLOCK)

    def expectation(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2


class Normal(Law):
    """Normal with `mean` and `std`, drawn again where it is not above 0.

    `mean` and `std` are those before the cut at 0, which raises the mean a little.
    """

    about: ClassVar[str] = "normal, cut off at 0 (mean and std are those before the cut)"

    kind: Literal["normal"] = "normal"
    mean: PositiveSeconds
    std: PositiveSeconds

    def draw(self, generator: np.random.Generator) -> Floats:
        """Draws again what is not above 0; as mean is, each draw has better than even odds."""
        values = self.mean + self.std * generator.standard_normal(BLOCK)
        while (refused := np.flatnonzero(values <= 0)).size:
            values[refused] = self.mean + self.std * generator.standard_normal(refused.size)
        return values

    def expectation(self) -> float:
        """By theory: mean + std density(mean / std) / probability(above 0), standard normal."""
        cut = self.mean / self.std
        density = math.exp(-cut * cut / 2) / math.sqrt(2 * math.pi)
        return self.mean + self.std * density / (0.5 * math.erfc(-cut / math.sqrt(2)))


class Exponential(Law):
    """Memoryless, with this mean."""

    about: ClassVar[str] = "memoryless: exponential with a mean"

    kind: Literal["exponential"] = "exponential"
    mean: PositiveSeconds

    def draw(self, generator: np.random.Generator) -> Floats:
        """Scaled to the mean."""
        return self.mean * generator.standard_exponential(BLOCK)

    def expectation(self) -> float:
        """The mean."""
        return self.mean


class ShiftedExponential(Law):
    """At least `minimum`, then exponential; `mean` is that of the whole."""

    about: ClassVar[str] = "a fixed minimum plus an exponential"

    kind: Literal["shifted_exponential"] = "shifted_exponential"
    minimum: Seconds = Field(ge=0)
    mean: PositiveSeconds

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum >= self.mean:
            raise ValueError("mean must be above minimum: it is the mean of the whole time")
        return self

    def draw(self, generator: np.random.Generator) -> Floats:
        """The minimum and an exponential on top."""
        return self.minimum + (self.mean - self.minimum) * generator.standard_exponential(BLOCK)

    def expectation(self) -> float:
        """The mean."""
        return self.mean


class Lognormal(Law):
    """The logarithm of the time is normal, with standard deviation `sigma`."""

    about: ClassVar[str] = "lognormal with a mean; sigma is the spread of the logarithm"

    kind: Literal["lognormal"] = "lognormal"
    mean: PositiveSeconds
    sigma: float = Field(gt=0, le=10)

    def draw(self, generator: np.random.Generator) -> Floats:
        """Centred so that the mean comes out."""
        centre = math.log(self.mean) - self.sigma * self.sigma / 2
        return generator.lognormal(centre, self.sigma, BLOCK)

    def expectation(self) -> float:
        """The mean."""
        return self.mean


class Gamma(Law):
    """Sum of `shape` exponential phases (any positive number); variance is mean^2 / shape."""

    about: ClassVar[str] = "gamma (Erlang) with a mean; the larger the shape, the steadier"

    kind: Literal["gamma"] = "gamma"
    mean: PositiveSeconds
    shape: float = Field(ge=0.05, le=1e6)

    def draw(self, generator: np.random.Generator) -> Floats:
        """Scaled to the mean."""
        return self.mean / self.shape * generator.standard_gamma(self.shape, BLOCK)

    def expectation(self) -> float:
        """The mean."""
        return self.mean


class Weibull(Law):
    """Weibull: a shape below 1 has a heavier tail than the exponential, above 1 a lighter one."""

    about: ClassVar[str] = "Weibull with a mean; shape below 1 is heavy-tailed"

    kind: Literal["weibull"] = "weibull"
    mean: PositiveSeconds
    shape: float = Field(ge=0.05, le=1e6)

    def draw(self, generator: np.random.Generator) -> Floats:
        """Scaled to the mean."""
        return self.mean / math.gamma(1 + 1 / self.shape) * generator.weibull(self.shape, BLOCK)

    def expectation(self) -> float:
        """The mean."""
        return self.mean


class Pareto(Law):
    """Pareto type I: P(time > t) = (minimum / t)^alpha. The variance is infinite up to alpha 2."""

    about: ClassVar[str] = "power-law tail above a minimum; alpha must be above 1"

    kind: Literal["pareto"] = "pareto"
    minimum: PositiveSeconds
    alpha: float

    @field_validator("alpha")
    @classmethod
    def _has_a_mean(cls, alpha: float) -> float:
        if alpha <= 1:
            raise ValueError("alpha must be above 1: with a heavier tail there is no mean time")
        return alpha

    def draw(self, generator: np.random.Generator) -> Floats:
        """What numpy draws starts at 0 (Lomax)."""
        return self.minimum * (1.0 + generator.pareto(self.alpha, BLOCK))

    def expectation(self) -> float:
        """By theory: minimum * alpha / (alpha - 1)."""
        return self.minimum * self.alpha / (self.alpha - 1)


class Gumbel(Law):
    """Gumbel, the law of largest values: P(time <= t) = exp(-exp(-(t - location) / scale)).

    Far from 0 only, which it would else reach: at 4 times the scale its chance is 2e-24.
    """

    about: ClassVar[str] = "Gumbel, the law of largest values; location at least 4 times scale"

    kind: Literal["gumbel"] = "gumbel"
    location: PositiveSeconds
    scale: PositiveSeconds

    @model_validator(mode="after")
    def _stays_above_0(self) -> Self:
        if self.location < 4 * self.scale:
            raise ValueError("location must be at least 4 times scale, or times could be below 0")
        return self

    def draw(self, generator: np.random.Generator) -> Floats:
        """As numpy has it."""
        return generator.gumbel(self.location, self.scale, BLOCK)

    def expectation(self) -> float:
        """By theory: location + scale * Euler's constant."""
        return self.location + self.scale * float(np.euler_gamma)
