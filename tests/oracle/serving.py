"""Strategies in between at a parameter server once more, from the rules of the recorded cases.

SSP, the K family and what becomes of stale gradients. Time goes from one arrival to the next: all
that come at a moment are taken in, by rank, then all start who may. A case is written as a recorded
one is, with what is to come out in `expect`. No tolerance: sums are in the order of arrival.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from tests.oracle.periodic import Drawn, Vector, drawn, mean, stepped

UNTIL: Final = 600  # ms


class Copy(NamedTuple):
    """The model as a worker read it."""

    x: Vector
    version: int


class Pushed(NamedTuple):
    """A gradient that has come, and what it was computed at."""

    worker: int
    gradient: Vector
    copy: Copy


class Served(ABC):
    """One model at a server, and workers that compute; what comes of arrivals is a subclass's."""

    def __init__(self, case: Drawn) -> None:
        case["until_ms"] = UNTIL
        del case["steps"]
        self.case, self.workers, self.now = case, case["workers"], 0
        self.policy = case.get("staleness_policy", {"kind": "none"})
        self.x = np.array(case["problem"]["initial"])
        self.velocity = np.zeros_like(self.x)
        self.version = 0
        self.copies = [Copy(self.x, 0)] * self.workers
        self.begun = [0] * self.workers
        self.ends: dict[int, int] = {}  # of those that compute
        self.since: dict[int, int] = {}  # of those that wait
        self.blocked: list[list[list[int | None]]] = [[] for _ in range(self.workers)]
        self.stale: list[list[int]] = []

    def run(self) -> None:
        """To the end."""
        for rank in range(self.workers):
            self.start(rank, Copy(self.x, 0))
        while self.ends and min(self.ends.values()) <= UNTIL:
            self.now = min(self.ends.values())
            come = sorted(rank for rank, end in self.ends.items() if end == self.now)
            for rank in come:
                del self.ends[rank]
            self.take_in(come)
        for rank, since in self.since.items():
            self.blocked[rank].append([since, None])

    @abstractmethod
    def take_in(self, come: list[int]) -> None:
        """These workers have computed now."""

    def start(self, rank: int, copy: Copy) -> None:
        """Compute at a copy, from now on."""
        if rank in self.since:
            since = self.since.pop(rank)
            if since < self.now:
                self.blocked[rank].append([since, self.now])
        times = self.case["step_ms"][rank]
        self.ends[rank] = self.now + times[self.begun[rank] % len(times)]
        self.begun[rank] += 1
        self.copies[rank] = copy

    def pushed(self, rank: int) -> Pushed:
        problem, copy = self.case["problem"], self.copies[rank]
        gradient = np.array(problem["a"][rank]) * (copy.x - np.array(problem["target"][rank]))
        return Pushed(rank, gradient, copy)

    def staleness(self, one: Pushed) -> int:
        return self.version - one.copy.version

    def dropped(self, one: Pushed) -> bool:
        """Whether the policy drops it now."""
        if self.policy["kind"] != "drop_above" or self.staleness(one) <= self.policy["staleness"]:
            return False
        self.stale.append([self.now, one.worker])
        return True

    def adjusted(self, one: Pushed) -> Vector:
        """What the policy makes of it now."""
        gradient = one.gradient
        if self.policy["kind"] == "inverse":
            return gradient / max(1, self.staleness(one))
        if self.policy["kind"] == "delay_compensated":
            strength = self.policy["variance_control"]
            return gradient + strength * gradient * gradient * (self.x - one.copy.x)
        return gradient

    def update(self, used: list[Pushed]) -> None:
        """One step of the server's optimizer."""
        gradient = mean([self.adjusted(one) for one in used])
        self.x, self.velocity = stepped(self.case["optimizer"], self.x, gradient, self.velocity)
        self.version += 1


class Family(Served):
    """Updates of K gradients."""

    def __init__(self, case: Drawn) -> None:
        super().__init__(case)
        self.k, self.kind = case["k"], case["kind"]
        self.buffer: list[Pushed] = []
        self.updates: list[Drawn] = []

    def take_in(self, come: list[int]) -> None:
        """In a buffer; of every K an update."""
        synchronous, over = self.kind.endswith("_sync"), False
        starting = set(come) if "batch" in self.kind else set()
        for rank in come:
            one = self.pushed(rank)
            if over:
                self.updates[-1]["dropped"].append(rank)
                continue
            if self.dropped(one):
                starting.add(rank)
                continue
            self.buffer.append(one)
            if len(self.buffer) == self.k:
                used, self.buffer = self.buffer, []
                said: Drawn = {"t": self.now, "used": [each.worker for each in used]}
                said["staleness"] = [self.staleness(each) for each in used]
                self.update(used)
                said["x"] = self.x.tolist()
                starting |= set(said["used"]) if self.kind == "k_async" else set()
                self.updates.append(said)
                if synchronous:
                    over = True
                    said |= {"cancelled": sorted(self.ends), "dropped": []}
                    self.ends.clear()
                    starting = set(range(self.workers))
        for rank in range(self.workers):
            if rank in starting:
                old = self.kind == "k_batch_sync" and not over
                self.start(rank, self.copies[rank] if old else Copy(self.x, self.version))
            elif rank in come:
                self.since[rank] = self.now


class Bounded(Served):
    """Clocks that are at most so far apart."""

    def __init__(self, case: Drawn) -> None:
        super().__init__(case)
        self.bound, self.always = case["staleness"], case["refresh"] == "always"
        self.clocks = [0] * self.workers
        self.stamps = [0] * self.workers
        self.own = [0] * self.workers  # pushes since the fetch
        self.pushes: list[Drawn] = []
        self.reads: list[Drawn] = []

    def start(self, rank: int, copy: Copy) -> None:
        """Fetch, or go on at the copy with one's own pushes in it."""
        clock, slowest = self.clocks[rank], min(self.clocks)
        held = not self.always and clock > 0 and self.stamps[rank] >= clock - self.bound
        if not held:
            self.stamps[rank], self.own[rank] = slowest, 0
        copy = self.copies[rank] if held else Copy(self.x, self.version)
        super().start(rank, copy)
        read = {"t": self.now, "worker": rank, "clock": clock, "version": copy.version}
        self.reads.append({**read, "fetched": not held, "x": copy.x.tolist()})

    def take_in(self, come: list[int]) -> None:
        """Each is an update, and an iteration on a clock."""
        for rank in come:
            one = self.pushed(rank)
            self.clocks[rank] += 1
            staleness = self.staleness(one) - self.own[rank]
            used = not self.dropped(one)
            if used:
                self.update([one])
                self.own[rank] += 1
            if not self.always:
                rate = self.case["optimizer"]["lr"]
                self.copies[rank] = one.copy._replace(x=one.copy.x - rate * one.gradient)
            said: Drawn = {"t": self.now, "worker": rank, "clock": self.clocks[rank]}
            said |= {"staleness": staleness, "used": used, "x": self.x.tolist()}
            self.pushes.append(said)
            self.since[rank] = self.now
        for rank in sorted(self.since):
            if self.clocks[rank] - min(self.clocks) <= self.bound:
                self.start(rank, Copy(self.x, self.version))


def family(seed: int, kind: str) -> Drawn:
    """A case of the K family, with what is to come out."""
    source = random.Random(f"{seed} {kind}")
    case = drawn(source)
    workers = case["workers"]
    most = workers + 3 if "batch" in kind else workers
    case |= {"kind": kind, "k": source.randint(1, most)}
    if kind.endswith("async"):
        policy(source, case)
    one = Family(case)
    one.run()
    case["expect"] = {
        "updates": one.updates,
        "blocked": one.blocked,
        "in_buffer": [each.worker for each in one.buffer],
    }
    if kind.endswith("async"):
        case["expect"]["stale"] = one.stale
    return case


def ssp(seed: int) -> Drawn:
    """A case of stale synchronous parallel, with what is to come out."""
    source = random.Random(f"{seed} ssp")
    case = drawn(source)
    case |= {"staleness": source.choice([0, 1, 2, 3, 10])}
    case["refresh"] = source.choice(["always", "when_stale"])
    if case["refresh"] == "always":
        policy(source, case)
    else:
        case["optimizer"] = {"name": "sgd", "lr": case["optimizer"]["lr"]}
    one = Bounded(case)
    one.run()
    case["expect"] = {
        "pushes": one.pushes,
        "reads": one.reads,
        "clocks": one.clocks,
        "blocked": one.blocked,
    }
    return case


def policy(source: random.Random, case: Drawn) -> None:
    """Draw what becomes of stale gradients; often nothing."""
    drawn: list[dict[str, Any]] = [
        {"kind": "none"},
        {"kind": "inverse"},
        {"kind": "delay_compensated", "variance_control": round(source.random(), 2)},
        {"kind": "drop_above", "staleness": source.randint(0, 4)},
    ]
    chosen = source.choice([None, *drawn])
    if chosen is not None:
        case["staleness_policy"] = chosen
    if chosen == {"kind": "inverse"}:
        case["optimizer"] = {"name": "sgd", "lr": case["optimizer"]["lr"]}


DRAWN: Final[dict[str, Callable[[int], Drawn]]] = {
    "ssp": ssp,
    **{
        kind: lambda seed, kind=kind: family(seed, kind)
        for kind in ("k_sync", "k_batch_sync", "k_async", "k_batch_async")
    },
}
