"""Failures that strike inside a run: workers die in it, and are back some time later.

A failed host is noticed after `detection`, there again after its repair, or with a spare, and its
workers begin again `restart` after that. What that costs is told worker by worker, in attempts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import END_OF_TIME, LAST, Clock
from varsim.cluster.description import Cluster
from varsim.cluster.failures import Failures
from varsim.cluster.recovery import LONGEST, Checkpoint, RandomFailures, Recovery
from varsim.cluster.rows import Rows
from varsim.cluster.saving import Saver
from varsim.cluster.striking import Strike, Strikes
from varsim.cluster.trace import GradientRow, Outcome, Phase, Span, Trace

_NS: Final = 1e9
_FIRST: Final = 4.0  # failures of the job that are drawn at first
MOST: Final = 100_000  # failures in a run
_WAITS: Final = (Phase.BARRIER, Phase.TOKEN, Phase.LOCK, Phase.DOWN)

_Integers: TypeAlias = NDArray[np.int64]
# A span of time, from start to end (ns).
_Times: TypeAlias = tuple[int, int]

# What time is told as: in the order of Attempt's fields.
_CHECKPOINT, _LOST, _DETECTION, _REPAIR, _RESTART = 1, 2, 3, 4, 5


class Rules(NamedTuple):
    """What fails inside a run, how it is saved, and how it comes back."""

    failures: RandomFailures
    checkpoint: Checkpoint | None
    recovery: Recovery
    chief: bool = False  # worker 0 restores the model whenever it begins again


class Session(NamedTuple):
    """What is done with a model on servers: it is rolled back to what was saved, and measured.

    Or all that work on it begin `anew`.
    """

    roll_back: Callable[[], None]
    measure: Callable[[], None]
    anew: Callable[[], None]
    saver: Saver | None


class _Fall:
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

    def parts(self) -> list[tuple[_Times, int]]:
        """All of it, in spans and what each is."""
        found: list[tuple[_Times, int]] = [((self.died, self.back), _RESTART)]
        ends = [since for since, _, _ in self.waits[1:]] + [self.back]
        for (since, noticed, there), end in zip(self.waits, ends, strict=True):
            found.append(((min(noticed, end), min(there, end)), _REPAIR))
            found.append(((since, min(noticed, end)), _DETECTION))
        return found


class Interruptions:
    """Random failures of a run: they end workers and bring them back.

    `set_up`: how long (ns) a worker needs besides whenever it begins. `stop`: called when there
    have been too many. A server that fails ends all workers: when all servers and the chief are
    there, all begin again from what was saved. If the chief alone dies, it may restore that, too.
    """

    def __init__(
        self,
        rules: Rules,
        clock: Clock,
        failures: Failures,
        cluster: Cluster,
        workers: int,
        stop: Callable[[], None],
        session: Session,
        *,
        set_up: int,
        seed: int,
        replication: int,
    ) -> None:
        self._clock, self._failures, self._stop = clock, failures, stop
        self._session, self._saver = session, session.saver
        self._chief = rules.chief and rules.checkpoint is not None
        self._machines = cluster.network.machines(workers)
        self._servers_there = 0  # when they are, or were (ns)
        self._sessions = 0  # that were to begin when servers had been lost
        self._model_lost = False  # it was on servers; or all copies of it:
        self._copies_lost = False
        failures.copies_lost = self._lose_copies
        # Of what was done to the model then nothing is left, as often as it was rolled back; and
        # whether all that worked on it had died.
        self._gone: list[tuple[_Times, bool]] = []
        self._turns = 0
        self._each, self._set_up = cluster.workers_of_a_host, set_up
        self._detection = round(rules.failures.detection * _NS)
        self._restart = round(rules.recovery.restart * _NS)
        rate = rules.failures.rate(cluster, workers)
        self._drawn = _FIRST / rate if rate else LONGEST
        spares = rules.recovery.spares
        self._source = Strikes(
            rules.failures, spares, cluster, workers, seed=seed, replication=replication
        )
        self._strikes = self._source.until(min(self._drawn, LONGEST))
        self._next = 0  # of the strikes
        self._falls: list[list[_Fall]] = [[] for _ in range(workers)]
        self._away = 0  # workers that are down
        failures.detection = self._detection
        self._arm()

    @property
    def alone(self) -> bool:
        """Whether nothing but further failures is left to happen: the run stands still."""
        return not self._away and all(
            priority == LAST or happen == self._strike
            for _, priority, _, happen in self._clock.heap
        )

    def _arm(self) -> None:
        """The next failure will strike."""
        while self._next == len(self._strikes) and self._drawn < LONGEST:
            self._drawn *= 2
            self._strikes = self._source.until(min(self._drawn, LONGEST))
        if self._next < len(self._strikes):
            self._clock.call_first(self._strikes[self._next].time, self._strike)

    def _strike(self) -> None:
        """All failures of this instant, unless nothing is left that they could meet."""
        if self.alone:
            return
        now, strikes = self._clock.time, list[Strike]()
        while self._next < len(self._strikes) and self._strikes[self._next].time == now:
            strikes.append(self._strikes[self._next])
            self._next += 1
        struck, hosts = self._source.happen(strikes, now)
        gone = 0 in struck.away and self._saver is not None and self._saver.host_goes()
        if gone and self._model_lost:
            self._go_back(now)
        hit = []
        machines = [host for host in sorted(hosts) if host < self._machines]
        for host in machines:
            first = host * self._each
            there = max(now + self._detection, self._source.hosts.there(host))
            for rank in range(first, min(first + self._each, len(self._falls))):
                hit += self._hit(rank, now, now + self._detection, there)
        if len(machines) < len(hosts):
            there_again = map(self._source.hosts.there, hosts.difference(machines))
            self._servers_there = max(self._servers_there, now + self._detection, *there_again)
            self._go_back(now)
            self._model_lost = True
        waits = self._model_lost and (self._copies_lost or 0 in hosts)
        if len(machines) < len(hosts) or waits:
            hit += self._begin_session(now, now + self._detection)
        if hit:
            # Of one failure that takes several workers the first tells.
            hit[0].failures += struck.failures
            hit[0].spares += struck.spares
        self._failures.tell_of_deaths()
        if self._next > MOST:
            self._stop()
        self._arm()

    def _hit(self, rank: int, now: int, noticed: int, there: int) -> list[_Fall]:
        """A worker dies, or has to wait anew for its return; nothing where it has ended."""
        if self._failures.running(rank):
            self._failures.kill(rank)
            self._falls[rank].append(_Fall(rank, now))
            self._away += 1
        elif not self._failures.exits[rank].killed:
            return []
        fall = self._falls[rank][-1]
        fall.waits.append((now, noticed, there))
        fall.ready = there + self._restart
        if rank == 0 and self._saver is not None:
            self._saver.breaks_off()
            fall.ready += self._saver.restores * self._chief
        self._turns += 1
        fall.turn = self._turns
        self._clock.call_first(fall.ready, partial(self._return, fall, fall.turn))
        return [fall]

    def _go_back(self, now: int, *, died: bool = True) -> None:
        """The model is what was saved; whether all that worked on it have died."""
        since = 0 if self._saver is None else self._saver.saved_at
        self._gone.append(((since, now), died))
        self._session.roll_back()

    def _lose_copies(self) -> None:
        """Nobody has a copy of the model any more: once all are there, all is as at the start."""
        now = self._clock.time
        self._go_back(now)
        self._model_lost = self._copies_lost = True
        self._clock.call_first(now, partial(self._begin_session, now, now))

    def _begin_session(self, now: int, noticed: int) -> list[_Fall]:
        """All workers wait until all servers, and the chief, are there with the model.

        Where copies were lost, they wait for each other.
        """
        there_of = self._source.hosts.there
        there = max(self._servers_there, noticed, there_of(0))
        if self._copies_lost:
            down = [own[-1].waits[-1] for own in self._falls if own and own[-1].back > now]
            hosts = map(there_of, range(self._machines))
            there = max(there, *hosts, *(until for _, _, until in down))
        self._sessions += 1
        ready = there + self._restart + (0 if self._saver is None else self._saver.restores)
        self._clock.call_first(ready, partial(self._begin_anew, self._sessions))
        hit = []
        for rank in range(len(self._falls)):
            hit += self._hit(rank, now, noticed, max(there, there_of(rank // self._each)))
        self._failures.tell_of_deaths()
        return hit

    def _begin_anew(self, session: int) -> None:
        """The model is there, unless servers or the chief were struck again meanwhile."""
        if session != self._sessions:
            return
        now = self._clock.time
        at_start, self._model_lost, self._copies_lost = self._copies_lost, False, False
        if self._saver is not None:
            self._saver.begins(now)
        self._session.anew()
        waiting = [own[-1] for own in self._falls if own and own[-1].back > now >= own[-1].ready]
        for fall in sorted(waiting, key=lambda one: one.turn):
            self._bring_back(fall, now, at_start=at_start)

    def _return(self, fall: _Fall, turn: int) -> None:
        """A worker begins again, unless it was struck anew meanwhile, or there is no model."""
        now = self._clock.time
        if fall.turn != turn or self._model_lost or fall.back <= now:
            return
        if fall.rank == 0 and self._chief and self._saver is not None:
            self._go_back(now, died=False)
            self._session.measure()
            self._saver.begins(now)
        self._bring_back(fall, now)

    def _bring_back(self, fall: _Fall, now: int, *, at_start: bool = False) -> None:
        fall.back = now
        self._away -= 1
        self._failures.restart(fall.rank, at_start=at_start)

    def attempts(self, trace: Trace) -> _Integers:
        """What all time of all workers went into: each worker's attempts, one after the other.

        An Attempt in a row, and whose it is (WORKER). It ends with the worker's death, and has the
        time down that follows. While every worker that is there waits and one is down, the run
        stands still: that is time down of all of them, of the same kind as that of whoever died
        last.
        """
        end = trace.end
        for own in self._falls:
            until = end
            for fall in reversed(own):
                fall.back = min(fall.back + self._set_up, until)
                until = fall.died
        ledger = _Handed(trace, self._failures)
        still = self._stood_still(trace.span_rows)
        found = []
        for rank, falls in enumerate(self._falls):
            starts = np.array([0, *(fall.back for fall in falls)], dtype=np.int64)
            lost = ledger.lost(rank, starts, [fall.died for fall in falls])
            lost += [times for times, died in self._gone if died]
            counts = ledger.counts(rank, starts, lost)
            lost += ledger.undone(rank, self._gone)
            down = [part for fall in falls for part in fall.parts()]
            down.append(((0, min(self._set_up, end)), _RESTART))
            saving, complete = list[_Times](), list[int]()
            if self._saver is not None and rank == 0:
                saving, complete = self._saver.cost(trace.span_rows)
                lost += self._saver.thrown_away
            times = _sums(starts, end, still, lost, down, saving)
            saved = np.searchsorted(starts, complete, side="left") - 1
            for row, start in enumerate(starts.tolist()):
                fall = falls[row] if row < len(falls) else _Fall(rank, end)
                ends = fall.failures, fall.spares
                checkpoints = int((saved == row).sum())
                found.append((start, *times[row], *counts[row], checkpoints, *ends, rank))
        rows = np.array(found, dtype=np.int64)
        assert rows[:, 1:7].sum() == end * len(self._falls), "the parts of a run are not its whole"
        return rows

    def _stood_still(self, spans: Rows) -> "_Painted":
        """When all that are there wait, while one is down; told as what the last of them is at."""
        falls = sorted(chain.from_iterable(self._falls), key=lambda fall: (fall.died, fall.rank))
        parts = [part for fall in falls for part in fall.parts()]
        away = _union(np.array([(fall.died, fall.back) for fall in falls]).reshape(-1, 2))
        busy = [np.empty((0, 2), dtype=np.int64)]
        start, phase, end = map(Span._fields.index, ("start", "phase", "end"))
        for rows in spans.of_each(Span._fields.index("worker"), len(self._falls)):
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
    def of(cls, parts: Sequence[tuple[_Times, int]]) -> "_Painted":
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
    lost: Sequence[_Times],
    down: Sequence[tuple[_Times, int]],
    saving: Sequence[_Times],
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

    def __init__(self, trace: Trace, failures: Failures) -> None:
        def column(name: str) -> _Integers:
            return trace.gradient_rows.column(GradientRow._fields.index(name))

        worker, outcome, arrived = column("worker"), column("outcome"), column("arrived")
        computed, ended = column("computed"), column("applied")
        kept = np.where((outcome == Outcome.DROPPED) & (arrived < 0), ended, arrived)
        whole = (kept >= 0) & (outcome != Outcome.LOST)
        thrown = np.array(failures.thrown_away, dtype=np.int64).reshape(-1, 2)
        met = np.array(failures.met, dtype=np.int64).reshape(-1, 2)
        marks = met if failures.meets else np.stack([worker, kept], axis=1)[whole]
        self._thrown, self._marks = _ByWorker(thrown), _ByWorker(np.concatenate([marks, thrown]))
        # What would be computed at the instant of its worker's death has not been.
        unborn = (computed == ended) & (outcome == Outcome.LOST)
        used = np.isin(outcome, (Outcome.APPLIED, Outcome.PARTLY))
        undone = used & ~trace.kept_gradients
        rows = np.stack([worker, computed, used, undone], axis=1)
        self._computed = _ByWorker(rows[(computed >= 0) & ~unborn])
        self._rolled_back = [] if trace.rolled_back is None else trace.rolled_back.tolist()
        self._rows = np.stack([worker, arrived, used], axis=1)

    def lost(self, rank: int, starts: _Integers, died: Sequence[int]) -> list[_Times]:
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

    def undone(self, rank: int, gone: Sequence[tuple[_Times, bool]]) -> list[_Times]:
        """When a worker did what was undone though it went on: till it had handed all of it over.

        What it did after that is for what came then.
        """
        found = []
        for ((since, _), died), (_, _, first, last) in zip(gone, self._rolled_back, strict=True):
            worker, arrived, used = self._rows[first:last].T
            until = int(arrived[(worker == rank) & (used > 0)].max(initial=since))
            found += [(since, until)] * (not died)
        return found

    def counts(self, rank: int, starts: _Integers, lost: Sequence[_Times]) -> list[list[int]]:
        """Gradients of each attempt of a worker: used and kept, and computed but lost or undone."""
        _, moments, used, undone = self._computed.of(rank).T
        in_vain = (_Painted.of([(times, 1) for times in lost]).at(moments - 1) > 0) | (undone > 0)
        attempt = np.searchsorted(starts, moments, side="right") - 1
        kept = np.bincount(attempt[(used > 0) & ~in_vain], minlength=len(starts))
        discarded = np.bincount(attempt[in_vain], minlength=len(starts))
        return list(map(list, zip(kept.tolist(), discarded.tolist(), strict=True)))


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
