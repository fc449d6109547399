"""One run through SimPy, beside textbook programs of the same scenario."""

from collections.abc import Iterator
from functools import partial

from bench.cases import SETTINGS, leaner, one, scenario, textbook
from bench.measuring import Row, Task, in_turn

# Of a full run beside T, and of times only.
FULL = {
    ("sync_replicas", 8): 0.88,
    ("sync_replicas", 64): 0.75,
    ("sync_replicas", 512): 0.72,
    ("none", 64): 0.90,
    ("on_write", 64): 1.5,
}
TIMES = {("sync_replicas", 8): 0.30, ("sync_replicas", 64): 0.30, ("sync_replicas", 512): 0.30}
OTHERS = [kind for kind in SETTINGS if kind not in ("sync_replicas", "none", "on_write")]


def rows(long: bool) -> Iterator[Row]:
    """Full runs and times only; long: what recording and laziness cost, too."""
    for kind, workers in FULL:
        steps = max(25, 6_000 // workers)
        full = scenario(kind, workers, steps, "softmax")
        times = scenario(kind, workers, steps, "timing")
        tasks: dict[str, Task] = {
            "T": partial(textbook, times),
            "L": leaner(times),
            "full": one(full),
            "times": one(times),
        }
        if long:
            tasks |= {"no record": one(full, record=False), "eager": one(full, lazy=False)}
        turns = in_turn(tasks, 3)
        name = f"{kind}, W = {workers:,}"
        yield Row(f"full run / T, {name}", FULL.get((kind, workers)), turns.ratio("full", "T"))
        goal = TIMES.get((kind, workers))
        yield Row(f"times only / T, {name}", goal, turns.ratio("times", "T"))
        yield Row(f"full run / L, {name}", None, turns.ratio("full", "L"))
        yield Row(f"times only / L, {name}", None, turns.ratio("times", "L"))
        if long:
            yield Row(f"full run, recorded / not, {name}", None, turns.ratio("full", "no record"))
            yield Row(f"full run, eager / lazy, {name}", None, turns.ratio("eager", "full"))
    for kind in OTHERS:
        yield from beside_the_leaner(kind)


def beside_the_leaner(kind: str) -> Iterator[Row]:
    """A strategy of which there is no other yardstick."""
    steps = 2_500 // (1 if kind == "single" else 64)
    full, times = (scenario(kind, 64, steps, problem) for problem in ("softmax", "timing"))
    tasks = {"L": leaner(times), "full": one(full), "times": one(times)}
    turns = in_turn(tasks, 2)
    yield Row(f"full run / L, {kind}, W = 64", None, turns.ratio("full", "L"))
    yield Row(f"times only / L, {kind}, W = 64", None, turns.ratio("times", "L"))
