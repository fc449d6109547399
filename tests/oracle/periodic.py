"""Copies that are averaged now and then once more, from the rules of the recorded cases alone.

Steps are counted out one after the other: who meets whom after which step is arithmetic, and when
they do is the largest of their times. A case is written as a recorded one is: what is drawn, and in
`expect` what the rules make of it. No tolerance: sums are in the order of the ranks.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Drawn = dict[str, Any]
Vector = NDArray[np.float64]

STEPS: Final = 14


class Replica:
    """One replica's time (ms), model, and inner optimizer (SGD with momentum)."""

    def __init__(self, rank: int, case: Drawn) -> None:
        self.problem, self.rank = case["problem"], rank
        self.times = case["step_ms"][rank]
        self.optimizer = case["optimizer"]
        self.now = 0
        self.x = np.array(self.problem["initial"])
        self.velocity = np.zeros_like(self.x)
        self.ends: list[int] = []
        self.blocked: list[list[int]] = []

    def compute(self) -> Vector:
        """The next mini-batch: its gradient; time passes."""
        self.now += self.times[len(self.ends) % len(self.times)]
        self.ends.append(self.now)
        gradient: Vector = np.array(self.problem["a"][self.rank]) * (
            self.x - np.array(self.problem["target"][self.rank])
        )
        return gradient

    def apply(self, gradient: Vector) -> None:
        """One step of the inner optimizer."""
        self.x, self.velocity = stepped(self.optimizer, self.x, gradient, self.velocity)

    def wait_until(self, time: int) -> None:
        """Others have come then."""
        if time > self.now:
            self.blocked.append([self.now, time])
        self.now = time


def stepped(
    optimizer: Drawn, x: Vector, gradient: Vector, velocity: Vector
) -> tuple[Vector, Vector]:
    """What a gradient makes of values and of the optimizer's velocity."""
    if optimizer["name"] == "sgd":
        return x - optimizer["lr"] * gradient, velocity
    velocity = optimizer["momentum"] * velocity + gradient
    if optimizer["nesterov"]:
        return x - optimizer["lr"] * (gradient + optimizer["momentum"] * velocity), velocity
    return x - optimizer["lr"] * velocity, velocity


def mean(vectors: Sequence[Vector]) -> Vector:
    """Their sum from the first to the last, divided by their number."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = total + vector
    return total / len(vectors)


def replicas_of(case: Drawn) -> list[Replica]:
    return [Replica(rank, case) for rank in range(case["workers"])]


def groups(replicas: Sequence[Replica], size: int) -> list[Sequence[Replica]]:
    return [replicas[first : first + size] for first in range(0, len(replicas), size)]


def drawn(source: random.Random) -> Drawn:
    """What every case has: workers, their times, a problem, an optimizer."""
    workers = source.choice([1, 2, 2, 3, 4, 4, 6, 8])
    size = source.randint(2, 5)

    def vector(low: float, high: float) -> list[float]:
        return [round(source.uniform(low, high), 2) for _ in range(size)]

    lengths = [source.choice([1, STEPS, STEPS, 5]) for _ in range(workers)]
    few = source.random() < 0.5  # so that much happens at one instant
    return {
        "id": "drawn",
        "workers": workers,
        "steps": STEPS,
        "rtol": 0.0,
        "step_ms": [
            [source.randint(1, 4) * 10 if few else source.randint(1, 200) for _ in range(length)]
            for length in lengths
        ],
        "problem": {
            "initial": vector(-2, 2),
            "gradient": "quadratic",
            "a": [vector(0.2, 1.6) for _ in range(workers)],
            "target": [vector(-3, 3) for _ in range(workers)],
        },
        "optimizer": optimizer(source, 0.08),
    }


def optimizer(source: random.Random, most: float) -> Drawn:
    rate = round(source.uniform(most / 4, most), 3)
    if source.random() < 0.4:
        return {"name": "sgd", "lr": rate}
    return {
        "name": "momentum",
        "lr": rate,
        "momentum": source.choice([0.5, 0.8, 0.9]),
        "nesterov": source.random() < 0.5,
    }


def local_sgd(seed: int) -> Drawn:
    """A case of local SGD, with what is to come out."""
    source = random.Random(f"{seed} local sgd")
    case = drawn(source)
    workers = case["workers"]
    case["warmup_steps"] = source.choice([0, 0, 1, 2, 3, 5])
    case["period"] = source.randint(1, 6)
    case["convention"] = source.choice(["pytorch", "torchft"])
    case["before_warmup"] = source.choice(["all_reduce", "none"])
    warm = workers if case["before_warmup"] == "all_reduce" else 1
    return _expected(case, _period(case), lambda k: warm if k < case["warmup_steps"] else 1)


def _period(case: Drawn) -> Callable[[int], int]:
    """How many average their copies after step k."""
    late = 1 if case["convention"] == "torchft" else 0

    def due(k: int) -> int:
        after = k - case["warmup_steps"]
        return case["workers"] if after >= 0 and (after + late) % case["period"] == 0 else 0

    return due


def _expected(case: Drawn, copies: Callable[[int], int], gradients: Callable[[int], int]) -> Drawn:
    replicas, rows = replicas_of(case), []
    for k in range(STEPS):
        computed = [replica.compute() for replica in replicas]
        for group in groups(replicas, gradients(k)):
            shared = mean([computed[replica.rank] for replica in group])
            end = max(replica.now for replica in group)
            for replica in group:
                replica.wait_until(end)
                replica.apply(shared)
        for group in groups(replicas, copies(k) or 1):
            shared = mean([replica.x for replica in group])
            end = max(replica.now for replica in group)
            for replica in group:
                replica.wait_until(end)
                replica.x = shared
        what: Any = None
        if copies(k) > 1:
            what = "average"
        elif gradients(k) == case["workers"] > 1:
            what = "gradient"
        rows.append({"step": k, "what": what, "x": [replica.x.tolist() for replica in replicas]})
    case["expect"] = {
        "steps": rows,
        "step_ends": [replica.ends for replica in replicas],
        "blocked": [joined(replica.blocked) for replica in replicas],
    }
    return case


def joined(spans: Sequence[Sequence[int]]) -> list[list[int]]:
    """Waits of which one begins as another ends are one."""
    found: list[list[int]] = []
    for start, end in spans:
        if found and found[-1][1] == start:
            found[-1][1] = end
        else:
            found.append([start, end])
    return found


def diloco(seed: int) -> Drawn:
    """A case of DiLoCo in either convention, with what is to come out."""
    source = random.Random(f"{seed} diloco")
    case = drawn(source)
    size = len(case["problem"]["initial"])
    fragments = source.randint(1, min(4, size))
    turn = source.randint(1, 4)
    case["inner_steps"], case["fragments"] = turn * fragments, fragments
    case["convention"] = source.choice(["torchft", "paper"])
    most = turn if case["convention"] == "torchft" else turn * fragments
    case["delay"] = source.choice([0, source.randrange(most)])
    case["mixing"] = source.choice([0.0, 0.0, 0.5, 1.0, round(source.random(), 2)])
    case["outer"] = optimizer(source, 1.0)
    elements = list(range(size))
    source.shuffle(elements)
    # As equal as can be, the first ones longer.
    case["fragment_elements"] = [
        list(map(int, part)) for part in np.array_split(elements, fragments)
    ]
    return _outer(case, turn)


def _outer(case: Drawn, turn: int) -> Drawn:
    replicas, workers = replicas_of(case), case["workers"]
    elements, delay = case["fragment_elements"], case["delay"]
    late = case["convention"] == "paper"
    point = np.array(case["problem"]["initial"])
    velocity = np.zeros_like(point)
    rows, syncs = [], []
    for step in range(1, STEPS + 1):
        for replica in replicas:
            replica.apply(replica.compute())
        end = step if late else step + delay  # of the turn whose sync is sent now
        if end % turn == 0:
            number = end // turn - 1
            fragment = (number + late) % case["fragments"]
            part = elements[fragment]
            sent = [replica.now for replica in replicas]
            own = [point[part] - replica.x[part] for replica in replicas]
            syncs.append(
                {
                    "sync": number,
                    "fragment": fragment,
                    "send_step": step,
                    "apply_step": step + delay,
                    "sent": sent,
                    "complete": max(sent),
                    "pseudo_gradient": mean(own),
                }
            )
        for sync in syncs:
            if sync["apply_step"] != step:
                continue
            part = elements[sync["fragment"]]
            for replica in replicas:
                replica.wait_until(max(replica.now, sync["complete"]))
            sync["applied"] = [replica.now for replica in replicas]
            new, velocity[part] = stepped(
                case["outer"], point[part], sync["pseudo_gradient"], velocity[part]
            )
            mixing = case["mixing"]
            for replica in replicas:
                x = replica.x.copy()
                x[part] = mixing * x[part] + (1 - mixing) * new if mixing else new
                replica.x = x
            point = point.copy()
            point[part] = new
            sync["synced"] = new.tolist()
            sync["pseudo_gradient"] = sync["pseudo_gradient"].tolist()
        rows.append({"step": step, "x": [replica.x.tolist() for replica in replicas]})
    assert len(replicas) == workers
    case["expect"] = {
        "steps": rows,
        "syncs": [sync for sync in syncs if "applied" in sync],
        "left": sum("applied" not in sync for sync in syncs),
        "step_ends": [replica.ends for replica in replicas],
        "blocked": [joined(replica.blocked) for replica in replicas],
    }
    return case
