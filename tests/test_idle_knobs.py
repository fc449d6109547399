"""A field that can have no effect where it stands is refused, not ignored."""

from typing import Any

import pytest
from building import scenario, slow
from pydantic import ValidationError

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
PRESET = {"preset": "a100_sxm_80gb"}


def device(described: Case) -> Case:
    return {**DEVICE, "cluster": {"compute": None, "device": described}}


def alone(kind: str, change: Case) -> Case:
    """A change of the cluster for one strategy."""
    return {**MIRRORED, "strategy": {"kind": kind, "on": change}}


IDLE: dict[str, Case] = {
    "precision of a peak": device({"peak": 1e13, "precision": "bf16"}),
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
    "server bandwidth nobody uses": {
        **MIRRORED,
        "network": {**WIRE, "server_bandwidth": 1e3},
    },
    "own servers without a use": alone("on_write", {"parameter_servers": 2}),
    "own placement without a use": alone("on_write", {"placement": "by_bytes"}),
    "own server bandwidth without a use": alone(
        "on_write", {"network": {**WIRE, "server_bandwidth": 1e3}}
    ),
    "own network of a single worker": alone("single", {"network": OTHER_STAR}),
    "own change of nothing": alone("on_write", {}),
    "evaluations where only reads evaluate": {**COPIES, "workload": {"evaluate_every": 5}},
    "end at a loss alone": {**MIRRORED, "stop": {"loss": 0.1}},
    "end at a loss without values": {**TIMED, "stop": {"global_steps": 3, "loss": 0.1}},
    "target loss without values": {**TIMED, "targets": {"loss": 0.1}},
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
    served = whole.with_only(whole.strategies[1:2])
    assert (served.cluster, served.workload) == (whole.cluster, whole.workload)
