"""`report.measure_after`: rates and shares of what comes after a warm-up, all else of the whole."""

from typing import Any

import pytest

from tests.building import scenario
from tests.handmade import a_result, a_trace
from tests.seams import METRICS, Result, Run, run_one, simulate
from varsim.study.case import case_of, measured
from varsim.study.metrics import ACTIVITIES


def warmed(after: float, **changes: Any) -> Result:
    return a_result(report={"measure_after": after}, **changes)


def test_the_handmade_run_after_four_seconds() -> None:
    """Ten seconds with updates at 3, 5 and 10 s; of two workers."""
    found = {name: warmed(4.0).values("none", name)[0] for name in METRICS}
    assert found["updates_per_s"] == pytest.approx(2 / 6)
    # Half a gradient at 5, a whole one at 10, of 10 examples each.
    assert found["gradients_per_s"] == pytest.approx(1.5 / 6)
    assert found["examples_per_s"] == pytest.approx(15 / 6)
    assert found["step_time_mean"] == 5.0
    # Worker 0 reads at 0, 3, 7, worker 1 at 0 and 5: no iteration begins after 4 s and ends.
    assert found["iteration_time_mean"] != found["iteration_time_mean"]
    # Worker 0 computes 4 to 6 and 8 to 9, worker 1 6 to 10: 7 of 12 s.
    assert found["share_compute"] == pytest.approx(7 / 12)
    # Dropped: 4 to 6; half of what worker 1 applied was computed before 4 s.
    assert found["wasted_compute"] == pytest.approx(2 / 7)
    # Applied at 5 s at step 1 and at 10 s at step 2, both read of step 0 and 2: at 0 and 7 s.
    assert (found["staleness_mean"], found["staleness_max"]) == (0.5, 1)
    assert found["age_mean"] == pytest.approx((5 + 3) / 2)
    whole = a_result()
    rates = ("_per_s", "step_time", "iteration_time", "share_", "wasted", "speedup")
    rates += ("staleness", "age_")
    for name in METRICS:
        of_all = name.startswith(("applied_share", "copy_staleness"))
        if of_all or not any(part in name for part in rates):
            assert found[name] == whole.values("none", name)[0] or found[name] != found[name]


KINDS = ({"kind": "on_write"}, {"kind": "none"}, {"kind": "on_read"})


def real(**changes: Any) -> Result:
    compute = {"kind": "shifted_exponential", "minimum": 0.05, "mean": 0.1}
    return simulate(
        scenario({}, strategies=KINDS, cluster={"compute": compute}, stop={"time": 5.0}, **changes)
    )


def test_parts_of_the_time_still_add_up() -> None:
    result = real(report={"measure_after": 1.0})
    for strategy in result.strategies:
        parts = [result.values(strategy, f"share_{name}")[0] for name in ACTIVITIES]
        assert sum(parts) == pytest.approx(1.0)


def test_sweeps_have_the_same_numbers() -> None:
    result = real(report={"measure_after": 1.0})
    made = result.scenario
    case = case_of(made, made.strategies[1])
    alone = measured(case.scenario, run_one(Run(case.scenario, 0, 0)))
    for name in ("examples_per_s", "share_compute", "step_time_mean", "wasted_compute"):
        assert alone[name] == result.values("none", name)[0]
    plain = real().scenario
    assert case_of(plain, plain.strategies[1]).key != case.key


def test_a_run_that_ends_before_has_no_rates() -> None:
    found = warmed(20.0)
    assert found.values("none", "examples_per_s")[0] != found.values("none", "examples_per_s")[0]
    assert found.values("none", "updates") == [3.0]
    assert a_trace().end == 10_000_000_000


def test_nothing_left_to_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves nothing to measure"):
        real(report={"measure_after": 5.0})
