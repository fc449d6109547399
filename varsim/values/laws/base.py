"""What a law of compute times is."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from varsim.units import Seconds
from varsim.values.schema import Model

Floats: TypeAlias = NDArray[np.float64]
Stream: TypeAlias = Callable[[int], np.random.Generator]
PositiveSeconds: TypeAlias = Annotated[Seconds, Field(gt=0)]

# Values drawn from one random stream; part of every result: do not change.
BLOCK: Final = 128


class Law(Model):
    """How long a worker computes, step after step.

    Event times must be the same on every machine, so a law draws with the Generator's own methods
    and scalar `math` only: numpy's logarithms and powers of arrays depend on the CPU.
    """

    def blocks(self, worker: int, stream: Stream) -> Iterator[Floats]:
        """Endless blocks of BLOCK compute times in seconds; block i is drawn from `stream(i)`.

        `stream` makes a fresh generator at every call, the same for the same i.
        """
        for block in count():
            yield self.draw(stream(block))

    def draw(self, generator: np.random.Generator) -> Floats:
        """BLOCK independent compute times in seconds, of a law that remembers nothing."""
        raise NotImplementedError

    def expectation(self) -> float:
        """The mean compute time in seconds (called so because a law may have a field `mean`)."""
        raise NotImplementedError

    @property
    def varies(self) -> bool:
        """False where every step takes the same time."""
        return True

    @property
    def is_random(self) -> bool:
        """Whether a worker's times may differ between replications."""
        return self.varies

    @property
    def needs_batch(self) -> bool:
        """Whether only `for_batch` makes it a law that can be drawn from."""
        return False

    def for_batch(self, examples: int) -> "Law":
        """The law of steps over so many examples; most laws do not ask."""
        return self

    def backward_share(self) -> float | None:
        """The share of the backward pass in a compute time, where the law says so."""
        return None
