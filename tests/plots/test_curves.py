"""The loss curves: their data by hand, what is drawn of it, and what the title claims."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes

from tests.handmade import SECOND, a_result, a_scenario, a_trace
from varsim.cluster.trace import EvaluationRow, Trace
from varsim.report.plots import curves
from varsim.report.plots.figure import panels
from varsim.report.products.curves import POINTS, Against
from varsim.report.products.curves import curves as read_curves
from varsim.study.result import Result
from varsim.study.statistics import interval

# In all titles: that of the scenario by hand.
RATE = " at learning rate 0.1"


def evaluated(label: str, rows: Sequence[tuple[float, int, float]], replication: int = 0) -> Trace:
    """A run evaluated at (seconds, updates) with a loss."""
    found = [EvaluationRow(int(s * SECOND), step, 0, loss, math.nan, 0) for s, step, loss in rows]
    return replace(a_trace(label, replication), evaluations=found)


def result_of(*traces: Trace, **changes: object) -> Result:
    labels = list(dict.fromkeys(trace.strategy for trace in traces))
    return Result(a_scenario(labels, **changes), list(traces), [])


def an_axes() -> Axes:
    return panels([3.0])[1][0]


class TestData:
    def test_against_time_the_loss_lies_on_straight_lines(self) -> None:
        # Loss 2 at 0 s, 1 at 5 s, 0.5 at 10 s.
        (curve,) = read_curves(a_result(), "time")
        assert len(curve.x) == POINTS
        assert (curve.x[0], curve.x[-1]) == (0, 10)
        assert curve.mean == pytest.approx(np.interp(curve.x, [0, 5, 10], [2, 1, 0.5]))
        assert np.isnan(curve.low).all()

    def test_against_updates_the_points_are_those_recorded(self) -> None:
        (curve,) = read_curves(a_result(), "global_step")
        assert curve.x.tolist() == [0, 2, 3]
        assert curve.mean.tolist() == [2, 1, 0.5]

    def test_of_very_many_points_some_are_drawn(self) -> None:
        run = evaluated("a", [(n, n, 1 / (1 + n)) for n in range(5_000)])
        (curve,) = read_curves(result_of(run), "global_step")
        assert len(curve.x) == POINTS
        assert (curve.x[0], curve.x[-1]) == (0, 4_999)

    def test_the_band_is_the_interval_over_replications(self) -> None:
        runs = [evaluated("a", [(0, 0, 2), (9, 1, last)], n) for n, last in enumerate((1, 2, 3))]
        (curve,) = read_curves(result_of(*runs), "time")
        found = interval([1, 2, 3])
        assert (curve.mean[-1], curve.low[-1], curve.high[-1]) == pytest.approx(found[:3])
        assert curve.low[0] == curve.mean[0] == curve.high[0] == 2

    def test_a_curve_ends_where_its_shortest_replication_ends(self) -> None:
        (curve,) = read_curves(a_result({"a": (1, 2)}), "time")
        assert curve.x[-1] == 10

    def test_what_is_not_finite_is_left_out(self) -> None:
        lost = evaluated("lost", [(0, 0, 2), (5, 1, math.inf), (10, 2, math.nan)])
        none = evaluated("none", [(0, 0, math.nan), (5, 1, math.nan)])
        (curve,) = read_curves(result_of(lost, none, replace(lost, strategy="x")), "time")[:1]
        assert (curve.strategy, curve.x.tolist(), curve.mean.tolist()) == ("lost", [0], [2])


class TestDrawing:
    @pytest.mark.parametrize(
        ("by", "label"), [("time", "simulated time (s)"), ("global_step", "updates (global_step)")]
    )
    def test_a_line_and_a_band_per_strategy(self, by: Against, label: str) -> None:
        result = a_result({"a": (1, 2), "b": (2, 2)}, targets={"loss": 0.75})
        axes = an_axes()
        assert curves.draw(result, axes, by) is axes
        first, second = read_curves(result, by)
        assert axes.lines[0].get_xydata().tolist() == np.c_[first.x, first.mean].tolist()
        assert axes.lines[1].get_ydata().tolist() == second.mean.tolist()
        assert axes.lines[0].get_color() != axes.lines[1].get_color()
        assert axes.lines[0].get_marker() != axes.lines[1].get_marker()
        assert len(axes.collections) == 2
        assert list(axes.lines[2].get_ydata()) == [0.75, 0.75]
        assert [text.get_text() for text in axes.texts] == ["target\n0.75"]
        assert (axes.get_xlabel(), axes.get_ylabel()) == (label, "training loss")
        assert [line.get_label() for line in curves.legend(result, by)] == ["a", "b"]

    @pytest.mark.parametrize(
        ("losses", "scale"), [((2.0, 1.0), "linear"), ((2.0, 0.01), "log"), ((2, 0), "linear")]
    )
    def test_the_scale_follows_the_range(self, losses: tuple[float, float], scale: str) -> None:
        axes = an_axes()
        run = evaluated("a", [(0, 0, losses[0]), (9, 1, losses[1])])
        curves.draw(result_of(run), axes, "time")
        assert axes.get_yscale() == scale
        assert axes.get_ylabel() == "training loss" + " (logarithmic)" * (scale == "log")
        low, high = axes.get_ylim()
        assert low < min(losses) < max(losses) < high

    def test_a_curve_that_runs_away_does_not_flatten_the_others(self) -> None:
        calm, wild = (
            evaluated("calm", [(0, 0, 2), (9, 1, 1)]),
            evaluated("wild", [(0, 0, 2), (9, 1, 1e9)]),
        )
        none = evaluated("none", [(0, 0, math.nan)])
        axes = an_axes()
        curves.draw(result_of(calm, wild, none), axes, "time")
        assert axes.get_ylim()[1] < 7
        assert axes.get_title("right") == "'none': no finite loss; 'wild': beyond the top"

    def test_short_times_have_a_short_unit(self) -> None:
        axes = an_axes()
        curves.draw(result_of(evaluated("a", [(0, 0, 2), (0.02, 1, 1)])), axes, "time")
        assert axes.get_xlabel() == "simulated time (ms)"
        assert axes.lines[0].get_xdata()[-1] == pytest.approx(20)


@pytest.mark.parametrize(
    ("end", "unit", "ticks"),
    [(432, "min", range(8)), (590, "min", range(0, 10, 2)), (61, "s", range(0, 70, 10))],
)
def test_ticks_of_time_are_plain_numbers(end: int, unit: str, ticks: range) -> None:
    axes = an_axes()
    curves.draw(result_of(evaluated("one", [(0, 0, 2), (end, 9, 1)])), axes, "time")
    axes.set_xlim(0, axes.dataLim.x1)
    assert axes.get_xlabel() == f"simulated time ({unit})"
    shown = [tick for tick in axes.get_xticks() if tick <= axes.get_xlim()[1]]
    assert shown == list(ticks)


class TestUpdatesAxis:
    @staticmethod
    def drawn_to(*ends: int) -> Axes:
        axes = an_axes()
        runs = [evaluated(str(e), [(0, 0, 2), (5, 10, 1), (9, e, 0.5)]) for e in ends]
        return curves.draw(result_of(*runs), axes, "global_step")

    def test_is_logarithmic_from_0_on_where_the_curves_end_far_apart(self) -> None:
        axes = self.drawn_to(40, 3_000)
        assert axes.get_xscale() == "symlog"
        assert axes.get_xlabel() == "updates (global_step, logarithmic)"
        low, high = axes.get_xlim()
        assert low == 0
        assert 3_000 < high < 3_500
        ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
        assert ticks == [0, 10, 20, 50, 100, 200, 500, 1_000, 2_000]

    def test_is_linear_elsewhere(self) -> None:
        axes = self.drawn_to(40, 160)
        assert (axes.get_xscale(), axes.get_xlabel()) == ("linear", "updates (global_step)")
