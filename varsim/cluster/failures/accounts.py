"""What all time of workers went into that fail inside a run: attempts, told worker by worker."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.failures.checkpoints import Saver, Times
from varsim.cluster.record.ledger import Ledger
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import Attempt, GradientRow, Outcome, Phase, Span, Trace

_WAITS: Final = (Phase.BARRIER, Phase.TOKEN, Phase.LOCK, Phase.DOWN)

_Integers: TypeAlias = NDArray[np.int64]


class Gone(NamedTuple):
    """The model was rolled back: what workers did `since`, by rank, `until` (ns) is undone.

    `died`: all that worked on it had.
    """

    since: Sequence[int]
    until: int
    died: bool


# What time is told as, in the order of Attempt's fields from the first that is a part of its time.
_FIRST: Final = Attempt._fields.index("productive")
_CHECKPOINT, _LOST, _DETECTION, _REPAIR, _RESTART = 1, 2, 3, 4, 5


class Fall:
    """A worker's time down, from its death until it works again (ns).

    Struck before it has begun again, it waits anew: `waits` are since when, until it is noticed,
    until its host is there. It is `ready` then, after a restart, and `back` when there is a model,
    too; `turn`: its place among all that wait.
    """

    def __init__(self, rank: int, died: int) -> None:
        self.rank, self.died = rank, died
        self.failures = self.spares = 0
        self.waits: list[tuple[int, int, int]] = []
        self.ready, self.turn = died, 0
        self.back = END_OF_TIME

    def parts(self) -> list[tuple[Times, int]]:
        """All of it, in spans one after the other, and what each is."""
        found: list[tuple[Times, int]] = []
        ends = [since for since, _, _ in self.waits[1:]] + [self.back]
        for (since, noticed, there), end in zip(self.waits, ends, strict=True):
            known, here = min(noticed, end), min(there, end)
            found.append(((since, known), _DETECTION))
            found.append(((known, here), _REPAIR))
            found.append(((here, end), _RESTART))
        return found


def set_up_again(falls: Sequence[Fall], set_up: int, end: int) -> int:
    """A worker is back only once it is set up again; until when it was set up at first (ns).

    `end`: of all its attempts.
    """
    until = end
    for fall in reversed(falls):
        fall.back = min(fall.back + set_up, until)
        until = fall.died
    return min(set_up, until)


def with_attempts(
    trace: Trace,
    books: Ledger,
    falls: Sequence[Sequence[Fall]],
    gone: Sequence[Gone],
    saver: Saver | None,
    set_up: int,
) -> Trace:
    """The trace with each worker's attempts as its `life`, and with what was done `in_vain`.

    An Attempt in a row, and whose it is (WORKER). It ends with the worker's death, and has the
    time down that follows. While every worker that is there waits and one is down, the run
    stands still: that is time down of all of them, of the same kind as that of whoever died
    last. `falls`: of each worker; `gone`: of each rollback; `set_up`: what each beginning takes
    besides (ns).
    """
    end = trace.end
    begun = [set_up_again(own, set_up, end) for own in falls]
    ledger = _Handed(trace, books)
    still = _stood_still(trace.span_rows, falls)
    found, in_vain = [], []
    for rank, own in enumerate(falls):
        starts = np.array([0, *(fall.back for fall in own)], dtype=np.int64)
        lost = ledger.lost(rank, starts, [fall.died for fall in own])
        lost += [(one.since[rank], one.until) for one in gone if one.died]
        counts, vain = ledger.counts(rank, starts, lost)
        in_vain.append(vain)
        lost += ledger.undone(rank, gone)
        down = [part for fall in own for part in fall.parts()]
        down.append(((0, begun[rank]), _RESTART))
        saving, complete = list[Times](), list[int]()
        if saver is not None and rank == 0:
            saving, complete = saver.cost(trace.span_rows)
            lost += saver.thrown_away
        times = _sums(starts, end, still, lost, down, saving)
        saved = np.searchsorted(starts, complete, side="left") - 1
        for row, start in enumerate(starts.tolist()):
            fall = own[row] if row < len(own) else Fall(rank, end)
            ends = fall.failures, fall.spares
            checkpoints = int((saved == row).sum())
            found.append((start, *times[row], *counts[row], checkpoints, *ends, rank))
    rows = np.array(found, dtype=np.int64)
    assert rows[:, 1:7].sum() == end * len(falls), "the parts of a run are not its whole"
    vain = np.sort(np.concatenate(in_vain))
    return replace(trace, life=rows, in_vain=vain if len(vain) else None)


def _stood_still(spans: Rows, falls: Sequence[Sequence[Fall]]) -> "_Painted":
    """When all that are there wait, while one is down; told as what the last of them is at."""
    every = sorted(chain.from_iterable(falls), key=lambda fall: (fall.died, fall.rank))
    parts = [part for fall in every for part in fall.parts()]
    away = _union(np.array([(fall.died, fall.back) for fall in every]).reshape(-1, 2))
    busy = [np.empty((0, 2), dtype=np.int64)]
    start, phase, end = map(Span._fields.index, ("start", "phase", "end"))
    for rows in spans.of_each(Span._fields.index("worker"), len(falls)):
        works = rows[~np.isin(rows[:, phase], _WAITS)][:, [start, end]]
        near = np.searchsorted(away[:, 1], works[:, 0], side="right")
        found = near < len(away)
        found[found] = away[near[found], 0] < works[found, 1]
        busy.append(works[found])
    active = _union(np.concatenate(busy)).tolist()
    return _Painted.of([*parts, *(((one, other), 0) for one, other in active)])


class _Painted(NamedTuple):
    """What each moment is told as, from each cut to the next; nothing (0) before and after."""

    cuts: _Integers  # (n,)
    kinds: _Integers  # (n,)

    @classmethod
    def of(cls, parts: Sequence[tuple[Times, int]]) -> "_Painted":
        """Spans painted one over the other."""
        cuts = np.unique(np.array([0, *(time for times, _ in parts for time in times)]))
        kinds = np.zeros(len(cuts), dtype=np.int64)
        for (start, end), kind in parts:
            kinds[np.searchsorted(cuts, start) : np.searchsorted(cuts, end)] = kind
        return cls(cuts, kinds)

    def at(self, moments: _Integers) -> _Integers:
        """What some moments are told as."""
        found: _Integers = self.kinds[np.searchsorted(self.cuts, moments, side="right") - 1]
        return found


def _sums(
    starts: _Integers,
    end: int,
    still: _Painted,
    lost: Sequence[Times],
    down: Sequence[tuple[Times, int]],
    saving: Sequence[Times],
) -> list[list[int]]:
    """How long each attempt of a worker was each of the parts of Attempt (ns)."""
    own = _Painted.of([*((times, _CHECKPOINT) for times in saving), *down])
    thrown = _Painted.of([(times, _LOST) for times in lost])
    cuts = np.unique(np.concatenate([starts, still.cuts, own.cuts, thrown.cuts, [0, end]]))
    cuts = cuts[cuts <= end]
    begins, lengths = cuts[:-1], np.diff(cuts)
    kinds = own.at(begins)
    for other in (still, thrown):
        kinds = np.where(kinds, kinds, other.at(begins))
    attempt = np.searchsorted(starts, begins, side="right") - 1
    sums = np.zeros((len(starts), _RESTART + 1), dtype=np.int64)
    np.add.at(sums, (attempt, kinds), lengths)
    found: list[list[int]] = sums.tolist()
    return found


class _Handed:
    """What workers have handed over to others, and when: it outlives them.

    A gradient has when all of it has arrived, or it was dropped for another reason; where copies
    of the model meet, what each has learnt has when it has met the others.
    """

    def __init__(self, trace: Trace, books: Ledger) -> None:
        def column(name: str) -> _Integers:
            return trace.gradient_rows.column(GradientRow._fields.index(name))

        worker, outcome, arrived = column("worker"), column("outcome"), column("arrived")
        computed, ended = column("computed"), column("applied")
        kept = np.where((outcome == Outcome.DROPPED) & (arrived < 0), ended, arrived)
        whole = (kept >= 0) & (outcome != Outcome.LOST)
        thrown = np.array(books.thrown_away, dtype=np.int64).reshape(-1, 2)
        met = np.array(books.met, dtype=np.int64).reshape(-1, 2)
        marks = met if books.meets else np.stack([worker, kept], axis=1)[whole]
        self._thrown, self._marks = _ByWorker(thrown), _ByWorker(np.concatenate([marks, thrown]))
        # What would be computed at the instant of its worker's death has not been.
        unborn = (computed == ended) & (outcome == Outcome.LOST)
        used = np.isin(outcome, (Outcome.APPLIED, Outcome.PARTLY))
        undone = used & ~trace.kept_gradients
        rows = np.stack([worker, computed, used, undone, np.arange(len(worker))], axis=1)
        self._computed = _ByWorker(rows[(computed >= 0) & ~unborn])
        self._rolled_back = [] if trace.rolled_back is None else trace.rolled_back.tolist()
        self._rows = np.stack([worker, arrived, used], axis=1)

    def lost(self, rank: int, starts: _Integers, died: Sequence[int]) -> list[Times]:
        """When a worker did what a failure threw away: since it had last handed something over."""
        marks = np.sort(np.append(self._marks.of(rank)[:, 1], 0))
        thrown = self._thrown.of(rank)[:, 1]
        ends = np.append(thrown, died).astype(np.int64)
        places = [*np.searchsorted(marks, thrown, "left"), *np.searchsorted(marks, died, "right")]
        handed = marks[np.array(places, dtype=np.int64) - 1]
        # A death may be the moment at which the next attempt begins.
        attempts = [*(np.searchsorted(starts, thrown, "left") - 1), *range(len(died))]
        begun = starts[np.array(attempts, dtype=np.int64)]
        return list(zip(np.maximum(handed, begun).tolist(), ends.tolist(), strict=True))

    def undone(self, rank: int, gone: Sequence[Gone]) -> list[Times]:
        """When a worker did what was undone though it went on: till it had handed all of it over.

        What it did after that is for what came then.
        """
        found = []
        for one, (_, _, first, last) in zip(gone, self._rolled_back, strict=True):
            worker, arrived, used = self._rows[first:last].T
            until = int(arrived[(worker == rank) & (used > 0)].max(initial=one.since[rank]))
            found += [(one.since[rank], until)] * (not one.died)
        return found

    def counts(
        self, rank: int, starts: _Integers, lost: Sequence[Times]
    ) -> tuple[list[list[int]], _Integers]:
        """Gradients of each attempt of a worker: used and kept, and computed but lost or undone.

        And which rows are of such as its copy was updated with, before it was lost.
        """
        _, moments, used, undone, rows = self._computed.of(rank).T
        died = _Painted.of([(times, 1) for times in lost]).at(moments - 1) > 0
        in_vain = died | (undone > 0)
        attempt = np.searchsorted(starts, moments, side="right") - 1
        kept = np.bincount(attempt[(used > 0) & ~in_vain], minlength=len(starts))
        discarded = np.bincount(attempt[in_vain], minlength=len(starts))
        counts = list(map(list, zip(kept.tolist(), discarded.tolist(), strict=True)))
        return counts, rows[(used > 0) & (undone == 0) & died]


class _ByWorker:
    """Rows whose first column is a worker's rank, found by that."""

    def __init__(self, rows: _Integers) -> None:
        self._rows = rows[np.argsort(rows[:, 0], kind="stable")]
        self._ranks = np.ascontiguousarray(self._rows[:, 0])

    def of(self, rank: int) -> _Integers:
        """Those of a worker, in order."""
        first, last = np.searchsorted(self._ranks, [rank, rank + 1])
        return self._rows[first:last]


def _union(times: _Integers) -> _Integers:
    """Spans (n, 2) as those that do not touch, in order."""
    times = times[times[:, 0] < times[:, 1]]
    times = times[np.argsort(times[:, 0], kind="stable")]
    reach = np.maximum.accumulate(times[:, 1])
    first = np.append(True, times[1:, 0] > reach[:-1])[: len(times)]
    last = np.append(first[1:], True)[: len(times)]
    found: _Integers = np.stack([times[first, 0], reach[last]], axis=1)
    return found
