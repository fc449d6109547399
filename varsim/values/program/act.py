"""What is kept of a program that runs: who did what from when to when, and what was seen."""

from math import prod
from typing import NamedTuple

from varsim.values.distribute.tensor import Values

# In the place of a replica's number: whoever acts outside of the replicas.
OUTSIDE = -1

_SHOWN = 8


class Glance(NamedTuple):
    """What is kept of a value: all elements of a small one, else the first three and the mean."""

    shape: tuple[int, ...]
    first: tuple[float, ...]
    mean: float

    @classmethod
    def at(cls, value: Values) -> "Glance":
        """A glance at an array."""
        count = _SHOWN if value.size <= _SHOWN else 3
        first = tuple(map(float, value.ravel()[:count].tolist()))
        return cls(value.shape, first, float(value.mean()))

    @property
    def whole(self) -> bool:
        """Whether all elements are there."""
        return len(self.first) == prod(self.shape)


class Act(NamedTuple):
    """One action by one actor on one variable; times in ns."""

    step: int  # from 1
    part: str  # replicas or outside
    number: int  # of the action in its part, from 0
    kind: str
    variable: str  # empty for compute
    repetition: int  # from 0
    replica: int  # OUTSIDE: none
    begin: int
    end: int
    handed: Glance | None  # what it wrote with
    seen: Glance | None  # what it read, saved or restored
    copies: tuple[Glance, ...]  # of the variable, when it ended
