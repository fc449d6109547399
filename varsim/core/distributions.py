"""The table of distributions by `kind`, with those made of others, from Mixture to Correlated.

A new distribution is a class and a line here.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, PositiveInt, field_validator, model_validator

from varsim.core.distribution import (
    BLOCK,
    BatchCurve,
    Constant,
    Distribution,
    Exponential,
    Floats,
    Gamma,
    Gumbel,
    Lognormal,
    Normal,
    Pareto,
    Phases,
    ShiftedExponential,
    Stream,
    Streams,
    Uniform,
    Weibull,
)
from varsim.core.measured_times import MeasuredTimes
from varsim.core.refusal import RefusalError
from varsim.core.schema import Model
from varsim.core.table import Models

__all__ = [
    "ALL_DISTRIBUTIONS",
    "BLOCK",
    "DISTRIBUTIONS",
    "AnyDistribution",
    "Correlated",
    "Distribution",
    "Markov",
    "Mixture",
    "Stages",
    "Stream",
    "check_alone",
    "check_no_batch",
]


def check_alone(distribution: "Distribution", *, key: str = "") -> "Distribution":
    """Raise RefusalError for a distribution of several workers at a `key` where there are none."""
    if isinstance(distribution, Correlated):
        message = "kind correlated has no use here: it is a distribution of workers' compute times"
        raise RefusalError(message, *filter(None, [key]), "kind")
    return distribution


class Component(Model):
    """Component of a mixture; weights need not sum to 1."""

    weight: float = Field(gt=0)
    """Its share, over the sum of all weights."""
    distribution: "AnyDistribution"
    """The distribution of its times."""

    _alone = field_validator("distribution")(check_alone)


class Mixture(Distribution):
    """Mixture distribution: each step follows a component drawn with probability weight / sum."""

    about: ClassVar[str] = "each step from one of several distributions, by weight"

    kind: Literal["mixture"] = "mixture"
    components: tuple[Component, ...] = Field(min_length=2)
    """Distributions with weights."""

    def parts(self) -> tuple[Distribution, ...]:
        return tuple(component.distribution for component in self.components)

    def for_batch(self, examples: int) -> Distribution:
        components = tuple(
            Component(
                weight=component.weight, distribution=component.distribution.for_batch(examples)
            )
            for component in self.components
        )
        return self.model_copy(update={"components": components})

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        bounds = list(accumulate(component.weight for component in self.components))
        for block, times in enumerate(_in_parallel(self.parts(), worker, stream)):
            point = stream(block).random(BLOCK) * bounds[-1]
            # The last bound is left out: rounding must not choose a component beyond it.
            yield times[np.searchsorted(bounds[:-1], point, side="right"), np.arange(BLOCK)]

    def expectation(self) -> float:
        total = sum(component.weight for component in self.components)
        return sum(
            component.weight / total * component.distribution.expectation()
            for component in self.components
        )


class Stages(Distribution):
    """Two stages: the `first` is enough with probability `works`, else the `second` follows it.

    Of a repair: a restart, and where that is of no help a technician. The second may be stages
    again.
    """

    about: ClassVar[str] = "a first stage that may be enough, else a second after it"

    kind: Literal["stages"] = "stages"
    first: "AnyDistribution"
    """Distribution of the first stage."""
    works: float = Field(gt=0, lt=1)
    """Probability that the first stage is enough."""
    second: "AnyDistribution"
    """Distribution of the second stage."""

    _alone = field_validator("first", "second")(check_alone)

    def parts(self) -> tuple[Distribution, ...]:
        return self.first, self.second

    def for_batch(self, examples: int) -> Distribution:
        both = {"first": self.first.for_batch(examples), "second": self.second.for_batch(examples)}
        return self.model_copy(update=both)

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        for block, (first, second) in enumerate(_in_parallel(self.parts(), worker, stream)):
            yield first + np.where(stream(block).random(BLOCK) < self.works, 0.0, second)

    def expectation(self) -> float:
        return self.first.expectation() + (1 - self.works) * self.second.expectation()


class Markov(Distribution):
    """Two-state Markov chain of fast and slow steps, started in its stationary distribution.

    Steps are slow with probability to_slow / (to_slow + to_fast), for 1 / to_fast steps in a row on
    average.
    """

    about: ClassVar[str] = "spells of fast and of slow steps, each with a distribution"

    kind: Literal["markov"] = "markov"
    fast: "AnyDistribution"
    """Distribution of the fast steps."""
    slow: "AnyDistribution"
    """Distribution of the slow steps."""
    to_slow: float = Field(
        gt=0, le=1, description="probability that a slow step follows a fast one"
    )
    to_fast: float = Field(
        gt=0, le=1, description="probability that a fast step follows a slow one"
    )

    _alone = field_validator("fast", "slow")(check_alone)

    def parts(self) -> tuple[Distribution, ...]:
        return self.fast, self.slow

    def for_batch(self, examples: int) -> Distribution:
        both = {"fast": self.fast.for_batch(examples), "slow": self.slow.for_batch(examples)}
        return self.model_copy(update=both)

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        below = self.share_slow
        for block, times in enumerate(_in_parallel(self.parts(), worker, stream)):
            states = []
            for point in stream(block).random(BLOCK).tolist():
                slow = point < below
                below = 1.0 - self.to_fast if slow else self.to_slow
                states.append(slow)
            yield np.where(states, times[1], times[0])

    def correlation_time(self) -> float:
        """Integrated autocorrelation time of the states, (1 + r) / (1 - r) with r from step to step
        (Sokal, 1997).
        """
        kept = 1.0 - self.to_slow - self.to_fast
        return max(super().correlation_time(), (1.0 + kept) / (1.0 - kept))

    @property
    def share_slow(self) -> float:
        """Stationary probability of the slow state."""
        return self.to_slow / (self.to_slow + self.to_fast)

    def expectation(self) -> float:
        slow = self.share_slow
        return (1.0 - slow) * self.fast.expectation() + slow * self.slow.expectation()


class Correlated(Distribution):
    """Times of `distribution`, times factors that workers have in common: lognormal with mean 1.

    That of a step is one for all workers, and another for each step; those of a node, of
    `workers_per_node` workers in a row, and of a worker stay through a run. `step`, `node` and
    `worker` are the standard deviations of their logarithms. A step is a worker's n-th batch.
    """

    about: ClassVar[str] = (
        "a distribution, times factors common to a step, a node or a worker's steps"
    )

    kind: Literal["correlated"] = "correlated"
    distribution: "AnyDistribution"
    """Distribution of the times apart from the factors, each worker's steps on their own."""
    step: float | None = Field(None, gt=0, le=10)
    """Spread of the factor that all workers have in a step: standard deviation of its logarithm."""
    node: float | None = Field(None, gt=0, le=10)
    """Spread of the factor that the workers of a node have in all steps."""
    worker: float | None = Field(None, gt=0, le=10)
    """Spread of the factor that a worker has in all its steps."""
    workers_per_node: PositiveInt | None = Field(None, le=1_000_000)
    """Workers that share the factor of a node, those of the lowest ranks first."""

    _alone = field_validator("distribution")(check_alone)

    @model_validator(mode="after")
    def _has_factors(self) -> Self:
        if (self.node is None) != (self.workers_per_node is None):
            raise ValueError("node and workers_per_node go together: spread and size of a node")
        if self.step is self.node is self.worker is None:
            raise ValueError("give step, node or worker: the spread of a factor in common")
        return self

    def parts(self) -> tuple[Distribution, ...]:
        return (self.distribution,)

    def for_batch(self, examples: int) -> Distribution:
        return self.model_copy(update={"distribution": self.distribution.for_batch(examples)})

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        raise AssertionError("a distribution of several workers is drawn from together")

    def together(self, worker: int, streams: Streams) -> Iterator[Floats]:
        lasting = 1.0
        node = worker // (self.workers_per_node or 1)
        for name, number, sigma in (("worker", worker, self.worker), ("node", node, self.node)):
            if sigma is not None:
                lasting *= float(_factors(sigma, streams(f"{name} factor", number)(0))[0])
        common = streams("step factor", 0)
        for block, times in enumerate(self.distribution.together(worker, streams)):
            whole = times * lasting
            yield whole if self.step is None else whole * _factors(self.step, common(block))

    def expectation(self) -> float:
        return self.distribution.expectation()

    def backward_share(self) -> float | None:
        return self.distribution.backward_share()


def _factors(sigma: float, generator: np.random.Generator) -> Floats:
    return generator.lognormal(-sigma * sigma / 2, sigma, BLOCK)


def _in_parallel(
    distributions: tuple[Distribution, ...], worker: int, stream: Stream
) -> Iterator[Floats]:
    """Blocks (distributions, BLOCK), each distribution with a spawned stream of its own."""

    def branch(index: int) -> Stream:
        return lambda block: stream(block).spawn(len(distributions))[index]

    runs = [
        distribution.blocks(worker, branch(index))
        for index, distribution in enumerate(distributions)
    ]
    for times in zip(*runs, strict=True):
        yield np.stack(times)


DISTRIBUTIONS: Final[dict[str, type[Distribution]]] = {
    "constant": Constant,
    "uniform": Uniform,
    "normal": Normal,
    "exponential": Exponential,
    "shifted_exponential": ShiftedExponential,
    "lognormal": Lognormal,
    "gamma": Gamma,
    "weibull": Weibull,
    "pareto": Pareto,
    "gumbel": Gumbel,
    "mixture": Mixture,
    "stages": Stages,
    "markov": Markov,
    "trace": MeasuredTimes,
    "batch_curve": BatchCurve,
    "phases": Phases,
    "correlated": Correlated,
}


def check_no_batch(distribution: Distribution, key: str) -> None:
    """Raise RefusalError where a distribution at a `key` needs a batch and there is none."""
    if distribution.needs_batch:
        message = "kind batch_curve has no use here: there are no batches"
        raise RefusalError(message, key, "kind")


ALL_DISTRIBUTIONS: Final = Models(
    "distributions", "distribution", DISTRIBUTIONS, __name__, Distribution
)

if TYPE_CHECKING:
    AnyDistribution: TypeAlias = Distribution
else:
    AnyDistribution = ALL_DISTRIBUTIONS.type()

# These hold distributions, whose union did not exist when they were defined.
for _model in (Component, Mixture, Stages, Markov, Correlated):
    _model.model_rebuild()
