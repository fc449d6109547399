"""The table of distributions by `kind`, with those that combine others: Mixture, Stages, Markov.

A new distribution is a class and a line here.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import numpy as np
from pydantic import Field

from varsim.values.distribution import (
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
    Uniform,
    Weibull,
)
from varsim.values.measured_times import MeasuredTimes
from varsim.values.schema import Model
from varsim.values.table import Models

__all__ = [
    "BLOCK",
    "DISTRIBUTIONS",
    "LAWS",
    "AnyDistribution",
    "Distribution",
    "Markov",
    "Mixture",
    "Stages",
    "Stream",
    "check_no_batch",
]


class Component(Model):
    """Component of a mixture; weights need not sum to 1."""

    weight: float = Field(gt=0)
    """Its share, over the sum of all weights."""
    law: "AnyDistribution"
    """The law of its times."""


class Mixture(Distribution):
    """Mixture distribution: each step follows a component drawn with probability weight / sum."""

    about: ClassVar[str] = "each step from one of several laws, by weight"

    kind: Literal["mixture"] = "mixture"
    components: tuple[Component, ...] = Field(min_length=2)
    """Laws with weights."""

    def parts(self) -> tuple[Distribution, ...]:
        return tuple(component.law for component in self.components)

    def for_batch(self, examples: int) -> Distribution:
        components = tuple(
            Component(weight=component.weight, law=component.law.for_batch(examples))
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
            component.weight / total * component.law.expectation() for component in self.components
        )


class Stages(Distribution):
    """Two stages: the `first` is enough with probability `works`, else the `second` follows it.

    Of a repair: a restart, and where that is of no help a technician. The second may be stages
    again.
    """

    about: ClassVar[str] = "a first stage that may be enough, else a second after it"

    kind: Literal["stages"] = "stages"
    first: "AnyDistribution"
    """Law of the first stage."""
    works: float = Field(gt=0, lt=1)
    """Probability that the first stage is enough."""
    second: "AnyDistribution"
    """Law of the second stage."""

    def parts(self) -> tuple[Distribution, ...]:
        return self.first, self.second

    def shortest(self) -> float:
        return self.first.shortest()

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

    about: ClassVar[str] = "spells of fast and of slow steps, each with its law"

    kind: Literal["markov"] = "markov"
    fast: "AnyDistribution"
    """Law of the fast steps."""
    slow: "AnyDistribution"
    """Law of the slow steps."""
    to_slow: float = Field(
        gt=0, le=1, description="probability that a slow step follows a fast one"
    )
    to_fast: float = Field(
        gt=0, le=1, description="probability that a fast step follows a slow one"
    )

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

    @property
    def share_slow(self) -> float:
        """Stationary probability of the slow state."""
        return self.to_slow / (self.to_slow + self.to_fast)

    def expectation(self) -> float:
        slow = self.share_slow
        return (1.0 - slow) * self.fast.expectation() + slow * self.slow.expectation()


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
}


def check_no_batch(distribution: Distribution) -> None:
    """Raise ValueError where a distribution needs a batch and there is none."""
    if distribution.needs_batch:
        raise ValueError("kind batch_curve has no use here: there are no batches")


LAWS: Final = Models("distributions", "law", DISTRIBUTIONS, __name__, Distribution)

if TYPE_CHECKING:
    AnyDistribution: TypeAlias = Distribution
else:
    AnyDistribution = LAWS.type()

# These hold distributions, whose union did not exist when they were defined.
for _model in (Component, Mixture, Stages, Markov):
    _model.model_rebuild()
