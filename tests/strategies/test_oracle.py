"""The strategies with servers once more, as plain loops over a heap: the same to the nanosecond.

First-come links, one variable. No processes, no events, no links: a port is the time it is free.
"""

import heapq
import random
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field

import pytest
from building import PENDING, gradient_rows, run

from varsim.trace import Trace

# Gradients: (worker, iteration, read, computed, arrived, ended, applied or not).
Row = tuple[int, int, int, int, int, int, bool]


@dataclass
class Setting:
    """Compute times in ns, per worker; what a message holds the server's port; its latency."""

    times: list[list[int]]
    hold: int
    latency: int
    updates: int


@dataclass
class Server(ABC):
    """What both strategies share: ports, workers, the heap of what happens when."""

    setting: Setting
    out: int = 0  # when the port is free, each way
    into: int = 0
    heap: list[tuple[int, int, int, str]] = field(default_factory=list)
    number: int = 0
    reads: dict[int, int] = field(default_factory=dict)
    iteration: dict[int, int] = field(default_factory=dict)
    computed: dict[int, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def at(self, time: int, worker: int, what: str) -> None:
        self.number += 1
        heapq.heappush(self.heap, (time, self.number, worker, what))

    def read(self, now: int, worker: int) -> None:
        self.reads[worker] = now
        self.out = max(now, self.out) + self.setting.hold
        index = self.iteration[worker] = self.iteration.get(worker, -1) + 1
        times = self.setting.times[worker]
        end = self.out + self.setting.latency + times[index % len(times)]
        self.computed[worker] = end
        self.at(end, worker, "push")

    def push(self, now: int, worker: int) -> None:
        self.into = max(now, self.into) + self.setting.hold
        self.at(self.into + self.setting.latency, worker, "arrive")

    def row(self, worker: int, arrived: int, ended: int, applied: bool) -> None:
        what = (worker, self.iteration[worker], self.reads[worker], self.computed[worker])
        self.rows.append((*what, arrived, ended, applied))

    def run(self) -> "Server":
        for worker in range(len(self.setting.times)):
            self.read(0, worker)
        while len(self.steps) < self.setting.updates:
            now, _, worker, what = heapq.heappop(self.heap)
            if what == "push":
                self.push(now, worker)
            else:
                self.arrive(now, worker)
        return self

    @abstractmethod
    def arrive(self, now: int, worker: int) -> None:
        """By the subclass."""


class Asynchronous(Server):
    def arrive(self, now: int, worker: int) -> None:
        self.row(worker, now, now, True)
        self.steps.append(now)
        self.read(now, worker)


@dataclass
class Synchronous(Server):
    needed: int = 1  # N
    copies: int = 1  # max(N, T)
    tokens: deque[int] = field(default_factory=deque)
    waiting: deque[int] = field(default_factory=deque)
    label: dict[int, int] = field(default_factory=dict)
    inside: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def arrive(self, now: int, worker: int) -> None:
        if self.label.get(worker, 0) < len(self.steps):
            self.row(worker, now, now, False)
        else:
            index, read, done = (
                self.iteration[worker],
                self.reads[worker],
                self.computed[worker],
            )
            self.inside.append((worker, index, read, done, now))
        if len(self.inside) == self.needed:
            self.rows += [(*one, now, True) for one in self.inside]
            self.inside = []
            self.steps.append(now)
            self.tokens.extend([len(self.steps)] * self.copies)
        self.waiting.append(worker)
        while self.waiting and self.tokens:
            lucky = self.waiting.popleft()
            self.label[lucky] = self.tokens.popleft()
            self.read(now, lucky)


def rows(trace: Trace) -> list[Row]:
    return [
        (*(g.worker, g.iteration, g.read, g.computed, g.arrived, g.applied), g.parts_applied == 1)
        for g in gradient_rows(trace)
        if g.outcome != PENDING
    ]


def random_setting(source: random.Random) -> Setting:
    """1 to 9 workers of very different times; a port idle or hardly ever free."""
    workers = source.randrange(1, 10)
    times = [
        [round(1e6 * (0.2 + source.expovariate(1)) * source.choice([1, 1, 1, 4]))
         for _ in range(source.randrange(1, 60))]
        for _ in range(workers)
    ]  # fmt: skip
    hold = source.choice([0, 1_000, 100_000, 900_000])
    return Setting(times, hold, source.choice([0, 17, 250_000]), 60)


def simulated(strategy: dict[str, object], setting: Setting) -> Trace:
    seconds = tuple(tuple(time / 1e9 for time in times) for times in setting.times)
    bandwidth = 40e9 / setting.hold if setting.hold else 1e18
    return run(
        strategy,
        network={
            "bandwidth": bandwidth,
            "latency": setting.latency / 1e9,
            "sharing": "first_come",
        },
        cluster={"workers": len(seconds), "compute": {"kind": "trace", "seconds": seconds}},
        stop={"global_steps": setting.updates},
    )


@pytest.mark.parametrize("seed", range(40))
def test_asynchronous(seed: int) -> None:
    setting = random_setting(random.Random(seed))
    expected = Asynchronous(setting).run()
    trace = simulated({"kind": "none"}, setting)

    assert trace.steps.tolist() == expected.steps
    assert rows(trace) == expected.rows


@pytest.mark.parametrize("seed", range(80))
def test_synchronous(seed: int) -> None:
    # N and T anywhere around the number of workers, any number of initial tokens.
    source = random.Random(1000 + seed)
    setting = random_setting(source)
    workers = len(setting.times)
    needed, total = source.randrange(1, 2 * workers + 2), source.randrange(1, 2 * workers + 2)
    least = max(needed - total, 0, needed - workers)
    first = source.choice([needed, least, least + source.randrange(5)])
    expected = Synchronous(
        setting, needed=needed, copies=max(needed, total), tokens=deque([0] * first)
    ).run()
    trace = simulated(
        {
            "kind": "sync_replicas",
            "replicas_to_aggregate": needed,
            "total_num_replicas": total,
            "initial_tokens": first,
        },
        setting,
    )

    assert trace.steps.tolist() == expected.steps
    assert rows(trace) == expected.rows
