"""What is kept of a program that runs: who did what from when to when, and what was seen."""

from math import prod
from typing import Final, NamedTuple

import numpy as np

from varsim.distribute.tensor import Values

# In the place of a replica's number: whoever acts outside of the replicas.
OUTSIDE: Final = -1

# Of more copies than these only the first are looked at.
MOST_COPIES: Final = 64
_SHOWN: Final = 8


class Glance(NamedTuple):
    """What is kept of a value: all elements of a small one, else the first three and the mean."""

    shape: tuple[int, ...]
    first: tuple[float, ...]  # those of integers are int
    mean: float  # of all elements, added as float64

    @classmethod
    def at(cls, value: Values) -> "Glance":
        """A glance at an array."""
        with np.errstate(all="ignore"):
            mean = float(value.mean(dtype=np.float64))
        return cls(value.shape, tuple(value.ravel()[: _kept(value.shape)].tolist()), mean)

    @classmethod
    def filled(cls, shape: tuple[int, ...], number: float) -> "Glance":
        """A glance at an array of this one number."""
        return cls(shape, (number,) * _kept(shape), number)

    @property
    def whole(self) -> bool:
        """Whether all elements are there."""
        return len(self.first) == prod(self.shape)


def _kept(shape: tuple[int, ...]) -> int:
    """How many elements are kept."""
    size = prod(shape)
    return size if size <= _SHOWN else 3


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
    copies: tuple[Glance, ...]  # the first MOST_COPIES of the variable, when it ended
    moved: tuple[int, ...] = ()  # the run's movements, counted from 0, that were made for it


class View(NamedTuple):
    """What was to be seen of a variable when a program had ended; None: never read."""

    variable: str
    replicas: tuple[Glance | None, ...]  # what each read last
    outside: Glance | None  # what it read or saved last
    copies: tuple[Glance, ...]  # the first MOST_COPIES at the end
