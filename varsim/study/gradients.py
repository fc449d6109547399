"""The gradients of a run as columns, and the part of a run in which rates are measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import GradientRow, Outcome, Trace

S = TypeVar("S", bound=np.generic)


class Window(NamedTuple):
    """The part of a run in which rates are measured: after `start` and up to `end` (ns)."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How long it is (ns)."""
        return self.end - self.start

    def holds(self, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these moments lie in it; the very beginning of a run does, too."""
        return np.asarray(((times > self.start) | (self.start == 0)) & (times <= self.end))

    def clipped(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        """How much of each of these stretches of time lies in it (ns)."""
        return np.asarray(np.clip(end, *self) - np.clip(start, *self))


class _Column:
    """Column of the gradient rows, read when it is asked for."""

    def __set_name__(self, _: type, name: str) -> None:
        self._number = GradientRow._fields.index(name)

    def __get__(self, gradients: "Gradients", _: type | None = None) -> NDArray[np.int64]:
        return gradients.rows.column(self._number)


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradient rows of one trace as columns, each of shape (gradients,); times in ns."""

    rows: Rows
    variables: int
    kept: NDArray[np.bool_] | None = None  # which have not been undone; nothing: all

    worker: ClassVar = _Column()
    iteration: ClassVar = _Column()
    read: ClassVar = _Column()
    read_step: ClassVar = _Column()
    compute_start: ClassVar = _Column()
    computed: ClassVar = _Column()
    arrived: ClassVar = _Column()
    applied: ClassVar = _Column()
    applied_step: ClassVar = _Column()
    outcome: ClassVar = _Column()
    parts_applied: ClassVar = _Column()

    @classmethod
    def of(cls, trace: Trace) -> "Gradients":
        """Those of a trace."""
        kept = trace.kept_gradients if trace.undone else None
        return cls(trace.gradient_rows, trace.variables, kept)

    def parts(self) -> Iterator["Gradients"]:
        """The same, some rows at a time."""
        first = 0
        for block in self.rows.blocks():
            kept = None if self.kept is None else self.kept[first : first + len(block)]
            yield Gradients(block, self.variables, kept)
            first += len(block)

    def of_parts(
        self, kind: type[S], function: Callable[["Gradients"], NDArray[Any]]
    ) -> NDArray[S]:
        """What a function makes of some rows at a time, at most a value of each; put together.

        The same as of all rows at once, whose columns would take many times the room.
        """
        found, count = np.empty(len(self.rows), dtype=kind), 0
        for part in self.parts():
            values = function(part)
            found[count : count + len(values)] = values
            count += len(values)
        return found[:count]

    @property
    def applied_share(self) -> NDArray[np.float64]:
        """Share of the variables that each was applied to."""
        return np.asarray(self.parts_applied / self.variables)

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which gradients were applied, at least to some variables, and not undone."""
        used = np.asarray((self.outcome == Outcome.APPLIED) | (self.outcome == Outcome.PARTLY))
        return used if self.kept is None else used & self.kept

    @property
    def fates(self) -> NDArray[np.int64]:
        """What has become of each, as an Outcome: what was undone counts as dropped."""
        if self.kept is None:
            return self.outcome
        undone = np.isin(self.outcome, (Outcome.APPLIED, Outcome.PARTLY)) & ~self.kept
        return np.where(undone, int(Outcome.DROPPED), self.outcome)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which gradients were applied or dropped by the end of the run."""
        return np.asarray(self.outcome != Outcome.PENDING)

    @property
    def weight(self) -> NDArray[np.float64]:
        """How much of each gradient was applied, 0 to 1."""
        return np.where(self.used, self.applied_share, 0.0)

    def used_in(self, window: Window) -> NDArray[np.bool_]:
        """Which gradients were applied in a window."""
        return np.asarray(self.used & window.holds(self.applied))

    def staleness_in(self, window: Window) -> NDArray[np.int32]:
        """The staleness of the gradients that were applied in a window."""
        return self.of_parts(
            np.int32, lambda rows: (rows.applied_step - rows.read_step)[rows.used_in(window)]
        )
