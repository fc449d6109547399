"""The life of a job whose workers have equal copies: who is left keeps the model, nothing is lost.

After a failure it waits for all hosts, or is formed anew of those that are there (elastic), and
again when one comes back. Only when nobody is left that has the model it goes back to a checkpoint.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.course import Saving, Steps
from varsim.cluster.striking import Strike, Strikes
from varsim.cluster.trace import HOSTS, Attempt

_NEVER: Final = 2**62


class RegroupedLife:
    """The life of a job that works while `fewest` of its `number` of hosts are there; times in ns.

    `steps_of`: the steps of the job on so many hosts; they begin anew after every checkpoint and in
    every new group. `strikes`: what happens up to the `horizon`; `always`: also while it is down.
    `restart`: from when hosts are there until they work, and `read` of a checkpoint, if need be.
    """

    def __init__(
        self,
        strikes: Strikes,
        saving: Saving,
        steps_of: Callable[[int], Steps],
        *,
        horizon: float,
        always: bool,
        number: int,
        fewest: int,
        detection: int,
        restart: int,
        read: int,
        start_up: int,
    ) -> None:
        self._strikes, self._saving, self._steps_of = strikes, saving, steps_of
        self._horizon, self._always = round(horizon * 1e9), always
        self._number, self._fewest = number, fewest
        self._detection, self._restart, self._read = detection, restart, read
        self._ahead = strikes.until(horizon)[::-1]
        self._now = self._age = 0
        self._all = frozenset(range(number))
        self._form(self._all)
        self._have = self._members  # hosts that have the model
        self._since = 0  # work since the last checkpoint was complete
        self._at_risk: list[tuple[int, int, int]] = []  # of it, by row: time, steps
        self._rows: list[dict[str, int]] = []
        self._made: list[tuple[int, int, int, int]] = []  # from when on, hosts, after which, steps
        self._step = self._saved = 0  # updates in the model, and in the last checkpoint
        self._start_up = start_up
        steps_of(number)  # which may find that there is no rhythm

    def attempts(self) -> NDArray[np.int64]:
        """All attempts up to the horizon, as in `Trace.life`; together they are as long."""
        self._live()
        found = np.array([list(row.values()) for row in self._rows], dtype=np.int64)
        assert found[:, 1:7].sum() == self._horizon, "the parts of a life are not its whole"
        return found if self._fewest < self._number else found[:, :HOSTS]

    def updates(self, _: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
        """When an update of the model was made, and which, up to so many; some more than once.

        Of a job that waits these are the updates of the undisturbed run; with fewer, of its steps.
        """
        self._live()
        for start, hosts, before, number in self._made:
            for step in range(1, min(number, most - before) + 1):
                yield start + self._steps_of(hosts).end_of(step), before + step

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

    def _spend(self, time: int, part: str) -> int:
        """Let time pass; how much of it was time of those present: the rest waits for repairs."""
        present = time * len(self._members) // self._number
        self._rows[-1][part] += present
        self._rows[-1]["repair"] += time - present
        self._now += time
        return present

    def _work(self) -> bool:
        """Work up to a failure (true), to the horizon, or until a host that is back joins."""
        steps, stops, moved = self._steps_of(len(self._members)), self._saving.stops, False
        while True:
            room, fails = self._horizon - self._now, self._next_strike()
            needed = _NEVER
            if self._saving.every is not None:
                needed = max(1, self._saving.every - self._since)
            number = steps.by(min(needed - 1, room, fails)) + 1  # what comes later is not reached
            work = steps.end_of(number)
            saves, back = work >= needed, self._back()
            joins = 0 if back <= 0 else steps.by(back - 1) + 1 if back <= work else number
            if (joins := max(joins, 1 - moved)) < number:
                number, work, saves = joins, steps.end_of(joins) if joins else 0, False
            over = work + saves * stops
            if fails <= over and fails < room:
                if not self._hit() & self._members:
                    self._happen(self._now + fails)
                    continue
                done = min(number, steps.by(fails - 1)) if fails else 0
                kept = steps.end_of(done) if done else 0
                self._keep(done, kept)
                self._spend(fails - kept, "lost")
                self._age += fails
                return True
            passed = min(room, over)
            worked = min(passed, work)
            self._keep(number if worked == work else steps.by(worked), worked)
            self._spend(passed - worked, "checkpoint")
            self._age += passed
            if saves and over <= room:
                self._rows[-1]["checkpoints"] += 1
                self._since, self._saved = 0, self._step
                self._at_risk.clear()
            steps.advance(number)
            moved = True
            if room <= over or back <= over:
                return False

    def _keep(self, steps: int, work: int) -> None:
        """So many steps, and perhaps a part of one, are over."""
        self._made.append((self._now, len(self._members), self._step, steps))
        time = self._spend(work, "productive")
        self._at_risk.append((len(self._rows) - 1, time, steps))
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
            group = self._all - {one for one in self._all if self._there(one) > ready}
            until, again = up, False
            while self._always and not again and self._now + self._next_strike() < up:
                until = self._now + self._next_strike()
                again = self._happen(until)
            until = until if again else up
            begun = self._now
            self._spend(max(0, min(until, detected) - begun), "detection")
            self._spend(max(0, min(until, ready) - max(begun, detected)), "repair")
            if until > ready or not again:
                self._form(group)
            self._spend(until - self._now, "restart")
            self._age += (until - begun) * self._always
            if not again:
                self._have = self._members
                return
            detection, restart = self._detection, self._restart

    def _form(self, group: frozenset[int]) -> None:
        """These hosts take part from now on."""
        self._members, self._missing = group, self._all - group

    def _roll_back(self) -> None:
        """Nobody has the model any more: what was not saved is lost."""
        for index, time, steps in self._at_risk:
            row = self._rows[index]
            row["productive"] -= time
            row["lost"] += time
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
        there = sorted(self._there(one) for one in self._all)
        return there[self._fewest - 1]

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
        self._have -= hit
        return found.failures > 0
