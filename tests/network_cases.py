"""Pairs of scenarios that differ in one setting of their network, for every kind of network."""

from typing import Any

from tests.building import slow
from tests.knob_cases import MIRRORED, SERVED, Case, two

WIRES = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "fair"}
INSIDE = {"bandwidth": 4e4, "latency": 1e-4}

# A protocol for short vectors.
SHORT = {"latency": 1e-4, "payload": 0.9}

# What every kind needs besides.
NEEDED: dict[str, Case] = {
    "star": {},
    "full_mesh": {},
    "racks": {"hosts_per_rack": 2, "oversubscription": 4.0},
    "nodes": {"workers_per_node": 2, "inside": INSIDE},
}
NAMES = {
    "star": "Star",
    "full_mesh": "FullMesh",
    "racks": "Racks",
    "nodes": "Nodes",
}
# Settings that all kinds have.
COMMON: dict[str, tuple[Any, Any]] = {
    "bandwidth": (1e4, 2e4),
    "latency": (1e-3, 2e-3),
    "efficiency": (1.0, 0.5),
    "message_overhead": (0.0, 1e-3),
    "sharing": ("fair", "first_come"),
    "slow_links": ((), (slow(1, 2.0),)),
}
# Settings of one kind.
OWN: dict[str, dict[str, tuple[Any, Any]]] = {
    "star": {"server_bandwidth": (None, 1e3)},
    "full_mesh": {},
    "racks": {
        "server_bandwidth": (None, 1e3),
        "hosts_per_rack": (2, 3),
        "oversubscription": (1.0, 4.0),
        "uplink_latency": (None, 5e-3),
    },
    "nodes": {
        "server_bandwidth": (None, 1e3),
        "workers_per_node": (2, 3),
        "nics": (1, 2),
        "inside": (INSIDE, {**INSIDE, "bandwidth": 2e4}),
    },
}


def served(kind: str, **more: Any) -> Case:
    """4 workers and 2 servers on such a network, with links inside on machines of workers."""
    on = {"servers_on": "workers"} if kind == "nodes" else {}
    return {
        **SERVED,
        "cluster": {**SERVED["cluster"], **on},
        "network": {"kind": kind, **WIRES, **NEEDED[kind], **more},
    }


def pair(kind: str, key: str, values: tuple[Any, Any]) -> tuple[Case, Case]:
    base = served(kind)
    if kind == "nodes" and key == "server_bandwidth":
        base["cluster"] = SERVED["cluster"]
    return two(base, **{f"network__{key}": values})


def replaced(kind: str, *changes: Case, drop: str = "") -> tuple[Case, ...]:
    """One case for each of these settings, without one of those that the kind needs."""
    cases = []
    for change in changes:
        case = served(kind)
        network = {key: value for key, value in case["network"].items() if key != drop}
        cases.append({**case, "network": {**network, **change}})
    return tuple(cases)


def _of_flows(kind: str, key: str, values: tuple[Any, Any]) -> tuple[Case, Case]:
    return two(served(kind, flows=1, flow_bandwidth=2e3), **{f"network__{key}": values})


def reduced(kind: str, *protocols: dict[str, float] | None) -> tuple[Case, ...]:
    """One case for each of these protocols, or for none, in which workers all-reduce."""
    inside = {"inside_latency": 1e-4} if kind == "nodes" else {}
    network = {"kind": kind, **WIRES, **NEEDED[kind]}
    return tuple(
        {**MIRRORED, "network": network | ({"protocols": ({**inside, **one},)} if one else {})}
        for one in protocols
    )


def _of_presets(kind: str) -> tuple[Case, Case]:
    case = two(served(kind), workload__model=("resnet50", "resnet50"))[0]
    network = {key: value for key, value in case["network"].items() if key != "bandwidth"}
    one, other = (
        {**case, "network": {**network, "preset": preset}} for preset in ("10gbe", "25gbe")
    )
    return one, other


def _pairs() -> dict[str, tuple[Case, ...]]:
    found: dict[str, tuple[Case, ...]] = {}
    for kind, name in NAMES.items():
        for key, values in {**COMMON, **OWN[kind]}.items():
            found[f"{name}.{key}"] = pair(kind, key, values)
        found[f"{name}.flows"] = _of_flows(kind, "flows", (1, 2))
        found[f"{name}.flow_bandwidth"] = _of_flows(kind, "flow_bandwidth", (2e3, 3e3))
        found[f"{name}.preset"] = _of_presets(kind)
        found[f"{name}.protocols"] = reduced(kind, None, SHORT)
    found["Racks.uplink_bandwidth"] = replaced(
        "racks", {"uplink_bandwidth": 1e4}, {"uplink_bandwidth": 2e4}, drop="oversubscription"
    )
    for key, values in (
        ("bandwidth", (4e4, 2e4)),
        ("latency", (1e-4, 1e-2)),
        ("efficiency", (1.0, 0.5)),
        ("shared", (False, True)),
    ):
        sides = [{"inside": {**INSIDE, key: value}} for value in values]
        found[f"Inside.{key}"] = replaced("nodes", *sides)
    for name, kind in (("WireProtocol", "star"), ("NodesProtocol", "nodes")):
        found[f"{name}.latency"] = reduced(kind, SHORT, {**SHORT, "latency": 2e-4})
        found[f"{name}.payload"] = reduced(kind, SHORT, {**SHORT, "payload": 0.8})
    inside = [{**SHORT, "payload": 1.0, "inside_latency": latency} for latency in (0.0, 5e-5)]
    found["NodesProtocol.inside_latency"] = tuple(
        {**case, "cluster": {"workers": 2}} for case in reduced("nodes", *inside)
    )
    presets = [{"inside": {"preset": preset, "latency": 1e-4}} for preset in ("10gbe", "25gbe")]
    resnet = {"workload": {"model": "resnet50"}}
    found["Inside.preset"] = tuple({**case, **resnet} for case in replaced("nodes", *presets))
    found["SlowLink.rank"] = two(SERVED, network__slow_links=((slow(0, 9.0),), (slow(1, 9.0),)))
    found["SlowLink.factor"] = two(MIRRORED, network__slow_links=((slow(0, 2.0),), (slow(0, 3.0),)))
    found["Cluster.servers_on"] = two(SERVED, cluster__servers_on=("dedicated", "workers"))
    found["ClusterChange.servers_on"] = two(
        SERVED,
        strategy=(
            {"kind": "none", "on": {"servers_on": "dedicated"}},
            {"kind": "none", "on": {"servers_on": "workers"}},
        ),
    )
    return found


NETWORK_KNOBS: dict[str, tuple[Case, ...]] = _pairs()
