"""What a worker-step costs in large clusters, beside a small one, and what is kept of it."""

import gc
import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.cases import one, scenario
from tests.benchmarks.measuring import Row, Spread, Task, in_turn
from tests.benchmarks.rows.engines import flat
from varsim.cluster.flat.rules import ENGINE
from varsim.scenario.loading import dump_scenario
from varsim.study.simulation import Run, run_one

STEPS = 25  # of each worker
KINDS = ("none", "sync_replicas", "on_write")
GOALS = {4_096: 1.6, 16_384: 2.0}
# Prints how many KiB of memory a command has taken at most.
PEAK = """
import resource, runpy, sys
try:
    runpy.run_module("varsim", run_name="__main__")
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def rows(long: bool) -> Iterator[Row]:
    """Per worker-step, W workers / 64, which make as many steps each, and as often as it takes."""
    for workers in GOALS if long else [4_096]:
        for kind in KINDS if long else KINDS[:2]:
            quarter = workers // 64 // 4
            small = on_simpy(one(scenario(kind, 64, STEPS, "timing")))
            tasks = {
                "large": on_simpy(one(scenario(kind, workers, STEPS, "timing"))),
                "small": lambda small=small, times=quarter: [small() for _ in range(times)],
            }
            turns = in_turn(tasks, 5 if long else 3)
            name = f"per worker-step, {kind}, W = {workers:,} / W = 64"
            yield Row(name, GOALS[workers], turns.ratio("large", "small", 1 / 4))
            if kind == "on_write" or find_spec("numba") is None:
                continue
            few = flat(scenario(kind, 64, STEPS, "timing"))
            tasks = {
                "large": flat(scenario(kind, workers, STEPS, "timing")),
                "small": lambda few=few, times=quarter: [few() for _ in range(times)],
            }
            turns = in_turn(tasks, 5 if long else 3)
            yield Row(f"compiled, {name}", GOALS[workers], turns.ratio("large", "small", 1 / 4))
    for kind in KINDS:
        yield Row(f"kept of a worker-step, {kind}, W = 64", 150, Spread.of([kept(kind)]), " B")
    if long:
        peak = Spread.of([peak_memory(1_000, 10_000)])
        yield Row("`varsim run` of 10 million worker-steps, W = 1,000", 1_000, peak, " MB")


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


def peak_memory(workers: int, steps: int) -> float:
    """Most memory (MB) that a run, its files and its page take."""
    with tempfile.TemporaryDirectory() as folder:
        text = dump_scenario(scenario("none", workers, steps, "timing"))
        Path(folder, "run.yaml").write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", PEAK, "run", "run.yaml", "--yes", "--jobs", "1"]
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {ENGINE: "simpy"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return int(done.stdout.split()[-1]) * 1024 / 1e6
