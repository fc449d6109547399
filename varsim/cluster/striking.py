"""When failures strike: the same for every strategy and at every point of a sweep."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description import Cluster
from varsim.cluster.failing import DOMAINS, hosts, members
from varsim.cluster.recovery import LONGEST, RandomFailures, Spares
from varsim.values.distribution import Floats, Stream
from varsim.values.distributions import Distribution
from varsim.values.stream import stream

_NS: Final = 1e9


class Strike(NamedTuple):
    """Failure of a member of a source, at an age of all members (ns)."""

    time: int
    source: int
    member: int


class Struck(NamedTuple):
    """What failures of an instant, or of a time down, come to."""

    failures: int = 0
    spares: int = 0  # that took over
    away: frozenset[int] = frozenset()  # hosts that go to repair


class Strikes:
    """Failures of the hosts of a cluster, and which of these are there."""

    def __init__(
        self,
        failures: RandomFailures,
        spares: Spares | None,
        cluster: Cluster,
        workers: int,
        *,
        seed: int,
        replication: int,
    ) -> None:
        self._failures, self._cluster, self._workers = failures, cluster, workers
        self._key = seed, replication
        self._detection = round(failures.detection * _NS)
        self._repairs: dict[tuple[int, int], Iterator[int]] = {}
        self.hosts = Hosts(spares or Spares(hot=0, cold=0))

    def until(self, horizon: float) -> list[Strike]:
        """All failures up to a time (s), in order; of one instant by source and member."""
        times, sources, which = [], [], []
        end = round(horizon * _NS)
        for source, described in enumerate(self._failures.of):
            law = described.between
            for member in range(members(described.domain, self._cluster, self._workers)):
                until = 0
                for block in law.blocks(member, self._stream("failure", source, member)):
                    # Beyond the horizon none is needed, and 64 bits might not hold them.
                    needed = np.searchsorted(np.cumsum(block), horizon) + 2
                    found = until + np.cumsum(_nanoseconds(block[:needed]))
                    until = int(found[-1])
                    times.append(found[found <= end])
                    sources.append(np.full(len(times[-1]), source))
                    which.append(np.full(len(times[-1]), member))
                    if until > end:
                        break
        if (recorded := self._failures.recorded) is not None:
            when, domains, who = zip(*recorded.failures, strict=True)
            found = _nanoseconds(np.array(when))
            met, after = found <= end, len(self._failures.of)
            times.append(found[met])
            sources.append(np.array([after + recorded.domains.index(one) for one in domains])[met])
            which.append(np.array(who)[met])
        columns = [np.concatenate(one) for one in (times, sources, which)]
        order = np.lexsort(columns[::-1])
        rows = np.stack(columns, axis=1)[order].tolist()
        return list(map(Strike._make, rows))

    def happen(self, strikes: Sequence[Strike], now: int) -> tuple[Struck, set[int]]:
        """Failures of one instant, and the hosts they hit; those that are not there are not."""
        failed, away, hit = 0, dict[int, int](), set[int]()
        for strike in strikes:
            _, source, member = strike
            _, law = self._failures.repairs[source]
            taken: Sequence[int] = self.takes(strike)
            if law is not None:
                taken = [host for host in taken if not self.hosts.is_missing(host, now)]
                if not taken:
                    continue
                repair = self._repair(source, member, law)
                away |= {host: max(repair, away.get(host, 0)) for host in taken}
            failed += 1
            hit.update(taken)
        noticed = now + self._detection
        spares = sum(self.hosts.lose(host, noticed, repair) for host, repair in away.items())
        return Struck(failed, spares, frozenset(away)), hit

    def takes(self, strike: Strike) -> range:
        """The hosts that a failure takes, if they are there."""
        domain, _ = self._failures.repairs[strike.source]
        return hosts(domain, self._cluster, self._workers, strike.member)

    def _repair(self, source: int, member: int, law: Distribution) -> int:
        """How long (ns) a member of a source is away this time."""
        if (source, member) not in self._repairs:
            self._repairs[source, member] = chain.from_iterable(
                _nanoseconds(block).tolist()
                for block in law.blocks(member, self._stream("repair", source, member))
            )
        return next(self._repairs[source, member])

    def _stream(self, purpose: str, source: int, member: int) -> Stream:
        """Streams of a member, by its domain and how many sources of that come before this one."""
        domain, _ = self._failures.repairs[source]
        alike = sum(other == domain for other, _ in self._failures.repairs[:source])
        key = DOMAINS[domain], alike, member
        return lambda block: stream(*self._key, purpose, *key, block)


class Hosts:
    """Hosts of a job: which are missing, until when, and which stand by or are repaired."""

    def __init__(self, spares: Spares) -> None:
        self._spares = spares
        self._hot, self._cold = spares.hot, spares.cold
        self._repaired: list[int] = []  # heap: when hosts are back that nobody waits for
        self._missing: dict[int, int] = {}  # host: until when
        self.complete = 0  # when none is missing any more

    def there(self, host: int) -> int:
        """Since when, or from when on, a host is there (ns)."""
        return self._missing.get(host, 0)

    def is_missing(self, host: int, now: int) -> bool:
        """Whether nothing is there that could fail."""
        return self.there(host) > now

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
