"""DropCompute and gradient accumulation once more, from the rules of the recorded cases alone."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracle.periodic import Drawn, Vector, optimizer, stepped

STEPS = 9


def drop_compute(seed: int) -> Drawn:
    """A case with what is to come out; a threshold above all times drops nothing."""
    source = random.Random(f"{seed} drop compute")
    workers, number = source.choice([1, 2, 3, 4, 7]), source.randint(2, 6)
    few = source.random() < 0.5  # so that much happens at the threshold
    times = [
        [
            [source.randint(1, 4) * 10 if few else source.randint(1, 90) for _ in range(number)]
            for _ in range(STEPS)
        ]
        for _ in range(workers)
    ]
    size = source.randint(2, 4)

    def vector(low: float, high: float) -> list[float]:
        return [round(source.uniform(low, high), 2) for _ in range(size)]

    shortest = min(time for own in times for step in own for time in step)
    threshold = source.randint(1, 14) * 10 if few else source.randint(1, 300)
    case: Drawn = {
        "id": "drawn",
        "workers": workers,
        "micro_batches": number,
        "threshold_ms": max(threshold, shortest),
        "divide_by": source.choice(["computed", "all"]),
        "steps": STEPS,
        "rtol": 0.0,
        "micro_ms": times,
        "problem": {
            "initial": vector(-2, 2),
            "gradient": "quadratic_micro",
            "a": [vector(0.2, 1.6) for _ in range(workers)],
            "micro_target": [[vector(-3, 3) for _ in range(number)] for _ in range(workers)],
        },
        "optimizer": optimizer(source, 0.08),
    }
    return _expected(case)


def _expected(case: Drawn) -> Drawn:
    x = np.array(case["problem"]["initial"])
    velocity = np.zeros_like(x)
    now, rows, number = 0, [], case["micro_batches"]
    waits: list[list[list[int]]] = [[] for _ in range(case["workers"])]
    for step in range(STEPS):
        ends = [_computed(case, own[step]) for own in case["micro_ms"]]
        counts = [len(done) for done, _ in ends]
        stopped = [now + used for _, used in ends]
        end = max(stopped)
        for worker, time in enumerate(stopped):
            if time < end:
                waits[worker].append([time, end])
        # Each sends its sum over the number of micro-batches; these are added by rank.
        sent = [
            _added([_gradient(case, worker, each, x) for each in done]) / number
            for worker, (done, _) in enumerate(ends)
            if done
        ]
        total = sum(counts)
        if total:
            among = total if case["divide_by"] == "computed" else number * case["workers"]
            mean = _added(sent) / (among / number)
            x, velocity = stepped(case["optimizer"], x, mean, velocity)
        rows.append(
            {
                "step": step,
                "start": now,
                "end": end,
                "stopped": stopped,
                "computed": counts,
                "total": total,
                "x": x.tolist(),
            }
        )
        now = end
    case["expect"] = {"steps": rows, "blocked": waits}
    return case


def _computed(case: Drawn, times: Sequence[int]) -> tuple[list[int], int]:
    """Which micro-batches of a step a worker computes, and how long it is at it (ms)."""
    used, done = 0, []
    for each, time in enumerate(times):
        if used >= case["threshold_ms"]:
            break
        used += time
        done.append(each)
    return done, used


def _gradient(case: Drawn, worker: int, each: int, x: Vector) -> Vector:
    problem: Any = case["problem"]
    gradient: Vector = np.array(problem["a"][worker]) * (
        x - np.array(problem["micro_target"][worker][each])
    )
    return gradient


def _added(vectors: Sequence[Vector]) -> Vector:
    total = vectors[0]
    for vector in vectors[1:]:
        total = total + vector
    return total
