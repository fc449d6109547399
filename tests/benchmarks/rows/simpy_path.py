"""One run through SimPy, beside textbook programs of the same scenario."""

from collections.abc import Iterator

from tests.benchmarks.cases import SETTINGS, leaner, one, scenario, textbook
from tests.benchmarks.measuring import Row, Spread, in_turn

# Of a full run beside T, and of times only.
FULL = {
    ("sync_replicas", 8): 0.88,
    ("sync_replicas", 64): 0.75,
    ("sync_replicas", 512): 0.72,
    ("none", 64): 0.90,
    ("on_write", 64): 1.5,
}
TIMES = {("sync_replicas", 8): 0.30, ("sync_replicas", 64): 0.30, ("sync_replicas", 512): 0.30}
REST = [(kind, 4096) for kind in ("sync_replicas", "none", "on_write")]
OTHERS = [kind for kind in SETTINGS if kind not in ("sync_replicas", "none", "on_write")]


def rows(long: bool) -> Iterator[Row]:
    """Full runs and times only; long: with large clusters, and what recording and laziness cost."""
    for kind, workers in [*FULL, *(REST if long else [])]:
        steps = max(25, (50_000 if long else 6_000) // workers)
        full = scenario(kind, workers, steps, "softmax")
        times = scenario(kind, workers, steps, "timing")
        tasks = {
            "T": lambda times=times: textbook(times),
            "L": leaner(times),
            "full": one(full),
            "times": one(times),
        }
        if long:
            tasks |= {"no record": one(full, record=False), "eager": one(full, lazy=False)}
        turns = in_turn(tasks, 7 if long else 4)
        name = f"{kind}, W = {workers:,}"
        yield Row(f"full run / T, {name}", FULL.get((kind, workers)), turns.ratio("full", "T"))
        goal = TIMES.get((kind, workers))
        yield Row(f"times only / T, {name}", goal, turns.ratio("times", "T"))
        yield Row(f"full run / L, {name}", None, turns.ratio("full", "L"))
        yield Row(f"times only / L, {name}", None, turns.ratio("times", "L"))
        if long:
            yield Row(f"full run, recorded / not, {name}", None, turns.ratio("full", "no record"))
            yield Row(f"full run, eager / lazy, {name}", None, turns.ratio("eager", "full"))
            trace = one(times)()
            events = (trace.heap_events - workers) / len(trace.gradients)
            yield Row(f"heap events per worker-step, {name}", None, Spread.of([events]))
    for kind in OTHERS:
        yield from beside_the_leaner(kind, 50_000 if long else 2_500, 7 if long else 2)


def beside_the_leaner(kind: str, worker_steps: int, repeat: int) -> Iterator[Row]:
    """A strategy of which there is no other yardstick."""
    steps = worker_steps // (1 if kind == "single" else 64)
    full, times = (scenario(kind, 64, steps, problem) for problem in ("softmax", "timing"))
    tasks = {"L": leaner(times), "full": one(full), "times": one(times)}
    turns = in_turn(tasks, repeat)
    yield Row(f"full run / L, {kind}, W = 64", None, turns.ratio("full", "L"))
    yield Row(f"times only / L, {kind}, W = 64", None, turns.ratio("times", "L"))
