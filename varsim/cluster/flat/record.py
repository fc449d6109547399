"""Rows of a run as it goes on: packed, and beyond some of them on disk."""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.flat.layout import STEPS
from varsim.cluster.rows import Rows
from varsim.cluster.trace import GradientRow, Span

Ints: TypeAlias = NDArray[np.int64]
COLUMNS: Final = len(Span._fields)
_WORKER = Span._fields.index("worker")


class Record:
    """Spans and gradients of a run, in the order of a Trace; they may come in several parts.

    Of a part the spans are by worker and time, and begin where those of the part before end.
    """

    def __init__(self, workers: int) -> None:
        self._workers, self._parts = workers, 0
        self._spans = Rows(len(Span._fields))
        self.gradient_rows = Rows(len(GradientRow._fields))

    def take_spans(self, blocks: Iterable[Ints]) -> None:
        """Another part of the spans, block by block (columns of Span, n)."""
        for columns in blocks:
            self._spans.append_columns(columns)
        self._parts += 1

    def take_gradients(self, columns: Ints) -> None:
        """Gradients that have ended since (columns of GradientRow, n)."""
        self.gradient_rows.append_columns(columns)

    def span_rows(self) -> Rows:
        """All spans, by worker and time."""
        if self._parts < 2:
            return self._spans
        return self._spans.by(_WORKER, self._workers)


class Reader:
    """Reader of a log: what a run has written is put in order, and handed to a record.

    `decode`: the function of `decoding`, or what it was compiled to.
    """

    def __init__(
        self, decode: Callable[..., tuple[int, int]], record: Record, workers: int
    ) -> None:
        self._decode, self._record = decode, record
        self._lasts = np.zeros(workers, dtype=np.int64)
        self._steps: list[Ints] = []
        self._marks: list[Ints] = []
        self._counted = 0

    def read(self, log: Ints, room: Ints, until: int, *, spans: bool, last: bool) -> Ints:
        """Read pairs, one after another, that were written until then; those that are left.

        These are spans that end later, which may be taken back; the last time they are cut.
        `room`: for work, COLUMNS integers for each pair.
        """
        pairs = log.reshape(-1, 2)
        # To find places and take what is there is many times as fast as to choose by a mask.
        self._take_marks(pairs.take(np.flatnonzero(pairs[:, 1] < 0), axis=0))
        if not spans:
            return log[:0]
        columns = room[: COLUMNS * len(pairs)].reshape(COLUMNS, -1)
        lasts, places = self._lasts, np.zeros(2 * len(self._lasts) + 1, dtype=np.int64)
        of_log, of_spans = (log, len(log), until, last), (columns.reshape(-1), len(pairs))
        found, left = self._decode(*of_log, lasts, len(lasts), places, *of_spans)
        backwards = np.flatnonzero(self._lasts < 0)
        assert not len(backwards), f"the time of worker {backwards[0]} runs backwards"
        short = np.flatnonzero(self._lasts < until)
        assert not (last and len(short)), (
            f"the time of worker {short[0]} is not recorded to the end"
        )
        self._record.take_spans([columns[:, :found]])
        return log[:left]

    def steps(self) -> Ints:
        """When the model was updated."""
        return np.concatenate(self._steps)

    def marks(self) -> Ints:
        """All pairs that are neither spans nor steps, in order, and how many steps came before."""
        return np.concatenate(self._marks)

    def _take_marks(self, pairs: Ints) -> None:
        # Of many workers there is little else than steps.
        stepped = pairs[:, 1] == STEPS
        steps, others = pairs[:, 0].take(np.flatnonzero(stepped)), np.flatnonzero(~stepped)
        counts = self._counted + others - np.arange(len(others))
        self._steps.append(steps)
        self._marks.append(np.column_stack((pairs[others], counts)))
        self._counted += len(steps)
