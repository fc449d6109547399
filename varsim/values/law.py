"""The laws of compute times, by kind. A new law is a class in `laws` and a line here.

Those made of other laws stand here, too: a mixture, and a worker that is now fast, now slow.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import numpy as np
from pydantic import Field

from varsim.values.laws.base import BLOCK, Floats, Law, Stream
from varsim.values.laws.batch import BatchCurve
from varsim.values.laws.phases import Phases
from varsim.values.laws.simple import (
    Constant,
    Exponential,
    Gamma,
    Gumbel,
    Lognormal,
    Normal,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)
from varsim.values.laws.trace import MeasuredTimes
from varsim.values.schema import Model, one_of

__all__ = ["BLOCK", "LAWS", "AnyLaw", "Law", "Markov", "Mixture", "Stream", "check_no_batch"]


class Component(Model):
    """One law of a mixture; weights need not sum to 1."""

    weight: float = Field(gt=0)
    law: "AnyLaw"


class Mixture(Law):
    """Every step follows one of several laws, chosen anew with probability weight / sum."""

    about: ClassVar[str] = "each step from one of several laws, by weight"

    kind: Literal["mixture"] = "mixture"
    components: tuple[Component, ...] = Field(min_length=2)

    @property
    def needs_batch(self) -> bool:
        """Whether one of them does."""
        return any(component.law.needs_batch for component in self.components)

    def for_batch(self, examples: int) -> Law:
        """The mixture of theirs."""
        components = tuple(
            Component(weight=component.weight, law=component.law.for_batch(examples))
            for component in self.components
        )
        return self.model_copy(update={"components": components})

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        """Every component runs along in a stream of its own; one is picked for each step."""
        bounds = list(accumulate(component.weight for component in self.components))
        laws = [component.law for component in self.components]
        for block, times in enumerate(_side_by_side(laws, worker, stream)):
            point = stream(block).random(BLOCK) * bounds[-1]
            # The last bound is left out: rounding must not choose a component beyond it.
            yield times[np.searchsorted(bounds[:-1], point, side="right"), np.arange(BLOCK)]

    def expectation(self) -> float:
        """The weighted mean."""
        total = sum(component.weight for component in self.components)
        return sum(
            component.weight / total * component.law.expectation() for component in self.components
        )


class Markov(Law):
    """A worker is fast or slow, and changes from step to step with these probabilities.

    The first step is slow with the probability it has in the long run, to_slow / (to_slow +
    to_fast). A slow spell lasts 1 / to_fast steps on average.
    """

    about: ClassVar[str] = "spells of fast and of slow steps, each with its law"

    kind: Literal["markov"] = "markov"
    fast: "AnyLaw"
    slow: "AnyLaw"
    to_slow: float = Field(gt=0, le=1, description="probability that a slow step follows a fast")
    to_fast: float = Field(gt=0, le=1, description="probability that a fast step follows a slow")

    @property
    def needs_batch(self) -> bool:
        """Whether one of them does."""
        return self.fast.needs_batch or self.slow.needs_batch

    def for_batch(self, examples: int) -> Law:
        """That of both."""
        both = {"fast": self.fast.for_batch(examples), "slow": self.slow.for_batch(examples)}
        return self.model_copy(update=both)

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        """Both laws run along in streams of their own; the state is carried over the blocks."""
        below = self.share_slow
        for block, times in enumerate(_side_by_side([self.fast, self.slow], worker, stream)):
            states = []
            for point in stream(block).random(BLOCK).tolist():
                slow = point < below
                below = 1.0 - self.to_fast if slow else self.to_slow
                states.append(slow)
            yield np.where(states, times[1], times[0])

    @property
    def share_slow(self) -> float:
        """Share of the steps that are slow, in the long run."""
        return self.to_slow / (self.to_slow + self.to_fast)

    def expectation(self) -> float:
        """The mean of both, by their shares."""
        slow = self.share_slow
        return (1.0 - slow) * self.fast.expectation() + slow * self.slow.expectation()


def _side_by_side(laws: list[Law], worker: int, stream: Stream) -> Iterator[Floats]:
    """Blocks of all laws, (laws, BLOCK), each law in a branch of its own of every stream."""

    def branch(index: int) -> Stream:
        return lambda block: stream(block).spawn(len(laws))[index]

    runs = [law.blocks(worker, branch(index)) for index, law in enumerate(laws)]
    for times in zip(*runs, strict=True):
        yield np.stack(times)


LAWS: Final[dict[str, type[Law]]] = {
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
    "markov": Markov,
    "trace": MeasuredTimes,
    "batch_curve": BatchCurve,
    "phases": Phases,
}


def check_no_batch(law: Law) -> None:
    """Raise ValueError where a law needs a batch and there is none."""
    if law.needs_batch:
        raise ValueError("kind batch_curve has no use here: there are no batches")


if TYPE_CHECKING:
    AnyLaw: TypeAlias = Law
else:
    AnyLaw = one_of(LAWS)

# Laws that hold laws could not name the union of all of them before it existed.
for _law in (Component, Mixture, Markov):
    _law.model_rebuild()
