"""When failures strike: the same for every strategy and at every point of a sweep."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.failures import DOMAINS, FailureSource, Mistaken, hosts, members
from varsim.cluster.description.recovery import LONGEST, RandomFailures, Spares
from varsim.core.distribution import Floats, Stream
from varsim.core.distributions import Distribution
from varsim.core.stream import stream

_NS: Final = 1e9


class Strike(NamedTuple):
    """Failure of a member of a source, at an age of all members (ns)."""

    time: int
    source: int
    member: int
    taken: int  # the member that is taken away: another one if it is mistaken
    again: bool  # a fault that stayed strikes again
    until: int  # when it was over (ns), if that was recorded, else -1


class Struck(NamedTuple):
    """What failures of an instant come to."""

    failures: int
    spares: int  # that took over


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
        self._laws = failures.repairs  # by source: the domain, and how long repairs take
        self._repairs: dict[tuple[int, int], Iterator[int]] = {}
        self.hosts = Hosts(spares or Spares(hot=0, cold=0))
        self._stay: set[tuple[int, int]] = set()  # faults: of which source and member

    def until(self, horizon: float) -> list[Strike]:
        """All failures up to a time (s), in order; of one instant by source and member."""
        found, end = list[Strike](), round(horizon * _NS)
        for source, described in enumerate(self._failures.of):
            number = members(described.domain, self._cluster, self._workers)
            for member in range(number):
                times = self._times(described, source, member, horizon)
                if described.mistaken is None:
                    found += (Strike(time, source, member, member, False, -1) for time in times)
                else:
                    found += self._mistaken(described.mistaken, source, member, number, times, end)
        if (recorded := self._failures.recorded) is not None:
            after, domains = len(self._failures.of), recorded.domains
            for when, domain, member, over in recorded.played:
                time, until = _nanoseconds(np.array([when, -1 if over is None else over])).tolist()
                source = after + domains.index(domain)
                found.append(Strike(time, source, member, member, False, until))
        return sorted(one for one in found if one.time <= end)

    def _times(
        self, described: FailureSource, source: int, member: int, horizon: float
    ) -> Iterator[int]:
        """When a member fails (ns), up to a time (s)."""
        end, until, lemons = round(horizon * _NS), 0, described.lemons
        often = 1.0
        if lemons is not None and self._stream("lemon", source, member)(0).random() < lemons.share:
            often = lemons.times
        for block in described.between.blocks(member, self._stream("failure", source, member)):
            # Beyond the horizon none is needed, and 64 bits might not hold them.
            apart = block / often
            needed = np.searchsorted(np.cumsum(apart), horizon) + 2
            found = until + np.cumsum(_nanoseconds(apart[:needed]))
            until = int(found[-1])
            yield from found[found <= end].tolist()
            if until > end:
                return

    def _mistaken(
        self,
        mistaken: Mistaken,
        source: int,
        member: int,
        number: int,
        times: Iterator[int],
        end: int,
    ) -> Iterator[Strike]:
        """Failures of a member of so many, each till it is not taken for another."""
        for place, time in enumerate(times):
            draws, again = self._stream("mistaken", source, member)(place), False
            later = self._drawn("again", source, member, mistaken.again, place)
            while time <= end:
                wrong, other = draws.random() < mistaken.share, int(draws.integers(number - 1))
                taken = other + (other >= member) if wrong else member
                yield Strike(time, source, member, taken, again, -1)
                if not wrong:
                    break
                time, again = time + next(later), True

    def happen(self, strikes: Sequence[Strike], now: int) -> tuple[Struck, set[int]]:
        """Failures of one instant, and the hosts they hit; those that are not there are not."""
        failed, away, hit = 0, dict[int, int](), set[int]()
        for strike in strikes:
            if self.is_over(strike):
                continue
            place = strike.source, strike.member
            _, law = self._laws[strike.source]
            taken: Sequence[int] = self._hosts_of(*place)
            if law is not None:
                taken = self._there(*place, now)
                if not taken:
                    continue
                gone = self._there(strike.source, strike.taken, now)
                repair = self._repair(strike, law, now + self._detection)
                away |= {host: max(repair, away.get(host, 0)) for host in gone}
                hit.update(gone)
                self._stay = {one for one in self._stay if self._hosts_of(*one)[0] not in gone}
                if strike.taken != strike.member:
                    self._stay.add(place)
            failed += 1
            hit.update(taken)
        noticed = now + self._detection
        spares = sum(self.hosts.lose(host, noticed, repair) for host, repair in away.items())
        return Struck(failed, spares), hit

    def takes(self, strike: Strike) -> set[int]:
        """The hosts that a failure takes, if they are there."""
        if self.is_over(strike):
            return set()
        which = {strike.member, strike.taken}
        return {host for one in which for host in self._hosts_of(strike.source, one)}

    def is_over(self, strike: Strike) -> bool:
        """Whether a fault that would strike again has been repaired, or never came."""
        return strike.again and (strike.source, strike.member) not in self._stay

    def _hosts_of(self, source: int, member: int) -> range:
        domain, _ = self._laws[source]
        return hosts(domain, self._cluster, self._workers, member)

    def _there(self, source: int, member: int, now: int) -> list[int]:
        whole = self._hosts_of(source, member)
        return [host for host in whole if self.hosts.there(host) <= now]

    def _repair(self, strike: Strike, law: Distribution, noticed: int) -> int:
        """How long (ns) what a failure takes is away this time, once it is noticed."""
        if strike.until >= 0:
            return max(0, strike.until - noticed)
        place = strike.source, strike.taken
        if place not in self._repairs:
            self._repairs[place] = self._drawn("repair", *place, law)
        return next(self._repairs[place])

    def _drawn(
        self, purpose: str, source: int, member: int, law: Distribution, *place: int
    ) -> Iterator[int]:
        blocks = law.blocks(member, self._stream(purpose, source, member, *place))
        return chain.from_iterable(_nanoseconds(block).tolist() for block in blocks)

    def _stream(self, purpose: str, source: int, member: int, *place: int) -> Stream:
        """Streams of a member, by its domain and how many sources of that come before this one."""
        domain, _ = self._laws[source]
        alike = sum(other == domain for other, _ in self._laws[:source])
        key = DOMAINS[domain], alike, member, *place
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
