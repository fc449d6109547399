"""A job that outlives its workers, and what its failures and checkpoints may be."""

from typing import Any

from tests.building import declared, example
from tests.seams import STRATEGIES

Case = dict[str, Any]

SOURCE: Case = {"domain": "worker", "mtbf": 50.0, "repair": 5.0}
FAILURES: Case = {"horizon": 200.0, "detection": 1.0, "of": (SOURCE,)}
RECORDED: Case = {"failures": ((30.0, "worker", 0), (60.0, "link", 1)), "repair": 5.0}
WEIBULL: Case = {"kind": "weibull", "mean": 50.0, "shape": 0.7}
CHECKPOINT: Case = {"every": 10.0, "write": 1.0}
ASYNCHRONOUS: Case = {**CHECKPOINT, "mode": "asynchronous"}
MORTAL: Case = {
    "strategy": "on_write",
    "network": {
        "kind": "racks",
        "hosts_per_rack": 2,
        "oversubscription": 1.0,
        "bandwidth": 1e4,
        "latency": 1e-3,
        "sharing": "fair",
    },
    "stop": {"global_steps": 6},
    "failures": FAILURES,
    "checkpoint": CHECKPOINT,
    "recovery": {"restart": 2.0},
}

ELASTIC: dict[str, Any] = {"on_death": "continue_with_fewer"}


def mortal(kind: str, workers: int = 3) -> dict[str, Any]:
    """A strategy that goes on, or waits, when workers die."""
    strategy = example(kind, workers)
    return {**strategy, **(ELASTIC if "on_death" in STRATEGIES[kind].model_fields else {})}


MORTALS = [kind for kind in STRATEGIES if declared(mortal(kind)).traits.outlives_workers]
