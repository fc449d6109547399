"""Rows of a run as it goes on: packed, and beyond some of them on disk."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.flat.decoding import by_worker, decode
from varsim.cluster.rows import BLOCK, Rows
from varsim.cluster.trace import GradientRow, Span

Ints: TypeAlias = NDArray[np.int64]
# For work on so many spans at a time as are packed together: it stays in the cache.
ROOM: Final = BLOCK * len(Span._fields)
_WORKER: Final = Span._fields.index("worker")


class Record:
    """Spans and gradients of a run, in the order of a Trace; they may come in several parts.

    Of a part the spans are by worker and time, and begin where those of the part before end.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._spans = Rows(len(Span._fields))
        self._latest, self._in_order = 0, True  # worker
        self.gradient_rows = Rows(len(GradientRow._fields))

    def take_spans(self, columns: Ints) -> None:
        """More spans (columns of Span, n), of one part."""
        if columns.shape[1]:
            self._in_order &= bool(self._latest <= columns[_WORKER, 0])
            self._latest = int(columns[_WORKER, -1])
            self._spans.append_columns(columns)

    def take_gradients(self, columns: Ints) -> None:
        """Gradients that have ended since (columns of GradientRow, n)."""
        self.gradient_rows.append_columns(columns)

    def span_rows(self) -> Rows:
        """All spans, by worker and time."""
        return self._spans if self._in_order else self._spans.by(_WORKER, self._workers)


class Reader:
    """Reader of a log: what a run has written is put in order, and handed to a record.

    `code`: the functions of `decoding`, or what they were compiled to.
    """

    def __init__(
        self,
        code: Mapping[Callable[..., Any], Callable[..., Any]],
        record: Record,
        workers: int,
    ) -> None:
        self._code, self._record = code, record
        self._lasts = np.zeros(workers, dtype=np.int64)
        self._steps: list[Ints] = []
        self._marks: list[Ints] = []

    def read(self, log: Ints, room: Ints, until: int, *, spans: bool, last: bool) -> Ints:
        """Read pairs, one after another, that were written until then; those that are left.

        These are spans that end later, which may be taken back; the last time they are cut.
        `room`: for work, as much as for the log, and ROOM besides.
        """
        workers, ordered, room = len(self._lasts), room[: len(log)], room[len(log) :]
        places = np.zeros(workers + 4, dtype=np.int64)
        self._code[by_worker](log, len(log) // 2, ordered, workers, places)
        marks, steps, _ = np.split(ordered.reshape(-1, 2), places[1:3])
        self._marks.append(marks.copy())
        self._steps.append(steps[:, 0].copy())
        if not spans:
            return log[:0]
        least = len(Span._fields) * int(np.diff(places[2:]).max())  # for one worker
        if len(room) < least:
            room = np.empty(least, dtype=np.int64)
        columns = room[: max(least, ROOM)].reshape(len(Span._fields), -1)
        rank = left = 0
        while rank < workers:
            of_log = (ordered, until, last, places, left)
            of_workers = (rank, workers, self._lasts)
            of_spans = (room, columns.shape[1])
            found, rank, left = self._code[decode](*of_log, *of_workers, *of_spans)
            self._record.take_spans(columns[:, :found])
        backwards = np.flatnonzero(self._lasts < 0)
        assert not len(backwards), f"the time of worker {backwards[0]} runs backwards"
        short = np.flatnonzero(self._lasts < until)
        assert not (last and len(short)), (
            f"the time of worker {short[0]} is not recorded to the end"
        )
        return ordered[: 2 * left]

    def steps(self) -> Ints:
        """When the model was updated."""
        return np.concatenate(self._steps)

    def marks(self) -> Ints:
        """All pairs that are neither spans nor steps, in order."""
        return np.concatenate(self._marks)
