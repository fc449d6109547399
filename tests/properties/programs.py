"""Random programs of variables: every action, aggregation and mode, on a few machines."""

import random
from typing import Any

from pydantic import ValidationError

from tests.seams import VariablesScenario

WRITES = ["assign", "assign_add", "assign_sub"]


def drawn_program(seed: int) -> VariablesScenario:
    """One of each seed; what is refused is drawn again."""
    source = random.Random(f"program {seed}")
    while True:
        try:
            return VariablesScenario.model_validate(_described(source))
        except ValidationError:
            pass


def _described(source: random.Random) -> dict[str, Any]:
    pick = source.choice
    workers = source.randint(1, 4)
    names = ["v", "w"][: source.randint(1, 2)]
    variables = tuple(
        {
            "name": name,
            "shape": pick([(), (3,), (1000,)]),
            "dtype": pick(["float32", "float64", "int32"]),
            "aggregation": pick(["none", "sum", "mean", "only_first_replica"]),
            "initial": pick([0.0, 1.0]),
        }
        for name in names
    )
    replicas = [_act(source, pick(names), workers) for _ in range(source.randint(1, 4))]
    outside = [_seen(source, pick(names)) for _ in range(source.randint(0, 3))]
    modes = ["on_read", "on_write", "none"]
    cluster: dict[str, Any] = {
        "workers": workers,
        "network": {
            "bandwidth": pick([1e6, 1e18]),
            "latency": pick([0.0, 1e-4]),
            "sharing": pick(["fair", "first_come"]),
        },
    }
    if source.random() < 0.5:
        replicas.insert(0, {"kind": "compute"})
        cluster["compute"] = pick(
            [{"kind": "constant", "value": 1e-3}, {"kind": "exponential", "mean": 1e-3}]
        )
    if source.random() < 0.3 and len(names) > 1:
        cluster["parameter_servers"] = 2
    more: dict[str, Any] = {}
    if source.random() < 0.3:
        more["cross_device_ops"] = pick(["hierarchical_copy", "reduction_to_one_device"])
    return {
        "kind": "variables",
        "name": "program",
        "seed": source.randrange(10),
        "cluster": cluster,
        "variables": variables,
        "modes": tuple(mode for mode in modes if source.random() < 0.6),
        "program": {
            "steps": source.randint(1, 4),
            "replicas": tuple(replicas),
            "outside": tuple(outside),
        },
        **more,
    }


def _act(source: random.Random, name: str, workers: int) -> dict[str, Any]:
    """What a replica does, to a variable; sometimes more often, or not in every step."""
    kind = source.choice([*WRITES, *WRITES, "read", "moving_average"])
    often = source.choice([{}, {}, {"times": 2}, {"every": 2}])
    if kind == "read":
        return {"kind": kind, "variable": name, **often}
    values: list[Any] = [2.0, tuple(float(rank) for rank in range(workers))]
    if kind != "moving_average":
        values.append({"kind": "normal", "mean": 1.0, "standard_deviation": 2.0})
    momentum = {"momentum": 0.5} if kind == "moving_average" else {}
    return {"kind": kind, "variable": name, "value": source.choice(values), **momentum, **often}


def _seen(source: random.Random, name: str) -> dict[str, Any]:
    """What is done outside of replicas."""
    kind = source.choice(["read", "read", "save", "restore", *WRITES])
    often = source.choice([{}, {}, {"every": 2}])
    if kind in ("save", "restore"):
        return {"kind": kind, **often}
    return {"kind": kind, "variable": name, **often, **({"value": 3.0} if kind in WRITES else {})}
