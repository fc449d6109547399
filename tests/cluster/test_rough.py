"""Rough times of a double binary tree on links that several ranks share, beside the run's."""

from typing import Any

import pytest
from building import run, scenario

from varsim.cluster.envelope import Envelope
from varsim.cluster.rough_push_pull import rough_push_pull

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


def test_what_servers_add_up_is_pushed_then_added_then_pulled() -> None:
    # 10 MB of both workers at 1 GB/s: 20 ms each way on the server's port, 10 to add each of them.
    made = scenario(
        {"kind": "on_write", "collective": "push_pull"},
        network={"bandwidth": 1e9, "latency": 0.0},
        problem={"kind": "timing", "size": 10e6},
        workload={"optimizer": None},
        cluster={"workers": 2, "server_update": {"rate": 1e9}},
    )
    roughly = rough_push_pull(made.cluster, made.workload)
    assert roughly == pytest.approx((0.02 + 2 * 0.01 + 0.02, 0.02 + 0.01 + 0.02))
