"""Runs in which much happens at once, on the engine for times alone and on SimPy."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
from building import assert_same

from varsim.cluster.flat.compiled import INTERPRETED
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario
from varsim.study.engine import flat_run
from varsim.study.simulation import Run, run_one

COMPILED = pytest.param(
    False, marks=pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
)
CLUSTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "overheads": {
        "overheads": {"first_iteration": 0.001, "message": 0.0001, "reduction": 1000.0},
        "optimizer_time": 0.001,
    },
    "slow": {
        "slow_workers": (
            {"rank": 1, "factor": 3.0, "after": 0.01, "until": 0.05},
            {"rank": 2, "factor": 1.5},
        )
    },
}


def tied(
    strategy: dict[str, Any],
    stop: dict[str, Any] | None = None,
    workload: dict[str, Any] | None = None,
    **cluster: Any,
) -> Scenario:
    """All times are whole milliseconds, and much happens at once; layers of 1, 2 and 3 ms."""
    network = {"kind": "star", "bandwidth": 1000.0, "latency": 0.001, "sharing": "fair"}
    layers = tuple({"backward": 1.0, "size": 6.0 * size} for size in (2, 1, 3))
    return Scenario.model_validate(
        {
            "name": "tied",
            "seed": 5,
            "cluster": {
                "workers": 6,
                "compute": {"kind": "constant", "value": 0.006},
                "network": network,
                **cluster,
            },
            "workload": {
                "batch_size": 1,
                **(workload or {"problem": {"kind": "timing"}, "layers": layers}),
            },
            "strategies": ({"kind": "on_write", **strategy},),
            "stop": stop or {"global_steps": 5},
        }
    )


def same_on_both(
    scenario: Scenario,
    index: int = 0,
    events: int | None = None,
    *,
    kind: type = object,
    interpreted: bool = True,
) -> Trace:
    """Make a run on both engines, SimPy as chosen by the environment; on the other of this kind."""
    run, strategy = Run(scenario, index, scenario.seed % 3), scenario.strategies[index]
    expected = run_one(run, events=events)
    made = flat_run(scenario, strategy, run.replication, events, interpreted=interpreted)
    assert isinstance(made, kind)
    assert_same(made.trace(strategy.label), expected)
    return expected


def leave_often(monkeypatch: pytest.MonkeyPatch, few: int, loop: Callable[..., None]) -> list[None]:
    """The loop is left after so few events, as for signals; one more for every call of it."""
    calls: list[None] = []

    def counted(*memory: Any) -> None:
        calls.append(None)
        loop(*memory)

    monkeypatch.setattr("varsim.cluster.flat.run._SLICE", few)
    monkeypatch.setattr("varsim.cluster.flat.run.INTERPRETED", {**INTERPRETED, loop: counted})
    return calls
