"""The marks, drawn from data by hand: what stands where, and what is written."""

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from varsim.report.charts.marks import drawn
from varsim.report.told import Chart

FAMILIES = {"a": "all-reduce", "b": "asynchronous"}


def legend_of(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return sorted(text.get_text() for text in legend.get_texts())


def curve(who: str, *points: tuple[float, ...], spread: float = 0.0, **more: Any) -> list[Any]:
    return [
        {"who": who, "x": x, "mean": y, "low": y - spread, "high": y + spread, **more}
        for x, y in points
    ]


def xy(line: Line2D) -> list[Any]:
    return [[float(x), float(y)] for x, y in np.asarray(line.get_xydata())]


def bars_of(axes: Axes) -> list[Rectangle]:
    return [one for one in axes.patches if isinstance(one, Rectangle)]


def lines(rows: list[Any], **more: Any) -> Chart:
    return Chart.of("loss", "lines", rows, more.pop("x", "time (s)"), "loss", by="who", **more)


def only(chart: Chart) -> Axes:
    (axes,) = drawn([chart], FAMILIES)[1]
    return axes


class TestBars:
    ROWS = (("a", 1.0, 0.2, True), ("b", 0.5, 0.9, False), ("a2", 0.25, math.nan, False))

    def chart(self) -> Chart:
        rows = [dict(zip(("who", "mean", "half", "best"), one, strict=True)) for one in self.ROWS]
        return Chart.of("throughput", "bars", rows, "examples/s", "", by="who")

    def test_bars_are_means_and_whiskers_intervals_that_say_something(self) -> None:
        _, (axes,) = drawn([self.chart()], {**FAMILIES, "a2": "all-reduce"})
        assert [bar.get_width() for bar in bars_of(axes)] == [1, 0.5, 0.25]
        assert len(axes.containers) == 4, "three bars; one whisker"
        (segments,) = axes.containers[1][2]
        assert segments.get_segments()[0][:, 0].tolist() == pytest.approx([0.8, 1.2])
        texts = ["1.0 ± 0.2", "0.500 ± ?", "0.250"]
        assert [text.get_text().replace("\xa0", " ") for text in axes.texts] == texts
        assert axes.texts[0].get_fontweight() == "bold"
        assert [tick.get_fontweight() for tick in axes.get_yticklabels()][:2] == ["bold", "normal"]

    def test_labels_and_numbers_stay_inside(self) -> None:
        chart = self.chart()._replace(
            data={**self.chart().data, "who": ("a" * 40, "b " * 30, "short")}
        )
        names = dict.fromkeys(chart.data["who"], "")
        figure, (axes,) = drawn([chart], names)
        figure.canvas.draw()
        for text in [*axes.texts, *axes.get_yticklabels()]:
            box = text.get_window_extent()
            assert box.x0 >= 0, text
            assert box.x1 <= figure.bbox.width, text


def test_cut_bars_tile_their_row_and_hang_left_below_nothing() -> None:
    rows = [
        {"who": who, "part": part, "mean": mean, "best": who == "a"}
        for who, part, mean in (
            ("a", "compute", 0.03),
            ("a", "stragglers", 0.01),
            ("b", "compute", 0.01),
            ("b", "bandwidth", -0.002),
            ("b", "rest", 0.00001),
        )
    ]
    figure, (axes,) = drawn([Chart.of("why", "cut bars", rows, "a step (s)", "", by="who")], {})
    edges = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars_of(axes)]
    assert edges == [pytest.approx(one) for one in ((0, 30), (30, 40), (0, 10), (0, -2))]
    said = [text.get_text().replace("\xa0", " ") for text in axes.texts]
    assert said == ["75 %", "25 %", "125 %"], "of the whole of each row"
    assert axes.get_xlabel() == "a step (ms)"
    assert legend_of(figure) == ["bandwidth of links", "computing", "stragglers"]


class TestLines:
    def test_a_line_and_a_band_per_series_and_the_target(self) -> None:
        rows = curve("a", (0, 2), (9, 1), spread=0.1) + curve("b", (0, 2), (9, 0.5))
        figure, (axes,) = drawn([lines(rows, target=0.75)], FAMILIES)
        first, second, target = axes.lines
        assert xy(first) == [[0, 2], [9, 1]]
        assert xy(second) == [[0, 2], [9, 0.5]]
        assert first.get_color() != second.get_color()
        assert first.get_marker() != second.get_marker()
        assert len(axes.collections) == 2
        assert xy(target) == [[0, 0.75], [1, 0.75]]
        assert [text.get_text() for text in axes.texts] == ["target\n0.75"]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (s)", "loss")
        assert legend_of(figure) == ["a", "b"]

    @pytest.mark.parametrize(
        ("losses", "scale"), [((2.0, 1.0), "linear"), ((2.0, 0.01), "log"), ((2, 0), "linear")]
    )
    def test_the_scale_follows_the_range(self, losses: tuple[float, float], scale: str) -> None:
        axes = only(lines(curve("a", (0, losses[0]), (9, losses[1]))))
        assert axes.get_yscale() == scale
        assert axes.get_ylabel() == "loss" + " (logarithmic)" * (scale == "log")
        low, high = axes.get_ylim()
        assert low < min(losses) < max(losses) < high

    def test_a_curve_that_runs_away_does_not_flatten_the_others(self) -> None:
        axes = only(lines(curve("a", (0, 2), (9, 1)) + curve("b", (0, 2), (9, 1e9))))
        assert axes.get_ylim()[1] < 7

    @pytest.mark.parametrize(
        ("end", "unit", "last"), [(0.02, "ms", 20), (61, "s", 61), (432, "min", 7.2)]
    )
    def test_times_have_a_unit_in_which_they_read_well(
        self, end: float, unit: str, last: float
    ) -> None:
        axes = only(lines(curve("a", (0, 2), (end, 1))))
        assert axes.get_xlabel() == f"time ({unit})"
        assert xy(axes.lines[0])[-1][0] == pytest.approx(last)

    def test_what_was_swept_is_written_as_it_was_with_whiskers(self) -> None:
        rows = curve("a", (1, 3), (2, 5), (4, 4), spread=0.5)
        rows = [{**row, "flat": False, "ring": row["x"] == 2} for row in rows]
        flat = curve("b", (1, 2), (4, 2), flat=True, ring=False)
        ticks = ((1.0, "1 Gbit/s"), (2.0, "2 Gbit/s"), (4.0, "4 Gbit/s"))
        chart = lines(rows + flat, ticks=ticks, log="x", ring="its best", x="bandwidth")
        figure, (axes,) = drawn([chart], FAMILIES)
        assert axes.get_xscale() == "log"
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [one for _, one in ticks]
        (segments,) = axes.containers[0][2]
        assert segments.get_segments()[0][:, 1].tolist() == [2.5, 3.5]
        assert axes.containers[1][0].get_marker() in ("", "None")
        ring = axes.lines[-1]
        assert xy(ring) == [[2, 5]]
        assert axes.get_ylim()[0] == 0
        assert legend_of(figure) == ["a", "b", "its best"]


class TestPoints:
    def test_what_misses_is_hollow_and_the_front_is_a_line(self) -> None:
        names = ("who", "x", "mean", "hollow", "ring", "front", "text")
        every = (
            ("a", 1.0, 10, False, True, True, "at 1"),
            ("b", 2.0, 20, True, False, False, ""),
            ("a", 3.0, 15, False, False, True, ""),
            ("b", None, 15, False, False, False, "nowhere"),
        )
        rows = [dict(zip(names, one, strict=True)) for one in every]
        words = {"hollow": "misses a target", "ring": "the answer", "front": "most for its price"}
        chart = Chart.of("pareto", "points", rows, "USD/h", "examples/s", by="who", **words)
        figure, (axes,) = drawn([chart], FAMILIES)
        full, _, hollow, front, ring = axes.lines
        assert full.get_markerfacecolor() == full.get_color()
        assert hollow.get_markerfacecolor() == "#ffffff"
        assert (xy(front), front.get_drawstyle()) == ([[1, 10], [3, 15]], "steps-post")
        assert xy(ring) == [[1, 10]]
        assert [text.get_text() for text in axes.texts] == ["at 1"]
        said = ["a", "b", "misses a target", "most for its price", "the answer"]
        assert legend_of(figure) == said

    def test_views_are_below_each_other(self) -> None:
        rows = [{"who": "a", "x": 1.0, "mean": 10}, {"who": "a", "x": 2.0, "mean": 20}]
        views = [
            Chart.of("runs", "points", rows, "measured (s)", y, by="who")
            for y in ("predicted (s)", "error (share)")
        ]
        _, (upper, lower) = drawn(views, FAMILIES)
        assert (upper.get_ylabel(), lower.get_ylabel()) == ("predicted (s)", "error (%)")
        assert xy(lower.lines[1]) == [[2, 2000]]
        assert lower.get_xlabel() == "measured (s)"


def test_heat_has_a_cell_per_pair_and_the_best_in_bold() -> None:
    rows = [
        {"who": "a", "x": x, "row": row, "mean": mean, "best": mean == 4}
        for (x, row), mean in {("1", "4"): 1.0, ("2", "4"): 4.0, ("1", "8"): 2.0}.items()
    ]
    chart = Chart.of("heat", "heat", rows, "workers", "servers", by="examples/s", panel="who")
    _, (axes,) = drawn([chart], FAMILIES)
    values = axes.images[0].get_array()
    assert values is not None
    assert np.ma.filled(values, -1).tolist() == [[1, 4], [2, -1]]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2"]
    weights = {text.get_text(): text.get_fontweight() for text in axes.texts}
    assert weights == {"1": "normal", "4": "bold", "2": "normal"}
    assert axes.get_title("left") == "a"
