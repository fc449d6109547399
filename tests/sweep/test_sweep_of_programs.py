"""Programs of variables are swept like training: over any of their keys."""

from typing import Any

import pytest

import varsim
from tests.programs import MODES, WIRE, add, read, scenario, variable
from tests.seams import simulate
from varsim import ScenarioError

LARGE = variable(shape=(1000,), aggregation="mean")
TIMES = "program.outside.0.times"


def large(**changes: Any) -> Any:
    return scenario((add(3.0, 1.0, 2.0, times=4),), (read(),), variables=(LARGE,), **changes)


def test_a_row_is_what_a_run_gives() -> None:
    table = varsim.sweep(
        large(), {TIMES: [1, 3], "cross_device_ops": ["ring", "hierarchical_copy"]}
    )
    assert len(table.rows) == 2 * 2 * 3
    for row in table.rows:
        result = simulate(row.candidate.point.scenario)
        for metric in ("step_time_mean", "bytes_per_step", "messages_per_step", "share_barrier"):
            assert list(row.values(metric)) == result.values(row.strategy, metric)


def test_what_matters_to_no_run_of_a_mode_is_run_once() -> None:
    table = varsim.sweep(large(), {"cluster.network.server_bandwidth": [1e6, 2e6, 4e6]})
    cases = {
        mode: {r.candidate.case.key for r in table.rows if r.strategy == mode} for mode in MODES
    }
    assert {mode: len(keys) for mode, keys in cases.items()} == {
        "on_read": 1, "on_write": 1, "none": 3,
    }  # fmt: skip


def test_random_times_are_repeated_until_they_are_precise_in_any_number_of_processes() -> None:
    law = {"kind": "exponential", "mean": 1e-3}
    cluster = {"workers": 3, "compute": law, "network": WIRE}
    made = scenario(
        ({"kind": "compute"}, add(1.0)), (read(),), cluster=cluster, variables=(LARGE,),
        replications=2, steps=4,
    )  # fmt: skip
    one, two = (
        varsim.sweep(made, {TIMES: [1, 8]}, most_replications=4, jobs=jobs) for jobs in (1, 2)
    )
    assert one.sha256 == two.sha256
    assert {row.replications for row in one.rows} <= {2, 3, 4}


def test_modes_that_are_practically_equal_are_fastest_together() -> None:
    """Steps of 1 s differ by some 100 us."""
    long = {"workers": 3, "compute": {"kind": "constant", "value": 1}}
    made = scenario((add(1.0), {"kind": "compute"}), (read(),), cluster=long)
    (over,) = varsim.sweep(made, {TIMES: [1, 2]}).report.headline
    assert (over.code, set(over.values["best1"])) == ("fastest-from", set(MODES))
    assert "best2" not in over.values


def test_a_key_that_is_not_there_and_a_plan_are_refused() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'program'"):
        varsim.sweep(large(), {"programm.steps": [1, 2]})
    with pytest.raises(ScenarioError, match="kind variables is not planned"):
        varsim.plan({**large().model_dump(mode="json", exclude_none=True), "plan": {}})
