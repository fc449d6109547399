"""The life of a job that outlives its hosts, step by step in exact fractions of ms.

Written from the rules of MODEL.md, with no code of varsim's. Times are of all hosts together: what
those that are missing had of it is waiting for repairs.
"""

from fractions import Fraction

import numpy as np

from tests.oracle.lives import Case, Job, Learner, drawn


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


class Group(Job):
    """A job that goes on with those who are left; strikes, spares and repairs are those of Job."""

    def __init__(
        self, case: Case, steps: dict[int, int], fewest: int, learner: Learner | None = None
    ) -> None:
        super().__init__(case, learner)
        self.step_of, self.fewest = steps, fewest
        self.number = len(case["ages"])
        self.members = set(range(self.number))
        self.have = set(self.members)  # the model
        self.since = self.unsaved_steps = 0
        self.unsaved = Fraction(0)
        self.weighted = 0  # steps, each times the hosts that made it
        self.failed = False

    def there(self, host: int) -> Fraction:
        return self.away.get(host, Fraction(0))

    def book(self, time: Fraction, part: str) -> None:
        present = time * len(self.members) / self.number
        self.account[part] += present
        self.account["repair"] += time - present

    def fail(self) -> bool:
        """All failures of this instant; whether somebody failed who was there."""
        time = self.strikes[0][0]
        self.have -= {w for at, w in self.strikes if at == time and self.there(w) <= self.now}
        return super().fail()

    def until(self, time: Fraction) -> Fraction:
        """How much of this time passes up to a member's failure or the horizon."""
        begun, end = self.now, self.now + time
        while True:
            self.passes(end - self.now, ages=True)
            if self.over() or not self.struck():
                return self.now - begun
            if self.members & {worker for at, worker in self.strikes if at == self.age}:
                self.failed = True
                return self.now - begun
            self.fail()

    def attempt(self) -> None:
        case, moved = self.case, False
        self.failed = False
        while not (moved and self.back()):
            lasts = Fraction(self.step_of[len(self.members)])
            passed = self.until(lasts)
            self.book(passed, "lost" if self.failed else "productive")
            if self.failed:
                return
            self.unsaved += passed * len(self.members) / self.number
            if passed == lasts:
                moved = True
                self.since += int(lasts)
                self.unsaved_steps += 1
                self.counts["steps"] += 1
                self.weighted += len(self.members)
                if self.learner:
                    self.learner.step(self.now)
            if self.over() and not (passed == lasts and self.since >= case["every"]):
                return
            if self.since < case["every"]:
                continue
            if self.learner:
                self.learner.read()
            passed = self.until(Fraction(case["write"]))
            self.book(passed, "lost" if self.failed else "checkpoint")
            if self.failed:
                return
            if passed == case["write"]:
                self.counts["checkpoints"] += 1
                self.since = self.unsaved_steps = 0
                self.unsaved = Fraction(0)
                if self.learner:
                    self.learner.complete()
            if self.over():
                return

    def back(self) -> bool:
        missing = set(range(self.number)) - self.members
        return any(self.there(host) <= self.now for host in missing)

    def down(self) -> None:
        failed = self.failed
        if failed:
            self.fail()
        while True:
            if not self.have:
                self.lose()
            detected = self.now + (self.case["detection"] if failed else 0)
            others = sorted(self.there(host) for host in range(self.number))
            if self.gather(detected, max(detected, others[self.fewest - 1])):
                self.have = set(self.members)
                return
            failed = True

    def gather(self, detected: Fraction, ready: Fraction) -> bool:
        """Up to the next start; whether nobody fails meanwhile who is there."""
        always, last = self.case["strike"] == "always", ready + self.case["restart"]
        for part, end in (("detection", detected), ("repair", ready), ("restart", last)):
            if part == "restart":
                self.members = {h for h in range(self.number) if self.there(h) <= ready}
            while self.now < end and not self.over():
                self.book(self.passes(end - self.now, always), part)
                strikes = self.struck(always) and self.now < last and not self.over()
                if strikes and self.fail():
                    return False
            if self.over():
                return True
        return True

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
