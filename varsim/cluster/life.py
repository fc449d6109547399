"""The life of a job among random failures: attempts, each from a start to the next one.

All workers stop and begin again together, so that everything is counted in integer ns of the whole
job.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.course import Making, Saving
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


class Life:
    """The life of one job: it works, is saved, fails and begins again."""

    def __init__(
        self,
        failures: RandomFailures,
        checkpoint: Checkpoint | None,
        recovery: Recovery,
        cluster: Cluster,
        workers: int,
        made: Making,
        *,
        start_up: int,
        seed: int,
        replication: int,
    ) -> None:
        self._failures, self._cluster, self._workers = failures, cluster, workers
        self._key = seed, replication
        self._horizon = round(failures.horizon * _NS)
        self._always = failures.strike == "always"
        self._detection = round(failures.detection * _NS)
        restart = recovery.restart + (0.0 if checkpoint is None else checkpoint.restore)
        self._start_up = start_up
        self._restart = round(restart * _NS) + start_up
        self._course = made(self._saving(checkpoint), self._horizon)
        self._hosts = _Hosts(recovery.spares or Spares(hot=0, cold=0))
        self._repairs: dict[tuple[int, int], Iterator[int]] = {}
        self._strikes = self._drawn()
        self._next = 0  # of the strikes

    def updates(self, attempts: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
        """When (ns) an update of the model was made, and which, up to so many; some more than once.

        After a rollback the steps since the last checkpoint are made again, from the values that
        it holds and with the same batches: nothing of an update depends on when it is made.
        """
        before = 0
        for row in attempts.tolist():
            one = Attempt(*row)
            for step in range(1, min(one.steps + one.steps_lost, most - before) + 1):
                end = self._course.end_of(step)
                if end is None:
                    return
                yield one.start + end, before + step
            before += one.steps
            if before >= most:
                return

    def attempts(self) -> NDArray[np.int64]:
        """All attempts up to the horizon (n, fields of Attempt); together they are as long."""
        found = np.array(list(self._attempts()), dtype=np.int64)
        assert found[:, 1:7].sum() == self._horizon, "the parts of a life are not its whole"
        return found

    def _attempts(self) -> Iterator[Attempt]:
        now = age = 0
        if self._start_up:
            one = self._down(Attempt(), now, 0, self._start_up)
            yield one
            now = one.down
            age = now if self._always else 0
        while (left := self._horizon - now) > 0:
            exposure = None
            if self._next < len(self._strikes):
                exposure = self._strikes[self._next].time - age
            one, struck = self._course.attempt(exposure, left)
            one = one._replace(start=now)
            if not struck:
                yield one
                return
            age = self._strikes[self._next].time
            now += one.productive + one.checkpoint + one.lost
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

    def _saving(self, checkpoint: Checkpoint | None) -> Saving:
        """How the job is saved, in ns."""
        failures = self._failures
        if checkpoint is None:
            return Saving()
        rate = failures.rate(self._cluster, self._workers)
        every = checkpoint.interval(failures, rate, (self._detection + self._restart) / _NS)
        write = round(checkpoint.lasts * _NS)
        if checkpoint.mode == "blocking":
            exposed = failures.strike != "while_computing"
            return Saving(round(every * _NS), write, exposed=exposed)
        slowed = write - round(checkpoint.beside * _NS)
        return Saving(round(every * _NS), round(checkpoint.snapshot * _NS), write, slowed)

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
