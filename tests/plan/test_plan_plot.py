"""The picture of a plan shows every cell where it belongs, and which meet the targets."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests.plan.planning import BASE, BLOCK, codes, question, searched
from varsim.report.charts.looks import looks
from varsim.report.formats import render
from varsim.report.plots.figure import PAPER
from varsim.report.plots.plan.pareto import PLOT, draw, legend, plot
from varsim.study.plan.cell import Places
from varsim.study.plan.findings import trade
from varsim.study.plan.plan import Plan
from varsim.study.statistics import student_t


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned(tmp_path_factory.mktemp("runs"))


def planned(folder: Path, *sets: str) -> Plan:
    asked = question(sets=sets)
    found, runs, cells = searched(asked, folder)
    return Plan(found, Places(asked.quantities, cells), [], runs.status.done, None)


def test_marks_stand_at_cost_and_throughput(plan: Plan) -> None:
    axes = draw(plan, Figure().subplots())
    look = looks(plan.question.families)
    marks = [line for line in axes.lines if len(line.get_xdata()) == 1][:-1]
    assert len(marks) == len(plan.found.looked_at)
    for line, one in zip(marks, trade(plan.found).every, strict=True):
        assert line.get_xdata()[0] == one.hourly
        assert line.get_ydata()[0] == one.speed.mean
        assert line.get_marker() == look[one.cell.label].mark
        assert (line.get_markerfacecolor() != PAPER) == one.feasible
    assert {one.feasible for one in plan.found.looked_at.values()} == {True, False}


def test_the_line_joins_the_highest_means(plan: Plan) -> None:
    axes = draw(plan, Figure().subplots())
    (line,) = (line for line in axes.lines if line.get_drawstyle() == "steps-post")
    joined = list(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert len(joined) > 1
    fine = [
        (one.hourly, one.speed.mean)
        for one in trade(plan.found).every
        if all(miss.target == "throughput" for miss in one.missed)
    ]
    for cost, speed in fine:  # none is above the line
        assert speed <= max(height for place, height in joined if place <= cost)


def test_the_answer_has_a_ring_and_the_target_a_line(plan: Plan) -> None:
    axes = draw(plan, Figure().subplots())
    best = plan.found.answer
    assert best is not None
    rings = [line for line in axes.lines if line.get_markersize() == 14]
    assert [(ring.get_xdata()[0], ring.get_ydata()[0]) for ring in rings] == [
        (best.hourly, best.speed.mean)
    ]
    assert [150.0, 150.0] in [list(line.get_ydata()) for line in axes.lines]
    assert axes.get_xlabel() == "cost (USD per hour)"
    assert PLOT.title(plan) == "Cost and throughput of every cell that was run"
    assert [str(one.get_label()) for one in legend(plan)] == [
        "all-reduce",
        "async PS",
        "does not surely meet a target",
        "highest mean, other targets met",
        "the answer",
        "target throughput",
    ]


def test_the_front_only_rises(plan: Plan) -> None:
    axes = draw(plan, Figure().subplots())
    (front,) = (line for line in axes.lines if line.get_drawstyle() == "steps-post")
    for values in (front.get_xdata(), front.get_ydata()):
        assert list(values) == sorted(set(values))


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
    asked = question(block, [failing], base)
    found, runs, cells = searched(asked, tmp_path)
    plan = Plan(found, Places(asked.quantities, cells), [], runs.status.done, None)
    axes = draw(plan, Figure().subplots())
    marks = [line for line in axes.lines if len(line.get_xdata()) == 1][:-1]
    for line, one in zip(marks, trade(plan.found).every, strict=True):
        (judgement,) = one.judgements
        assert line.get_ydata()[0] == 100 * judgement.mean
    assert [50.0, 50.0] in [list(line.get_ydata()) for line in axes.lines]
    assert plot(plan).heading == "Cost and goodput"
    assert "most for its cost, other targets met" not in [one.get_label() for one in legend(plan)]


def test_without_an_answer_there_is_no_ring(tmp_path: Path) -> None:
    plan = planned(tmp_path, "targets.throughput=9000 examples/s")
    axes = draw(plan, Figure().subplots())
    assert not [line for line in axes.lines if line.get_markersize() == 14]
    assert plan.scenario is None
    assert codes(plan)[:2] == ["no-answer", "closest"]


def test_the_hash_of_a_plan_is_of_what_was_simulated(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of quantiles, which differ by 4e-11 between versions of a library."""
    monkeypatch.setattr(
        "varsim.study.statistics.student_t",
        lambda degrees, comparisons=1: student_t(degrees, comparisons) * (1 + 4e-11),
    )
    again = planned(tmp_path)
    assert render(again.report, "csv") != render(plan.report, "csv")
    assert again.sha256 == plan.sha256
    assert planned(tmp_path, "seed=4").sha256 != plan.sha256
