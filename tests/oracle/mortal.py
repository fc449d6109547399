"""Asynchronous training among failures of workers and servers, once more: values and all time.

Written from the rules of MODEL.md, with no code of varsim's. Whole milliseconds, a network that
takes no time, one number that is trained: its gradient is x - 1. At one instant who is back begins
first, in the order in which they were struck; then failures strike, of workers before servers;
then a checkpoint is complete; then what is computed is applied, in the order in which it was begun.
Who comes back as the chief restores what was saved, while all others go on. What every ms of every
worker went into is written down ms by ms.
"""

from itertools import cycle
from typing import Any, NamedTuple, TypedDict

import numpy as np

UNTIL = 1200  # ms
PARTS = ("productive", "checkpoint", "lost", "detection", "repair", "restart")
PRODUCTIVE, CHECKPOINT, LOST, DETECTION, REPAIR, RESTART = range(6)


class Case(TypedDict):
    """Times in ms; of each worker's steps and failures, of each server's, used again and again."""

    steps: list[list[int]]
    deaths: list[list[int]]
    losses: list[list[int]]
    repair: list[int] | None  # of all members, used in turn by each
    detection: int
    restart: int
    every: int | None  # no checkpoints
    write: int
    snapshot: int | None  # of a write beside the chief's work, which it slows by a quarter
    restore: int
    rate: float
    momentum: float


def drawn(seed: int) -> Case:
    """A random case; frequent failures, many ties."""
    draw = np.random.default_rng(seed)

    def whole(low: int, high: int) -> int:
        return int(draw.integers(low, high + 1))

    def gaps(members: int, shortest: int) -> list[list[int]]:
        return [[5 * whole(shortest, 150) for _ in range(whole(1, 3))] for _ in range(members)]

    workers = whole(1, 3)
    case = Case(
        steps=[[10 * whole(1, 5) for _ in range(whole(1, 3))] for _ in range(workers)],
        deaths=gaps(workers, 4),
        losses=gaps(whole(1, 2), 20),
        repair=[5 * whole(1, 20) for _ in range(whole(1, 2))] if draw.random() < 0.7 else None,
        detection=5 * whole(0, 4),
        restart=5 * whole(0, 6),
        every=10 * whole(3, 15) if draw.random() < 0.8 else None,
        write=5 * whole(1, 4),
        restore=5 * whole(0, 4),
        rate=[0.1, 0.3][whole(0, 1)],
        momentum=[0.0, 0.9][whole(0, 1)],
        snapshot=None,
    )
    if case["every"] is not None and draw.random() < 0.5:
        case["snapshot"] = 5 * whole(1, 3)
        case["steps"][0] = [2 * step for step in case["steps"][0]]
    return case


class Saved(NamedTuple):
    """The model of a moment, and how many updates of each worker were in it."""

    at: int
    x: float
    velocity: float
    made: list[int]


class Worker:
    """A worker: down until it is `ready`, or computing until `end`; or the chief that saves."""

    def __init__(self, steps: list[int]) -> None:
        self.steps, self.begun = steps, 0
        self.computes_since = -1
        self.end: int | None = None
        self.order = 0
        self.read = 0.0
        self.down = False
        self.computed: list[tuple[int, int]] = []
        self.handed = 0  # since when nothing was handed over, or since it began
        self.ready = self.turn = 0
        self.waits: list[tuple[int, int, int]] = []
        self.labels = np.full(UNTIL, PRODUCTIVE)
        self.starts = [0]
        self.made: list[int] = []  # when each of its updates was made that was not undone
        self.undone: list[int] = []


class Member:
    """What fails: when next, and from when on it is there."""

    def __init__(self, gaps: list[int], repair: list[int] | None) -> None:
        self.gaps, self.repairs = cycle(gaps), None if repair is None else cycle(repair)
        self.next, self.there = next(self.gaps), 0

    def strikes(self, now: int, detection: int) -> bool:
        """Whether it fails now: what is away cannot."""
        if self.next != now:
            return False
        self.next += next(self.gaps)
        if self.repairs is None:
            return True
        if self.there > now:
            return False
        self.there = now + detection + next(self.repairs)
        return True


class Run:
    """A run up to UNTIL: `losses` of the model, and what time went into."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.workers = [Worker(steps) for steps in case["steps"]]
        self.hosts = [Member(gaps, case["repair"]) for gaps in case["deaths"]]
        self.servers = [Member(gaps, case["repair"]) for gaps in case["losses"]]
        self.x = self.velocity = 0.0
        self.start = self.saved = Saved(0, 0.0, 0.0, [0] * len(self.workers))

        self.complete = 0  # checkpoints
        self.since = 0  # of the chief's next checkpoint
        self.saves: Saved | None = None  # the one that the chief stops for
        self.beside: tuple[Saved, int, int] | None = None  # written from when to when
        self.servers_there = self.model_there = -1
        self.lost, self.turns = False, 0
        self.steps = self.begun = 0
        self.losses = [(0, 0, 0.5)]
        for worker in self.workers:
            self.begin(worker, 0)
        for now in range(1, UNTIL + 1):
            self.moment(now)
        for worker in self.workers:
            if worker.down:
                self.account(worker, UNTIL)
        if self.lost:
            self.measure(UNTIL)

    def moment(self, now: int) -> None:
        self.come_back(now)
        self.strike(now)
        self.come_back(now)  # who needs no time for that
        chief = self.workers[0]
        if self.beside is not None and self.beside[2] == now:
            saved, resumed, _ = self.beside
            chief.labels[saved.at : resumed] = CHECKPOINT
            for start, end in chief.computed:
                first, last = max(start, resumed), min(end, now)
                if first < last:
                    chief.labels[last - (last - first) // 5 : last] = CHECKPOINT
            self.saved, self.beside, self.complete = saved, None, self.complete + 1
        if self.saves is not None and chief.end == now:
            if self.case["snapshot"] is None:
                chief.labels[self.saves.at : now] = CHECKPOINT
                self.saved, self.complete = self.saves, self.complete + 1
            else:
                self.beside = self.saves, now, now + self.case["write"]
            self.saves, self.since = None, now
            self.compute(chief, now)
        ended = [worker for worker in self.workers if worker.end == now]
        for worker in sorted(ended, key=lambda one: one.order):
            self.velocity = self.case["momentum"] * self.velocity + (worker.read - 1.0)
            self.x -= self.case["rate"] * self.velocity
            self.steps += 1
            worker.made.append(now)
            worker.handed = now
            self.measure(now)
            self.begin(worker, now)

    def come_back(self, now: int) -> None:
        """Servers with the model, then workers."""
        back = [worker for worker in self.workers if worker.down and worker.ready == now]
        if now == self.model_there and self.lost:
            self.lost, self.since = False, now
            self.measure(now)
            back = [worker for worker in self.workers if worker.down and worker.ready <= now]
        elif self.lost:
            return
        if self.workers[0] in back and self.case["every"] is not None:
            self.restore(now)
        for worker in sorted(back, key=lambda one: one.turn):
            worker.down = False
            self.account(worker, now)
            worker.starts.append(now)
            worker.handed = now
            self.begin(worker, now)

    def restore(self, now: int) -> None:
        """What the chief does that begins again; nothing if all do."""
        if self.model_there == now:
            return
        self.roll_back(now)
        self.since = now
        self.measure(now)

    def roll_back(self, now: int) -> None:
        """What was saved is there again; what was undone before or after all died is lost."""
        at, self.x, self.velocity, made = self.saved
        for worker, number in zip(self.workers, made, strict=True):
            worker.made, undone = worker.made[:number], worker.made[number:]
            worker.undone += undone
            gone = worker.labels[at : now if self.lost else max([at, *undone])]
            gone[gone == PRODUCTIVE] = LOST

    def strike(self, now: int) -> None:
        """Failures of this instant."""
        detection = self.case["detection"]
        struck = [host.strikes(now, detection) for host in self.hosts]
        lost = [server for server in self.servers if server.strikes(now, detection)]
        for worker, host, hit in zip(self.workers, self.hosts, struck, strict=True):
            if hit:
                self.fall(worker, now, max(now + detection, host.there))
        if lost:
            self.lost = True
            self.roll_back(now)
            there = max(now + detection, *(server.there for server in lost))
            self.servers_there = max(self.servers_there, there)
        if not lost and not (self.lost and struck[0]):
            return
        # A session begins when all servers and the chief are there.
        there = max(self.servers_there, now + detection, self.hosts[0].there)
        restore = 0 if self.saved is self.start else self.case["restore"]
        self.model_there = there + self.case["restart"] + restore
        for worker, host in zip(self.workers, self.hosts, strict=True):
            self.fall(worker, now, max(there, host.there))

    def fall(self, worker: Worker, now: int, there: int) -> None:
        """A worker dies, or waits anew."""
        if not worker.down:
            # One that is struck at the instant at which it is back has begun nothing.
            worker.begun -= worker.computes_since == now
            worker.labels[worker.handed : now] = np.where(
                worker.labels[worker.handed : now] == CHECKPOINT, CHECKPOINT, LOST
            )
            worker.down, worker.end, worker.waits = True, None, []
            if worker is self.workers[0]:
                if self.beside is not None:
                    stopped = worker.labels[self.beside[0].at : self.beside[1]]
                    stopped[stopped == PRODUCTIVE] = LOST
                self.saves = self.beside = None
        worker.waits.append((now, now + self.case["detection"], there))
        worker.ready = there + self.case["restart"]
        if worker is self.workers[0] and self.saved is not self.start:
            worker.ready += self.case["restore"]
        self.turns += 1
        worker.turn = self.turns

    def account(self, worker: Worker, end: int) -> None:
        """Its time down is over."""
        ends = [since for since, _, _ in worker.waits[1:]] + [end]
        for (since, noticed, there), until in zip(worker.waits, ends, strict=True):
            worker.labels[since:until] = RESTART
            worker.labels[since : min(there, until)] = REPAIR
            worker.labels[since : min(noticed, until)] = DETECTION
        worker.waits = []

    def begin(self, worker: Worker, now: int) -> None:
        """An iteration, or before that a checkpoint."""
        every = self.case["every"]
        chief = worker is self.workers[0] and self.beside is None
        if chief and every is not None and now - self.since >= every:
            made = [len(one.made) for one in self.workers]
            self.saves = Saved(now, self.x, self.velocity, made)
            stops = self.case["snapshot"] or self.case["write"]
            worker.end, worker.order = now + stops, -1
        else:
            self.compute(worker, now)

    def compute(self, worker: Worker, now: int) -> None:
        worker.read, worker.computes_since = self.x, now
        work = worker.steps[worker.begun % len(worker.steps)]
        worker.end = now + work
        if worker is self.workers[0] and self.beside is not None:
            slow = min(work * 5 // 4, self.beside[2] - now)
            worker.end = now + work + slow - slow * 4 // 5
        worker.computed.append((now, worker.end))
        worker.begun += 1
        self.begun += 1
        worker.order = self.begun

    def measure(self, now: int) -> None:
        kept = sum(len(worker.made) for worker in self.workers)
        self.losses.append((now, kept, 0.5 * (self.x - 1.0) * (self.x - 1.0)))

    def accounts(self) -> list[list[Any]]:
        """Of each worker's attempts: when it began, its parts (ms), updates kept and undone."""
        rows = []
        for worker in self.workers:
            for start, end in zip(worker.starts, [*worker.starts[1:], UNTIL], strict=True):
                parts = np.bincount(worker.labels[start:end], minlength=len(PARTS)).tolist()
                kept, undone = (
                    sum(start < time <= end for time in times)
                    for times in (worker.made, worker.undone)
                )
                rows.append([start, *parts, kept, undone])
            if worker.down:
                rows.append([UNTIL] + [0] * (len(PARTS) + 2))
        return rows
