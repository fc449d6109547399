"""Pairs of scenarios that differ in what overlap, buckets, layers and phases are."""

from typing import Any

from tests.knob_cases import MIRRORED, WIRE, Case, law, layers, two

OVERLAPPING: Case = {
    **MIRRORED,
    "strategy": {"kind": "on_write", "overlap": True},
    "network": {**WIRE, "bandwidth": 1e9},
    "workload": {"model": "resnet50"},
}


LAYERED: Case = {
    **MIRRORED,
    "strategy": {"kind": "on_write", "bucketing": "layers", "overlap": True},
    "workload": {"layers": layers(1.0, 1e3)},
}


def dropping(**settings: Any) -> dict[str, Any]:
    """Four micro-batches a step, of which some are dropped."""
    drop = {"threshold": 0.3, **settings}
    return {"kind": "on_write", "micro_batches": 4, "drop_compute": drop}


DROPPING: Case = {
    **MIRRORED,
    "cluster": {"compute": {"kind": "exponential", "mean": 0.1}},
    "stop": {"global_steps": 12},
}

OF_OVERLAP: dict[str, tuple[Case, Case]] = {
    "Cluster.backward_share": two(OVERLAPPING, cluster__backward_share=(None, 0.5)),
    "Cluster.overlap_pace": two(OVERLAPPING, cluster__overlap_pace=(None, 0.5)),
    "Cluster.optimizer_time": two(MIRRORED, cluster__optimizer_time=(None, 0.01)),
    "Workload.layers": two(OVERLAPPING, workload__layers=(None, "by_bytes")),
    "Layer.backward": two(LAYERED, workload__layers=(layers(1.0, 1e3), layers(2.0, 1e3))),
    "Layer.size": two(LAYERED, workload__layers=(layers(1.0, 1e3), layers(1.0, 2e3))),
    "DropCompute.threshold": two(DROPPING, strategy=(dropping(), dropping(threshold=0.4))),
    "DropCompute.divide_by": two(DROPPING, strategy=(dropping(), dropping(divide_by="all"))),
    "Phases.forward": law("phases", forward=(0.1, 0.2), backward=0.1),
    "Phases.backward": law("phases", forward=0.1, backward=(0.1, 0.2)),
}
