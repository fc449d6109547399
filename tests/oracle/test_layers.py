"""Layers that wait for collectives of their own take the times that loops by hand say."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.building import run
from tests.oracle.layers import STEPS, Cluster, Drawn, drawn

SAMPLE = range(300)


def steps(case: Drawn) -> list[int]:
    layers = tuple(
        {"backward": 2.0 * work, "size": float(size)}
        for work, size in zip(case["work"], case["sizes"], strict=True)
    )
    whole = sum(case["work"]) / 1e3
    optimizer = {"optimizer_time": case["optimizer_ms"] / 1e3} if case["optimizer_ms"] else {}
    settings = {key: case[key] for key in ("sharding", "overlap") if case[key]}
    network = {
        "bandwidth": case["bandwidth"],
        "latency": case["latency_ms"] / 1e3,
        "sharing": case["sharing"],
    }
    if case["micro_batches"] > 1:
        settings["micro_batches"] = case["micro_batches"]
    if case["group"]:
        settings["shard_group"] = "node"
        inside = {"bandwidth": case["inside"], "latency": case["latency_ms"] / 1e3}
        per_node = {"workers_per_node": case["group"], "nics": case["group"]}
        network |= {"kind": "nodes", "inside": inside, **per_node}
    trace = run(
        {"kind": "on_write", "bucketing": "layers", **settings},
        cluster={
            "workers": case["workers"],
            "compute": {"kind": "phases", "forward": whole, "backward": 2 * whole},
            "slow_workers": tuple(
                {"rank": rank, "factor": float(factor)}
                for rank, factor in enumerate(case["slow"][: case["workers"]])
                if factor > 1
            ),
            **optimizer,
        },
        network=network,
        problem={"kind": "timing"},
        workload={"layers": layers, "optimizer": None},
        stop={"global_steps": STEPS},
    )
    return [int(time) for time in trace.steps]


def compare(seeds: Sequence[int]) -> None:
    for seed in seeds:
        case = drawn(seed)
        assert steps(case) == Cluster(case).run(), (seed, case)


def test_to_the_nanosecond() -> None:
    compare(SAMPLE[:40])


@pytest.mark.slow
def test_many_to_the_nanosecond() -> None:
    compare(SAMPLE[40:])


def test_what_is_drawn() -> None:
    met: Counter[object] = Counter()
    for case in map(drawn, SAMPLE):
        met[case["sharding"], case["overlap"]] += 1
        met["latency"] += case["latency_ms"] > 0
        met["slow"] += max(case["slow"][: case["workers"]]) > 1
        met[case["sharing"]] += 1
        met["update"] += case["optimizer_ms"] > 0
        met["accumulates", case["sharding"]] += case["micro_batches"] > 1
        if case["sharding"]:
            met["groups", case["sharding"]] += case["workers"] > (case["group"] or case["workers"])
    assert min(met.values()) >= 10, met
    assert len(met) == 21
