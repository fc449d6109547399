"""Pairs of scenarios that differ in what overlap, buckets, layers and phases are."""

from knob_cases import MIRRORED, WIRE, Case, law, two

OVERLAPPING: Case = {
    **MIRRORED,
    "strategy": {"kind": "on_write", "overlap": True},
    "network": {**WIRE, "bandwidth": 1e9},
    "workload": {"model": "resnet50"},
}


def layers(backward: float, size: float) -> tuple[Case, ...]:
    """Two layers; the second one, of which this says what it takes, is ready first."""
    return ({"backward": 1.0, "size": 1e3}, {"backward": backward, "size": size})


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
    "OnWrite.overlap": two(LAYERED, strategy__overlap=(False, True)),
    "OnWrite.bucketing": two(LAYERED, strategy__bucketing=("layers", "ddp")),
    "OnWrite.bucket_size": two(
        LAYERED,
        strategy=(
            {"kind": "on_write", "bucket_size": 10.0},
            {"kind": "on_write", "bucket_size": 2e3},
        ),
    ),
    "OnWrite.first_bucket_size": two(
        LAYERED,
        strategy=(
            {"kind": "on_write", "bucket_size": 2e3, "first_bucket_size": 10.0},
            {"kind": "on_write", "bucket_size": 2e3},
        ),
    ),
    "NoSynchronization.overlap": two(
        {**LAYERED, "strategy": {"kind": "none"}}, strategy__overlap=(False, True)
    ),
    "SyncReplicas.overlap": two(
        {**LAYERED, "strategy": {"kind": "sync_replicas", "replicas_to_aggregate": 2}},
        strategy__overlap=(False, True),
    ),
    "BackupWorkers.overlap": two(
        {**LAYERED, "strategy": {"kind": "backup_workers", "replicas_to_aggregate": 2}},
        strategy__overlap=(False, True),
    ),
    "Phases.forward": law("phases", forward=(0.1, 0.2), backward=0.1),
    "Phases.backward": law("phases", forward=0.1, backward=(0.1, 0.2)),
}
