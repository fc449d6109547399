"""Lives of workers that wait for nobody: each fails, and comes back, by itself.

Of a worker its own steps are gone through, in the rounds in which it exchanges what it has learnt:
as long as with all workers there, whoever is missing. Times in integer ns.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.attempts import Fall, set_up_again
from varsim.cluster.course import Pace
from varsim.cluster.description import Cluster
from varsim.cluster.recovery import RandomFailures, Recovery
from varsim.cluster.striking import Strikes
from varsim.cluster.trace import Attempt

_NS: Final = 1e9
_BLOCK: Final = 1024  # rounds that are drawn at once
_FAR: Final = 8192  # rounds; of more that are to come most are drawn as one sum
_SPREAD: Final = 10.0  # standard deviations of that sum, by which it stays behind
_Integers = NDArray[np.int64]


class Rounds(NamedTuple):
    """Rounds of a worker as they were simulated, from one exchange to the next.

    From its start: when each step was `computed`, and had `ended` (rounds, steps); how long its
    first step was `fetching` the model, and when it had `handed` over what was learnt (rounds,).
    """

    computed: _Integers
    ended: _Integers
    fetching: _Integers
    handed: _Integers

    @property
    def lasted(self) -> _Integers:
        """How long each round is."""
        return self.ended[:, -1]


class Turns(ABC):
    """Which of the simulated rounds a worker goes through, in an endless row of its own time."""

    @abstractmethod
    def begins(self, number: int) -> int:
        """When a round begins."""

    @abstractmethod
    def at(self, time: int) -> int:
        """Number of the round at a time; no smaller one than the last is asked for from then on."""

    @abstractmethod
    def row(self, number: int) -> int:
        """Which of the simulated rounds it is like."""

    @abstractmethod
    def again(self, number: int) -> None:
        """A round is broken off, and the rest of it made again."""


class Rhythm(Turns):
    """Rounds in a rhythm: as they were simulated, the last ones again and again."""

    def __init__(self, rounds: Rounds) -> None:
        self._pace = Pace.of(np.cumsum(rounds.lasted))

    def begins(self, number: int) -> int:
        return self._pace.end_of(number) if number else 0

    def at(self, time: int) -> int:
        return self._pace.by(time)

    def row(self, number: int) -> int:
        return self._pace.like(number + 1) - 1

    def again(self, number: int) -> None:
        """See Turns; it is as long as before."""


class Draws(Turns):
    """Random rounds, each like one of those that were simulated (a bootstrap).

    Where very many are to come, the sum of most of them is drawn: a normal number.
    """

    def __init__(self, rounds: Rounds, source: np.random.Generator) -> None:
        lasted = rounds.lasted.tolist()
        self._lasted, self._source, number = rounds.lasted, source, len(lasted)
        self._mean = sum(lasted) / number
        squares = sum((number * one - sum(lasted)) ** 2 for one in lasted)
        self._deviation = math.sqrt(squares / number) / number
        self._first = 0  # the number of the first that is known
        self._rows = np.empty(0, dtype=np.int64)
        self._ends = self._rows
        self._begins = 0
        self._draw()

    def begins(self, number: int) -> int:
        place = number - self._first
        return int(self._ends[place - 1]) if place else self._begins

    def at(self, time: int) -> int:
        while self._ends[-1] <= time:
            self._skip(time)
            self._draw()
        place = int(np.searchsorted(self._ends, time, side="right"))
        if place > _BLOCK:  # the one before may be looked at, too
            self._begins, self._first = int(self._ends[place - 2]), self._first + place - 1
            self._rows, self._ends = self._rows[place - 1 :], self._ends[place - 1 :]
            place = 1
        return self._first + place

    def row(self, number: int) -> int:
        return int(self._rows[number - self._first])

    def again(self, number: int) -> None:
        """See Turns; it is drawn anew, as one that is broken off is a long one more often."""
        place, begins = number - self._first, self.begins(number)
        self._rows[place] = self._source.integers(len(self._lasted))
        self._ends[place:] = begins + np.cumsum(self._lasted[self._rows[place:]])

    def _skip(self, time: int) -> None:
        end = int(self._ends[-1])
        many = (time - end) / self._mean
        if many < _FAR:
            return
        behind = _SPREAD * self._deviation / self._mean * math.sqrt(many)
        number = int(many - behind) - _BLOCK
        if number <= 0:
            return
        spread = self._deviation * math.sqrt(number)
        self._begins = end + round(self._source.normal(number * self._mean, spread))
        self._first += len(self._rows) + number
        self._rows = np.empty(0, dtype=np.int64)

    def _draw(self) -> None:
        more = self._source.integers(len(self._lasted), size=_BLOCK)
        self._rows = np.concatenate([self._rows, more])
        self._ends = self._begins + np.cumsum(self._lasted[self._rows])


class Work:
    """Work of one worker: where it is in its rounds."""

    def __init__(self, rounds: Rounds, turns: Turns) -> None:
        self._rounds, self._turns = rounds, turns
        self._each = rounds.ended.shape[1]
        self._round = self._step = 0  # the step of that which comes next
        self._comes_back = False

    def attempt(self, length: int, *, dies: bool) -> Attempt:
        """An attempt of so long; what would end at the instant of its death has not.

        Who comes back fetches the model first. Lost is what was not handed over.
        """
        rounds, turns, begun = self._rounds, self._turns, (self._round, self._step)
        row = turns.row(self._round)
        fetching = int(rounds.fetching[row]) if self._comes_back else 0
        before = int(rounds.ended[row, self._step - 1]) if self._step else 0
        since = turns.begins(self._round) + before - fetching
        until = since + length
        last = until - dies
        self._comes_back = True
        if last < since + fetching:
            return Attempt(lost=length) if dies else Attempt(productive=length)
        number = turns.at(last)
        row, inside = turns.row(number), last - turns.begins(number)
        step = int(np.searchsorted(rounds.ended[row], inside, side="right"))
        made = (number - begun[0]) * self._each + step - begun[1]
        self._round, self._step = number, step
        if not dies:
            return Attempt(productive=length, steps=made)
        handed, kept = since, 0
        with_it = inside < rounds.handed[row]  # not yet in this round
        if (number - with_it, 0) >= begun:
            exchange = number - with_it
            handed = turns.begins(exchange) + int(rounds.handed[turns.row(exchange)])
            kept = min(made, (exchange - begun[0]) * self._each - begun[1] + 1)
        under_way = rounds.computed[row, step] <= inside and (step > 0 or with_it)
        turns.again(number)
        return Attempt(
            productive=handed - since,
            lost=until - handed,
            steps=kept,
            steps_lost=made - kept + int(under_way),
        )


class WorkerLives:
    """Lives of workers up to a horizon, each from failure to failure of its host."""

    def __init__(
        self,
        failures: RandomFailures,
        recovery: Recovery,
        cluster: Cluster,
        work: Sequence[Work],
        *,
        seed: int,
        replication: int,
    ) -> None:
        assert failures.horizon is not None, "a life needs a horizon"
        self._horizon, self._work, self._each = failures.horizon, work, cluster.workers_of_a_host
        self._detection = round(failures.detection * _NS)
        self._restart, self._set_up = round(recovery.restart * _NS), cluster.set_up
        self._strikes = Strikes(
            failures, recovery.spares, cluster, len(work), seed=seed, replication=replication
        )

    def attempts(self) -> _Integers:
        """All attempts of all workers: an Attempt in a row, and whose it is."""
        end = round(self._horizon * _NS)
        each = enumerate(self._falls(end))
        rows = [row for rank, falls in each for row in self._of(rank, falls, end)]
        found = np.array(rows, dtype=np.int64)
        assert found[:, 1:7].sum() == end * len(self._work), "parts of lives are not their whole"
        return found

    def _falls(self, end: int) -> list[list[Fall]]:
        """When each worker is down: from its failure until its host is there, and a restart."""
        falls: list[list[Fall]] = [[] for _ in self._work]
        strikes = (one for one in self._strikes.until(self._horizon) if one.time < end)
        for now, together in groupby(strikes, key=lambda one: one.time):
            struck, hosts = self._strikes.happen(list(together), now)
            hit = []
            for host in sorted(hosts):
                there = max(now + self._detection, self._strikes.hosts.there(host))
                for rank in range(host * self._each, min((host + 1) * self._each, len(self._work))):
                    if not falls[rank] or falls[rank][-1].back <= now:
                        falls[rank].append(Fall(rank, now))
                    fall = falls[rank][-1]
                    fall.waits.append((now, now + self._detection, there))
                    fall.back = there + self._restart
                    hit.append(fall)
            if hit:  # of one failure that takes several workers the first tells
                hit[0].failures += struck.failures
                hit[0].spares += struck.spares
        return falls

    def _of(self, rank: int, falls: Sequence[Fall], end: int) -> Iterator[tuple[int, ...]]:
        """The attempts of a worker; what its start takes besides is restart."""
        work, start, restart = self._work[rank], 0, set_up_again(falls, self._set_up, end)
        for fall in falls:
            one = work.attempt(fall.died - start - restart, dies=True)
            yield *fall.follows(one._replace(start=start, restart=restart)), rank
            start, restart = fall.back, 0
        one = work.attempt(end - start - restart, dies=False)
        yield *one._replace(start=start, restart=restart), rank
