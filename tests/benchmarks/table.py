"""Prints how much CPU time varsim takes beside a textbook SimPy program of the same scenario.

    .venv/bin/python -m tests.benchmarks.table [--quick]

Both run in turn in one process; every figure is a median of CPU times, every ratio a ratio of
medians of one run. The full run has real softmax gradients (digits, batch 32), all updates and
all spans; the yardstick keeps time only and records nothing.
"""

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tests.benchmarks.replay import replay
from tests.benchmarks.textbook import TextbookAllReduce, TextbookAsync, TextbookSync
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, run_one, started
from varsim.values.stream import stream

BANDWIDTH, LATENCY = 12.5e12, 0.0  # bytes/s, s: ports that nobody has to wait for long
LAW = {"kind": "shifted_exponential", "minimum": 0.1, "mean": 0.12}


def scenario(kind: str, workers: int, steps: int, problem: str, shards: int = 1) -> Scenario:
    """The benchmark's scenario: first-come ports, backups N = 0.95 W."""
    strategy: dict[str, Any] = {"kind": kind}
    if kind == "sync_replicas":
        strategy["replicas_to_aggregate"] = max(1, int(0.95 * workers))
    updates = steps * workers if kind == "none" else steps
    values: dict[str, Any] = {
        "softmax": {
            "problem": {"kind": "digits", "model": "softmax"},
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
        "quadratic": {
            "problem": {"kind": "quadratic", "dimension": 650, "noise": 1.0},
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
        "timing": {"problem": {"kind": "timing"}, "model": "resnet50"},
    }[problem]
    return Scenario.model_validate(
        {
            "name": "benchmark",
            "seed": 1,
            "replications": 1,
            "cluster": {
                "workers": workers,
                "compute": LAW,
                "parameter_servers": shards if kind != "on_write" else 1,
                "network": {
                    "bandwidth": BANDWIDTH,
                    "latency": LATENCY,
                    "sharing": "first_come",
                },
            },
            "workload": {
                **values,
                "batch_size": 32,
                **({"evaluate_every": 10**12} if problem == "softmax" else {}),
            },
            "strategies": (strategy,),
            "stop": {"global_steps": updates},
        }
    )


def textbook(what: Scenario, shards: int = 1) -> int:
    """The same draws and sizes through the yardstick; its end in ns."""
    cluster, workload = what.cluster, what.workload
    (strategy,) = what.strategies
    law = cluster.compute_distribution(workload)
    draws = [
        chain.from_iterable(
            np.rint(block * 1e9).astype(np.int64).tolist()
            for block in law.blocks(
                rank, lambda block, rank=rank: stream(what.seed, 0, "compute", rank, block)
            )
        )
        for rank in range(cluster.workers)
    ]
    assert what.stop.global_steps is not None
    common: dict[str, Any] = {
        "draws": draws,
        "shards": shards,
        "hold": round(workload.size() / shards / cluster.network.worker_rate * 1e9),
        "latency": round(cluster.network.delay * 1e9),
        "updates": what.stop.global_steps,
    }
    if strategy.kind == "sync_replicas":
        return TextbookSync(strategy.replicas_to_aggregate, **common).run()  # type: ignore[attr-defined]
    if strategy.kind == "none":
        return TextbookAsync(**common).run()
    workers = cluster.workers
    chunk = round(workload.size() / workers / cluster.network.worker_rate * 1e9)
    return TextbookAllReduce(2 * (workers - 1) * (chunk + common["latency"]), **common).run()


def cpu(runs: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Median CPU seconds of each, run in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeat + 1):
        for name, run in runs.items():
            gc.collect()
            start = time.process_time()
            run()
            if turn:  # the first turn warms up
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def one(what: Scenario, **options: Any) -> Callable[[], object]:
    """One run of the scenario's only strategy."""
    return lambda: run_one(Run(what, 0, 0), **options)


def row(kind: str, workers: int, worker_steps: int, repeat: int) -> None:
    """One line of the table."""
    steps = max(25, worker_steps // workers)
    full = scenario(kind, workers, steps, "softmax")
    times = scenario(kind, workers, steps, "timing")
    sixteen_shards = scenario(kind, workers, max(10, steps // 10), "timing", 16)
    runs: dict[str, Callable[[], object]] = {
        "textbook": lambda: textbook(times),
        "full": one(full),
        "full, no record": one(full, record=False),
        "eager": one(full, lazy=False),
        "times": one(times),
    }
    if kind != "on_write" and workers == 64:
        runs["textbook 16"] = lambda: textbook(sixteen_shards, 16)
        runs["times 16"] = one(sixteen_shards)
    median = cpu(runs, repeat)
    base = median["textbook"]
    trace = run_one(Run(times, 0, 0))
    per_step = 1e9 / len(trace.gradients)
    sixteen = (
        f"{median['times 16'] / median['textbook 16']:10.3f}" if "times 16" in median else " " * 10
    )
    print(
        f"{kind:14}{workers:6}{base * per_step:10.0f}{median['times'] * per_step:9.0f}"
        f"{median['full'] * per_step:9.0f}{median['full'] / base:9.2f}{median['times'] / base:9.2f}"
        f"{median['eager'] / median['full']:9.2f}{median['full'] / median['full, no record']:9.2f}"
        f"{sixteen}{(trace.heap_events - workers) / len(trace.gradients):9.2f}",
        flush=True,
    )


def check_values(kind: str, workers: int) -> None:
    """The final parameters of a run, with one variable, are those of an eager numpy run."""
    what = scenario(kind, workers, 20, "quadratic")
    job, strategy = started(Run(what, 0, 0))
    trace = job.run(strategy.label)
    (value,) = job.model()
    assert value.tobytes() == replay(what, trace).tobytes(), f"{kind}: other values than eagerly"


def main() -> None:
    """Check the values, then print the table."""
    quick = "--quick" in sys.argv
    for kind in ("sync_replicas", "none", "on_write"):
        check_values(kind, 64)
    print("Final parameters equal those of an eager numpy run bit for bit, W = 64.")
    print(
        "CPU ns per worker-step (textbook, times only, full run), then ratios of one run each\n"
        f"{'strategy':14}{'W':>6}{'textbook':>10}{'times':>9}{'full':>9}{'full/T':>9}{'times/T':>9}"
        f"{'eager/f':>9}{'rec on/off':>9}{'16sh/T16':>10}{'heap/ws':>9}"
    )
    for kind in ("sync_replicas", "none", "on_write"):
        for workers in (8, 64, 512) if quick else (8, 64, 512, 4096):
            row(kind, workers, 4_000 if quick else 50_000, 3 if quick else 7)


if __name__ == "__main__":
    main()
