"""Steps of a job from one start to the next, made of those that were simulated.

In a rhythm, or drawn at random.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from varsim.values.distribution import Stream

LEAST_DRAWN: Final = 20  # random steps from which others are drawn
_LEAST: Final = 2  # that show a rhythm
BLOCK: Final = 1024  # steps that are drawn at once


def fewest(*, random: bool, each: int, drifts: bool) -> int:
    """With fewer updates no life is made: in rounds of `each`; of who `drifts` all must go on."""
    return (LEAST_DRAWN if random else _LEAST) * each + drifts


class PaceError(Exception):
    """The steps of a run are not such that the life of a job could be made of them."""


class Steps(ABC):
    """The steps of a job from one start to the next.

    `random`: whether they differ from one start to another.
    """

    random: ClassVar[bool] = True

    @abstractmethod
    def end_of(self, step: int) -> int:
        """When so many steps have ended (ns)."""

    @abstractmethod
    def by(self, time: int) -> int:
        """How many steps have ended by a moment (ns)."""

    @abstractmethod
    def advance(self, steps: int) -> None:
        """So many are over, and the next ones begin at a start."""


class DrawnSteps(Steps):
    """Random steps, each as long as one of those that were simulated (a bootstrap).

    `lasted`: their lengths (ns), a row for each round. Approximate: rounds that depend on those
    before them are drawn as if they did not.
    """

    def __init__(self, lasted: NDArray[np.int64], streams: Stream) -> None:
        self._blocks = _drawn(_enough(lasted), streams)
        self._ahead = np.empty(0, dtype=np.int64)
        self._ends = self._ahead

    def end_of(self, step: int) -> int:
        while len(self._ends) < step:
            self._draw()
        return int(self._ends[step - 1])

    def by(self, time: int) -> int:
        while not len(self._ends) or self._ends[-1] <= time:
            self._draw()
        return int(np.searchsorted(self._ends, time, side="right"))

    def advance(self, steps: int) -> None:
        self._ahead = self._ahead[steps:]
        self._ends = np.cumsum(self._ahead)

    def _draw(self) -> None:
        more = islice(self._blocks, 1 + len(self._ahead) // BLOCK)
        self._ahead = np.concatenate([self._ahead, *more])
        self._ends = np.cumsum(self._ahead)


class Pace(Steps):
    """The steps of a job that nothing disturbs, from a start at which no message is under way.

    `ends`: when they end (ns), as they were simulated, the last ones in a rhythm, in which all
    others follow; their number is a period of it.
    """

    random = False

    def __init__(self, ends: Sequence[int], period: int) -> None:
        self._ends, self._period = ends, period
        self._lasts = ends[-1] - (ends[-1 - period] if period < len(ends) else 0)

    @classmethod
    def of(cls, ends: NDArray[np.int64], each: int = 1) -> "Pace":
        """The pace of updates at these times (ns), of rounds of `each`; PaceError without a rhythm.

        It has repeated once at least, and for half of the steps that are seen.
        """
        apart = np.diff(ends, prepend=0)
        if len(ends) and not ends[-1]:
            raise PaceError("the life of a job is made of its steps, and these take no time")
        for period in range(each, len(apart) // 2 + 1, each):
            breaks = np.flatnonzero(apart[period:] != apart[:-period])
            repeats = len(apart) - period - (int(breaks[-1]) + 1 if len(breaks) else 0)
            if repeats >= period and 2 * (repeats + period) >= len(apart):
                return cls(ends.tolist(), period)
        raise PaceError(
            f"the life of a job is made of its steps, and the {len(ends)} that were simulated "
            "show no rhythm that repeats: let the run make more updates (stop)"
        )

    def end_of(self, step: int) -> int:
        # The step of those that were simulated that it is like.
        like = step - max(0, -((len(self._ends) - step) // self._period)) * self._period
        return self._ends[like - 1] + (step - like) // self._period * self._lasts

    def by(self, time: int) -> int:
        more = max(0, -((self._ends[-1] - time) // self._lasts))
        return bisect_right(self._ends, time - more * self._lasts) + more * self._period

    def advance(self, steps: int) -> None:
        """See Steps; the rhythm is that of every start."""


def _enough(lasted: NDArray[np.int64]) -> NDArray[np.int64]:
    rounds, each = lasted.shape
    if rounds < LEAST_DRAWN:
        what = "random ones" if each == 1 else f"random rounds of {each}"
        raise PaceError(
            f"the life of a job is made of its steps, and only {rounds} {what} were simulated: let "
            f"the run make {LEAST_DRAWN * each} updates or more (stop)"
        )
    return lasted


def _drawn(lasted: NDArray[np.int64], streams: Stream) -> Iterator[NDArray[np.int64]]:
    for block in count():
        yield lasted[streams(block).integers(len(lasted), size=BLOCK)].ravel()
