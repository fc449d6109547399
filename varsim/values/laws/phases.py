"""Compute times in which forward and backward pass are told apart."""

from typing import ClassVar, Literal

import numpy as np

from varsim.values.laws.base import BLOCK, Floats, Law, PositiveSeconds


class Phases(Law):
    """Every step takes `forward`, then `backward`; within another law, only their sum counts."""

    about: ClassVar[str] = "a forward pass, then a backward pass, each of a fixed time"

    kind: Literal["phases"] = "phases"
    forward: PositiveSeconds
    backward: PositiveSeconds

    @property
    def varies(self) -> bool:
        """It does not."""
        return False

    def draw(self, generator: np.random.Generator) -> Floats:
        """The sum of both, again and again."""
        return np.full(BLOCK, self.forward + self.backward)

    def expectation(self) -> float:
        """The sum of both."""
        return self.forward + self.backward

    def backward_share(self) -> float:
        """Backward of both."""
        return self.backward / (self.forward + self.backward)
