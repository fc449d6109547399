"""Rough times of a double binary tree on links that several ranks share, beside the run's."""

from typing import Any

import pytest
from building import run, scenario

from varsim.cluster.envelope import Envelope

Case = dict[str, Any]

LINKS = {"bandwidth": 1e9, "latency": 1e-6}
NODES: Case = {**LINKS, "kind": "nodes", "workers_per_node": 4}
INSIDE = {"bandwidth": 40e9, "latency": 1e-6}


@pytest.mark.parametrize("sharing", ["fair", "first_come"])
@pytest.mark.parametrize(
    ("network", "off"),
    [
        ({**NODES, "inside": INSIDE}, 0.05),
        ({**LINKS, "kind": "racks", "hosts_per_rack": 4, "oversubscription": 2.0}, 0.15),
        ({**LINKS, "kind": "racks", "hosts_per_rack": 4, "oversubscription": 4.0}, 0.35),
        ({**LINKS, "kind": "ring"}, 0.2),
    ],
)
def test_a_double_tree_on_shared_links(network: Case, off: float, sharing: str) -> None:
    settings: Case = {
        "cluster": {"workers": 8, "compute": {"kind": "constant", "value": 1e-12}},
        "network": {**network, "sharing": sharing},
        "problem": {"kind": "timing", "size": 64e6},
        "workload": {"batch_size": 1, "optimizer": None},
    }
    described = {"kind": "on_write", "collective": "double_binary_tree"}
    made = scenario(described, **settings)
    envelope = Envelope(made.cluster, made.workload, made.seed)
    roughly = made.strategies[0].estimate(envelope).step_time
    assert roughly == pytest.approx(run(described, **settings).steps[0] / 1e9, rel=off)
