"""Copies that exchange with a centre or with each other once more, from the recorded cases' rules.

Time is counted out in whole milliseconds: at each of them who has computed acts, by rank, then all
of them start. A case is written as a recorded one is, with what is to come out in `expect`.
No tolerance: every number is worked out in the order that the rules say.
"""

import random
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tests.oracle.periodic import Drawn, Replica, Vector, drawn, joined, replicas_of

UNTIL: Final = 400  # ms
ROUNDS: Final = 10


class Runner:
    """Replicas that go on by themselves; `acts(rank, gradient)` as each has computed, by rank.

    It returns whether the replica goes on; who does not is waiting.
    """

    def __init__(self, case: Drawn, replicas: list[Replica]) -> None:
        case["until_ms"] = UNTIL
        del case["steps"]
        self.replicas = replicas
        self.waiting: dict[int, tuple[int, Vector]] = {}
        self.blocked: list[list[list[int | None]]] = [[] for _ in self.replicas]
        self.clocks = [0] * len(self.replicas)
        self.now = 0

    def run(
        self, acts: Callable[[int, Vector], bool], starts: Callable[[int], None] = lambda _: None
    ) -> None:
        """To the end; who has computed at a moment acts before anybody `starts(rank)`."""
        ready = {replica.rank: replica.compute() for replica in self.replicas}
        for self.now in range(UNTIL + 1):
            for replica in self.replicas:
                if replica.rank in ready and replica.now == self.now:
                    gradient = ready.pop(replica.rank)
                    if not acts(replica.rank, gradient):
                        self.waiting[replica.rank] = self.now, gradient
            for replica in self.replicas:
                if replica.rank not in ready and replica.rank not in self.waiting:
                    replica.now = self.now
                    starts(replica.rank)
                    ready[replica.rank] = replica.compute()
        for rank, (since, _) in self.waiting.items():
            self.blocked[rank].append([since, None])

    def wake(self, rank: int) -> Vector:
        """Who waits goes on; its gradient."""
        since, gradient = self.waiting.pop(rank)
        if since < self.now:
            self.blocked[rank].append([since, self.now])
        return gradient


def easgd(seed: int) -> Drawn:
    """A case of elastic averaging, with what is to come out."""
    source = random.Random(f"{seed} easgd")
    case = drawn(source)
    case["period"] = period = source.randint(1, 4)
    case["moving_rate"] = rate = source.choice([0.0, 0.5, 1.0, round(source.random(), 3)])
    runner = Runner(case, replicas_of(case))
    centre = np.array(case["problem"]["initial"])
    exchanges: list[Drawn] = []
    steps: list[Drawn] = []

    def step(rank: int, gradient: Vector) -> bool:
        nonlocal centre
        replica, clock = runner.replicas[rank], runner.clocks[rank]
        if clock % period == 0:
            difference = rate * (replica.x - centre)
            replica.x = replica.x - difference
            centre = centre + difference
            others = 0
            for one in reversed(exchanges):
                if one["worker"] == rank:
                    break
                others += 1
            said = {"t": runner.now, "worker": rank, "clock": clock, "staleness": others}
            exchanges.append(said)
        replica.apply(gradient)
        runner.clocks[rank] += 1
        steps.append(
            {
                "t": runner.now,
                "worker": rank,
                "clock": clock + 1,
                "exchanged": clock % period == 0,
                "x": replica.x.tolist(),
                "centre": centre.tolist(),
            }
        )
        return True

    runner.run(step)
    case["expect"] = {
        "exchanges": exchanges,
        "steps": steps,
        "clocks": runner.clocks,
        "blocked": runner.blocked,
    }
    return case


def apart(source: random.Random) -> Drawn:
    """A case of at least two workers, each of which begins at a place of its own."""
    case = drawn(source)
    while case["workers"] == 1:
        case = drawn(source)
    size = len(case["problem"]["initial"])
    case["problem"]["initial"] = [
        [round(source.uniform(-2, 2), 2) for _ in range(size)] for _ in range(case["workers"])
    ]
    return case


def replicas_apart(case: Drawn) -> list[Replica]:
    """The replicas of such a case."""
    problem = case["problem"]
    places = [{**problem, "initial": place} for place in problem["initial"]]
    return [Replica(rank, {**case, "problem": place}) for rank, place in enumerate(places)]


def gossip(seed: int) -> Drawn:
    """A case of averages of two at a time, with what is to come out."""
    source = random.Random(f"{seed} gossip")
    case = apart(source)
    workers, length = case["workers"], source.randint(1, 4)
    case["partner"] = [
        [source.choice([one for one in range(workers) if one != rank]) for _ in range(length)]
        for rank in range(workers)
    ]
    runner = Runner(case, replicas_apart(case))
    changed, seen = [0] * workers, [0] * workers
    averages: list[Drawn] = []

    def acts(rank: int, gradient: Vector) -> bool:
        step = runner.clocks[rank]
        partner = case["partner"][rank][step % length]
        one, other = runner.replicas[rank], runner.replicas[partner]
        one.x = other.x = (one.x + other.x) / 2
        one.apply(gradient)
        averages.append(
            {
                "t": runner.now,
                "worker": rank,
                "step": step,
                "partner": partner,
                "staleness": changed[rank] - seen[rank],
                "gradient": gradient.tolist(),
                "x": [replica.x.tolist() for replica in runner.replicas],
            }
        )
        changed[partner] += 1
        runner.clocks[rank] += 1
        return True

    def starts(rank: int) -> None:
        seen[rank] = changed[rank]

    runner.run(acts, starts)
    case["expect"] = {"averages": averages, "clocks": runner.clocks, "blocked": runner.blocked}
    return case


def mixing(seed: int) -> Drawn:
    """A case of rounds, of D-PSGD or push-sum, with what is to come out.

    When a round begins is a recurrence: once the worker has computed and those it listens to have
    sent, before they compute (D-PSGD) or after (push-sum).
    """
    source = random.Random(f"{seed} mixing")
    case = apart(source)
    workers = case["workers"]
    case["rounds"] = ROUNDS
    case["mode"] = mode = source.choice(["synchronous", "push_sum"])
    case["graph"] = graph = source.choice(["ring", "exponential", None])
    matrices = _matrices(source, workers, mode, graph)
    case["matrices"] = None if graph else [matrix.tolist() for matrix in matrices]
    replicas = replicas_apart(case)
    weights = [1.0] * workers
    starts = [0] * workers
    rows = []
    blocked: list[list[list[int]]] = [[] for _ in replicas]
    for number in range(ROUNDS):
        matrix = matrices[number % len(matrices)]
        heard = [np.flatnonzero(row).tolist() for row in matrix]
        x = [replica.x for replica in replicas]
        gradients, read = [], []
        for replica, own, weight in zip(replicas, x, weights, strict=True):
            replica.x = own / weight
            read.append(replica.x.tolist())
            gradients.append(replica.compute())
            replica.x = own
        if mode == "push_sum":
            for replica, gradient in zip(replicas, gradients, strict=True):
                replica.apply(gradient)
            x = [replica.x for replica in replicas]
        ends = [replica.now for replica in replicas]
        sent = ends if mode == "push_sum" else starts
        starts = [max(ends[to], *(sent[one] for one in heard[to])) for to in range(workers)]
        for to, replica in enumerate(replicas):
            first, *others = heard[to]
            replica.x = matrix[to][first] * x[first]
            for one in others:
                replica.x = replica.x + matrix[to][one] * x[one]
            replica.now = starts[to]
            if starts[to] > ends[to]:
                blocked[to].append([ends[to], starts[to]])
        weights = [
            sum(matrix[to][one] * weights[one] for one in heard[to]) for to in range(workers)
        ]
        row: Drawn = {"read": read}
        row["x"] = [replica.x.tolist() for replica in replicas]
        row["w"] = weights
        row["z"] = [(r.x / w).tolist() for r, w in zip(replicas, weights, strict=True)]
        rows.append(row)
        if mode == "synchronous":
            for replica, gradient in zip(replicas, gradients, strict=True):
                replica.apply(gradient)
    spans = [joined(own) for own in blocked]
    case["expect"] = {"rounds": rows, "ends": starts, "blocked": spans}
    return case


def _matrices(
    source: random.Random, workers: int, mode: str, graph: str | None
) -> list[NDArray[np.float64]]:
    """Who hands out what to whom: M[to][from]."""
    everyone = range(workers)

    def shifted(*hops: int) -> NDArray[np.float64]:
        found = np.zeros((workers, workers))
        different = {hop % workers for hop in hops}
        for hop in different:
            for one in everyone:
                found[(one + hop) % workers, one] = 1 / len(different)
        return found

    if graph == "ring":
        return [shifted(0, 1) if mode == "push_sum" else shifted(-1, 0, 1)]
    if graph == "exponential":
        found, hop = [], 1
        while hop < workers:
            found.append(shifted(0, hop))
            hop *= 2
        return found
    if mode == "synchronous":  # some permutations in equal parts
        parts = [source.sample(everyone, workers) for _ in range(source.choice([1, 2, 4]))]
        whole = np.zeros((workers, workers))
        for part in parts:
            whole[part, everyone] += 1 / len(parts)
        return [whole, shifted(0, 1)]
    halves = np.eye(workers) / 2
    for one in everyone:
        to = source.sample([other for other in everyone if other != one], min(2, workers - 1))
        halves[to, one] = 0.5 / len(to)
    return [halves, np.eye(workers)][: source.randint(1, 2)]
