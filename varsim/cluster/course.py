"""Courses of an attempt: steps and checkpoints of a job from its start to its next failure.

Steps in a rhythm make equal cycles of work and checkpoint, so that any number of them is one
division. Random steps are drawn from those that were simulated, and gone through cycle by cycle.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
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
    """Random steps, each as long as one of those that were simulated (see Drawn)."""

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
        self._ahead = np.concatenate([self._ahead, next(self._blocks)])
        self._ends = np.cumsum(self._ahead)


class Pace(Steps):
    """The steps of a job that nothing disturbs, from a start at which no message is under way.

    `ends`: when they end (ns), as they were simulated, the last ones in a rhythm, in which all
    others follow; their number is a period of it. They are in rounds of `each`, between which a
    checkpoint may be written.
    """

    def __init__(self, ends: Sequence[int], period: int, each: int = 1) -> None:
        self.each = each
        self._ends, self._period = ends, period
        self._lasts = ends[-1] - (ends[-1 - period] if period < len(ends) else 0)

    @classmethod
    def of(cls, ends: NDArray[np.int64], each: int = 1) -> "Pace":
        """The pace of updates at these times (ns); PaceError where they show no rhythm.

        It has repeated once at least, and for half of the steps that are seen.
        """
        apart = np.diff(ends, prepend=0)
        if len(ends) and not ends[-1]:
            raise PaceError("the life of a job is made of its steps, and these take no time")
        for period in range(each, len(apart) // 2 + 1, each):
            breaks = np.flatnonzero(apart[period:] != apart[:-period])
            repeats = len(apart) - period - (int(breaks[-1]) + 1 if len(breaks) else 0)
            if repeats >= period and 2 * (repeats + period) >= len(apart):
                return cls(ends.tolist(), period, each)
        raise PaceError(
            f"the life of a job is made of its steps, and the {len(ends)} that were simulated "
            "show no rhythm that repeats: let the run make more updates (stop)"
        )

    def end_of(self, step: int) -> int:
        like = self.like(step)
        return self._ends[like - 1] + (step - like) // self._period * self._lasts

    def by(self, time: int) -> int:
        more = max(0, -((self._ends[-1] - time) // self._lasts))
        return bisect_right(self._ends, time - more * self._lasts) + more * self._period

    def like(self, step: int) -> int:
        """The step of those that were simulated that one is like."""
        return step - max(0, -((len(self._ends) - step) // self._period)) * self._period

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


class Course(ABC):
    """Course of a job's attempts."""

    @abstractmethod
    def attempt(self, exposure: int | None, left: int) -> tuple[Attempt, bool]:
        """An attempt of `left` ns, or to a failure before that; and whether that ended it.

        It fails after so much time in which it can, `exposure`. What ends at that instant has not.
        """

    def end_of(self, step: int) -> int | None:
        """When a step of an attempt ends, from its start (ns); None where that is not told."""
        return None


class Steady(Course):
    """Course of steps in a rhythm, which begins anew after each checkpoint."""

    def __init__(self, pace: Pace, saving: Saving, horizon: int) -> None:
        self._pace, self._saving = pace, saving
        # Without checkpoints work is longer than any life.
        needed = pace.by(horizon if saving.every is None else saving.every - 1) + 1
        self.steps = -(-needed // pace.each) * pace.each
        self.work = pace.end_of(self.steps)
        self.length = self.work + saving.stops + saving.slowed

    def attempt(self, exposure: int | None, left: int) -> tuple[Attempt, bool]:
        saving = self._saving
        first = self.work + saving.stops + saving.beside
        if exposure is not None:
            exempt = 0 if saving.exposed else saving.stops
            done = max(0, -((first - exempt - exposure) // (self.length - exempt)))
            lasted = exposure + done * exempt
            if lasted < left:
                kept, lost = done * self.work, lasted - done * self.length
                ended = self._steps_in(self.work_in(lasted - 1)) if lasted else 0
                found = Attempt(
                    productive=kept,
                    checkpoint=lasted - kept - lost,
                    lost=lost,
                    steps=done * self.steps,
                    steps_lost=max(0, ended - done * self.steps),
                    checkpoints=done,
                )
                return found, True
        done, work = max(0, 1 + (left - first) // self.length), self.work_in(left)
        steps = self._steps_in(work)
        return Attempt(
            productive=work, checkpoint=left - work, steps=steps, checkpoints=done
        ), False

    def end_of(self, step: int) -> int:
        cycles, rest = divmod(step - 1, self.steps)
        work = self._pace.end_of(rest + 1)
        if not cycles:
            return work
        beside = self._saving.beside - self._saving.slowed  # work that is done beside a write
        slowed = self._saving.slowed
        if work < beside:
            slowed = work * self._saving.beside // beside - work
        return cycles * self.length - self._saving.slowed + slowed + work

    def work_in(self, since: int) -> int:
        """Work up to a moment of an attempt; the rest is what checkpoints cost."""
        if since <= self.work:
            return since
        # From the first stop on: stop, write beside slower work, work at full pace.
        saving, (cycles, rest) = self._saving, divmod(since - self.work, self.length)
        cost = cycles * (saving.stops + saving.slowed) + min(rest, saving.stops)
        return since - cost - saving.slowed_by(rest - saving.stops)

    def _steps_in(self, work: int) -> int:
        cycles, rest = divmod(work, self.work)
        return cycles * self.steps + self._pace.by(rest)


class Drawn(Course):
    """Course of random steps, each as long as one of those that were simulated (a bootstrap).

    `lasted`: their lengths (ns), a row for each round. Approximate: rounds that depend on those
    before them are drawn as if they did not.
    """

    def __init__(self, lasted: NDArray[np.int64], saving: Saving, streams: Stream) -> None:
        self._saving, self._each = saving, lasted.shape[1]
        self._blocks = _drawn(_enough(lasted), streams)
        self._ahead = np.empty(0, dtype=np.int64)
        self._many = _BLOCK
        if saving.every is not None:
            self._many = min(_BLOCK, int(1.2 * saving.every / float(lasted.mean())) + 10)
        self._many *= self._each

    def attempt(self, exposure: int | None, left: int) -> tuple[Attempt, bool]:
        saving = self._saving
        cycles: list[tuple[int, int]] = []  # steps and work of each that is behind
        begun = exempt = 0
        while True:
            ends = self._cycle()
            slowed = saving.slowed if cycles else 0
            stops_at = begun + ends[-1] + slowed
            over = stops_at + saving.stops
            fails = left if exposure is None else exposure + exempt
            if fails > stops_at and not saving.exposed:
                fails += saving.stops
            until = min(fails, left)
            if until <= over:
                break
            cycles.append((len(ends), ends[-1]))
            begun = over
            exempt += 0 if saving.exposed else saving.stops
        struck = fails < left
        # What ends at the instant of a failure has not.
        since = min(until - 1 if struck else until, stops_at) - begun
        work = since - (saving.slowed_by(since) if cycles else 0)
        steps = bisect_right(ends, work)
        if saving.every is None:
            done = 0
        elif not struck and until == over and not saving.beside:
            cycles, steps, work, done = [*cycles, (len(ends), ends[-1])], 0, 0, len(cycles) + 1
        else:
            complete = begun + saving.beside
            late = bool(cycles) and (complete >= until if struck else complete > until)
            done = len(cycles) - late
        kept, beyond = cycles[:done], cycles[done:]
        if not struck:
            whole = sum(each for _, each in cycles) + work
            steps += sum(number for number, _ in cycles)
            return Attempt(
                productive=whole, checkpoint=left - whole, steps=steps, checkpoints=done
            ), False
        productive = sum(each for _, each in kept)
        cost = done * (saving.stops + saving.slowed)
        found = Attempt(
            productive=productive,
            checkpoint=cost,
            lost=until - productive - cost,
            steps=sum(number for number, _ in kept),
            steps_lost=steps + sum(number for number, _ in beyond),
            checkpoints=done,
        )
        return found, True

    def _cycle(self) -> list[int]:
        """When the next steps up to a checkpoint end, from the first one's start (ns)."""
        every = self._saving.every
        while True:
            missing = range(len(self._ahead), self._many, _BLOCK * self._each)
            if missing:
                self._ahead = np.concatenate([self._ahead, *islice(self._blocks, len(missing))])
            ends = np.cumsum(self._ahead[: self._many])
            if every is None or ends[-1] >= every:
                break
            self._many *= 2
        number = len(ends)
        if every is not None:
            number = -(-(int(np.searchsorted(ends, every)) + 1) // self._each) * self._each
        self._ahead = self._ahead[number:]
        found: list[int] = ends[:number].tolist()
        return found


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


# Makes the course of a job that is saved in some way, up to a horizon (ns).
Making = Callable[[Saving, int], Course]
