"""Loads of links and servers over time, noted by a run that is watched, and by no other."""

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME

# Notes that something is busy from a moment to another (ns), by default with all it can do.
Note: TypeAlias = Callable[..., None]


class Load(NamedTuple):
    """Load as a step function: from each moment (ns) on a share of capacity, 0 before the first."""

    times: NDArray[np.int64]
    shares: NDArray[np.float64]

    def within(self, bounds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean share between each of these moments, rising, and the next."""
        lengths = np.diff(self.times, append=self.times[-1:])
        whole = np.append(0.0, np.cumsum(self.shares * lengths))
        at = np.searchsorted(self.times, bounds, "right") - 1
        past = np.where(at < 0, 0.0, whole[at] + self.shares[at] * (bounds - self.times[at]))
        means: NDArray[np.float64] = np.diff(past) / np.maximum(np.diff(bounds), 1)
        return means

    def before(self, end: int) -> "Load":
        """Its changes before a moment (ns)."""
        kept = self.times < end
        return Load(self.times[kept], self.shares[kept])

    def at_most(self, changes: int) -> tuple["Load", int]:
        """The same mean in not many more changes, and the window (ns) within which they are one.

        That is 0 where none are. Of the changes in a window the first and the last are kept.
        """
        window, kept = 0, np.arange(len(self.times))
        while len(kept) > changes:
            window = max(2 * window, int(np.diff(self.times).min()))
            at = self.times // window
            new = np.flatnonzero(np.diff(at, prepend=-1))
            kept = np.unique([new, np.append(new[1:], len(at)) - 1])
        if not window:
            return self, 0
        times = self.times[kept]
        means = self.within(times)
        return Load(times, np.append(means, self.shares[kept[-1:]])), window


def mean_load(loads: Sequence[Load]) -> Load:
    """The mean of several."""
    moments, places = np.unique(np.concatenate([one.times for one in loads]), return_inverse=True)
    changes = np.concatenate([np.diff(one.shares, prepend=0.0) for one in loads])
    return _stepped(moments, np.bincount(places, changes, minlength=len(moments)) / len(loads))


class Pieces(NamedTuple):
    """Pieces of time (ns) in which a share of something is in use, `at` its place in `names`."""

    names: Sequence[str]
    at: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    shares: NDArray[np.float64]


class Loads:
    """Loads of everything that is used, by name, of which at most so many pieces are noted.

    `until`: up to when all of them are (ns). A link is busy while a message holds it, its overhead
    included; with what share of its bandwidth, where messages share it.
    """

    def __init__(self, most: int) -> None:
        self.until = END_OF_TIME
        self._room = most
        self._numbers: dict[str, int] = {}
        self._servers: set[int] = set()
        self._broken_off = 0  # how often
        self._rows = array("q")  # number, start, end
        self._shares = array("d")

    def note(self, name: str, start: int, end: int, share: float = 1.0) -> None:
        """A share of something is in use from `start` to `end` (ns)."""
        if end > start and self.has_room(1, start):
            self._rows.extend((self._number(name), start, end))
            self._shares.append(share)

    def noted(self, name: str) -> Note:
        """Note for one server, of what it will do, until that is broken off."""
        self._servers.add(self._number(name))
        return partial(self._note_of, self._broken_off, name)

    def break_off(self, now: int) -> None:
        """What servers would do from a moment (ns) on is never done: they fail, or begin anew."""
        self._broken_off += 1
        numbers, *spans = np.frombuffer(self._rows, dtype=np.int64).reshape(-1, 3).T
        lost = np.isin(numbers, list(self._servers))
        for times in spans:
            np.minimum(times, now, out=times, where=lost)

    def note_all(self, pieces: Pieces) -> None:
        """The same of many, for which there `has_room`."""
        names, *columns = pieces
        at, starts, ends, shares = (column[pieces.ends > pieces.starts] for column in columns)
        numbers = np.array([self._number(name) for name in names], dtype=np.int64)
        rows = np.stack([numbers[at], starts, ends], axis=1)
        self._rows.frombytes(rows.tobytes())
        self._shares.frombytes(shares.tobytes())

    def has_room(self, pieces: int, start: int) -> bool:
        """Whether there is room for more, which begin at a moment (ns); else that is the end."""
        self._room -= pieces
        if self._room < 0:
            self.until = min(self.until, start)
        return self._room >= 0

    @property
    def left(self) -> int:
        """How many more there is room for."""
        return max(self._room, 0)

    def found(self, end: int) -> dict[str, Load]:
        """The load of everything that was used, up to a moment (ns)."""
        rows = np.frombuffer(self._rows, dtype=np.int64).reshape(-1, 3)
        order = np.argsort(rows[:, 0], kind="stable")
        bounds = np.searchsorted(rows[order, 0], np.arange(len(self._numbers) + 1))
        # What was noted is not put in order as a whole: that can be many megabytes.
        owns = [order[low:high] for low, high in pairwise(bounds)]
        shares = np.frombuffer(self._shares)
        return {
            name: _summed(rows[own, 1:], shares[own], end)
            for name, own in zip(self._numbers, owns, strict=True)
            if len(own)
        }

    def _note_of(self, session: int, *piece: Any) -> None:
        """Note that a server is busy, unless it is one that has failed meanwhile."""
        if session == self._broken_off:
            self.note(*piece)

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))


def _summed(pieces: NDArray[np.int64], shares: NDArray[np.float64], end: int) -> Load:
    """The sum of pieces (start, end) with these shares, up to a moment (ns)."""
    moments, places = np.unique(np.minimum(pieces, end).T.ravel(), return_inverse=True)
    changes = np.concatenate([shares, -shares])
    return _stepped(moments, np.bincount(places, changes, minlength=len(moments)))


def _stepped(moments: NDArray[np.int64], changes: NDArray[Any]) -> Load:
    """A load that changes so much at these moments (ns)."""
    loads = np.cumsum(changes).round(12) + 0.0  # what floats leave over is none of it
    changed = np.append(True, loads[1:] != loads[:-1])[: len(loads)]
    return Load(moments[changed], loads[changed])
