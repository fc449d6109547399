"""Copies that are saved by whoever leads, and restored when nobody is left, a second time.

Written from the rules of MODEL.md, with no code of varsim's. Whole milliseconds, a network that
takes no time: nobody dies in an all-reduce. At one instant who is back begins first, then failures
strike (but first, where all are to begin together and nothing struck since), then a checkpoint is
complete, then those who are left learn of deaths, then what is computed is there, then copies meet.
What every ms of every worker went into is written down ms by ms, in three layers: its own time down
and its checkpoints, standing still with others, lost work.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.oracle.periodic import Drawn, Vector, mean, stepped

UNTIL = 1500  # ms
PARTS = ("productive", "checkpoint", "lost", "detection", "repair", "restart")
PRODUCTIVE, CHECKPOINT, LOST, DETECTION, REPAIR, RESTART = range(6)


class Copy(NamedTuple):
    """All that a worker has of the model; arrays are never changed."""

    x: Vector
    velocity: Vector
    steps: int
    syncs: int


class Saved(NamedTuple):
    """A checkpoint: of which moment, by whom; and how far batches and updates were."""

    at: int
    by: int
    copy: Copy
    point: Vector
    outer_velocity: Vector
    batches: list[int]
    counted: int


class Gradient:
    """A gradient: which batch, at which parameters, from when to when, and what became of it."""

    def __init__(self, batch: int, x: Vector, start: int, end: int) -> None:
        self.batch, self.x, self.start, self.end = batch, x, start, end
        self.used, self.kept = False, True
        self.cut = UNTIL + 1  # it is computed no further than to here
        self.unborn = False  # its worker died at the instant at which it would be computed


class Worker:
    """A worker: down, or back without a model, or computing or writing until `end`, or come."""

    def __init__(self, rank: int, x: Vector) -> None:
        self.rank = rank
        self.copy = Copy(x, np.zeros_like(x), 0, 0)
        self.batches = 0
        self.end: int | None = None
        self.writes: Saved | None = None
        self.down = False
        self.ready = self.handed = self.started = 0
        self.starts = [0]
        self.gradients: list[Gradient] = []
        self.waits: list[tuple[int, int, int]] = []
        self.falls: list[tuple[int, int]] = []
        self.own = np.zeros(UNTIL, dtype=int)
        self.busy = np.zeros(UNTIL, dtype=bool)
        self.lost = np.zeros(UNTIL, dtype=bool)
        self.complete: list[int] = []


class Run:
    """A run up to UNTIL; `source`: of whom one that is back, at a moment, takes all it has."""

    def __init__(self, case: Drawn, source: Callable[[int, int], int]) -> None:
        self.case, self.source = case, source
        initial = np.array(case["problem"]["initial"])
        self.workers = [Worker(rank, initial) for rank in range(case["workers"])]
        self.members = set(range(case["workers"]))
        self.back = set[int]()
        self.known: dict[int, int] = {}  # members that are dead: when others know
        self.there = [0] * case["workers"]
        self.point, self.outer_velocity = initial, np.zeros_like(initial)
        none = [0] * case["workers"]
        self.start = self.saved = Saved(
            0, 0, self.workers[0].copy, self.point, self.outer_velocity, none, 0
        )
        self.counted: list[list[Any]] = []  # when, kept
        self.since = 0
        self.beside: tuple[Saved, int, int] | None = None
        self.lost, self.session = False, -1
        self.struck_since = False  # since it was known that nobody is left
        self.restored = self.went = self.taken = 0
        self.strikes = self._strikes()
        for worker in self.workers:
            self.compute(worker, 0)
        for now in range(1, UNTIL + 1):
            self.moment(now)
        alive = [rank for rank in self.members if rank not in self.known]
        if self.members and not alive:
            self.roll_back(UNTIL)
        for worker in self.workers:
            if worker.down:
                self.account(worker, UNTIL)

    def _strikes(self) -> set[tuple[int, int]]:
        found = {(at, rank) for at in self.case["shocks"] for rank in range(len(self.workers))}
        for rank, gaps in enumerate(self.case["deaths"]):
            now = turn = 0
            while now <= UNTIL:
                now += gaps[turn % len(gaps)]
                turn += 1
                found.add((now, rank))
        return found

    def moment(self, now: int) -> None:
        if not self.lost or self.struck_since:
            self.come_back(now)
        self.strike(now)
        if not self.case["detection"]:
            self.learn(now)
        self.come_back(now)
        if self.beside is not None and self.beside[2] == now:
            self.is_complete(now)
        self.learn(now)
        for worker in self.workers:
            if worker.end == now and not worker.down:
                self.ended(worker, now)
        alive = self.members - self.known.keys()
        while self.members and alive == self.members and self.all_come(now):
            self.meet(now)

    def all_come(self, now: int) -> bool:
        return all(self.workers[rank].end is None for rank in self.members)

    # What fails, and comes back.

    def strike(self, now: int) -> None:
        repair, detection = self.case["repair"], self.case["detection"]
        hit = [
            rank
            for rank in range(len(self.workers))
            if (now, rank) in self.strikes and (repair is None or self.there[rank] <= now)
        ]
        for rank in hit if repair is not None else ():
            self.there[rank] = now + detection + repair
        if self.case["on_host"] and self.saved is not self.start and self.saved.by in hit:
            self.saved, self.went = self.start, self.went + 1
            if self.lost:
                self.roll_back(now)
        for rank in hit:
            worker = self.workers[rank]
            if not worker.down and rank in self.members:
                self.known.setdefault(rank, now + detection)
            self.fall(worker, now, now + detection, max(now + detection, self.there[rank]))
        self.struck_since |= any((now, rank) in self.strikes for rank in range(len(self.workers)))
        if self.lost and hit:
            self.begin_session(now, now + detection)

    def fall(self, worker: Worker, now: int, noticed: int, there: int) -> None:
        """A worker dies, or waits anew."""
        if not worker.down:
            worker.down = True
            worker.waits = []
            worker.falls.append((now, -1))
            self.back.discard(worker.rank)
            worker.busy[now:] = False
            worker.lost[worker.handed : now] = True
            for gradient in worker.gradients:
                if gradient.used and gradient.end > worker.handed:
                    gradient.kept = False
                gradient.unborn |= gradient.end == now == worker.end
                if gradient.end > now:
                    gradient.cut = min(gradient.cut, now)
            if worker.gradients and worker.gradients[-1].start == now:
                worker.gradients.pop()
                worker.batches -= 1
            if self.beside is not None and self.beside[0].by == worker.rank:
                worker.lost[self.beside[0].at : self.beside[1]] = True
                self.beside = None
            worker.end = worker.writes = None
        worker.waits.append((now, noticed, there))
        worker.ready = there + self.case["restart"]

    def come_back(self, now: int) -> None:
        if self.lost:
            if self.session == now:
                self.lost = False
                self.since = now
                self.members, self.known = set(range(len(self.workers))), {}
                for worker in self.workers:
                    self.account(worker, now)
                    self.compute(worker, now)
            return
        for worker in self.workers:
            if worker.down and worker.ready == now:
                self.account(worker, now)
                self.back.add(worker.rank)

    def learn(self, now: int) -> None:
        known = {rank for rank, when in self.known.items() if when <= now}
        # Where nobody is left, nobody learns before the last death is known.
        if known and not (self.known.keys() >= self.members and len(known) < len(self.known)):
            self.leave(known, now)

    def leave(self, ranks: set[int], now: int) -> None:
        """Others know that these are no members any more."""
        ranks = ranks & self.members
        if not ranks:
            return
        self.members -= ranks
        for rank in ranks:
            self.known.pop(rank, None)
        self.count(now)
        if self.members:
            return
        self.roll_back(now)
        self.lost, self.struck_since = True, False
        self.begin_session(now, now)
        self.come_back(now)

    def begin_session(self, now: int, noticed: int) -> None:
        ends = [worker.waits[-1][2] for worker in self.workers if worker.down]
        there = max([noticed, *ends, *self.there])
        restore = 0 if self.saved is self.start else self.case["restore"]
        self.session = there + self.case["restart"] + restore
        for worker in self.workers:
            self.fall(worker, now, noticed, there)

    def roll_back(self, now: int) -> None:
        """All is as it was saved."""
        at, _, copy, self.point, self.outer_velocity, batches, counted = self.saved
        self.restored += self.saved is not self.start
        for worker, number in zip(self.workers, batches, strict=True):
            worker.copy, worker.batches = copy, number
            worker.lost[at:now] = True
            for gradient in worker.gradients:
                gradient.kept &= gradient.end <= at
        for entry in self.counted[counted:]:
            entry[1] = False

    def account(self, worker: Worker, now: int) -> None:
        """Its time down is over."""
        ends = [since for since, _, _ in worker.waits[1:]] + [now]
        for (since, noticed, there), until in zip(worker.waits, ends, strict=True):
            worker.own[since:until] = RESTART
            worker.own[since : min(there, until)] = REPAIR
            worker.own[since : min(noticed, until)] = DETECTION
        worker.falls[-1] = (worker.falls[-1][0], now)
        worker.starts.append(now)
        worker.handed = now
        worker.down = False

    # What is computed, and saved.

    def compute(self, worker: Worker, now: int) -> None:
        times = self.case["step_ms"][worker.rank]
        work = times[len(worker.gradients) % len(times)]
        end = now + work
        if self.beside is not None and self.beside[0].by == worker.rank:
            slow = min(work * 5 // 4, self.beside[2] - now)
            end = now + work + slow - slow * 4 // 5
        worker.gradients.append(Gradient(worker.batches, worker.copy.x, now, end))
        worker.batches += 1
        worker.busy[now:end] = True
        worker.end = end

    def ended(self, worker: Worker, now: int) -> None:
        """A computation, or a write, is over."""
        worker.end = None
        if worker.writes is not None:
            self.written(worker, now)
        elif self.case["kind"] != "on_write":
            x, velocity, steps, syncs = worker.copy
            gradient = worker.gradients[-1]
            x, velocity = stepped(self.case["optimizer"], x, self.slope(worker), velocity)
            worker.copy, gradient.used = Copy(x, velocity, steps + 1, syncs), True
            self.count(now)
            if worker.copy.steps % self.case["turn"]:
                self.compute(worker, now)

    def slope(self, worker: Worker) -> Vector:
        problem, gradient = self.case["problem"], worker.gradients[-1]
        targets = problem["micro_target"][worker.rank]
        target = np.array(targets[gradient.batch % len(targets)])
        found: Vector = np.array(problem["a"][worker.rank]) * (gradient.x - target)
        return found

    def count(self, now: int) -> None:
        """An update counts when all members have made it."""
        kept = sum(entry[1] for entry in self.counted)
        made = min((self.workers[rank].copy.steps for rank in self.members), default=kept)
        self.counted += [[now, True] for _ in range(made - kept)]

    def meet(self, now: int) -> None:
        """All members are there: they reduce, one may save, those who are back are members."""
        members = [self.workers[rank] for rank in sorted(self.members)]
        if self.case["kind"] == "on_write":
            gradient = mean([self.slope(one) for one in members])
            for one in members:
                x, velocity, steps, syncs = one.copy
                x, velocity = stepped(self.case["optimizer"], x, gradient, velocity)
                one.copy, one.gradients[-1].used = Copy(x, velocity, steps + 1, syncs), True
        elif self.case["kind"] == "local_sgd":
            shared = mean([one.copy.x for one in members])
            for one in members:
                one.copy = one.copy._replace(x=shared)
        else:
            part = self.case["fragment_elements"][members[0].copy.syncs % self.case["fragments"]]
            gradient = mean([self.point[part] - one.copy.x[part] for one in members])
            self.point, self.outer_velocity = self.point.copy(), self.outer_velocity.copy()
            self.point[part], self.outer_velocity[part] = stepped(
                self.case["outer"], self.point[part], gradient, self.outer_velocity[part]
            )
            for one in members:
                x = one.copy.x.copy()
                x[part] = self.point[part]
                one.copy = one.copy._replace(x=x, syncs=one.copy.syncs + 1)
        self.count(now)
        for one in members:
            one.handed = now
        for rank in sorted(self.back):
            self.workers[rank].copy = self.workers[self.source(rank, now)].copy
            self.taken += 1
        self.members |= self.back
        self.back.clear()
        leader = self.workers[min(self.members)]
        due = leader in members and now - self.since >= self.case["every"]
        if due and self.beside is None:
            self.save(leader, now)
        for rank in sorted(self.members):
            if self.workers[rank].end is None and self.workers[rank].writes is None:
                self.compute(self.workers[rank], now)

    def save(self, leader: Worker, now: int) -> None:
        batches = [worker.batches for worker in self.workers]
        saved = (now, leader.rank, leader.copy, self.point, self.outer_velocity, batches)
        leader.writes = Saved(*saved, len(self.counted))
        stop = self.case["write"] if self.case["snapshot"] is None else self.case["snapshot"]
        leader.busy[now : now + stop] = True
        leader.end = now + stop
        if not stop:
            leader.end = None
            self.written(leader, now)

    def written(self, leader: Worker, now: int) -> None:
        """The writer goes on, with all of it written, or beside that."""
        assert leader.writes is not None
        saved, leader.writes, self.since = leader.writes, None, now
        self.beside = saved, now, now
        if self.case["snapshot"] is not None:
            self.beside = saved, now, now + self.case["write"]
        if self.beside[2] == now:
            self.is_complete(now)
        self.compute(leader, now)

    def is_complete(self, now: int) -> None:
        assert self.beside is not None
        saved, resumed, _ = self.beside
        leader = self.workers[saved.by]
        leader.own[saved.at : resumed] = CHECKPOINT
        for gradient in leader.gradients:
            first, last = max(gradient.start, resumed), min(gradient.end, now)
            if first < last:
                leader.own[last - (last - first) // 5 : last] = CHECKPOINT
        leader.complete.append(now)
        self.saved, self.beside = saved, None

    # What is told of it.

    def accounts(self) -> list[list[int]]:
        """Of each worker's attempts: start, parts (ms), gradients kept and lost, checkpoints."""
        still = self.stood_still()
        rows = []
        for worker in self.workers:
            labels = np.where(worker.lost, LOST, PRODUCTIVE)
            labels = np.where(still > 0, still, labels)
            labels = np.where(worker.own > 0, worker.own, labels)
            for start, end in zip(worker.starts, [*worker.starts[1:], UNTIL], strict=True):
                parts = np.bincount(labels[start:end], minlength=len(PARTS)).tolist()
                own = [one for one in worker.gradients if start < one.end <= end]
                kept = sum(one.used and one.kept for one in own)
                lost = sum(self.in_vain(worker, one) for one in own)
                saved = sum(start < at <= end for at in worker.complete)
                rows.append([start, *parts, kept, lost, saved])
        return rows

    @staticmethod
    def in_vain(worker: Worker, gradient: Gradient) -> bool:
        """Whether it was computed, and nothing is left of it."""
        if gradient.unborn or gradient.end > min(gradient.cut, UNTIL):
            return False
        return not gradient.kept if gradient.used else bool(worker.lost[gradient.end - 1])

    def stood_still(self) -> Any:
        """As what, ms by ms, the time of all is told that wait while one is down."""
        still = np.zeros(UNTIL, dtype=int)
        busy = np.any([worker.busy for worker in self.workers], axis=0)
        every = [
            (died, worker.rank, back) for worker in self.workers for died, back in worker.falls
        ]
        for died, rank, back in sorted(every):
            still[died:back] = self.workers[rank].own[died:back]
        return np.where(busy, 0, still)

    def rows(self) -> Sequence[tuple[tuple[int, int], Gradient]]:
        """All gradients, by worker and number."""
        return [
            ((worker.rank, number), gradient)
            for worker in self.workers
            for number, gradient in enumerate(worker.gradients)
        ]
