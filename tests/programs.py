"""Small scenarios of variables for tests, on a cluster whose times can be added up by hand.

A link carries 1 MB/s, so a byte takes 1 us; the latency is 100 us.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from tests.seams import VariablesScenario

Mode: TypeAlias = Literal["on_read", "on_write", "none"]
MODES: tuple[Mode, ...] = ("on_read", "on_write", "none")
WIRE = {"bandwidth": 1e6, "latency": 1e-4}
LATENCY = 100
US = 1_000  # ns

Line = Mapping[str, Any]


def add(*values: float, **changes: Any) -> dict[str, Any]:
    """A replica's assign_add to v: one value for all, or one for each."""
    value = values[0] if len(values) == 1 else values
    return {"kind": "assign_add", "variable": "v", "value": value, **changes}


def read(**changes: Any) -> dict[str, Any]:
    """A read of v."""
    return {"kind": "read", "variable": "v", **changes}


def variable(**changes: Any) -> dict[str, Any]:
    """v: one number of float32, summed."""
    return {"name": "v", "aggregation": "sum", **changes}


def scenario(
    replicas: Sequence[Line] = (),
    outside: Sequence[Line] = (),
    *,
    steps: int = 1,
    cluster: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | None = None,
    **changes: Any,
) -> VariablesScenario:
    """Three replicas, v, all modes; the rest as given."""
    whole = {
        "kind": "variables",
        "name": "test",
        "cluster": {"workers": 3, "network": {**WIRE, **(network or {})}, **(cluster or {})},
        "variables": (variable(),),
        "modes": MODES,
        "program": {"steps": steps, "replicas": tuple(replicas), "outside": tuple(outside)},
    }
    return VariablesScenario.model_validate({**whole, **changes})
