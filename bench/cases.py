"""The benchmarks' scenarios, and the same through the textbook program."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np

from bench import lean
from bench.textbook import TextbookAllReduce, TextbookAsync, TextbookSync
from varsim.cluster.clock import uncollected
from varsim.cluster.record.trace import Trace
from varsim.core.stream import stream
from varsim.scenario.training import Scenario
from varsim.strategies import STRATEGIES
from varsim.study.simulation import Run, started

BANDWIDTH, LATENCY = 12.5e12, 0.0  # bytes/s, s: ports that nobody has to wait for long
LAW = {"kind": "shifted_exponential", "minimum": 0.1, "mean": 0.12}

PERIOD: Final = 5  # steps from exchange to exchange, where workers go on alone
# Settings of each strategy for so many workers; backups N = 0.95 W.
SETTINGS: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "sync_replicas": lambda workers: {"replicas_to_aggregate": max(1, int(0.95 * workers))},
    "none": lambda workers: {},
    "on_write": lambda workers: {},
    "backup_workers": lambda workers: {"replicas_to_aggregate": max(1, int(0.95 * workers))},
    "k_batch_sync": lambda workers: {"k": workers},
    "k_async": lambda workers: {"k": min(4, workers)},
    "k_batch_async": lambda workers: {"k": 4},
    "ssp": lambda workers: {"staleness": 3},
    "on_read": lambda workers: {"read_every": PERIOD},
    "local_sgd": lambda workers: {"period": PERIOD},
    "diloco": lambda workers: {"inner_steps": PERIOD},
    "easgd": lambda workers: {"period": PERIOD},
    "gossip": lambda workers: {},
    "single": lambda workers: {},
}
# How many updates W workers make in a step of all.
UPDATES: Final[dict[str, Callable[[int], float]]] = {
    "none": float,
    "ssp": float,
    "easgd": float,
    "k_async": lambda workers: workers / 4,
    "k_batch_async": lambda workers: workers / 4,
}


def _once(workers: int) -> float:
    return 1.0


def scenario(kind: str, workers: int, steps: int, problem: str, shards: int = 1) -> Scenario:
    """The benchmark's scenario: first-come ports, backups N = 0.95 W."""
    strategy: dict[str, Any] = {"kind": kind, **SETTINGS[kind](workers)}
    updates = round(steps * UPDATES.get(kind, _once)(workers))
    at_reads = STRATEGIES[kind].model_validate(strategy).round.of == "outer step"
    problems: dict[str, dict[str, Any]] = {
        "softmax": {
            "problem": {"kind": "digits", "model": "softmax"},
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
        "quadratic": {
            "problem": {"kind": "quadratic", "dimension": 650, "noise": 1.0},
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
        "timing": {"problem": {"kind": "timing"}, "model": "resnet50"},
    }
    values = problems[problem]
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
                **({"evaluate_every": 10**12} if problem == "softmax" and not at_reads else {}),
            },
            "strategies": (strategy,),
            "stop": {"global_steps": updates},
        }
    )


def textbook(what: Scenario, shards: int = 1) -> int:
    """The same draws and sizes through the yardstick; its end in ns."""
    (strategy,) = what.strategies
    common = told_all(what, shards) | {"draws": draws_of(what)}
    if strategy.kind == "sync_replicas":
        return TextbookSync(strategy.replicas_to_aggregate, **common).run()  # type: ignore[attr-defined]
    if strategy.kind == "none":
        return TextbookAsync(**common).run()
    return TextbookAllReduce(_ring(what), **common).run()


def leaner(what: Scenario) -> Callable[[], int]:
    """The same through the leaner yardstick of any strategy, to be called as often as one likes."""
    (strategy,) = what.strategies
    common, ring = told_all(what, 1), _ring(what)
    settings: dict[str, Any] = vars(strategy)
    assert what.stop.global_steps is not None
    updates, kind = what.stop.global_steps, strategy.kind
    each = updates / UPDATES.get(kind, _once)(what.cluster.workers)
    # More than anybody needs, also where who has come begins again.
    times = [[next(draws) for _ in range(round(3 * each) + 100)] for draws in draws_of(what)]

    def run() -> int:
        programs: dict[str, Callable[..., Any]] = {
            "sync_replicas": partial(lean.LeanSync, _number(settings, "replicas_to_aggregate")),
            "none": lean.LeanAsync,
            "on_write": partial(lean.LeanAllReduce, ring),
            "backup_workers": partial(lean.LeanCutoff, _number(settings, "replicas_to_aggregate")),
            "k_batch_sync": partial(lean.LeanCutoff, _number(settings, "k"), True),
            "k_async": partial(lean.LeanKAsync, _number(settings, "k")),
            "k_batch_async": partial(lean.LeanKBatchAsync, _number(settings, "k")),
            "ssp": partial(lean.LeanSsp, _number(settings, "staleness")),
            "on_read": partial(lean.LeanPeriodic, PERIOD, ring=ring),
            "local_sgd": partial(lean.LeanPeriodic, PERIOD, ring=ring),
            "diloco": partial(lean.LeanPeriodic, PERIOD, ring=ring),
            "easgd": partial(lean.LeanElastic, PERIOD),
            "gossip": lean.LeanGossip,
            "single": lean.LeanSingle,
        }
        ended: int = programs[kind](draws=list(map(iter, times)), **common).run()
        return ended

    return run


def told_all(what: Scenario, shards: int) -> dict[str, Any]:
    """What all yardsticks are told."""
    network = what.cluster.network
    return {
        "shards": shards,
        "hold": round(what.workload.size() / shards / network.worker_rate * 1e9),
        "latency": round(network.delay * 1e9),
        "updates": what.stop.global_steps,
    }


def draws_of(what: Scenario) -> list[Iterator[int]]:
    """The compute times (ns) of each worker."""
    law = what.cluster.compute_distribution(what.workload)
    return [
        chain.from_iterable(
            np.rint(block * 1e9).astype(np.int64).tolist()
            for block in law.blocks(rank, partial(stream, what.seed, 0, "compute", rank))
        )
        for rank in range(what.cluster.workers)
    ]


def _number(settings: dict[str, Any], name: str) -> int:
    """A setting that only some strategies have, and all that are asked for it."""
    return int(settings.get(name, 0))


def _ring(what: Scenario) -> int:
    """How long a ring all-reduce takes (ns)."""
    workers, network = what.cluster.workers, what.cluster.network
    chunk = round(what.workload.size() / workers / network.worker_rate * 1e9)
    return 2 * (workers - 1) * (chunk + round(network.delay * 1e9))


def one(what: Scenario, **options: Any) -> Callable[[], Trace]:
    """One run of the scenario's only strategy, on SimPy."""

    @uncollected()
    def run() -> Trace:
        job, strategy = started(Run(what, 0, 0), **options)
        return job.run(strategy.label)

    return run
