"""The life of a job among random failures: attempts, each from a start to the next one.

Where nothing is random in the steps, nothing depends on the single one: so many cycles of work and
checkpoint are one division, however long they are. All workers stop and begin again together, so
that everything is counted in integer ns of the whole job.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description import Cluster
from varsim.cluster.recovery import (
    DOMAINS,
    LONGEST,
    Checkpoint,
    RandomFailures,
    Recovery,
    Spares,
)
from varsim.cluster.trace import Attempt
from varsim.values.distribution import Floats, Stream
from varsim.values.distributions import Distribution
from varsim.values.stream import stream

_NS: Final = 1e9


class PaceError(Exception):
    """The steps of a run are not such that the life of a job could be made of them."""


class Pace:
    """The steps of a job that nothing disturbs, from a start at which no message is under way.

    `ends`: when they end (ns), as they were simulated, the last ones in a rhythm, in which all
    others follow; their number is a period of it. `start_up`: what comes before the first of all.
    """

    def __init__(self, ends: Sequence[int], period: int, start_up: int = 0) -> None:
        self.start_up = start_up
        self._ends, self._period = ends, period
        self._lasts = ends[-1] - (ends[-1 - period] if period < len(ends) else 0)

    @classmethod
    def of(cls, steps: NDArray[np.int64], start_up: int = 0) -> "Pace":
        """The pace of updates at these times (ns); PaceError where they show no rhythm.

        It has repeated once at least, and for half of the steps that are seen.
        """
        ends = steps - start_up
        apart = np.diff(ends, prepend=0)
        for period in range(1, len(apart) // 2 + 1):
            breaks = np.flatnonzero(apart[period:] != apart[:-period])
            repeats = len(apart) - period - (int(breaks[-1]) + 1 if len(breaks) else 0)
            if repeats >= period and 2 * (repeats + period) >= len(apart):
                return cls(ends.tolist(), period, start_up)
        raise PaceError(
            f"the life of a job is made of its steps, and the {len(steps)} that were simulated "
            "show no rhythm that repeats: let the run make more updates (stop)"
        )

    def end_of(self, step: int) -> int:
        """When so many steps have ended (ns)."""
        more = max(0, -((len(self._ends) - step) // self._period))
        return self._ends[step - more * self._period - 1] + more * self._lasts

    def by(self, time: int) -> int:
        """How many steps have ended by a moment (ns)."""
        more = max(0, -((self._ends[-1] - time) // self._lasts))
        return bisect_right(self._ends, time - more * self._lasts) + more * self._period


class Cycle(NamedTuple):
    """What repeats in an attempt: `work` and a checkpoint (ns).

    The job `stops` for each; `beside`: wall time of an asynchronous write, of which `slowed` is
    lost to its work, which goes on. `exposed`: whether it can fail while it stops.
    """

    work: int
    stops: int
    beside: int = 0
    slowed: int = 0
    exposed: bool = True

    @property
    def length(self) -> int:
        """From one checkpoint to the next."""
        return self.work + self.stops + self.slowed

    def struck_after(self, exposure: int) -> tuple[int, int]:
        """A failure after so long of what can fail: checkpoints complete before it, and when.

        What ends at the instant of a failure is not complete.
        """
        exempt = 0 if self.exposed else self.stops
        first = self.work + self.stops - exempt + self.beside
        complete = max(0, -((first - exposure) // (self.length - exempt)))
        return complete, exposure + complete * exempt

    def complete(self, since: int) -> int:
        """Checkpoints complete so long after an attempt began."""
        return max(0, 1 + (since - self.work - self.stops - self.beside) // self.length)

    def parts(self, since: int) -> tuple[int, int]:
        """Work, and time that checkpoints cost, up to a moment of an attempt."""
        if since <= self.work:
            return since, 0
        # From the first snapshot on: stop, write beside slower work, work at full pace.
        cycles, rest = divmod(since - self.work, self.length)
        cost = cycles * (self.stops + self.slowed) + min(rest, self.stops)
        beside = min(max(rest - self.stops, 0), self.beside)
        cost += -(-self.slowed * beside // self.beside) if self.beside else 0  # rounded up
        return since - cost, cost


class Life:
    """The life of one job: it works, is saved, fails and begins again."""

    def __init__(
        self,
        failures: RandomFailures,
        checkpoint: Checkpoint | None,
        recovery: Recovery,
        cluster: Cluster,
        workers: int,
        pace: Pace,
        *,
        seed: int,
        replication: int,
    ) -> None:
        self._failures, self._cluster, self._workers = failures, cluster, workers
        self._key = seed, replication
        self._horizon = round(failures.horizon * _NS)
        self._always = failures.strike == "always"
        self._detection = round(failures.detection * _NS)
        restart = recovery.restart + (0.0 if checkpoint is None else checkpoint.restore)
        self._restart = round(restart * _NS) + pace.start_up
        self._pace = pace
        self.steps, self.cycle = self._interval(checkpoint)
        self._hosts = _Hosts(recovery.spares or Spares(hot=0, cold=0))
        self._repairs: dict[tuple[int, int], Iterator[int]] = {}
        self._strikes = self._drawn()
        self._next = 0  # of the strikes

    def attempts(self) -> NDArray[np.int64]:
        """All attempts up to the horizon (n, fields of Attempt); together they are as long."""
        found = np.array(list(self._attempts()), dtype=np.int64)
        assert found[:, 1:7].sum() == self._horizon, "the parts of a life are not its whole"
        return found

    def _attempts(self) -> Iterator[Attempt]:
        cycle = self.cycle
        now = age = 0
        if self._pace.start_up:
            one = self._down(Attempt(0), now, 0, self._pace.start_up)
            yield one
            now = one.down
            age = now if self._always else 0
        while (left := self._horizon - now) > 0:
            complete, lasted = 0, left
            if self._next < len(self._strikes):
                complete, lasted = cycle.struck_after(self._strikes[self._next].time - age)
            if lasted >= left:
                work, cost = cycle.parts(left)
                yield Attempt(
                    now,
                    work,
                    cost,
                    steps=self._steps_in(work),
                    checkpoints=cycle.complete(left),
                )
                return
            age, begun, now = self._strikes[self._next].time, now, now + lasted
            kept, thrown = complete * cycle.work, lasted - complete * cycle.length
            done = self._steps_in(cycle.parts(lasted - 1)[0]) if lasted else 0
            one = Attempt(
                begun,
                productive=kept,
                checkpoint=lasted - kept - thrown,
                lost=thrown,
                steps=complete * self.steps,
                steps_lost=max(0, done - complete * self.steps),
                checkpoints=complete,
            )
            yield (one := self._down(one, now, self._detection, self._restart, self._struck(now)))
            now += one.down
            age += one.down if self._always else 0

    def _down(
        self, one: Attempt, now: int, detection: int, restart: int, struck: "_Struck | None" = None
    ) -> Attempt:
        """The attempt, with the time down from `now` on: struck again, it begins anew."""
        found = struck or _Struck()
        parts = (0, 0, 0)
        while True:
            detected = now + detection
            ready = max(detected, self._hosts.complete)
            until = up = min(ready + restart, self._horizon)
            again = _Struck()
            while self._always and not again.failures and self._strikes_before(up):
                until = self._strikes[self._next].time
                again = self._struck(until)
            if not again.failures:
                until = up
            parts = (
                parts[0] + min(until, detected) - now,
                parts[1] + max(0, min(until, ready) - detected),
                parts[2] + max(0, until - ready),
            )
            found = _Struck(found.failures + again.failures, found.spares + again.spares)
            if not again.failures:
                return one._replace(
                    **dict(zip(("detection", "repair", "restart"), parts, strict=True)),
                    **found._asdict(),
                )
            now, detection, restart = until, self._detection, self._restart

    def _strikes_before(self, time: int) -> bool:
        return self._next < len(self._strikes) and self._strikes[self._next].time < time

    def _struck(self, now: int) -> "_Struck":
        """All failures of one instant; those of hosts that are not there are none."""
        time, failed, away = self._strikes[self._next].time, 0, dict[int, int]()
        while self._next < len(self._strikes) and self._strikes[self._next].time == time:
            _, source, member = self._strikes[self._next]
            self._next += 1
            described = self._failures.of[source]
            if described.repair is None:
                failed += 1
                continue
            hosts = described.hosts(self._cluster, self._workers, member)
            if hit := [host for host in hosts if not self._hosts.is_missing(host, now)]:
                failed += 1
                repair = self._repair(source, member, described.repair)
                away |= {host: max(repair, away.get(host, 0)) for host in hit}
        noticed = now + self._detection
        spares = sum(self._hosts.lose(host, noticed, repair) for host, repair in away.items())
        return _Struck(failed, spares)

    def _repair(self, source: int, member: int, law: Distribution) -> int:
        """How long (ns) a member of a source is away this time."""
        if (source, member) not in self._repairs:
            self._repairs[source, member] = chain.from_iterable(
                _nanoseconds(block).tolist()
                for block in law.blocks(member, self._stream("repair", source, member))
            )
        return next(self._repairs[source, member])

    def _interval(self, checkpoint: Checkpoint | None) -> tuple[int, Cycle]:
        """Steps between two checkpoints, and the cycle of both."""
        pace = self._pace
        if checkpoint is None:  # never: work is longer than any life
            steps = pace.by(self._horizon) + 1
            return steps, Cycle(pace.end_of(steps), 0)
        failures = self._failures
        rate = failures.rate(self._cluster, self._workers)
        every = checkpoint.interval(failures, rate, (self._detection + self._restart) / _NS)
        steps = pace.by(round(every * _NS) - 1) + 1
        work, write = pace.end_of(steps), round(checkpoint.write * _NS)
        if checkpoint.mode == "blocking":
            exposed = failures.strike != "while_computing"
            return steps, Cycle(work, write, exposed=exposed)
        slowed = write - round(checkpoint.beside * _NS)
        return steps, Cycle(work, round(checkpoint.snapshot * _NS), write, slowed)

    def _steps_in(self, work: int) -> int:
        """Steps that have ended in so much work; the pace begins anew after each checkpoint."""
        cycles, rest = divmod(work, self.cycle.work)
        return cycles * self.steps + self._pace.by(rest)

    def _drawn(self) -> "list[_Strike]":
        """All failures up to the horizon, in order; of one instant by source and member."""
        times, sources, members = [], [], []
        for source, described in enumerate(self._failures.of):
            law = described.between
            for member in range(described.members(self._cluster, self._workers)):
                until = 0
                for block in law.blocks(member, self._stream("failure", source, member)):
                    # Beyond the horizon none is needed, and 64 bits might not hold them.
                    needed = np.searchsorted(np.cumsum(block), self._failures.horizon) + 2
                    found = until + np.cumsum(_nanoseconds(block[:needed]))
                    until = int(found[-1])
                    times.append(found[found <= self._horizon])
                    sources.append(np.full(len(times[-1]), source))
                    members.append(np.full(len(times[-1]), member))
                    if until > self._horizon:
                        break
        columns = [np.concatenate(one) for one in (times, sources, members)]
        order = np.lexsort(columns[::-1])
        rows = np.stack(columns, axis=1)[order].tolist()
        return list(map(_Strike._make, rows))

    def _stream(self, purpose: str, source: int, member: int) -> Stream:
        """Streams of a member, by its domain and how many sources of that come before this one."""
        domain = self._failures.of[source].domain
        alike = sum(one.domain == domain for one in self._failures.of[:source])
        key = DOMAINS[domain], alike, member
        return lambda block: stream(*self._key, purpose, *key, block)


class _Strike(NamedTuple):
    """Failure of a member of a source, at an age of all members (ns)."""

    time: int
    source: int
    member: int


class _Struck(NamedTuple):
    """What happened to a job at an instant, or in its time down."""

    failures: int = 0
    spares: int = 0  # that took over


class _Hosts:
    """Hosts of a job: which are missing, until when, and which stand by or are repaired."""

    def __init__(self, spares: Spares) -> None:
        self._spares = spares
        self._hot, self._cold = spares.hot, spares.cold
        self._repaired: list[int] = []  # heap: when hosts are back that nobody waits for
        self._missing: dict[int, int] = {}  # host: until when
        self.complete = 0  # when none is missing any more

    def is_missing(self, host: int, now: int) -> bool:
        """Whether nothing is there that could fail."""
        return self._missing.get(host, now) > now

    def lose(self, host: int, noticed: int, repair: int) -> bool:
        """A host is away from now on; whether a spare takes over, else it waits for a repair."""
        while self._repaired and self._repaired[0] <= noticed:
            heappop(self._repaired)
            if self._hot < self._spares.hot:
                self._hot += 1
            else:
                self._cold += 1
        heappush(self._repaired, noticed + repair)
        there, spare = noticed, True
        if self._hot:
            self._hot -= 1
        elif self._cold:
            self._cold -= 1
            there += round(self._spares.swap * _NS)
        else:
            there, spare = max(noticed, heappop(self._repaired)), False
        self._missing[host] = there
        self.complete = max(self.complete, there)
        return spare


def _nanoseconds(seconds: Floats) -> NDArray[np.int64]:
    """Times drawn in seconds; no longer than any life."""
    return np.rint(np.minimum(seconds, LONGEST) * _NS).astype(np.int64)
