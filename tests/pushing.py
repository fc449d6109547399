"""Runs in which parameter servers add gradients up."""

from typing import Any

from tests.building import run
from tests.seams import Trace

Case = dict[str, Any]

# n bytes take n ns on 1 GB/s, without a latency.
FAIR = {"bandwidth": 1e9, "latency": 0.0, "sharing": "fair"}
FIRST_COME = {**FAIR, "sharing": "first_come"}
PUSH_PULL = {"kind": "on_write", "collective": "push_pull"}


def layers(backward: list[float], sizes: list[float]) -> tuple[Case, ...]:
    return tuple({"backward": b, "size": s} for b, s in zip(backward, sizes, strict=True))


def pushed(**changes: Any) -> Trace:
    """A run of 2 workers and a server; unless said, of three layers and 60 of 100 ms backwards."""
    strategy = {**PUSH_PULL, **changes.pop("strategy", {})}
    phases = {"kind": "phases", "forward": 0.04, "backward": 0.06}
    workload = {"layers": layers([0.03, 0.02, 0.01], [2.5e6, 5e6, 10e6])}
    settings = {
        "network": FAIR,
        "problem": {"kind": "timing"},
        **changes,
        "cluster": {"workers": 2, "compute": phases, **changes.pop("cluster", {})},
        "workload": {"optimizer": None, **changes.pop("workload", workload)},
    }
    return run(strategy, **settings)


def whole(size: float, **cluster: Any) -> Case:
    """Settings of one tensor of so many bytes, and 100 ms of compute."""
    return {
        "problem": {"kind": "timing", "size": size},
        "workload": {},
        "cluster": {"compute": {"kind": "constant", "value": 0.1}, **cluster},
    }


def cut(parts: int) -> Case:
    """Settings of a cluster that cuts every tensor into so many parts, in turn on the servers."""
    in_turn: Case = {"placement": "round_robin"}
    return in_turn | ({"partitioner": {"kind": "fixed", "shards": parts}} if parts > 1 else {})
