"""The life of a job that fails, step by step in exact fractions of ms: nothing is skipped.

Written from the rules of MODEL.md, with no code of varsim's: every step and every write is gone
through, up to the next failure. `drawn` makes a random case of whole milliseconds.
"""

from fractions import Fraction
from typing import Any, Protocol, TypedDict

import numpy as np

PARTS = ("productive", "checkpoint", "lost", "detection", "repair", "restart")


class Case(TypedDict):
    """Times in ms. `ages`: per worker, from one failure to the next, used again and again."""

    horizon: int
    step: int
    every: int
    write: int
    asynchronous: bool
    snapshot: int
    slowdown: Fraction
    detection: int
    restart: int
    strike: str
    ages: list[list[int]]
    repair: list[int] | None  # of all workers, used in turn by each
    hot: int
    cold: int
    swap: int


def drawn(seed: int) -> Case:
    """A random case; short intervals, frequent failures, many ties."""
    draw = np.random.default_rng(seed)

    def whole(low: int, high: int) -> int:
        return int(draw.integers(low, high + 1))

    asynchronous = bool(draw.random() < 0.4)
    strikes = ["always", "while_running", "while_computing"][: 2 if asynchronous else 3]
    slowdown = [Fraction(0), Fraction(1, 4), Fraction(1)][whole(0, 2)] if asynchronous else 0
    step = 10 * whole(1, 4)
    every = whole(1, 12) * step - 5 * whole(0, 1)
    workers, spares = whole(1, 4), bool(draw.random() < 0.6)
    repair = [5 * whole(1, 60) for _ in range(whole(1, 3))] if draw.random() < 0.7 else None
    hot = whole(0, workers) if spares and repair else 0
    cold = whole(0, workers - hot) if spares and repair else 0
    return Case(
        horizon=5 * whole(100, 1200),
        step=step,
        every=every,
        write=10 * whole(0, every // 10),
        asynchronous=asynchronous,
        snapshot=5 * whole(0, 3) if asynchronous else 0,
        slowdown=Fraction(slowdown),
        detection=5 * whole(0, 6),
        restart=5 * whole(0, 8),
        strike=strikes[whole(0, len(strikes) - 1)],
        ages=[[5 * whole(1, 200) for _ in range(whole(1, 4))] for _ in range(workers)],
        repair=repair,
        hot=hot,
        cold=cold,
        swap=5 * whole(1, 20) if cold else 0,
    )


class Learner(Protocol):
    """What a job learns: makes steps, is read for checkpoints, goes back to the last one."""

    def step(self, now: Fraction) -> None:
        """Make an update."""

    def read(self) -> None:
        """Read all there is for a checkpoint, which is not complete yet."""

    def complete(self) -> None:
        """What was read last is the checkpoint."""

    def restore(self) -> None:
        """Go back to the checkpoint."""


class Job:
    """A job that is gone through; `account` holds what its time went into, `counts` the rest.

    It is saved after every so many steps only, `rounds`.
    """

    def __init__(self, case: Case, learner: Learner | None = None, rounds: int = 1) -> None:
        self.case, self.rounds = case, rounds
        self.learner = learner
        self.now = self.age = Fraction(0)
        self.account = dict.fromkeys(PARTS, Fraction(0))
        self.counts = dict.fromkeys(("steps", "steps_lost", "checkpoints", "failures", "spares"), 0)
        self.strikes = sorted(
            (age, worker)
            for worker, gaps in enumerate(case["ages"])
            for age in _sums(gaps, case["horizon"])
        )
        self.hot, self.cold = case["hot"], case["cold"]
        self.repairs: list[Fraction] = []  # when hosts are back that nobody waits for
        self.away: dict[int, Fraction] = {}  # worker: until when its place is empty
        self.drawn = [0] * len(case["ages"])

    def run(self) -> dict[str, Any]:
        """Up to the horizon."""
        while self.now < self.case["horizon"]:
            self.attempt()
            if self.now < self.case["horizon"]:
                self.down()
        return {**self.account, **self.counts}

    def passes(self, time: Fraction | int, ages: bool) -> Fraction:
        """Let time pass, up to the next failure or the horizon; how much did."""
        until = self.now + time
        if ages and self.strikes:
            until = min(until, self.now + self.strikes[0][0] - self.age)
        passed = min(until, Fraction(self.case["horizon"])) - self.now
        self.now += passed
        self.age += passed if ages else 0
        return passed

    def struck(self, ages: bool = True) -> bool:
        return ages and bool(self.strikes) and self.strikes[0][0] <= self.age

    def over(self) -> bool:
        return self.now >= self.case["horizon"]

    def attempt(self) -> None:
        """From a start to the next failure, or to the end."""
        case = self.case
        if self.learner:
            self.learner.restore()
        rate = 1 / (1 + case["slowdown"])
        spent = {"work": Fraction(0), "cost": Fraction(0)}  # since the last complete checkpoint
        steps = since = 0  # since it; since the last one was begun
        step_left = Fraction(case["step"])
        writing: list[Any] = []  # wall time left, and what it will have saved
        if self.struck():
            return
        while not self.over():
            slow = bool(writing)
            speed = rate if slow else Fraction(1)
            wanted = step_left / speed
            if slow:
                wanted = min(wanted, writing[0])
            passed = self.passes(wanted, ages=True)
            spent["work"] += passed * speed
            spent["cost"] += passed * (1 - speed)
            step_left -= passed * speed
            if self.struck() and not self.over():  # before all else that happens at this instant
                break
            if slow:
                writing[0] -= passed
                if not writing[0]:
                    kept, saved, cost = writing[1:]
                    self.keep(kept, saved, cost + case["write"] * (1 - rate))
                    spent["work"] -= saved
                    spent["cost"] -= cost + case["write"] * (1 - rate)
                    steps -= kept
                    writing = []
            if step_left:
                continue
            steps, since, step_left = steps + 1, since + 1, Fraction(case["step"])
            if self.learner:
                self.learner.step(self.now)
            if since * case["step"] < case["every"] or since % self.rounds:
                continue
            if self.learner:
                self.learner.read()
            saved = since
            since = 0
            stops = case["snapshot"] if case["asynchronous"] else case["write"]
            exposed = case["strike"] != "while_computing"
            spent["cost"] += (passed := self.passes(stops, ages=exposed))
            if passed < stops or (self.struck(exposed) and not self.over()):
                break
            if case["asynchronous"] and case["write"]:
                writing = [Fraction(case["write"]), saved, Fraction(saved * case["step"]), stops]
            else:
                self.keep(saved, Fraction(saved * case["step"]), Fraction(stops))
                spent["work"] -= saved * case["step"]
                spent["cost"] -= stops
                steps -= saved
        if self.over():
            self.account["productive"] += spent["work"]
            self.account["checkpoint"] += spent["cost"]
            self.counts["steps"] += steps
        else:
            self.account["lost"] += spent["work"] + spent["cost"]
            self.counts["steps_lost"] += steps

    def keep(self, steps: int, work: Fraction, cost: Fraction) -> None:
        self.account["productive"] += work
        self.account["checkpoint"] += cost
        self.counts["steps"] += steps
        self.counts["checkpoints"] += 1
        if self.learner:
            self.learner.complete()

    def down(self) -> None:
        """From a failure until the job works again."""
        always = self.case["strike"] == "always"
        self.fail()
        while not self.over():
            for part in ("detection", "repair", "restart"):
                wanted = {
                    "detection": Fraction(self.case["detection"]),
                    "repair": max(
                        Fraction(0), max(self.away.values(), default=self.now) - self.now
                    ),
                    "restart": Fraction(self.case["restart"]),
                }[part]
                again = False
                while wanted > 0 and not self.over():
                    passed = self.passes(wanted, ages=always)
                    self.account[part] += passed
                    wanted -= passed
                    # What strikes at the very end of all meets a job that has begun to work.
                    met = self.struck(always) and (wanted or self.more(part)) and not self.over()
                    if met and self.fail():
                        again = True
                        break
                if again:
                    break
            else:
                return

    def more(self, part: str) -> bool:
        """Whether more time down is still to come after a part that is over."""
        waits = max(self.away.values(), default=self.now) > self.now
        restart = self.case["restart"] > 0
        return {"detection": waits or restart, "repair": restart, "restart": False}[part]

    def fail(self) -> bool:
        """All failures of this instant; whether somebody failed who was there."""
        time, found = self.strikes[0][0], []
        while self.strikes and self.strikes[0][0] == time:
            worker = self.strikes.pop(0)[1]
            if self.case["repair"] is None or self.away.get(worker, self.now) <= self.now:
                self.counts["failures"] += 1
                found.append(worker)
        noticed = self.now + self.case["detection"]
        for worker in found if self.case["repair"] is not None else []:
            self.replace(worker, noticed)
        return bool(found)

    def replace(self, worker: int, noticed: Fraction) -> None:
        case = self.case
        assert case["repair"] is not None
        lasts = case["repair"][self.drawn[worker] % len(case["repair"])]
        self.drawn[worker] += 1
        for back in sorted(self.repairs):
            if back <= noticed:
                self.repairs.remove(back)
                if self.hot < case["hot"]:
                    self.hot += 1
                else:
                    self.cold += 1
        self.repairs.append(noticed + lasts)
        if self.hot:
            self.hot -= 1
            self.away[worker] = noticed
            self.counts["spares"] += 1
        elif self.cold:
            self.cold -= 1
            self.away[worker] = noticed + case["swap"]
            self.counts["spares"] += 1
        else:
            first = min(self.repairs)
            self.repairs.remove(first)
            self.away[worker] = max(noticed, first)


def _sums(gaps: list[int], most: int) -> list[int]:
    """0 is no failure; from one to the next these gaps, again and again."""
    found, at = [], 0
    while at <= most:
        at += gaps[len(found) % len(gaps)]
        found.append(at)
    return [one for one in found if one <= most]


def seconds(milliseconds: int) -> float:
    return milliseconds / 1e3


def described(case: Case) -> dict[str, Any]:
    """The same life as parts of a scenario."""
    workers = len(case["ages"])
    rows = tuple(tuple(map(seconds, gaps)) for gaps in case["ages"])
    source = {"domain": "worker", "distribution": {"kind": "trace", "seconds": rows}}
    if case["repair"] is not None:
        source["repair"] = {"kind": "trace", "seconds": (tuple(map(seconds, case["repair"])),)}
    checkpoint = {"every": seconds(case["every"]), "write": seconds(case["write"])}
    if case["asynchronous"]:
        checkpoint |= {
            "mode": "asynchronous",
            "snapshot": seconds(case["snapshot"]),
            "slowdown": float(case["slowdown"]),
        }
    spares = {"hot": case["hot"], "cold": case["cold"], "swap": seconds(case["swap"])}
    return {
        "cluster": {
            "workers": workers,
            "compute": {"kind": "constant", "value": seconds(case["step"])},
        },
        "failures": {
            "horizon": seconds(case["horizon"]),
            "detection": seconds(case["detection"]),
            "strike": case["strike"],
            "of": (source,),
        },
        "checkpoint": checkpoint,
        "recovery": {
            "restart": seconds(case["restart"]),
            **({"spares": spares} if case["hot"] + case["cold"] else {}),
        },
    }
