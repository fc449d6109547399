"""Every number of a result against the run worked out by hand in handmade.py."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.building import scenario
from tests.handmade import SECOND, a_result, a_scenario, a_trace, alone, result_of
from tests.seams import METRICS, Outcome, Result, simulate

BY_HAND = {
    "simulated_time": 10,
    "updates": 3,
    "updates_per_s": 0.3,
    # One applied at 3 s, half of one at 5 s, one at 10 s; 10 examples each.
    "gradients_per_s": 2.5 / 10,
    "examples_per_s": 25 / 10,
    # Alone: 5 examples/s.
    "speedup": 0.5,
    "throughput_ratio": 1,
    # Updates at 3, 5, 10 s.
    "step_time_mean": 3.5,
    "step_time_p50": 3.5,
    "step_time_p95": 2 + 0.95 * 3,
    "step_time_p99": 2 + 0.99 * 3,
    # Reads of worker 0 at 0, 3, 7 s, of worker 1 at 0, 5 s: 3, 4 and 5 s.
    "iteration_time_mean": 4,
    "iteration_time_p50": 4,
    "iteration_time_p95": 4.9,
    "iteration_time_p99": 4.98,
    # Of the applied: 0 - 0, 1 - 0, 2 - 2; the dropped one (2 - 1) and the pending do not count.
    "staleness_mean": 1 / 3,
    "staleness_p50": 0,
    "staleness_p95": 0.9,
    "staleness_p99": 0.98,
    "staleness_max": 1,
    # 3 - 0, 5 - 0, 10 - 7 s.
    "age_mean": 11 / 3,
    "age_p95": 3 + 0.9 * 2,
    "copy_staleness_mean": 2,
    "copy_staleness_max": 4,
    # Of 2 x 10 s of worker time.
    "share_compute": (2 + 2 + 1 + 4 + 4) / 20,
    "share_read": 3 / 20,
    "share_write": 4 / 20,
    "share_queue": 0,
    "share_barrier": 0,
    "share_token": 0,
    "share_lock": 0,
    "share_down": 0,
    "link_bytes": 750,
    # 500 bytes in 10 s on a link of 100 bytes/s.
    "busiest_link": 0.5,
    "gradients_produced": 5,
    "gradients_applied": 2,
    "gradients_dropped": 1,
    "gradients_partly": 1,
    "gradients_pending": 1,
    # The dropped one took 2 s, half of the partly applied one 2 s, of 13 s computed.
    "wasted_compute": 4 / 13,
    "applied_share_min": 0.5 / 2.5,
    "applied_share_max": 2 / 2.5,
    "final_loss": 0.5,
    "final_accuracy": 0.75,
    # Evaluated at 0, 5 and 10 s.
    "loss_at_25": 2,
    "loss_at_50": 1,
    "loss_at_75": 1,
    "loss_at_100": 0.5,
    "time_to_target": 5,
    "updates_to_target": 2,
    "time_to_target_ratio": 1,
    "divergence_mean": 0.25,
    "divergence_max": 0.5,
}


@pytest.fixture(scope="module")
def result() -> Result:
    return a_result(targets={"loss": 1.0})


def test_every_metric_is_worked_out_by_hand() -> None:
    assert set(BY_HAND) == set(METRICS)


@pytest.mark.parametrize("metric", BY_HAND)
def test_a_metric_by_hand(result: Result, metric: str) -> None:
    assert result.estimate("none", metric).mean == pytest.approx(BY_HAND[metric], rel=1e-12)


def test_the_summary_has_a_row_per_strategy_and_metric() -> None:
    summary = a_result({"a": (1, 1), "b": (2, 2)}).summary
    assert list(zip(summary["strategy"], summary["metric"], strict=True)) == [
        (strategy, metric) for strategy in "ab" for metric in METRICS
    ]
    row = summary.set_index(["strategy", "metric"]).loc[("b", "step_time_mean")]
    assert (row["unit"], row["mean"], row["low"], row["high"]) == ("s", 7.0, 7.0, 7.0)


def test_updates_say_when_and_how_stale(result: Result) -> None:
    rows = result.updates.set_index(["worker", "iteration"])
    dropped, pending = rows.loc[(0, 1)], rows.loc[(1, 1)]
    assert dropped["outcome"] == "dropped"
    assert (dropped["read_s"], dropped["ended_s"], dropped["age_s"]) == (3.0, 7.0, 4.0)
    assert dropped["staleness"] == 1.0  # recorded, although it does not count
    assert pending["outcome"] == "pending"
    assert np.isnan([pending[name] for name in ("ended_s", "arrived_s", "staleness")]).all()
    assert rows.loc[(1, 0)]["applied_share"] == 0.5


def test_the_parts_of_a_workers_time_sum_to_its_lifetime(result: Result) -> None:
    workers = result.workers
    parts = workers[[column for column in workers if column.endswith("_s")]].drop(
        columns="lifetime_s"
    )
    assert parts.sum(axis=1).tolist() == [10.0, 10.0]
    assert workers["share_of_applied"].tolist() == [0.8, 0.2]
    assert workers["produced"].tolist() == [3, 2]


def test_links_know_how_busy_they_were(result: Result) -> None:
    assert result.links["utilization"].tolist() == [0.25, 0.5]


def changed_span(row: int, column: int, by: int) -> Any:
    spans = a_trace().spans.copy()
    spans[row, column] += by
    return spans


@pytest.mark.parametrize(
    "spans",
    [
        changed_span(0, 3, -1),  # a gap of a nanosecond
        changed_span(0, 3, 1),  # an overlap
        a_trace().spans[:-1],  # an end too early
        np.concatenate([a_trace().spans[1:], [[0, 5, 1, 1 + 2 * SECOND, 0]]]),  # a shift
    ],
)
def test_lost_worker_time_is_found(spans: Any) -> None:
    broken = Result(a_scenario(), [a_trace(spans=spans)], [])
    with pytest.raises(AssertionError, match="none: "):
        _ = broken.summary


def test_a_gradient_from_the_future_is_found() -> None:
    gradients = a_trace().gradients.copy()
    gradients[0, 3] = 5  # read at a step after that of its application
    with pytest.raises(AssertionError, match="before it was read"):
        _ = Result(a_scenario(), [a_trace(gradients=gradients)], []).summary


def test_traces_out_of_order_are_refused() -> None:
    traces = [a_trace("a", 1), a_trace("a", 0)]
    with pytest.raises(AssertionError):
        Result(a_scenario("a"), traces, [])


def test_ratios_are_to_the_first_strategy_and_paired() -> None:
    # b is twice as slow in every replication, however long those are.
    result = a_result({"a": (1, 2, 5), "b": (2, 4, 10)}, targets={"loss": 1.0})
    throughput = result.estimate("b", "throughput_ratio")
    assert throughput[:3] == (0.5, 0.5, 0.5)
    assert throughput.note == "slower"
    assert result.estimate("b", "time_to_target_ratio").note == "later"
    assert result.estimate("a", "throughput_ratio").note == "the yardstick"
    assert result.estimate("b", "speedup").mean == pytest.approx(
        math.prod((0.25, 0.125, 0.05)) ** (1 / 3)
    )


def test_ratios_may_be_too_close_to_call() -> None:
    result = a_result({"a": (3, 3, 3), "b": (2, 3, 4)})
    assert result.estimate("b", "throughput_ratio").note == "too close to call"
    assert result.table().loc["b", "vs. a"] == "tie"


def test_without_a_reference_there_is_no_speed_up() -> None:
    result = Result(a_scenario(), [a_trace()], [])
    assert math.isnan(result.estimate("none", "speedup").mean)
    assert result.estimate("none", "examples_per_s").mean == 2.5


def test_a_target_reached_in_some_replications_has_no_mean_time() -> None:
    never = replace(a_trace(replication=1), evaluations=a_trace().evaluations[:1])
    scenario = a_scenario(replications=2, targets={"loss": 1.0})
    result = Result(scenario, [a_trace(), never], [])
    found = result.estimate("none", "time_to_target")
    assert math.isnan(found.mean)
    assert found.note == "in 1 of 2 replications"
    assert result.table().loc["none", "to loss 1"] == "in 1 of 2 replications"
    (note,) = (note for note in result.report.notes if note.code == "some-reach")
    assert note.values == {"who": "none", "target": "1", "count": 1, "of": 2}


def test_the_target_is_that_of_targets_or_else_of_stop() -> None:
    stop = {"global_steps": 3, "loss": 0.5}
    assert a_result(stop=stop).target_loss == 0.5
    assert a_result(stop=stop, targets={"loss": 1.0}).target_loss == 1.0
    assert a_result().target_loss is None
    assert a_result(stop=stop).estimate("none", "time_to_target").mean == 10.0


def test_a_run_in_which_nothing_happened() -> None:
    nothing = a_trace(
        end=0,
        global_step=0,
        spans=a_trace().spans[:0],
        gradients=a_trace().gradients[:0],
        evaluations=[],
        steps=a_trace().steps[:0],
        copy_staleness=a_trace().copy_staleness[:0],
        links=[],
    )
    result = Result(a_scenario(), [nothing], [alone()])
    assert result.estimate("none", "gradients_produced").mean == 0
    for metric in ("updates_per_s", "share_compute", "staleness_max", "busiest_link", "final_loss"):
        assert math.isnan(result.estimate("none", metric).mean)
    assert [note.code for note in result.report.headline] == ["nothing"]
    assert result.updates.empty
    assert result.loss_curves().empty


def test_a_loss_curve_by_hand() -> None:
    result = a_result({"a": (1, 1, 2)})
    curve = result.loss_curves("time_s", points=3)
    # The shortest runs end at 10 s. The third evaluates at 0, 10, 20 s.
    assert curve["time_s"].tolist() == [0.0, 5.0, 10.0]
    assert curve["mean"].tolist() == pytest.approx([2.0, (1 + 1 + 2) / 3, (0.5 + 0.5 + 1) / 3])
    assert curve["replications"].tolist() == [3, 3, 3]
    by_update = result.loss_curves("global_step")
    assert by_update["global_step"].tolist() == [0, 2, 3]
    assert by_update["mean"].tolist() == by_update["low"].tolist() == [2.0, 1.0, 0.5]
    assert len(result.loss_curves("global_step", points=2)) == 2
    apart = result.loss_curves("global_step", "divergence")
    assert apart["mean"].tolist() == [0.0, 0.5, 0.25]


def test_a_missing_accuracy_is_missing_in_its_curve() -> None:
    curve = a_result({"a": (1, 1)}).loss_curves("global_step", "accuracy")
    assert curve["mean"].tolist()[::2] == [0.25, 0.75]
    assert math.isnan(curve["mean"][1])


def test_a_loss_that_is_not_finite_is_said() -> None:
    wild = [row._replace(loss=math.inf) for row in a_trace().evaluations]
    result = Result(a_scenario(), [a_trace(evaluations=wild)], [])
    assert math.isnan(result.estimate("none", "final_loss").mean)
    (note,) = (note for note in result.report.notes if note.code == "diverged")
    assert (note.values["count"], note.values["of"]) == (1, 1)


def test_different_ends_are_said() -> None:
    traces = [a_trace("a"), a_trace("b", stopped_by="time")]
    result = Result(a_scenario("ab"), traces, [])
    (note,) = (note for note in result.report.notes if note.code == "stopped")
    assert note.values == {"reasons": ("global_steps (1 runs)", "time (1 runs)")}


def test_the_table_has_intervals() -> None:
    row = a_result({"a": (1, 1, 2)}).table().loc["a"]
    assert row["updates/s"] == "0.2 ± 0.2"  # 0.3, 0.3, 0.15: half 4.303 * 0.05
    assert row["step p50"] == "4.67 ± ? s"
    assert row["wasted"] == "30.8 %"
    assert row["stale at most"] == "1"
    assert row["workers' time"] == "computing 45 %, network 35 %, wasted 20 %"
    assert "to loss" not in " ".join(row.index)


def test_one_replication_is_said() -> None:
    result = a_result({"a": (2,), "b": (1,)})
    assert [note.code for note in result.report.headline] == ["too-few"]
    assert "one-run" in [note.code for note in result.report.notes]
    assert result.estimate("b", "throughput_ratio").note == "one replication: no interval"
    assert "±" not in result.table().to_string()


def test_a_strategy_that_wastes_and_stales_nothing() -> None:
    gradients = a_trace().gradients[[0]]
    scenario = a_scenario()
    calm = a_trace(gradients=gradients, copy_staleness=a_trace().copy_staleness[:1])
    told = Result(scenario, [calm], []).report
    assert [note.code for note in told.headline] == ["alone"], "no price"


def test_it_reads_well_in_a_notebook() -> None:
    result = a_result({"<b>&": (1, 1), "b": (2, 2)})
    assert repr(result).startswith("Fastest: <b>&, 2.50 examples/s")
    assert repr(a_result({"alone": (1,)})).startswith("alone: 2.50 examples/s.")
    html = result._repr_html_()
    assert "&lt;b&gt;&amp;" in html
    assert "<b>" not in html


def test_the_provenance_tells_scenarios_apart() -> None:
    one, other = a_result().provenance, a_result(seed=8).provenance
    assert one["scenario_sha256"] != other["scenario_sha256"]
    assert one == a_result().provenance
    assert (one["seed"], other["seed"]) == (7, 8)


def test_gradients_are_conserved_in_every_real_run() -> None:
    kinds = ({"kind": "on_write"}, {"kind": "none"}, {"kind": "on_read", "read_every": 2})
    late = ({"kind": "sync_replicas", "replicas_to_aggregate": 1},)
    stop = {"global_steps": 9, "equal_examples": False}
    whole = {"measure_after": 0.0}
    scenario = a_scenario(strategies=kinds + late, stop=stop, replications=2, report=whole)
    result = simulate(scenario)
    runs = result.runs
    counted_alone = [outcome for outcome in Outcome if outcome != Outcome.LOST]
    fates = runs[[f"gradients_{outcome.name.lower()}" for outcome in counted_alone]]
    assert (fates.sum(axis=1) == runs["gradients_produced"]).all()
    assert (runs["updates"] == 9).all()
    late_runs = runs[runs["strategy"] == "sync_replicas"]
    assert (late_runs["gradients_dropped"] > 0).all()
    # The examples counted while running are those of the gradients in the end.
    last = result.evaluations.groupby(["strategy", "replication"], sort=False)["examples"].last()
    counted = runs["examples_per_s"] * runs["simulated_time"]
    assert last.tolist() == pytest.approx(counted.tolist(), abs=0.5)


class TestCopies:
    def test_the_table_shows_them_only_where_there_are_some(self) -> None:
        one = [row._replace(divergence=0.0) for row in a_trace().evaluations]
        none = np.zeros(0, dtype=np.int64)
        alone_ = a_trace("one", evaluations=one, copy_staleness=none)
        table = result_of([a_trace("copies"), alone_]).table()
        names = ["copies behind", "copies apart"]
        assert table.loc["copies", names].tolist() == ["2", "0.500"]
        assert table.loc["one", names].tolist() == ["-", "0"]
        assert "copies behind" not in result_of([alone_]).table()

    def test_of_times_alone_it_says_how_stale_they_are_not_how_far_apart(self) -> None:
        timing = {"problem": {"kind": "timing", "size": 1000.0}, "batch_size": 10}
        result = Result(a_scenario(workload=timing), [a_trace()], [])
        copies = [name for name in result.table().columns if name.startswith("copies ")]
        assert copies == ["copies behind"]


def test_the_largest_staleness_is_that_of_all_replications() -> None:
    """The mean of the maxima, 1 and 9 here, would be the staleness of no gradient."""
    stale = a_trace(replication=1).gradients.copy()
    stale[0, 8] += 9  # applied nine updates after its read
    traces = [a_trace(), a_trace(replication=1, gradients=stale)]
    result = Result(a_scenario(replications=2), traces, [])
    assert result.estimate("none", "staleness_max").mean == 5
    assert result.table().loc["none", "stale at most"] == "9"
    assert METRICS["staleness_max"].description.endswith("largest of a replication")


def test_a_goal_reached_in_some_replications_is_not_reached_in_none() -> None:
    never = replace(a_trace(replication=1), evaluations=a_trace().evaluations[:1])
    scenario = a_scenario(replications=2, targets={"loss": 1.0})
    told = Result(scenario, [a_trace(), never], []).report
    assert told.headline[-1].code == "never"


def test_one_worker_alone_is_not_compared_with_itself() -> None:
    scenario = a_scenario(strategies=({"kind": "single"},), stop={"global_steps": 9})
    assert [note.code for note in simulate(scenario).report.headline] == ["alone"]


def test_less_than_one_example_in_a_second_competes_and_none_does_not() -> None:
    # 3 workers, 100 s for an example.
    slow = {"cluster": {"compute": {"kind": "constant", "value": 100.0}}}
    for time, there in ((250.0, True), (50.0, False)):
        made = scenario({"kind": "none"}, workload={"batch_size": 1}, stop={"time": time}, **slow)
        ranking = simulate(made).ranking("examples_per_s", highest=True)
        assert (ranking is not None) == there


def test_spans_are_a_table_in_seconds() -> None:
    frame = simulate(scenario({"kind": "none"}, stop={"time": 0.25})).spans
    own = frame[frame["worker"] == 1][["activity", "start_s", "end_s", "iteration"]]
    assert own.values.tolist() == [
        ["compute", 0.0, 0.1, 0],
        ["compute", 0.1, 0.2, 1],
        ["compute", 0.2, 0.25, 2],
    ]
