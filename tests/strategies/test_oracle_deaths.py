"""Deaths and restarts once more, as plain loops over a heap: the same to the nanosecond.

First-come links, one variable, workers that die and come back. No processes, no events, no links:
a port is the time it is free, and of a message whose sender died nothing remains but that.
"""

import heapq
import random
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.building import LOST, PENDING, gradient_rows, run
from tests.seams import Trace

# Gradients: (worker, iteration, read, computed, arrived, ended, applied or not).
Row = tuple[int, int, int, int, int, int, bool]

# Time (ns), rank, whether it dies or comes back.
Turn = tuple[int, int, bool]


@dataclass
class Setting:
    """Compute times in ns, per worker; what a message holds the server's port; its latency."""

    times: list[list[int]]
    hold: int
    latency: int
    updates: int
    turns: list[Turn]


@dataclass
class Mortal:
    """One worker: what it is at, if it is alive."""

    times: list[int]
    alive: bool = True
    life: int = 0  # the deaths behind it: what it began before the last never happens
    iteration: int = -1
    label: int = 0
    read: int = 0
    begun: int = 0  # computing
    computed: int = 0
    sending: bool = False
    waiting: bool = False  # its gradient has arrived


@dataclass
class Server(ABC):
    """What both strategies share: ports, workers, the heap of what happens when."""

    setting: Setting
    out: int = 0  # when the port is free, each way
    into: int = 0
    heap: list[tuple[int, int, int, str, int]] = field(default_factory=list)
    number: int = 0
    workers: list[Mortal] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)

    def at(self, time: int, rank: int, what: str, life: int) -> None:
        self.number += 1
        heapq.heappush(self.heap, (time, self.number, rank, what, life))

    def read(self, now: int, rank: int) -> None:
        worker = self.workers[rank]
        worker.waiting = False
        worker.read = now
        worker.iteration += 1
        self.out = max(now, self.out) + self.setting.hold
        worker.begun = self.out + self.setting.latency
        worker.computed = worker.begun + worker.times[worker.iteration % len(worker.times)]
        self.at(worker.computed, rank, "push", worker.life)

    def push(self, now: int, rank: int) -> None:
        worker = self.workers[rank]
        worker.sending = True
        self.into = max(now, self.into) + self.setting.hold
        self.at(self.into + self.setting.latency, rank, "arrive", worker.life)

    def row(self, rank: int, arrived: int, ended: int, applied: bool) -> None:
        worker = self.workers[rank]
        what = (rank, worker.iteration, worker.read, worker.computed)
        self.rows.append((*what, arrived, ended, applied))

    def die(self, now: int, rank: int) -> None:
        """Its gradient is lost, unless it has arrived, or it has not begun to compute it."""
        worker = self.workers[rank]
        worker.alive = False
        worker.life += 1
        sending, worker.sending = worker.sending, False
        if worker.waiting:
            worker.waiting = False
        elif worker.begun >= now:
            worker.iteration -= 1
        else:
            worker.computed = worker.computed if sending or worker.computed <= now else -1
            self.lost.append((rank, worker.iteration))
            self.row(rank, -1, now, False)

    def come_back(self, now: int, rank: int) -> None:
        self.workers[rank].alive = True
        self.read(now, rank)

    def run(self) -> "Server":
        # Of all that happens at one instant these turns come first.
        for time, rank, dies in self.setting.turns:
            self.at(time, rank, "die" if dies else "come back", 0)
        self.workers = [Mortal(times) for times in self.setting.times]
        for rank in range(len(self.workers)):
            self.read(0, rank)
        while self.heap and len(self.steps) < self.setting.updates:
            now, _, rank, what, life = heapq.heappop(self.heap)
            if what == "die":
                self.die(now, rank)
            elif what == "come back":
                self.come_back(now, rank)
            elif life == self.workers[rank].life:
                if what == "push":
                    self.push(now, rank)
                else:
                    self.workers[rank].sending = False
                    self.arrive(now, rank)
        return self

    @abstractmethod
    def arrive(self, now: int, rank: int) -> None:
        """By the subclass."""


class Asynchronous(Server):
    def arrive(self, now: int, rank: int) -> None:
        self.row(rank, now, now, True)
        self.steps.append(now)
        self.read(now, rank)


@dataclass
class Synchronous(Server):
    needed: int = 1  # N
    copies: int = 1  # max(N, T)
    first: int = 0  # tokens that the chief begins with
    chief: bool = True
    tokens: deque[int] = field(default_factory=deque)
    queue: deque[int] = field(default_factory=deque)  # of ranks
    inside: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def die(self, now: int, rank: int) -> None:
        super().die(now, rank)
        if rank in self.queue:
            self.queue.remove(rank)
        if rank == 0:
            self.chief = False

    def come_back(self, now: int, rank: int) -> None:
        """Of worker 0 first the chief is back, whose tokens and take are there at once.

        The step is counted, and its tokens put in, when the workers that waited are under way.
        """
        step = self.workers[rank].label = len(self.steps)
        taken = False
        if rank == 0:
            self.chief = True
            self.tokens.extend([step] * self.first)
            taken = self.take(now)
        super().come_back(now, rank)
        self.hand_out(now)
        if taken:
            self.count(now)

    def arrive(self, now: int, rank: int) -> None:
        worker = self.workers[rank]
        worker.waiting = True
        if worker.label < len(self.steps):
            self.row(rank, now, now, False)
        else:
            self.inside.append((rank, worker.iteration, worker.read, worker.computed, now))
        taken = self.take(now)
        self.queue.append(rank)
        if taken:
            self.count(now)
        self.hand_out(now)

    def take(self, now: int) -> bool:
        if not self.chief or len(self.inside) < self.needed:
            return False
        self.rows += [(*one, now, True) for one in self.inside]
        self.inside = []
        return True

    def count(self, now: int) -> None:
        self.steps.append(now)
        self.tokens.extend([len(self.steps)] * self.copies)
        self.hand_out(now)

    def hand_out(self, now: int) -> None:
        while self.queue and self.tokens:
            lucky = self.queue.popleft()
            self.workers[lucky].label = self.tokens.popleft()
            self.read(now, lucky)


def random_setting(source: random.Random, last: int) -> Setting:
    """1 to 9 workers of very different times, some of which die and come back until `last` (ns)."""
    workers = source.randrange(1, 10)
    times = [
        [round(1e6 * (0.2 + source.expovariate(1)) * source.choice([1, 1, 1, 4]))
         for _ in range(source.randrange(1, 60))]
        for _ in range(workers)
    ]  # fmt: skip
    turns: list[Turn] = []
    dead: set[int] = set()
    for time in sorted(source.randrange(last) for _ in range(source.randrange(1, 12))):
        rank = source.randrange(workers)
        turns.append((time, rank, rank not in dead))
        dead ^= {rank}
    hold = source.choice([0, 1_000, 100_000, 900_000])
    return Setting(times, hold, source.choice([0, 17, 250_000]), 60, turns)


def simulated(strategy: dict[str, Any], setting: Setting) -> Trace:
    seconds = tuple(tuple(time / 1e9 for time in times) for times in setting.times)
    bandwidth = 40e9 / setting.hold if setting.hold else 1e18
    events = [
        {"at": time / 1e9, ("kill" if dies else "restart"): {"worker": rank}}
        for time, rank, dies in setting.turns
    ]
    return run(
        strategy,
        network={
            "bandwidth": bandwidth,
            "latency": setting.latency / 1e9,
            "sharing": "first_come",
        },
        cluster={"workers": len(seconds), "compute": {"kind": "trace", "seconds": seconds}},
        stop={"global_steps": setting.updates},
        events=tuple(events),
    )


def check(expected: Server, trace: Trace) -> None:
    rows = [
        (*(g.worker, g.iteration, g.read, g.computed, g.arrived, g.applied), g.parts_applied == 1)
        for g in gradient_rows(trace)
        if g.outcome != PENDING
    ]
    assert trace.steps.tolist() == expected.steps
    assert rows == expected.rows
    lost = [(g.worker, g.iteration) for g in gradient_rows(trace) if g.outcome == LOST]
    assert lost == expected.lost
    stuck = len(expected.steps) < expected.setting.updates
    assert trace.stopped_by == ("deadlock" if stuck else "global_steps")


@pytest.mark.parametrize("seed", range(100))
def test_asynchronous(seed: int) -> None:
    setting = random_setting(random.Random(seed), 30_000_000)

    check(Asynchronous(setting).run(), simulated({"kind": "none"}, setting))


@pytest.mark.parametrize("seed", range(200))
def test_synchronous(seed: int) -> None:
    # N and T anywhere around the number of workers, any number of initial tokens.
    source = random.Random(1000 + seed)
    setting = random_setting(source, 60_000_000)
    workers = len(setting.times)
    needed, total = source.randrange(1, workers + 2), source.randrange(1, workers + 4)
    least = max(needed - total, 0, needed - workers)
    first = source.choice([needed, least, least + source.randrange(5)])
    expected = Synchronous(setting, needed=needed, copies=max(needed, total), first=first)
    expected.tokens.extend([0] * first)
    strategy = {
        "kind": "sync_replicas",
        "replicas_to_aggregate": needed,
        "total_num_replicas": total,
        "initial_tokens": first,
    }

    check(expected.run(), simulated(strategy, setting))
