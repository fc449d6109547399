"""Pairs of scenarios that differ in what overlap, buckets, layers and phases are."""

from knob_cases import MIRRORED, WIRE, Case, law, layers, two

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

OF_OVERLAP: dict[str, tuple[Case, Case]] = {
    "Cluster.backward_share": two(OVERLAPPING, cluster__backward_share=(None, 0.5)),
    "Cluster.overlap_pace": two(OVERLAPPING, cluster__overlap_pace=(None, 0.5)),
    "Cluster.optimizer_time": two(MIRRORED, cluster__optimizer_time=(None, 0.01)),
    "Workload.layers": two(OVERLAPPING, workload__layers=(None, "by_bytes")),
    "Layer.backward": two(LAYERED, workload__layers=(layers(1.0, 1e3), layers(2.0, 1e3))),
    "Layer.size": two(LAYERED, workload__layers=(layers(1.0, 1e3), layers(1.0, 2e3))),
    "Phases.forward": law("phases", forward=(0.1, 0.2), backward=0.1),
    "Phases.backward": law("phases", forward=0.1, backward=(0.1, 0.2)),
}
