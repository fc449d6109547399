"""A field that can have no effect where it stands is refused, not ignored."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import scenario, slow
from tests.lives import CHECKPOINT, FAILURES, MORTAL

Case = dict[str, Any]

WIRE = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "fair"}
OTHER_STAR = {**WIRE, "bandwidth": 2e4}
MIRRORED: Case = {"strategy": {"kind": "on_write"}, "network": WIRE}
COPIES: Case = {**MIRRORED, "strategy": {"kind": "on_read", "read_every": 2}}
DEVICE: Case = {**MIRRORED, "workload": {"model": "resnet50", "batch_size": 32}}
TIMED: Case = {
    **MIRRORED,
    "problem": {"kind": "timing"},
    "workload": {"model": "resnet50", "optimizer": None},
}
SIZED: Case = {
    **MIRRORED,
    "problem": {"kind": "timing", "size": 100.0},
    "workload": {"optimizer": None},
}
LAYERS = ({"backward": 1.0, "size": 1e3}, {"backward": 1.0, "size": 1e3})
LAYERED: Case = {
    **MIRRORED,
    "strategy": {"kind": "on_write", "overlap": True},
    "workload": {"layers": LAYERS},
}
PRESET = {"preset": "a100_sxm_80gb"}


def device(described: Case) -> Case:
    return {**DEVICE, "cluster": {"compute": None, "device": described}}


def buckets(**settings: object) -> Case:
    """Settings of the buckets of two layers."""
    return {**LAYERED, "strategy": {"kind": "on_write", **settings}}


def alone(kind: str, change: Case) -> Case:
    """A change of the cluster for one strategy."""
    return {**MIRRORED, "strategy": {"kind": kind, "on": change}}


IDLE: dict[str, Case] = {
    "precision of a peak": device({"peak": 1e13, "precision": "bf16"}),
    "measured rate of a peak": device({"peak": 1e13, "measured": True}),
    "measured rate that nobody measured": device({**PRESET, "measured": True}),
    "peak of a preset": device({**PRESET, "peak": 1e13}),
    "device besides compute times": {**DEVICE, "cluster": {"device": PRESET}},
    "bandwidth of a preset": {
        **MIRRORED,
        "network": {"preset": "10gbe", "bandwidth": 1e4, "latency": 0.0},
    },
    "hidden units of softmax": {**MIRRORED, "problem": {"kind": "digits", "hidden": 8}},
    "condition of one dimension": {
        **MIRRORED,
        "problem": {"dimension": 1, "condition_number": 2.0},
    },
    "optimizer without values": {**TIMED, "workload": {"model": "resnet50"}},
    "slow worker that is not there": {
        **MIRRORED,
        "cluster": {"slow_workers": (slow(3, 2.0),)},
    },
    "slow link that is not there": {
        **MIRRORED,
        "network": {**WIRE, "slow_links": (slow(3, 2.0),)},
    },
    "window without length": {
        **MIRRORED,
        "cluster": {"slow_workers": (slow(0, 2.0, after=1.0, until=1.0),)},
    },
    "servers nobody uses": {**MIRRORED, "cluster": {"parameter_servers": 2}},
    "placement nobody uses": {**MIRRORED, "cluster": {"placement": "by_bytes"}},
    "partitioner nobody uses": {
        **MIRRORED,
        "cluster": {"placement": "by_bytes", "partitioner": {"kind": "max_size", "size": 10.0}},
    },
    "partitioner of what is cut anyway": {
        **MIRRORED,
        "strategy": {"kind": "none"},
        "cluster": {"partitioner": {"kind": "max_size", "size": 10.0}},
    },
    "one part": {
        **MIRRORED,
        "strategy": {"kind": "none"},
        "cluster": {"placement": "by_bytes", "partitioner": {"kind": "fixed", "shards": 1}},
    },
    "own partitioner without a use": alone(
        "on_write", {"partitioner": {"kind": "max_size", "size": 10.0}}
    ),
    "server bandwidth nobody uses": {
        **MIRRORED,
        "network": {**WIRE, "server_bandwidth": 1e3},
    },
    "groups of a ring": {
        **MIRRORED,
        "strategy": {"kind": "on_write", "ranks_per_group": 3},
    },
    "segments of a ring": {
        **MIRRORED,
        "strategy": {"kind": "on_write", "segment_size": 10.0},
    },
    "segments of shards": {
        **MIRRORED,
        "strategy": {
            **{"kind": "on_write", "sharding": "optimizer", "collective": "hierarchical"},
            **{"ranks_per_group": 2, "segment_size": 10.0},
        },
    },
    "additions where nothing is added up": {
        **MIRRORED,
        "strategy": {"kind": "none"},
        "cluster": {"overheads": {"reduction": 1e6}},
    },
    "pull without servers": {**MIRRORED, "cluster": {"overheads": {"pull": 1e-3}}},
    "push without servers": {**MIRRORED, "cluster": {"overheads": {"push": 1e-3}}},
    "wake without servers": {**MIRRORED, "cluster": {"overheads": {"wake": 1e-3}}},
    "commit without an update loop": {
        **MIRRORED,
        "strategy": {"kind": "none"},
        "cluster": {"overheads": {"commit": 1e-3}},
    },
    "updates of servers that are not there": {
        **MIRRORED,
        "cluster": {"server_update": {"rate": 1e6}},
    },
    "updates of copies": {**COPIES, "cluster": {"server_update": {"rate": 1e6}}},
    "updates of a worker alone": {
        **MIRRORED,
        "strategy": {"kind": "single"},
        "cluster": {"server_update": {"rate": 1e6}},
    },
    "threads for updates that take no time": {
        **MIRRORED,
        "strategy": {"kind": "none"},
        "cluster": {"server_update": {"threads": 2}},
    },
    "message without a collective": {
        **MIRRORED,
        "strategy": {"kind": "none"},
        "cluster": {"overheads": {"message": 1e-3}},
    },
    "message of a read that needs none": {
        **COPIES,
        "strategy": {"kind": "on_read", "aggregation": "only_first_replica"},
        "cluster": {"overheads": {"message": 1e-3}},
    },
    "payload of a worker alone": {
        **MIRRORED,
        "strategy": {"kind": "single"},
        "cluster": {"overheads": {"payload": 1e6}},
    },
    "backward share where nothing overlaps": {**MIRRORED, "cluster": {"backward_share": 0.5}},
    "overlap pace where nothing overlaps": {**MIRRORED, "cluster": {"overlap_pace": 0.5}},
    "overlap pace where servers add up": {
        **MIRRORED,
        "strategy": {"kind": "on_write", "collective": "push_pull", "overlap": True},
        "cluster": {"overlap_pace": 0.5},
    },
    "backward share of phases": {
        **LAYERED,
        "cluster": {
            "backward_share": 0.5,
            "compute": {"kind": "phases", "forward": 0.1, "backward": 0.1},
        },
    },
    "layers where nothing overlaps": {
        **MIRRORED,
        "workload": {"model": "resnet50", "layers": "by_bytes"},
    },
    "layers of a profile that is not there": {
        **LAYERED,
        "workload": {"model": "resnet50", "layers": "resnet5"},
    },
    "layers of a profile without a model": {**LAYERED, "workload": {"layers": "resnet50"}},
    "layers by work without a model": {**LAYERED, "workload": {"layers": "by_flops"}},
    "layers besides a model": {
        **LAYERED,
        "workload": {"model": "resnet50", "layers": LAYERS},
    },
    "layers besides a size": {
        **SIZED,
        "workload": {"optimizer": None, "layers": LAYERS},
    },
    "no layers": {**LAYERED, "workload": {"layers": ()}},
    "layers without a backward pass": {
        **LAYERED,
        "workload": {"layers": ({"backward": 0.0, "size": 1e3},)},
    },
    "layers of fewer bytes than variables": {
        **LAYERED,
        "problem": {"kind": "linear_regression"},
        "workload": {"layers": ({"backward": 1.0, "size": 1.0},)},
    },
    "bytes per parameter of layers": {
        **LAYERED,
        "workload": {"layers": LAYERS, "bytes_per_parameter": 8},
    },
    "precision of layers": {
        **LAYERED,
        "workload": {"layers": LAYERS, "gradient_precision": "fp16"},
    },
    "optimizer time on servers": {
        **MIRRORED,
        "strategy": {"kind": "none"},
        "cluster": {"optimizer_time": 0.01},
    },
    "overlap of one layer": {**MIRRORED, "strategy": {"kind": "on_write", "overlap": True}},
    "overlap of one layer that is pushed": {
        **MIRRORED,
        "strategy": {"kind": "none", "overlap": True},
    },
    "overlap where workers die": {**LAYERED, "events": ({"at": 0.1, "kill": {"worker": 1}},)},
    "buckets of tensors that servers add up": buckets(collective="push_pull", bucket_size=1e3),
    "groups of servers": buckets(collective="push_pull", ranks_per_group=3),
    "requests of servers that only add up": {
        **MIRRORED,
        "strategy": {"kind": "on_write", "collective": "push_pull"},
        "cluster": {"overheads": {"wake": 1e-3}},
    },
    "size of buckets of layers": buckets(bucketing="layers", bucket_size=1e3),
    "packs without a size": buckets(bucketing="bytes_per_pack"),
    "first bucket of layers": buckets(bucketing="layers", first_bucket_size=1e3),
    "first pack": buckets(bucketing="bytes_per_pack", bucket_size=1e3, first_bucket_size=1e2),
    "first bucket larger than others": buckets(bucket_size=1e3, first_bucket_size=2e3),
    "size besides a model": {**SIZED, "workload": {"model": "resnet50", "optimizer": None}},
    "bytes per parameter of a size": {
        **SIZED,
        "workload": {"optimizer": None, "bytes_per_parameter": 8},
    },
    "precision of a size": {
        **SIZED,
        "workload": {"optimizer": None, "gradient_precision": "fp16"},
    },
    "precision where no gradient is sent": {**COPIES, "workload": {"gradient_precision": "fp16"}},
    "precision of a worker alone": {
        **MIRRORED,
        "strategy": {"kind": "single"},
        "workload": {"gradient_precision": "fp16"},
    },
    "rounding to nothing": {**MIRRORED, "workload": {"round_gradients": True}},
    "rounding without values": {
        **TIMED,
        "workload": {
            "model": "resnet50",
            "optimizer": None,
            "gradient_precision": "fp16",
            "round_gradients": True,
        },
    },
    "device without a model": {
        **SIZED,
        "cluster": {"compute": None, "device": {"peak": 1e13}},
    },
    "fewer bytes than parts": {**SIZED, "problem": {"kind": "timing", "size": 3.0, "parts": 4}},
    "own servers without a use": alone("on_write", {"parameter_servers": 2}),
    "own placement without a use": alone("on_write", {"placement": "by_bytes"}),
    "own server bandwidth without a use": alone(
        "on_write", {"network": {**WIRE, "server_bandwidth": 1e3}}
    ),
    "own network of a single worker": alone("single", {"network": OTHER_STAR}),
    "own change of nothing": alone("on_write", {}),
    "evaluations where only reads evaluate": {**COPIES, "workload": {"evaluate_every": 5}},
    "equal examples of a single strategy": {
        **MIRRORED,
        "stop": {"global_steps": 3, "equal_examples": False},
    },
    "equal examples without updates": {
        **MIRRORED,
        "stop": {"examples": 30, "equal_examples": False},
    },
    "end at a loss alone": {**MIRRORED, "stop": {"loss": 0.1}},
    "end at a loss without values": {**TIMED, "stop": {"global_steps": 3, "loss": 0.1}},
    "target loss without values": {**TIMED, "targets": {"loss": 0.1}},
    "averages without values": {
        **TIMED,
        "strategy": {
            "kind": "sync_replicas",
            "replicas_to_aggregate": 2,
            "variable_averages": {"decay": 0.9},
        },
    },
    "event after the end": {
        **MIRRORED,
        "stop": {"time": 1.0},
        "events": ({"at": 1.0, "kill": {"worker": 0}},),
    },
    "death of a chief that is not there": {
        **MIRRORED,
        "events": ({"at": 1.0, "kill": "chief"},),
    },
    "end of a chief that is not there": {
        **MIRRORED,
        "events": ({"at": 1.0, "stop": "chief"},),
    },
    "death of a worker that is not there": {
        **MIRRORED,
        "events": ({"at": 1.0, "kill": {"worker": 3}},),
    },
    "checkpoint where nothing fails": {**MIRRORED, "checkpoint": CHECKPOINT},
    "recovery where nothing fails": {**MIRRORED, "recovery": {"restart": 1.0}},
    "spares of hosts that are back at once": {
        **MORTAL,
        "failures": {**FAILURES, "of": ({"domain": "worker", "mtbf": 50.0},)},
        "recovery": {"spares": {"hot": 1}},
    },
    "no spares": {**MORTAL, "recovery": {"spares": {}}},
    "swap of hot spares": {**MORTAL, "recovery": {"spares": {"hot": 1, "swap": 1.0}}},
    "snapshot of a blocking write": {**MORTAL, "checkpoint": {**CHECKPOINT, "snapshot": 1.0}},
    "slowdown of a blocking write": {**MORTAL, "checkpoint": {**CHECKPOINT, "slowdown": 1.0}},
    "death of a worker that takes no part": {
        "strategy": {"kind": "single"},
        "events": ({"at": 1.0, "kill": {"worker": 1}},),
    },
}


@pytest.mark.parametrize("case", IDLE)
def test_a_field_without_effect_is_refused(case: str) -> None:
    with pytest.raises(ValidationError):
        scenario(**IDLE[case])


def test_a_choice_of_strategies_leaves_out_what_only_the_others_used() -> None:
    whole = scenario(
        {"kind": "on_write"},
        strategies=({"kind": "on_read"}, {"kind": "none"}, {"kind": "on_write"}),
        cluster={"parameter_servers": 2, "placement": "by_bytes"},
        network={**WIRE, "server_bandwidth": 1e3},
        workload={"evaluate_every": 5},
    )
    reads = whole.with_only(whole.strategies[:1])
    assert reads.cluster == whole.cluster.without_servers()
    assert reads.cluster.network.server_bandwidth is None
    assert reads.workload.evaluate_every is None
    mortal = scenario(
        {"kind": "on_write"},
        strategies=({"kind": "single"}, {"kind": "on_write"}),
        events=({"at": 1.0, "kill": {"worker": 0}}, {"at": 1.0, "kill": {"worker": 1}}),
    )
    assert mortal.with_only(mortal.strategies[:1]).events == mortal.events[:1]
    assert mortal.with_only(mortal.strategies[1:]).events == mortal.events
    served = whole.with_only(whole.strategies[1:2])
    assert (served.cluster, served.workload) == (whole.cluster, whole.workload)


def test_a_choice_of_strategies_leaves_out_what_matters_only_with_overlap() -> None:
    whole = scenario(
        {"kind": "on_write"},
        strategies=({"kind": "none"}, {"kind": "on_read"}, {"kind": "on_write", "overlap": True}),
        cluster={"backward_share": 0.5, "optimizer_time": 0.01, "overlap_pace": 0.4},
        network=WIRE,
        workload={"model": "resnet50", "layers": "by_bytes"},
    )
    served, copies, overlapping = (whole.with_only((one,)) for one in whole.strategies)
    assert (served.cluster.backward_share, served.cluster.optimizer_time) == (None, None)
    assert (copies.cluster.backward_share, copies.cluster.optimizer_time) == (None, 0.01)
    assert (copies.cluster.overlap_pace, overlapping.cluster.overlap_pace) == (None, 0.4)
    assert (served.workload.layers, copies.workload.layers) == (None, None)
    assert (overlapping.cluster, overlapping.workload) == (whole.cluster, whole.workload)


def test_a_list_of_layers_says_sizes_whoever_uses_them() -> None:
    whole = scenario(**LAYERED, strategies=({"kind": "none"}, LAYERED["strategy"]))
    assert whole.with_only(whole.strategies[:1]).workload == whole.workload


def test_a_choice_of_strategies_leaves_out_overheads_that_only_the_others_had() -> None:
    overheads = {"first_iteration": 0.1, "pull": 1e-3, "message": 2e-3, "payload": 1e6}
    whole = scenario(
        {"kind": "on_write"},
        strategies=({"kind": "single"}, {"kind": "none"}, {"kind": "on_write"}),
        cluster={"overheads": overheads},
        network=WIRE,
    )
    kept = [whole.with_only((strategy,)).cluster.overheads for strategy in whole.strategies]
    assert [one.given for one in kept if one is not None] == [
        ["first_iteration"],
        ["first_iteration", "pull", "payload"],
        ["first_iteration", "message", "payload"],
    ]
    without = scenario(
        {"kind": "on_write"},
        strategies=({"kind": "single"}, {"kind": "none"}),
        cluster={"overheads": {"pull": 1e-3}},
    )
    assert without.with_only(without.strategies[:1]).cluster.overheads is None
