"""Workers that are left out when they die and taken in when they are back, a second time.

Communication takes no time, so nobody dies in an all-reduce: a death only shortens the wait of the
others. Written from the rules of MODEL.md, without the strategies' code. Whole milliseconds; at one
instant deaths and returns come first, then the ends of computations, then all-reduces.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.oracle.periodic import Drawn, Vector, drawn, mean, stepped

MOST = 1500  # ms


class Replica:
    """A worker: dead, back without a model, computing until `end`, or come (`end` None)."""

    def __init__(self, rank: int, case: Drawn) -> None:
        self.rank, self.case = rank, case
        self.x = np.array(case["problem"]["initial"])
        self.velocity = np.zeros_like(self.x)
        self.end: int | None = None
        self.steps = self.begun = self.failed = 0
        self.gradient: Vector = self.x

    def start(self, now: int, rows: dict[tuple[int, int], list[Any]]) -> None:
        """The next mini-batch."""
        times, problem = self.case["step_ms"][self.rank], self.case["problem"]
        self.end = now + times[self.begun % len(times)]
        a, target = problem["a"][self.rank], problem["target"][self.rank]
        self.gradient = np.array(a) * (self.x - np.array(target))
        rows[self.rank, self.begun] = [now, self.end, self.x.tolist()]
        self.begun += 1


class Group:
    """All workers, and who of them are members, by rank.

    `source`: of whom one that is back, at a moment, takes all it has.
    """

    def __init__(self, case: Drawn, source: Callable[[int, int], int]) -> None:
        self.case, self.source = case, source
        self.replicas = [Replica(rank, case) for rank in range(case["workers"])]
        self.members, self.back = set(range(case["workers"])), set[int]()
        self.rows: dict[tuple[int, int], list[Any]] = {}  # by worker and mini-batch
        self.counted: list[int] = []  # when the global step rose (ms)
        initial = np.array(case["problem"]["initial"])
        self.point, self.outer_velocity = initial, np.zeros_like(initial)
        self.syncs = 0

    def run(self) -> None:
        """Up to `MOST`, or until nothing is left to happen."""
        events = list(self.case["events"])
        for replica in self.replicas:
            replica.start(0, self.rows)
        while True:
            ends = [end for one in self.members if (end := self.replicas[one].end) is not None]
            now = min([*ends, *(event["at_ms"] for event in events)], default=MOST)
            if now >= MOST:
                return
            while events and events[0]["at_ms"] == now:
                self.happen(events.pop(0), now)
                self.count(now)
            for rank in sorted(self.members):
                if self.replicas[rank].end == now:
                    self.computed(self.replicas[rank], now)
            if self.members and all(self.replicas[rank].end is None for rank in self.members):
                self.meet(now)
            self.count(now)

    def count(self, now: int) -> None:
        """A step counts when all members have made it."""
        made = min((self.replicas[rank].steps for rank in self.members), default=0)
        self.counted += [now] * (made - len(self.counted))

    def happen(self, event: Mapping[str, Any], now: int) -> None:
        rank = event["rank"]
        if event["dies"]:
            replica = self.replicas[rank]
            if rank in self.members and replica.end is not None and replica.end > now:
                self.rows[rank, replica.begun - 1][1] = None  # else it has computed, but no more
            self.members.discard(rank)
            self.back.discard(rank)
        else:
            self.back.add(rank)

    def computed(self, one: Replica, now: int) -> None:
        one.end = None
        if self.case["kind"] == "on_write":
            return
        one.x, one.velocity = stepped(self.case["optimizer"], one.x, one.gradient, one.velocity)
        one.steps += 1
        if one.steps % self.case["turn"]:
            one.start(now, self.rows)

    def meet(self, now: int) -> None:
        """All members have come: they reduce, go on, and those who are back with them."""
        members = [self.replicas[rank] for rank in sorted(self.members)]
        if self.case["kind"] == "on_write":
            gradient = mean([one.gradient for one in members])
            for one in members:
                one.x, one.velocity = stepped(self.case["optimizer"], one.x, gradient, one.velocity)
                one.steps += 1
        elif self.case["kind"] == "local_sgd":
            shared = mean([one.x for one in members])
            for one in members:
                one.x = shared
        else:
            part = self.case["fragment_elements"][self.syncs % self.case["fragments"]]
            gradient = mean([self.point[part] - one.x[part] for one in members])
            new, self.outer_velocity[part] = stepped(
                self.case["outer"], self.point[part], gradient, self.outer_velocity[part]
            )
            self.point[part] = new
            for one in members:
                one.x = one.x.copy()
                one.x[part] = new
        self.syncs += 1
        for rank in sorted(self.back):
            one, other = self.replicas[rank], self.replicas[self.source(rank, now)]
            assert other.rank in self.members
            one.x, one.velocity, one.steps = other.x, other.velocity, other.steps
        self.members |= self.back
        self.back.clear()
        for rank in sorted(self.members):
            self.replicas[rank].start(now, self.rows)


def case_of(seed: int, kind: str) -> Drawn:
    """A case, with deaths and returns, some at one instant."""
    source = random.Random(f"{seed} {kind} leaving")
    case = drawn(source) | {"kind": kind, "turn": source.randint(1, 4)}
    size = len(case["problem"]["initial"])
    if kind == "diloco":
        case["fragments"] = source.randint(1, min(3, size))
        elements = np.array_split(np.arange(size), case["fragments"])
        case["fragment_elements"] = [part.tolist() for part in elements]
        case["outer"] = {"name": "momentum", "lr": 0.7, "momentum": 0.9, "nesterov": True}
    events, dead, now = [], set[int](), 0
    for _ in range(source.randint(1, 12)):
        now += source.choice([0, 10, 40, 100, 130, 300]) + (now == 0)
        rank = source.randrange(case["workers"])
        events.append({"at_ms": now, "rank": rank, "dies": rank not in dead})
        dead ^= {rank}
    return case | {"events": events}
