"""Copies that exchange with a centre or with each other once more, from the recorded cases' rules.

Time is counted out in whole milliseconds: at each of them who has computed acts, by rank, then all
of them start. A case is written as a recorded one is, with what is to come out in `expect`.
No tolerance: every number is worked out in the order that the rules say.
"""

import random
from collections.abc import Callable
from typing import Final

import numpy as np

from oracle.periodic import Drawn, Replica, Vector, drawn, replicas_of

UNTIL: Final = 400  # ms


class Runner:
    """Replicas that go on by themselves; `acts(rank, gradient)` as each has computed, by rank.

    It returns whether the replica goes on; who does not is waiting.
    """

    def __init__(self, case: Drawn) -> None:
        case["until_ms"] = UNTIL
        del case["steps"]
        self.replicas: list[Replica] = replicas_of(case)
        self.waiting: dict[int, tuple[int, Vector]] = {}
        self.blocked: list[list[list[int | None]]] = [[] for _ in self.replicas]
        self.clocks = [0] * len(self.replicas)
        self.now = 0

    def run(self, acts: Callable[[int, Vector], bool]) -> None:
        """To the end; who has computed at a moment acts before anybody starts."""
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
    """A case of elastic averaging, asynchronous or in round-robin, with what is to come out."""
    source = random.Random(f"{seed} easgd")
    case = drawn(source)
    case["period"] = period = source.randint(1, 4)
    case["moving_rate"] = rate = source.choice([0.0, 0.5, 1.0, round(source.random(), 3)])
    case["mode"] = source.choice(["asynchronous", "asynchronous", "round_robin"])
    runner, workers = Runner(case), case["workers"]
    centre = np.array(case["problem"]["initial"])
    exchanges: list[Drawn] = []
    steps: list[Drawn] = []
    turns = 0

    def step(rank: int, gradient: Vector) -> None:
        nonlocal centre, turns
        replica, clock = runner.replicas[rank], runner.clocks[rank]
        if clock % period == 0:
            turns += 1
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

    def acts(rank: int, gradient: Vector) -> bool:
        due = runner.clocks[rank] % period == 0
        if case["mode"] == "round_robin" and due and turns % workers != rank:
            return False
        step(rank, gradient)
        while turns % workers in runner.waiting:
            step(turns % workers, runner.wake(turns % workers))
        return True

    runner.run(acts)
    case["expect"] = {
        "exchanges": exchanges,
        "steps": steps,
        "clocks": runner.clocks,
        "blocked": runner.blocked,
    }
    return case
