"""The life of a job that outlives its hosts, step by step in exact fractions of ms.

Written from the rules of MODEL.md, with no code of varsim's. Times are of all hosts together: what
those that are missing had of it is waiting for repairs.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from tests.oracle.lives import PARTS, Case, Job, Learner, drawn


def changed(seed: int) -> tuple[Case, dict[int, int], int]:
    """A random case, how long a step takes on so many hosts, and how few may go on."""
    case, draw = drawn(seed), np.random.default_rng([seed, 1])
    number = int(draw.choice([2, 4, 5]))
    gaps = case["ages"]
    case["ages"] = [gaps[worker % len(gaps)] for worker in range(number)]
    for worker in range(len(gaps), number):
        case["ages"][worker] = [5 * int(draw.integers(1, 400)) for _ in range(3)]
    case["repair"] = case["repair"] or [5 * int(draw.integers(1, 60))]
    case["asynchronous"] = False
    case["snapshot"], case["slowdown"] = 0, Fraction(0)
    case["hot"], case["cold"] = min(case["hot"], 1), min(case["cold"], 1)
    case["swap"] = case["swap"] if case["cold"] else 0
    case["write"] = min(case["write"], case["every"] // 10 * 10)
    if case["strike"] == "while_computing":
        case["strike"] = "always"
    steps = {hosts: 10 * int(draw.integers(1, 5)) for hosts in range(1, number)}
    return case, {**steps, number: case["step"]}, int(draw.integers(1, number + 1))


class Group:
    """A job that is gone through; `account` and `counts` as of Job."""

    def __init__(
        self, case: Case, steps: dict[int, int], fewest: int, learner: Learner | None = None
    ) -> None:
        self.case, self.step_of, self.fewest, self.learner = case, steps, fewest, learner
        self.number = len(case["ages"])
        self.hosts = Job(case)  # its strikes, spares and repairs
        self.now = self.age = Fraction(0)
        self.members = set(range(self.number))
        self.have = set(self.members)
        self.account = dict.fromkeys(PARTS, Fraction(0))
        self.counts = dict.fromkeys(("steps", "steps_lost", "checkpoints", "failures", "spares"), 0)
        self.since = self.unsaved_steps = 0
        self.unsaved = Fraction(0)
        self.weighted = 0  # steps, each times the hosts that made it

    def run(self) -> dict[str, Any]:
        while not self.over():
            failed = self.work()
            if not self.over():
                self.down(failed)
        return {**self.account, **self.counts}

    def over(self) -> bool:
        return self.now >= self.case["horizon"]

    def there(self, host: int) -> Fraction:
        return self.hosts.away.get(host, Fraction(0))

    def spend(self, time: Fraction, part: str, ages: bool) -> None:
        present = time * len(self.members) / self.number
        self.account[part] += present
        self.account["repair"] += time - present
        self.now += time
        self.age += time if ages else 0

    def fails_in(self) -> Fraction | None:
        strikes = self.hosts.strikes
        return strikes[0][0] - self.age if strikes else None

    def fail(self) -> bool:
        """All failures of this instant; whether somebody failed who was there."""
        hosts, before = self.hosts, dict(self.hosts.counts)
        hosts.now = self.now
        same = [worker for time, worker in hosts.strikes if time == hosts.strikes[0][0]]
        hit = {worker for worker in same if self.there(worker) <= self.now}
        hosts.fail()
        for key in ("failures", "spares"):
            self.counts[key] += hosts.counts[key] - before[key]
        self.have -= hit
        return bool(hit)

    def until(self, time: Fraction) -> tuple[Fraction, bool]:
        """How much of this time passes up to a member's failure or the horizon; which it was."""
        begun, end = self.now, min(self.now + time, Fraction(self.case["horizon"]))
        while (fails := self.fails_in()) is not None and self.now + fails <= end:
            if self.now + fails >= self.case["horizon"]:
                break
            passed, self.now, self.age = fails, self.now + fails, self.age + fails
            same = {worker for at, worker in self.hosts.strikes if at == self.age}
            if same & self.members:
                found = self.now - begun
                self.now, self.age = begun, self.age - found
                return found, True
            del passed
            self.fail()
        self.age += end - self.now
        found = end - begun
        self.now, self.age = begun, self.age - found
        return found, False

    def work(self) -> bool:
        case, moved = self.case, False
        while True:
            if moved and self.back():
                return False
            lasts = Fraction(self.step_of[len(self.members)])
            passed, failed = self.until(lasts)
            if failed:
                self.spend(passed, "lost", ages=True)
                return True
            self.unsaved += passed * len(self.members) / self.number
            self.spend(passed, "productive", ages=True)
            if passed == lasts:
                moved = True
                self.since += int(lasts)
                self.unsaved_steps += 1
                self.counts["steps"] += 1
                self.weighted += len(self.members)
                if self.learner:
                    self.learner.step(self.now)
            if self.over() and not (passed == lasts and self.since >= case["every"]):
                return False
            if self.since < case["every"]:
                continue
            if self.learner:
                self.learner.read()
            write = Fraction(case["write"])
            passed, failed = self.until(write)
            if failed:
                self.spend(passed, "lost", ages=True)
                return True
            self.spend(passed, "checkpoint", ages=True)
            if passed == write:
                self.counts["checkpoints"] += 1
                self.since = self.unsaved_steps = 0
                self.unsaved = Fraction(0)
                if self.learner:
                    self.learner.complete()
            if self.over():
                return False

    def back(self) -> bool:
        missing = set(range(self.number)) - self.members
        return any(self.there(host) <= self.now for host in missing)

    def down(self, failed: bool) -> None:
        case, always = self.case, self.case["strike"] == "always"
        if failed:
            self.fail()
        while True:
            if not self.have:
                self.lose()
            detected = self.now + (case["detection"] if failed else 0)
            others = sorted(self.there(host) for host in range(self.number))
            ready = max(detected, others[self.fewest - 1])
            again = False
            for part, end in (
                ("detection", detected),
                ("repair", ready),
                ("restart", ready + case["restart"]),
            ):
                if part == "restart":
                    self.members = {h for h in range(self.number) if self.there(h) <= ready}
                while self.now < end and not self.over():
                    fails = self.fails_in() if always else None
                    stop = min(end, Fraction(case["horizon"]))
                    strikes = fails is not None and self.now + fails < min(
                        ready + case["restart"], case["horizon"]
                    )
                    if strikes and fails is not None and self.now + fails <= stop:
                        self.spend(fails, part, ages=True)
                        if self.fail():
                            again = True
                            break
                        continue
                    self.spend(stop - self.now, part, ages=always)
                if again or self.over():
                    break
            if not again:
                self.have = set(self.members)
                return
            failed = True

    def lose(self) -> None:
        """Nobody has the model any more."""
        self.account["productive"] -= self.unsaved
        self.account["lost"] += self.unsaved
        self.counts["steps"] -= self.unsaved_steps
        self.counts["steps_lost"] += self.unsaved_steps
        self.since = self.unsaved_steps = 0
        self.unsaved = Fraction(0)
        if self.learner:
            self.learner.restore()
