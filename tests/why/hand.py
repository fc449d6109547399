"""Little clusters of which every time can be worked out by hand."""

from collections.abc import Mapping
from typing import Any

from tests.building import scenario
from varsim.scenario.training import Scenario

# 100 MB take 100 ms on every link.
SERVED = {"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"}


def timed(strategy: str | Mapping[str, Any], size: float = 1e8, **changes: Any) -> Scenario:
    """A scenario without values whose model has so many bytes; otherwise as in `scenario`."""
    described = {"kind": strategy} if isinstance(strategy, str) else strategy
    settings = {
        "problem": {"kind": "timing", "size": size},
        "workload": {"batch_size": 1, "optimizer": None},
        "network": SERVED,
        **changes,
    }
    return scenario(described, **settings)


def saturated(**changes: Any) -> Scenario:
    """Four workers of 100 ms at one server: what all read, or push, keeps its port 400 ms busy.

    By itself a worker needs 300 ms for an iteration: 100 ms to read, to compute and to push. So the
    port has always something to do: the first gradient is there at 300 ms, one more every 100 ms.
    """
    settings: dict[str, Any] = {"cluster": {"workers": 4}, "stop": {"global_steps": 40}}
    return timed("none", **{**settings, **changes})
