"""What a worker-step costs in large clusters, beside a small one, and what is kept of it."""

import gc
import os
import tracemalloc
from collections.abc import Iterator
from importlib.util import find_spec

from bench.cases import leaner, one, scenario
from bench.measuring import Row, Spread, Task, in_turn
from bench.rows.engines import flat
from varsim.cluster.fast import ENGINE
from varsim.study.simulation import Run, run_one

STEPS = 25  # of each worker
KINDS = ("none", "sync_replicas")
OTHERS = ("on_write", "backup_workers", "k_batch_sync", "local_sgd")  # of 4,096 workers
GOALS = {4_096: 1.5, 16_384: 2.0}


def rows(long: bool) -> Iterator[Row]:
    """Per worker-step, W workers / 64, which make as many steps each, and as often as it takes.

    Long: with larger clusters, and how much the leaner yardstick grows.
    """
    for workers in GOALS if long else [4_096]:
        for kind in KINDS:
            quarter, often = workers // 64 // 4, 3 if workers == 4_096 else 1
            small = on_simpy(one(scenario(kind, 64, STEPS, "timing")))
            tasks = {
                "large": on_simpy(one(scenario(kind, workers, STEPS, "timing"))),
                "small": _repeated(small, quarter),
            }
            turns = in_turn(tasks, often, warm=workers > 4_096)
            name = f"per worker-step, {kind}, W = {workers:,} / W = 64"
            yield Row(name, GOALS[workers], turns.ratio("large", "small", 1 / 4))
            if long and workers == 4_096:
                lean = leaner(scenario(kind, 64, STEPS, "timing"))
                tasks = {
                    "large": leaner(scenario(kind, workers, STEPS, "timing")),
                    "small": _repeated(lean, quarter),
                }
                ratio = in_turn(tasks, often).ratio("large", "small", 1 / 4)
                yield Row(f"the same of L, {kind}, W = {workers:,} / W = 64", None, ratio)
            if find_spec("numba") is None:
                continue
            few = flat(scenario(kind, 64, STEPS, "timing"))
            tasks = {
                "large": flat(scenario(kind, workers, STEPS, "timing")),
                "small": _repeated(few, quarter),
            }
            turns = in_turn(tasks, often)
            yield Row(f"compiled, {name}", GOALS[workers], turns.ratio("large", "small", 1 / 4))
    for kind in OTHERS:
        tasks = {
            "large": on_simpy(one(scenario(kind, 4_096, STEPS, "timing"))),
            "small": _repeated(on_simpy(one(scenario(kind, 64, STEPS, "timing"))), 16),
        }
        ratio = in_turn(tasks, 2).ratio("large", "small", 1 / 4)
        yield Row(f"per worker-step, {kind}, W = 4,096 / W = 64", GOALS[4_096], ratio)
    for kind in (*KINDS, "on_write"):
        yield Row(f"kept of a worker-step, {kind}, W = 64", 150, Spread.of([kept(kind)]), " B")


def on_simpy(task: Task) -> Task:
    """The task on the engine that has processes."""

    def run() -> object:
        before = os.environ.get(ENGINE, "auto")
        os.environ[ENGINE] = "simpy"
        try:
            return task()
        finally:
            os.environ[ENGINE] = before

    return run


def kept(kind: str) -> float:
    """Bytes of a trace for each worker-step."""
    what = scenario(kind, 64, 100, "timing")
    one(what)()  # what is made once and for all
    tracemalloc.start()
    trace = run_one(Run(what, 0, 0))
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(trace.gradient_rows)


def _repeated(task: Task, times: int) -> Task:
    return lambda: [task() for _ in range(times)]
