"""Courses of an attempt: steps and checkpoints of a job from its start to its next failure.

Steps in a rhythm make equal cycles of work and checkpoint, so that any number of them is one
division. Random steps are drawn from those that were simulated, and gone through cycle by cycle.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.trace import Attempt
from varsim.values.distribution import Stream

LEAST_DRAWN: Final = 20  # random steps from which others are drawn
_LEAST: Final = 2  # that show a rhythm
_BLOCK: Final = 1024  # steps that are drawn at once


def fewest(*, random: bool, each: int, drifts: bool) -> int:
    """With fewer updates no life is made: in rounds of `each`; of who `drifts` all must go on."""
    return (LEAST_DRAWN if random else _LEAST) * each + drifts


class PaceError(Exception):
    """The steps of a run are not such that the life of a job could be made of them."""


class Steps(ABC):
    """The steps of a job from one start to the next."""

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
        more = islice(self._blocks, 1 + len(self._ahead) // _BLOCK)
        self._ahead = np.concatenate([self._ahead, *more])
        self._ends = np.cumsum(self._ahead)


class Pace(Steps):
    """The steps of a job that nothing disturbs, from a start at which no message is under way.

    `ends`: when they end (ns), as they were simulated, the last ones in a rhythm, in which all
    others follow; their number is a period of it.
    """

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


class Saving(NamedTuple):
    """How a job is saved: after work of `every` ns, to the end of a step; None: never.

    It `stops` for each checkpoint; `beside`: wall time of an asynchronous write, of which `slowed`
    is lost to its work, which goes on (all ns). `exposed`: whether it can fail while it stops.
    """

    every: int | None = None
    stops: int = 0
    beside: int = 0
    slowed: int = 0
    exposed: bool = True

    def slowed_by(self, beside: int) -> int:
        """What of so much time beside a write, or all of it and more, is lost; rounded up."""
        if not self.beside or beside >= self.beside:
            return self.slowed
        return -(-self.slowed * max(0, beside) // self.beside)


class Course:
    """Course of a job's attempts: cycles of steps, in rounds of `each`, up to the next checkpoint.

    The cycles of a pace, which begins anew after each checkpoint, are all equal, so that any number
    of them is one division. Up to a `horizon` (ns).
    """

    def __init__(self, steps: Steps, saving: Saving, horizon: int, each: int = 1) -> None:
        self._steps, self._saving, self._each = steps, saving, each
        # Steps of a cycle without checkpoints: of a pace it is longer than any life.
        self._unsaved = steps.by(horizon) + 1 if isinstance(steps, Pace) else _BLOCK * each

    def attempt(self, exposure: int | None, left: int) -> tuple[Attempt, bool]:
        """An attempt of `left` ns, or to a failure before that; and whether that ended it.

        It fails after so much time in which it can, `exposure`. What ends at that instant has not.
        """
        saving, exempt = self._saving, 0 if self._saving.exposed else self._saving.stops
        last = number, work = self._cycle()
        behind = self._passed(work, exposure, left) if isinstance(self._steps, Pace) else 0
        steps, worked = behind * number, behind * work  # of the cycles that are behind
        begun = worked + behind * saving.stops + max(0, behind - 1) * saving.slowed
        while True:
            stops_at = begun + work + (saving.slowed if behind else 0)
            over = stops_at + saving.stops
            fails = left if exposure is None else exposure + behind * exempt
            if fails > stops_at:
                fails += exempt
            until = min(fails, left)
            if until <= over:
                break
            self._steps.advance(number)
            last = number, work
            behind, steps, worked, begun = behind + 1, steps + number, worked + work, over
            number, work = self._cycle()
        struck = fails < left
        # What ends at the instant of a failure has not.
        since = min(until - 1 if struck else until, stops_at) - begun
        part = since - (saving.slowed_by(since) if behind else 0)
        made = min(number, self._steps.by(part))
        self._steps.advance(number)
        complete = begun + saving.beside
        late = behind > 0 and (complete >= until if struck else complete > until)
        done = behind - late if saving.every is not None else 0
        if not struck:
            written = saving.every is not None and until == over and not saving.beside
            whole = worked + part
            found = Attempt(productive=whole, checkpoint=left - whole, steps=steps + made)
            return found._replace(checkpoints=done + written), False
        lost_steps, lost_work = last if late else (0, 0)
        if saving.every is None:
            lost_steps, lost_work = steps, worked
        kept, cost = worked - lost_work, done * (saving.stops + saving.slowed)
        found = Attempt(
            productive=kept,
            checkpoint=cost,
            lost=until - kept - cost,
            steps=steps - lost_steps,
            steps_lost=made + lost_steps,
            checkpoints=done,
        )
        return found, True

    def end_of(self, step: int) -> int | None:
        """When a step of an attempt ends, from its start (ns); None where that is not told."""
        if not isinstance(self._steps, Pace):
            return None
        number, length = self._cycle()
        cycles, rest = divmod(step - 1, number)
        work = self._steps.end_of(rest + 1)
        if not cycles:
            return work
        saving = self._saving
        slowed = saving.slowed
        if work < saving.beside - saving.slowed:  # it is done beside a write
            slowed = work * saving.beside // (saving.beside - saving.slowed) - work
        return cycles * (length + saving.stops + saving.slowed) - saving.slowed + slowed + work

    def _cycle(self) -> tuple[int, int]:
        """How many steps the next cycle has, and when the last of them ends (ns)."""
        every = self._saving.every
        number = self._unsaved if every is None else self._steps.by(every - 1) + 1
        number = -(-number // self._each) * self._each
        return number, self._steps.end_of(number)

    def _passed(self, work: int, exposure: int | None, left: int) -> int:
        """How many equal cycles of so much work are over, with their checkpoints, before an end."""
        saving = self._saving
        cost = saving.stops + saving.slowed
        passed = -((work + saving.stops - left) // (work + cost))
        if exposure is not None and saving.exposed:
            passed = min(passed, -((work + saving.stops - exposure) // (work + cost)))
        elif exposure is not None:
            passed = min(passed, -((work - exposure) // (work + saving.slowed)))
        return max(0, passed)


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
        yield lasted[streams(block).integers(len(lasted), size=_BLOCK)].ravel()
