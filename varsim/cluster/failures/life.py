"""The life of a job among random failures: attempts, each from a start to the next one.

After a failure all begin again from the last checkpoint; or who is left keeps the model, and they
wait for the others, or are formed anew of those that are there (elastic). Everything is counted in
integer ns of the whole job. Steps in a rhythm make equal cycles of work and checkpoint, so that any
number of them is one division; random ones are gone through cycle by cycle.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice, takewhile
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.recovery import Checkpoint, RandomFailures
from varsim.cluster.failures.strikes import Strike, Strikes
from varsim.cluster.record.trace import HOSTS, Attempt
from varsim.core.distribution import Stream

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
        rounds, each = lasted.shape
        if rounds < LEAST_DRAWN:
            what = "random ones" if each == 1 else f"random rounds of {each}"
            raise PaceError(
                f"the life of a job is made of its steps, and only {rounds} {what} were simulated: "
                f"let the run make {LEAST_DRAWN * each} updates or more (stop)"
            )
        self._blocks = (
            lasted[streams(block).integers(rounds, size=BLOCK)].ravel() for block in count()
        )
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


_NS: Final = 1e9
_NEVER: Final = 2**62


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

    @classmethod
    def of(
        cls,
        failures: RandomFailures,
        checkpoint: Checkpoint | None,
        cluster: Cluster,
        workers: int,
        down: int,
        rounds: float = 0.0,
    ) -> Self:
        """How a job is saved which is down for so long (ns) after a failure.

        `rounds`: how long those are (s), if a checkpoint is only written after a whole one.
        """
        if checkpoint is None:
            return cls()
        every = checkpoint.interval(failures, failures.rate(cluster, workers), down / _NS, rounds)
        if checkpoint.every == "optimal" and rounds:
            every -= rounds / 2  # which is rounded up, whatever the first round took
        write = round(checkpoint.lasts * _NS)
        if checkpoint.mode == "blocking":
            exposed = failures.strike != "while_computing"
            return cls(round(every * _NS), write, exposed=exposed)
        slowed = write - round(checkpoint.beside * _NS)
        return cls(round(every * _NS), round(checkpoint.snapshot * _NS), write, slowed)

    def work_in(self, time: int) -> int:
        """How much work is done in so much time from the beginning of a write beside it."""
        if not self.beside or time >= self.beside:
            return time - self.slowed
        return time - -(-self.slowed * max(0, time) // self.beside)

    def time_of(self, work: int) -> int:
        """How long so much work takes from the beginning of a write beside it."""
        if work < self.beside - self.slowed:
            return work * self.beside // (self.beside - self.slowed)
        return work + self.slowed


class _Cycle(NamedTuple):
    """Steps up to the next checkpoint, or a part of them, from a moment on (ns).

    `hosts` that made them; `before`: updates of the model by then; `beside` a write: whether one
    began with it. It is followed by others that are equal, `times` in all, each `over` so long.
    """

    start: int
    hosts: int
    before: int
    steps: int
    beside: bool
    times: int = 1
    over: int = 0


class _AtRisk(NamedTuple):
    """What an attempt, by row, loses when it is rolled back; times in ns."""

    row: int
    productive: int
    checkpoint: int
    steps: int


class Life:
    """The life of a job that works while `fewest` of its `number` of hosts are there; times in ns.

    `steps_of`: the steps of the job on so many hosts, in rounds of `each`; they begin anew after
    every checkpoint and in every new group. `strikes`: what happens up to the `horizon`; `always`:
    also while it is down. It `restarts`: after a failure nobody keeps the model. `restart`: from
    when hosts are there until they work, and `read` of a checkpoint, if need be.
    """

    def __init__(
        self,
        strikes: Strikes,
        saving: Saving,
        steps_of: Callable[[int], Steps],
        each: int = 1,
        *,
        horizon: float,
        always: bool,
        number: int,
        fewest: int,
        restarts: bool,
        detection: int,
        restart: int,
        read: int,
        start_up: int,
    ) -> None:
        self._strikes, self._saving, self._steps_of = strikes, saving, steps_of
        self._each = each * (BLOCK if saving.every is None else 1)
        self._horizon, self._always = round(horizon * _NS), always
        self._number, self._fewest, self._restarts = number, fewest, restarts
        self._detection, self._restart, self._read = detection, restart, read
        self._ahead = strikes.until(horizon)[::-1]
        self._now = self._age = 0
        self._members = self._have = self._all = frozenset(range(number))  # who has the model
        self._missing = frozenset[int]()
        self._since = 0  # work since the last checkpoint was begun
        self._step = self._read_at = self._saved = 0  # updates: of the model, when read, when saved
        self._written: int | None = None  # when the write beside work will be
        self._at_risk: list[_AtRisk] = []
        self._first_after = 0  # of these, after that checkpoint
        self._rows: list[dict[str, int]] = []
        self._made: list[_Cycle] = []
        self._start_up = start_up
        steps_of(number)  # which may find that there is no rhythm

    def attempts(self) -> NDArray[np.int64]:
        """All attempts up to the horizon, as in `Trace.life`; together they are as long."""
        self._live()
        found = np.array([list(row.values()) for row in self._rows], dtype=np.int64)
        assert found[:, 1:7].sum() == self._horizon, "the parts of a life are not its whole"
        return found if self._fewest < self._number else found[:, :HOSTS]

    def updates(self, most: int) -> Iterator[tuple[int, int]]:
        """When an update of the model was made, and which, up to so many; some more than once.

        After a rollback the steps since the last checkpoint are made again, from the values that
        it holds and with the same batches: nothing of an update depends on when it is made. Of a
        job that restarts random ones are not told.
        """
        if self._restarts and self._steps_of(self._number).random:
            return
        self._live()
        for start, hosts, first, number, beside, times, over in self._made:
            for cycle in range(times):
                before = first + cycle * number
                for step in range(1, min(number, most - before) + 1):
                    end = self._steps_of(hosts).end_of(step)
                    time = self._saving.time_of(end) if beside else end
                    yield start + cycle * over + time, before + step
                if before >= most:
                    break

    def _live(self) -> None:
        if self._start_up and not self._rows:
            self._begin()
            self._down(0, self._start_up)
        while self._now < self._horizon:
            self._begin()
            if self._work():
                self._happen(self._now)
                self._down(self._detection, self._restart)
            elif self._now < self._horizon:
                self._down(0, self._restart)

    def _begin(self) -> None:
        fields = dict.fromkeys(Attempt._fields, 0)
        self._rows.append({**fields, "start": self._now, "hosts": len(self._members)})
        self._written = None

    def _spend(self, time: int, part: str) -> int:
        """Let time pass; how much of it was time of those present: the rest waits for repairs."""
        present = time * len(self._members) // self._number
        self._rows[-1][part] += present
        self._rows[-1]["repair"] += time - present
        self._now += time
        return present

    def _work(self) -> bool:
        """Work up to a failure (true), to the horizon, or until a host that is back joins."""
        steps, saving, moved = self._steps_of(len(self._members)), self._saving, False
        while True:
            room, ages = self._horizon - self._now, self._next_strike()
            needed = _NEVER if saving.every is None else max(1, saving.every - self._since)
            reach = min(needed, room, ages)  # what comes later is not reached
            if self._restarts and saving.every is not None:
                reach = needed  # but steps of a whole cycle are drawn
            number = -(-(steps.by(reach - 1) + 1) // self._each) * self._each
            work = steps.end_of(number)
            saves, back = work >= needed, self._back()
            joins = 0 if back <= 0 else steps.by(back - 1) + 1 if back <= work else number
            if (joins := max(joins, 1 - moved)) < number:
                number, work, saves = joins, steps.end_of(joins) if joins else 0, False
            slowed = 0 if self._written is None else saving.slowed
            stops_at, stops = work + slowed, saves * saving.stops
            over, exempt = stops_at + stops, 0 if saving.exposed else stops
            fails = ages + (exempt if ages > stops_at else 0)
            if fails <= over and fails < room:
                if not self._hit() & self._members:
                    self._happen(self._now + fails)
                    continue
                self._fail(steps, number, fails, min(fails - 1, stops_at))
                self._age += ages
                return True
            moved = True
            equal = not (steps.random or self._missing or self._since)
            if equal and saves and (not saving.beside or self._written is not None):
                times = min((room - 1) // over, (ages - 1) // (over - exempt))
                if times > 1:
                    self._repeat(times, number, work, over)
                    self._age += times * (over - exempt)
                    continue
            passed = min(room, over)
            worked = work if passed >= stops_at else self._work_in(passed)
            self._keep(number if worked == work else steps.by(worked), worked)
            self._spend(passed - worked, "checkpoint")
            self._age += passed if saving.exposed else min(passed, stops_at)
            self._write_up_to(self._now)
            if saves and over <= room:
                self._since, self._read_at = 0, self._step
                self._first_after = len(self._at_risk)
                self._at_risk[-1] = self._at_risk[-1]._replace(checkpoint=stops)
                self._written = self._now + saving.beside
                if not saving.beside:
                    self._write_up_to(self._now)
            steps.advance(number)
            if room <= over or back <= over:
                return False

    def _fail(self, steps: Steps, number: int, fails: int, until: int) -> None:
        """Of so many steps those are done that have ended `until` then; the failure is later."""
        done, begun = min(number, steps.by(self._work_in(until))), self._now
        kept = steps.end_of(done) if done else 0
        self._keep(done, kept)
        slowed = self._write_up_to(begun + fails - 1)
        self._spend(slowed, "checkpoint")
        self._spend(fails - kept - slowed, "lost")
        if self._restarts:
            steps.advance(number)

    def _work_in(self, time: int) -> int:
        return time if self._written is None else self._saving.work_in(time)

    def _repeat(self, times: int, steps: int, work: int, over: int) -> None:
        """Cycles of so many steps, equal to the last one, with their checkpoints."""
        row, beside = self._rows[-1], self._written is not None
        here = self._now, self._number, self._step, steps
        self._made.append(_Cycle(*here, beside, times, over))
        row["productive"] += times * work
        row["checkpoint"] += times * (over - work)
        row["steps"] += times * steps
        row["checkpoints"] += times
        self._now += times * over
        self._step += times * steps
        self._read_at = self._saved = self._step
        if beside:  # and the write of the last one goes on
            self._saved -= steps
            self._written = self._now + self._saving.beside
            at_risk = _AtRisk(len(self._rows) - 1, work, self._saving.stops, steps)
            self._at_risk, self._first_after = [at_risk], 1

    def _write_up_to(self, time: int) -> int:
        """If the last checkpoint is written by a moment it counts; how long it slowed the work."""
        if self._written is None or self._written > time:
            return 0
        self._rows[-1]["checkpoints"] += 1
        self._saved, self._written = self._read_at, None
        del self._at_risk[: self._first_after]
        return self._saving.slowed

    def _keep(self, steps: int, work: int) -> None:
        """So many steps, and perhaps a part of one, are over."""
        beside = self._written is not None
        self._made.append(_Cycle(self._now, len(self._members), self._step, steps, beside))
        time = self._spend(work, "productive")
        self._at_risk.append(_AtRisk(len(self._rows) - 1, time, 0, steps))
        self._rows[-1]["steps"] += steps
        self._since += work
        self._step += steps

    def _down(self, detection: int, restart: int) -> None:
        """Time from a failure, or from when others are there, until a group works."""
        while True:
            if not self._have:
                self._roll_back()
            detected = self._now + detection
            ready = max(detected, self._enough())
            up = min(self._horizon, ready + restart + (0 if self._have else self._read))
            group = self._group(ready)
            until, again = up, False
            while self._always and not again and self._now + self._next_strike() < up:
                until = self._now + self._next_strike()
                again = self._happen(until)
            until = until if again else up
            begun = self._now
            self._spend(max(0, min(until, detected) - begun), "detection")
            self._spend(max(0, min(until, ready) - max(begun, detected)), "repair")
            if until > ready or not again:
                self._members, self._missing = group, self._all - group
            self._spend(until - self._now, "restart")
            self._age += (until - begun) * self._always
            if not again:
                self._have = self._members
                return
            detection, restart = self._detection, self._restart

    def _group(self, time: int) -> frozenset[int]:
        """The hosts that are there at a moment: those that take part from then on."""
        if self._fewest == self._number:
            return self._all
        return frozenset(host for host in self._all if self._there(host) <= time)

    def _roll_back(self) -> None:
        """Nobody has the model any more: what was not saved is lost."""
        for index, productive, checkpoint, steps in self._at_risk:
            row = self._rows[index]
            row["productive"] -= productive
            row["checkpoint"] -= checkpoint
            row["lost"] += productive + checkpoint
            row["steps"] -= steps
            row["steps_lost"] += steps
        self._at_risk.clear()
        self._since, self._step = 0, self._saved

    def _there(self, host: int) -> int:
        return self._strikes.hosts.there(host)

    def _back(self) -> int:
        """How long until the first host that is missing is there; below 0: since when."""
        return min((self._there(one) for one in self._missing), default=_NEVER) - self._now

    def _enough(self) -> int:
        """When as many hosts are there as are needed."""
        if self._fewest == self._number:
            return self._strikes.hosts.complete
        return sorted(self._there(one) for one in self._all)[self._fewest - 1]

    def _next_strike(self) -> int:
        """How long, of time in which members age, until the next failure."""
        return self._ahead[-1].time - self._age if self._ahead else _NEVER

    def _hit(self) -> frozenset[int]:
        """The hosts that the next failures take."""
        time = self._ahead[-1].time
        same = takewhile(lambda one: one.time == time, reversed(self._ahead))
        found = map(self._strikes.takes, same)
        return frozenset(host for hosts in found for host in hosts)

    def _happen(self, now: int) -> bool:
        """The next failures, all of one instant; whether any host was there that failed."""
        struck: list[Strike] = []
        while self._ahead and self._ahead[-1].time == (struck or self._ahead[-1:])[0].time:
            struck.append(self._ahead.pop())
        found, hit = self._strikes.happen(struck, now)
        self._rows[-1]["failures"] += found.failures
        self._rows[-1]["spares"] += found.spares
        self._have = frozenset() if self._restarts and found.failures else self._have - hit
        return found.failures > 0
