"""The picture of a plan shows every cell where it belongs, and which meet the targets."""

from pathlib import Path

import pytest

from tests.plan.planning import BASE, BLOCK, codes, question, searched
from varsim.report.charts.marks import drawn
from varsim.report.formats import render
from varsim.report.told import Chart, Report
from varsim.study.plan import Plan, trade
from varsim.study.verdict import student_t


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned(tmp_path_factory.mktemp("runs"))


def planned(folder: Path, *sets: str) -> Plan:
    asked = question(sets=sets)
    plan, _ = searched(asked, folder)
    return plan


def the(plan: Plan) -> Chart:
    report: Report = plan.report
    (chart,) = report.drawn()["pareto"]
    return chart


def test_points_stand_at_cost_and_throughput(plan: Plan) -> None:
    chart, every = the(plan), trade(plan).every
    assert list(chart.data["x"]) == [one.hourly for one in every]
    assert list(chart.data["mean"]) == [one.speed.mean for one in every]
    assert list(chart.data["hollow"]) == [not one.feasible for one in every]
    assert [one == plan.best for one in every] == list(chart.data["ring"])
    assert sum(chart.data["ring"]) == 1 < sum(chart.data["hollow"]) < len(every)
    assert chart.target == 150
    assert chart.x == "cost per hour (USD/h)"


def test_the_line_joins_the_highest_means(plan: Plan) -> None:
    joined = [(row["x"], row["mean"]) for row in the(plan).rows() if row["front"]]
    assert len(joined) > 1
    for values in zip(*joined, strict=True):
        assert list(values) == sorted(set(values)), "the front only rises"
    fine = [
        (one.hourly, one.speed.mean)
        for one in trade(plan).every
        if all(miss.target == "throughput" for miss in one.missed)
    ]
    for cost, speed in fine:  # none is above the line
        assert speed <= max(height for place, height in joined if place <= cost)


def test_it_is_drawn(plan: Plan) -> None:
    figure, (axes,) = drawn([the(plan)], plan.report.families)
    (legend,) = figure.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert {"all-reduce", "async PS", "the answer"} < set(said)
    assert [text.get_text() for text in axes.texts] == ["target\n150"]


def test_its_first_axis_is_what_is_minimized(tmp_path: Path) -> None:
    """Where that is not the cost of an hour there is no front along that."""
    block = BLOCK.replace("minimize: cost_per_hour", "minimize: cost_per_million_examples")
    asked = question(block)
    plan, _ = searched(asked, tmp_path)
    chart, every = the(plan), trade(plan).every
    assert chart.x == "cost of a million examples (USD)"
    assert list(chart.data["x"]) == [one.objective.mean for one in every]
    assert not any(chart.data["front"])


def test_where_goodput_is_a_target_that_is_drawn(tmp_path: Path) -> None:
    failing = "failures={horizon: 2 d, detection: 1 min, of: [{domain: worker, mtbf: 20 d}]}"
    changed = {
        "  - {kind: none}\n": "",
        ", server_hour: 0.7": "",
        "throughput: 150 examples/s": "goodput: 50 %",
    }
    base = BASE
    for before, after in changed.items():
        base = base.replace(before, after)
    block = BLOCK.replace("  cluster.parameter_servers: [1, 2]\n", "")
    asked = question(block, [failing, "stop={global_steps: 60}"], base)
    plan, _ = searched(asked, tmp_path)
    chart = the(plan)
    for height, one in zip(chart.data["mean"], trade(plan).every, strict=True):
        (judgement,) = one.judgements
        assert height == judgement.mean
    assert chart.target == 0.5
    assert not any(chart.data["front"])


def test_without_an_answer_there_is_no_ring(tmp_path: Path) -> None:
    plan = planned(tmp_path, "targets.throughput=9000 examples/s")
    assert not any(the(plan).data["ring"])
    assert plan.scenario is None
    assert codes(plan)[:2] == ["no-answer", "closest"]


def test_the_hash_of_a_plan_is_of_what_was_simulated(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of quantiles, which differ by 4e-11 between versions of a library."""
    monkeypatch.setattr(
        "varsim.study.verdict.student_t",
        lambda degrees, comparisons=1: student_t(degrees, comparisons) * (1 + 4e-11),
    )
    again = planned(tmp_path)
    assert render(again.report, "csv") != render(plan.report, "csv")
    assert again.sha256 == plan.sha256
    assert planned(tmp_path, "seed=4").sha256 != plan.sha256
