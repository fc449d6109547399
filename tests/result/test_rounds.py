"""By default rates are measured over whole rounds of all workers: how runs begin and end is out.

No transfer takes time: a batch of one example takes 100 ms, so a worker makes 10 examples/s.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.building import kill, scenario
from tests.handmade import SECOND, a_result
from tests.seams import Result, Run, run_one, simulate
from varsim.report.files.save import save
from varsim.report.products.figures import staleness
from varsim.scenario.targets import Prices
from varsim.study.beginning import begin
from varsim.study.case import case_of, measured
from varsim.study.result import costs
from varsim.study.why.account import looked_at

ON_WRITE, NONE, SINGLE = {"kind": "on_write"}, {"kind": "none"}, {"kind": "single"}
IN_THE_MIDDLE = {"time": 0.69}  # of the seventh step
SAID = (
    "Rates, shares, and the staleness and age of gradients are measured over whole rounds of "
    "all workers, from the end of the second to that of the last (report.measure_after: 0 s "
    "measures whole runs)."
)


def ran(*strategies: dict[str, Any], **changes: Any) -> Result:
    """A result of which nothing is said on where to measure."""
    return simulate(scenario({}, strategies=strategies, **{"report": {}, **changes}))


def rate(result: Result, metric: str = "examples_per_s", strategy: str = "") -> float:
    (value,) = result.values(strategy or result.first, metric)
    return value


def windows(result: Result) -> list[tuple[float, float]]:
    return [(window.start / SECOND, window.end / SECOND) for window in result.windows]


def test_a_run_that_ends_in_the_middle_of_a_step() -> None:
    """Three workers make a step of 3 examples in 100 ms: 6 in 690 ms, which is 26.1 in a second."""
    result = ran(ON_WRITE, stop=IN_THE_MIDDLE)
    assert windows(result) == [(0.2, 0.6)]
    assert rate(result) == pytest.approx(30)
    assert rate(result, "updates_per_s") == pytest.approx(10)
    assert rate(result, "gradients_per_s") == pytest.approx(30)
    assert (rate(result, "updates"), rate(result, "simulated_time")) == (6, 0.69)


def test_the_whole_run_where_that_is_asked_for() -> None:
    result = ran(ON_WRITE, stop=IN_THE_MIDDLE, report={"measure_after": 0.0})
    assert windows(result) == [(0, 0.69)]
    assert rate(result) == pytest.approx(18 / 0.69)


def test_a_warm_up_that_is_given_counts_to_the_end() -> None:
    result = ran(ON_WRITE, stop=IN_THE_MIDDLE, report={"measure_after": 0.15})
    assert windows(result) == [(0.15, 0.69)]
    assert rate(result) == pytest.approx(15 / 0.54)


def test_fewer_than_five_rounds_are_measured_whole() -> None:
    result = ran(ON_WRITE, stop={"time": 0.49})
    assert windows(result) == [(0, 0.49)]
    assert rate(result) == pytest.approx(12 / 0.49)
    assert windows(ran(ON_WRITE, stop={"time": 0.59})) == [(0.2, 0.5)]


def test_the_yardstick_is_measured_the_same_way() -> None:
    """One worker makes 6 steps in 690 ms as well; three in step are three times as fast."""
    result = ran(NONE, SINGLE, stop=IN_THE_MIDDLE)
    assert result.speeds_alone == pytest.approx([10])
    assert rate(result, "speedup", "single") == pytest.approx(1)
    assert rate(result, "speedup", "none") == pytest.approx(3)
    whole = ran(NONE, stop=IN_THE_MIDDLE, report={"measure_after": 0.0})
    assert whole.speeds_alone == pytest.approx([6 / 0.69])


def test_workers_that_march_in_step_without_waiting() -> None:
    """All update at once; the sixth round is cut off by the 16th update."""
    result = ran(NONE, stop={"global_steps": 16})
    assert windows(result) == [(0.2, 0.5)]
    assert rate(result) == pytest.approx(30)
    assert rate(result, "staleness_mean") == 2  # and not that of the beginning: 0 and 1 as well
    assert rate(result, "simulated_time") == pytest.approx(0.6)


def test_a_round_that_the_first_tokens_drop_is_left_out() -> None:
    """Four tokens for two gradients per update: of 300 ms one step only, then one in each 100."""
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "initial_tokens": 4}
    result = ran(strategy, stop={"time": 1.25})
    # Two updates are a round, in which three workers apply four gradients.
    assert (result.traces[0].steps[:3] / SECOND).tolist() == [0.1, 0.3, 0.4]
    assert windows(result) == [(0.5, 1.1)]
    assert rate(result) == pytest.approx(20)
    # One of three is late, every time.
    assert rate(result, "wasted_compute") == pytest.approx(1 / 3)


def test_a_round_of_on_read_is_that_of_its_reads() -> None:
    """Worker 2 takes 300 ms to a step; every 2 steps all meet: 6 examples in 600 ms."""
    slow = ({"rank": 2, "factor": 3.0},)
    strategy = {"kind": "on_read", "read_every": 2}
    result = ran(strategy, stop={"time": 3.25}, cluster={"slow_workers": slow})
    # Two have made their 4 steps of the sixth round already, in 250 of its 600 ms.
    assert windows(result) == [(1.2, 3.0)]
    assert rate(result) == pytest.approx(10)
    assert rate(result, "share_barrier") == pytest.approx(4 / 9)


def test_what_happens_in_the_middle_of_a_run_is_not_left_out() -> None:
    assert windows(ran(NONE, stop=IN_THE_MIDDLE, events=(kill(0.05, 2),))) == [(0, 0.69)]
    stuck = ran(ON_WRITE, stop={"time": 1.0}, events=(kill(0.65, 2),))
    assert stuck.standstills
    assert windows(stuck) == [(0, 1.0)]


@pytest.mark.parametrize("spell", [{"after": 0.3}, {"until": 0.3}])
def test_a_slow_spell_is_not_left_out_of_those_it_concerns(spell: dict[str, float]) -> None:
    slow = ({"rank": 1, "factor": 1.1, **spell},)
    result = ran(SINGLE, ON_WRITE, stop=IN_THE_MIDDLE, cluster={"slow_workers": slow})
    assert windows(result) == [(0.2, 0.6), (0, 0.69)]
    # As a sweep has it, alone, and without workers that take no part.
    case = case_of(result.scenario, result.scenario.strategies[0])
    alone = measured(case.scenario, run_one(Run(case.scenario, 0, 0)))
    assert alone["examples_per_s"] == rate(result)
    for_ever = ({"rank": 1, "factor": 1.1},)
    assert windows(ran(ON_WRITE, stop=IN_THE_MIDDLE, cluster={"slow_workers": for_ever})) == [
        (0.22, 0.66)
    ]


def real(**changes: Any) -> Result:
    compute = {"kind": "shifted_exponential", "minimum": 0.05, "mean": 0.1}
    return ran(ON_WRITE, NONE, cluster={"compute": compute}, stop={"time": 1.0}, **changes)


def test_sweeps_have_the_same_numbers() -> None:
    result = real()
    case = case_of(result.scenario, result.scenario.strategies[1])
    alone = measured(case.scenario, run_one(Run(case.scenario, 0, 0)))
    for name in ("examples_per_s", "share_compute", "step_time_mean", "wasted_compute"):
        assert alone[name] == rate(result, name, "none")
    whole = real(report={"measure_after": 0.0})
    assert rate(whole, strategy="none") != rate(result, strategy="none")
    # Runs that a store holds of the one are none of the other.
    assert case_of(whole.scenario, whole.scenario.strategies[1]).key != case.key
    same = [result.trace("none").steps.tolist(), whole.trace("none").steps.tolist()]
    assert same[0] == same[1]


def test_a_report_of_whole_runs_says_so_in_its_file(tmp_path: Path) -> None:
    """The summary says 0 s, so what was asked for then holds."""
    result = real(report={"measure_after": 0.0})
    save(result, tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert facts["scenario"]["report"]["measure_after"] == "0 s"
    assert all("measured_time_ns" not in run for run in facts["runs"])


def test_costs_and_plots_follow() -> None:
    result = ran(ON_WRITE, stop=IN_THE_MIDDLE, prices=Prices(device_hour=36.0))
    (million,) = costs(result, "on_write")["cost_per_million_examples"]
    assert million == pytest.approx(3 * 36 / 3600 / 30 * 1e6)
    marching = ran(NONE, stop=IN_THE_MIDDLE)
    (chart,) = staleness(marching, {"none": "async PS"})
    assert chart.data["mean"][2] == 1
    assert chart.remarks["async PS"].startswith("mean 2, ")


def test_by_hand() -> None:
    """Updates at 3, 5 and 10 s: of so few rounds all is measured."""
    assert a_result().windows == [(0, 10 * SECOND)]


def test_every_meeting_of_replicas_is_in_what_is_looked_at() -> None:
    """100 steps of 0.1 s, then an all-reduce of 5 s; twice, and one step: (2 * 15 + 0.1) s."""
    made = scenario(
        {"kind": "diloco"},
        problem={"kind": "timing", "size": 5e6},
        workload={"batch_size": 1, "optimizer": None},
        network={"bandwidth": 1e6, "latency": 0.0, "sharing": "fair"},
        cluster={"workers": 2},
        stop={"global_steps": 1000},
    )
    assert begin(made)[0].update == pytest.approx(30.1 / 201)
    whole = looked_at(made)  # 600 gradients: 3 rounds, and a step of both
    assert whole.stop.examples == 602


def test_what_was_dropped_before_any_of_that_is_not_wasted() -> None:
    # Two initial tokens: with them both workers begin a second time before the first update.
    tokens = {"kind": "sync_replicas", "replicas_to_aggregate": 2, "name": "two left"}
    kept = {**tokens, "initial_tokens": 0, "name": "none left"}
    result = ran(kept, tokens, cluster={"workers": 2}, stop={"global_steps": 6})

    assert rate(result, "gradients_dropped", "two left") == 2
    assert rate(result, "wasted_compute", "two left") == 0
    whole = ran(
        *(kept, tokens),
        cluster={"workers": 2},
        report={"measure_after": 0.0},
        stop={"global_steps": 6},
    )
    assert rate(whole, "wasted_compute", "two left") > 0
