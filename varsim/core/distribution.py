"""Distributions of compute times (seconds per step), each a frozen model with its YAML keys."""

import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from varsim.core.schema import Grown, Model
from varsim.core.units import Seconds

Floats: TypeAlias = NDArray[np.float64]
Stream: TypeAlias = Callable[[int], np.random.Generator]
Streams: TypeAlias = Callable[[str, int], Stream]
PositiveSeconds: TypeAlias = Annotated[Seconds, Field(gt=0)]

# Values drawn from one random stream; part of every result: do not change.
BLOCK: Final = 128
_MOMENTS: Final = 2000  # at which a renewal function is worked out


class Distribution(Model):
    """Distribution of a worker's compute times, step after step.

    Event times must be the same on every machine, so times are drawn with the Generator's own
    methods and scalar `math` only: numpy's logarithms and powers of arrays depend on the CPU.
    """

    # False where every step takes the same time.
    varies: ClassVar[bool] = True

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        """Endless blocks of BLOCK compute times in seconds; block i is drawn from `stream(i)`.

        `stream` makes a fresh generator at every call, the same for the same i.
        """
        for block in count():
            yield self.draw(stream(block))

    def together(self, worker: int, streams: Streams) -> Iterator[Floats]:
        """`blocks` of a worker's compute times, which may be drawn together with other workers'.

        `streams(purpose, number)` are the run's, the same whoever asks.
        """
        return self.blocks(worker, streams("compute", worker))

    def draw(self, generator: np.random.Generator) -> Floats:
        """BLOCK independent compute times in seconds, of a memoryless distribution."""
        raise NotImplementedError

    def expectation(self) -> float:
        """Mean in seconds (not named `mean`, which is a field of some distributions)."""
        raise NotImplementedError

    def tail(self) -> float:
        """Tail index: moments of orders below it are finite; by default that of the heaviest part,
        and infinite without parts.
        """
        return min((part.tail() for part in self.parts()), default=math.inf)

    def correlation_time(self) -> float:
        """Steps that say as much of the mean as one independent step; at most that of a part."""
        return max((part.correlation_time() for part in self.parts()), default=1.0)

    @property
    def is_random(self) -> bool:
        """Whether a worker's times may differ between replications."""
        return self.varies

    def parts(self) -> "tuple[Distribution, ...]":
        """The distributions that this one combines."""
        return ()

    @property
    def needs_batch(self) -> bool:
        """Whether only `for_batch` makes it a distribution that can be drawn from."""
        return any(part.needs_batch for part in self.parts())

    def for_batch(self, examples: int) -> "Distribution":
        """Distribution for a batch of so many examples; by default itself."""
        return self

    def backward_share(self) -> float | None:
        """Share of the backward pass in a compute time; None where it is not specified."""
        return None


class Constant(Distribution):
    """Degenerate distribution: every step takes `value`."""

    about: ClassVar[str] = "every step takes the same time"
    varies: ClassVar[bool] = False

    kind: Literal["constant"] = "constant"
    value: PositiveSeconds
    """Time of every step."""

    def draw(self, generator: np.random.Generator) -> Floats:
        return np.full(BLOCK, self.value)

    def expectation(self) -> float:
        return self.value


class Uniform(Distribution):
    """Uniform distribution from `low` to `high`."""

    about: ClassVar[str] = "equally likely between two times"

    kind: Literal["uniform"] = "uniform"
    low: Seconds = Field(ge=0)
    """Shortest time."""
    high: PositiveSeconds
    """Longest time."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError("high must be above low (for one fixed time use kind: constant)")
        return self

    def draw(self, generator: np.random.Generator) -> Floats:
        return self.low + (self.high - self.low) * generator.random(BLOCK)

    def expectation(self) -> float:
        return (self.low + self.high) / 2


class Normal(Distribution):
    """Normal distribution, truncated at 0; `mean` and `std` are those before the truncation."""

    about: ClassVar[str] = "normal, cut off at 0 (mean and std are those before the cut)"

    kind: Literal["normal"] = "normal"
    mean: PositiveSeconds
    """Mean time, before times below 0 are drawn anew."""
    std: PositiveSeconds
    """Standard deviation, before that."""

    def draw(self, generator: np.random.Generator) -> Floats:
        values = self.mean + self.std * generator.standard_normal(BLOCK)
        while (refused := np.flatnonzero(values <= 0)).size:
            values[refused] = self.mean + self.std * generator.standard_normal(refused.size)
        return values

    def expectation(self) -> float:
        """By theory: mean + std density(mean / std) / probability(above 0), standard normal."""
        cut = self.mean / self.std
        density = math.exp(-cut * cut / 2) / math.sqrt(2 * math.pi)
        return self.mean + self.std * density / (0.5 * math.erfc(-cut / math.sqrt(2)))


class Exponential(Distribution):
    """Exponential distribution."""

    about: ClassVar[str] = "memoryless, given by its mean"

    kind: Literal["exponential"] = "exponential"
    mean: PositiveSeconds
    """Mean time."""

    def draw(self, generator: np.random.Generator) -> Floats:
        return self.mean * generator.standard_exponential(BLOCK)

    def expectation(self) -> float:
        return self.mean


class ShiftedExponential(Distribution):
    """`minimum` plus an exponential time; `mean` is that of the sum."""

    about: ClassVar[str] = "a fixed minimum plus an exponential"

    kind: Literal["shifted_exponential"] = "shifted_exponential"
    minimum: Seconds = Field(ge=0)
    """Shortest time."""
    mean: PositiveSeconds
    """Mean time, the minimum included."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum >= self.mean:
            raise ValueError("mean must be above minimum: it is the mean of the whole time")
        return self

    def draw(self, generator: np.random.Generator) -> Floats:
        return self.minimum + (self.mean - self.minimum) * generator.standard_exponential(BLOCK)

    def expectation(self) -> float:
        return self.mean


class Lognormal(Grown, Distribution):
    """Lognormal distribution, by its mean and the spread of its logarithm, or by its median."""

    about: ClassVar[str] = "lognormal, given by its mean; sigma is the spread of the logarithm"
    later: ClassVar[tuple[str, ...]] = ("median",)

    kind: Literal["lognormal"] = "lognormal"
    mean: PositiveSeconds
    """Mean time."""
    sigma: float | None = Field(None, gt=0, le=10)
    """Standard deviation of the logarithm."""
    median: PositiveSeconds | None = None
    """Median time, below the mean, instead of sigma."""

    @model_validator(mode="after")
    def _one_spread(self) -> Self:
        if (self.sigma is None) == (self.median is None):
            raise ValueError("give either sigma or median: each says how far times are spread")
        if self.median is not None and self.median >= self.mean:
            raise ValueError(
                "median must be below the mean, as it is in every lognormal distribution"
            )
        return self

    def draw(self, generator: np.random.Generator) -> Floats:
        centre = math.log(self.mean) - self.spread * self.spread / 2
        return generator.lognormal(centre, self.spread, BLOCK)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm, given or not."""
        if self.median is None:
            assert self.sigma is not None, "one of both is given"
            return self.sigma
        return math.sqrt(2 * math.log(self.mean / self.median))

    def expectation(self) -> float:
        return self.mean


class Gamma(Distribution):
    """Gamma distribution with variance mean^2 / shape; Erlang for a whole `shape`."""

    about: ClassVar[str] = "gamma (Erlang), given by its mean; the larger the shape, the steadier"

    kind: Literal["gamma"] = "gamma"
    mean: PositiveSeconds
    """Mean time."""
    shape: float = Field(ge=0.05, le=1e6)
    """Mean squared over variance."""

    def draw(self, generator: np.random.Generator) -> Floats:
        return self.mean / self.shape * generator.standard_gamma(self.shape, BLOCK)

    def expectation(self) -> float:
        return self.mean


class Weibull(Distribution):
    """Weibull distribution; its tail is heavier than the exponential for `shape` below 1."""

    about: ClassVar[str] = "Weibull, given by its mean; shape below 1 is heavy-tailed"

    kind: Literal["weibull"] = "weibull"
    mean: PositiveSeconds
    """Mean time."""
    shape: float = Field(ge=0.05, le=1e6)
    """Below 1 the tail is heavier than the exponential's."""

    def draw(self, generator: np.random.Generator) -> Floats:
        return self._scale * generator.weibull(self.shape, BLOCK)

    def expectation(self) -> float:
        return self.mean

    def renewals(self, time: float) -> float:
        """Renewal function: the expected number of such times, one after the other, up to `time`.

        By the Riemann-Stieltjes method (Xie, 1989), at so many moments.
        """
        half = time / (2 * _MOMENTS)
        within = -np.expm1(-((np.arange(2 * _MOMENTS + 1) * half / self._scale) ** self.shape))
        found = np.zeros(_MOMENTS + 1)
        for place in range(1, _MOMENTS + 1):
            behind = within[2 * place - 1 : 1 : -2]  # from the middle of each step
            known = behind @ np.diff(found[:place]) - within[1] * found[place - 1]
            found[place] = (within[2 * place] + known) / (1 - within[1])
        return float(found[-1])

    @property
    def _scale(self) -> float:
        return self.mean / math.gamma(1 + 1 / self.shape)


class Pareto(Distribution):
    """Pareto distribution (type I): P(time > t) = (minimum / t)^alpha."""

    about: ClassVar[str] = "power-law tail above a minimum; alpha must be above 1"

    kind: Literal["pareto"] = "pareto"
    minimum: PositiveSeconds
    """Shortest time."""
    alpha: float
    """How fast the tail falls; the mean is infinite at 1 and below."""

    @field_validator("alpha")
    @classmethod
    def _has_a_mean(cls, alpha: float) -> float:
        if alpha <= 1:
            raise ValueError("alpha must be above 1: with a heavier tail there is no mean time")
        return alpha

    def draw(self, generator: np.random.Generator) -> Floats:
        return self.minimum * (1.0 + generator.pareto(self.alpha, BLOCK))

    def expectation(self) -> float:
        return self.minimum * self.alpha / (self.alpha - 1)

    def tail(self) -> float:
        return self.alpha


class Gumbel(Distribution):
    """Gumbel distribution: P(time <= t) = exp(-exp(-(t - location) / scale)).

    With `location` at 4 times `scale` or more, P(time < 0) is below 2e-24.
    """

    about: ClassVar[str] = (
        "Gumbel, the distribution of largest values; location at least 4 times scale"
    )

    kind: Literal["gumbel"] = "gumbel"
    location: PositiveSeconds
    """Most frequent time."""
    scale: PositiveSeconds
    """Spread: the standard deviation is 1.28 times this."""

    @model_validator(mode="after")
    def _stays_above_0(self) -> Self:
        if self.location < 4 * self.scale:
            raise ValueError("location must be at least 4 times scale, or times could be below 0")
        return self

    def draw(self, generator: np.random.Generator) -> Floats:
        return generator.gumbel(self.location, self.scale, BLOCK)

    def expectation(self) -> float:
        return self.location + self.scale * float(np.euler_gamma)


class Phases(Distribution):
    """Fixed times of forward and backward pass; only their sum counts within a mixture."""

    about: ClassVar[str] = "a forward pass, then a backward pass, each of a fixed time"
    varies: ClassVar[bool] = False

    kind: Literal["phases"] = "phases"
    forward: PositiveSeconds
    """Time of the forward pass."""
    backward: PositiveSeconds
    """Time of the backward pass."""

    def draw(self, generator: np.random.Generator) -> Floats:
        return np.full(BLOCK, self.forward + self.backward)

    def expectation(self) -> float:
        return self.forward + self.backward

    def backward_share(self) -> float:
        return self.backward / (self.forward + self.backward)


class BatchCurve(Distribution):
    """Time linear in the batch size, `fixed` + `per_example` * batch size.

    With `sigma` this is the mean of a lognormal distribution (see `Lognormal`).
    """

    about: ClassVar[str] = "grows with the batch: fixed + per_example * batch_size"

    kind: Literal["batch_curve"] = "batch_curve"
    fixed: Seconds = Field(ge=0)
    """Part of a step that no example makes longer."""
    per_example: PositiveSeconds
    """Time for each example."""
    sigma: float | None = Field(None, gt=0, le=10)
    """Spread of the times: standard deviation of their logarithm."""

    @property
    def is_random(self) -> bool:
        return self.sigma is not None

    @property
    def needs_batch(self) -> bool:
        return True

    def for_batch(self, examples: int) -> Distribution:
        time = self.fixed + self.per_example * examples
        return (
            Constant(value=time) if self.sigma is None else Lognormal(mean=time, sigma=self.sigma)
        )

    def draw(self, generator: np.random.Generator) -> Floats:
        raise AssertionError("a batch curve is drawn from by its batch")

    def expectation(self) -> float:
        raise AssertionError("the mean of a batch curve depends on the batch")
