"""The benchmarks' scenarios, and the same through the textbook program."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from tests.benchmarks.textbook import TextbookAllReduce, TextbookAsync, TextbookSync
from varsim.scenario.training import Scenario
from varsim.study.simulation import Run, run_one
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


def one(what: Scenario, **options: Any) -> Callable[[], object]:
    """One run of the scenario's only strategy."""
    return lambda: run_one(Run(what, 0, 0), **options)
