"""The charts of a run: their data by hand, and files that repeat exactly."""

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.figures import assert_no_text_over_other_text
from tests.handmade import ODD_NAMES, SECOND, a_result, a_trace, result_of
from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import EvaluationRow, Trace
from varsim.report.charts.looks import looks
from varsim.report.charts.marks import drawn, write_all
from varsim.report.charts.style import write
from varsim.report.products.figures import POINTS
from varsim.report.told import Chart
from varsim.study.result import Result
from varsim.study.verdict import interval


def stale(label: str, values: Sequence[int]) -> Trace:
    """A run whose gradients, all applied, were as stale as this."""
    rows = np.zeros((len(values), 11), dtype=np.int64)
    rows[:, 1] = np.arange(len(values))
    rows[:, 8] = 20_000 + np.arange(len(values))
    rows[:, 3] = rows[:, 8] - np.array(values, dtype=np.int64)
    rows[:, 10] = 2
    return replace(
        a_trace(label), gradient_rows=Rows.of(rows), copy_staleness=np.zeros(0, dtype=np.int64)
    )


def losing(label: str, losses: Sequence[float]) -> Trace:
    """The run with other losses (and no accuracy)."""
    rows = [
        row._replace(loss=loss, accuracy=math.nan)
        for row, loss in zip(a_trace().evaluations, losses, strict=False)
    ]
    return replace(a_trace(label), evaluations=rows)


def evaluated(label: str, rows: Sequence[tuple[float, int, float]], replication: int = 0) -> Trace:
    """A run evaluated at (seconds, updates) with a loss."""
    found = [EvaluationRow(int(s * SECOND), step, 0, loss, math.nan, 0) for s, step, loss in rows]
    return replace(a_trace(label, replication), evaluations=found)


def charts_of(result: Result) -> dict[str, list[Chart]]:
    drawn: dict[str, list[Chart]] = result.report.drawn()
    return drawn


def the(result: Result, name: str) -> Chart:
    (chart,) = charts_of(result)[name]
    return chart


EDGE_CASES = {
    "one strategy, one replication": lambda: a_result(),
    "ten strategies with odd names": lambda: a_result(
        {name: (1 + index % 3, 2, 3) for index, name in enumerate(ODD_NAMES)},
        targets={"loss": 0.7},
    ),
    "no loss at all": lambda: result_of([losing("a", [math.nan] * 3), losing("b", [])]),
    "a loss that runs away": lambda: result_of(
        [losing("a", [2, 1, 0.5]), losing("b", [2, 1e30, math.inf]), losing("c", [2, 9, 99])]
    ),
    "a loss that never changes": lambda: result_of([losing("a", [1, 1, 1])]),
    "a loss of zero": lambda: result_of([losing("a", [0, 0, 0])]),
    "a loss over many decades": lambda: result_of([losing("a", [1e9, 1, 1e-9])]),
    "staleness up to 10,000": lambda: result_of(
        [stale("a", range(0, 10_001, 7)), stale("b", [0, 1])]
    ),
    "nothing applied, no links": lambda: result_of(
        [replace(stale("a", []), links=[], steps=np.zeros(0, dtype=np.int64), global_step=0)]
    ),
    "a run of no time": lambda: result_of(
        [
            replace(
                stale("a", []),
                end=0,
                span_rows=Rows(5),
                steps=np.zeros(0, dtype=np.int64),
                evaluations=a_trace().evaluations[:1],
            )
        ]
    ),
}


# Where there is nothing to be seen.
EMPTY = {
    "no loss at all": ["loss"],
    "nothing applied, no links": ["staleness"],
    "a run of no time": ["throughput", "time_split", "staleness"],
}


class TestEveryChart:
    @pytest.mark.parametrize("case", EDGE_CASES)
    def test_draws_edge_cases_without_a_warning(self, case: str, tmp_path: Path) -> None:
        report = EDGE_CASES[case]().report
        write_all(report.drawn(), report.families, tmp_path)
        names = ["throughput", "time_split", "timeline", "staleness", "loss"]
        there = [name for name in names if name not in EMPTY.get(case, ())]
        assert sorted(path.stem for path in tmp_path.glob("*.png")) == sorted(there)

    @pytest.mark.parametrize("form", ["png", "svg"])
    def test_gives_the_same_bytes_whatever_the_users_style(
        self, form: Literal["png", "svg"], tmp_path: Path
    ) -> None:
        report = a_result({"a": (1, 2), "b": (2, 3)}).report
        seen = []
        for _ in range(2):
            write_all(report.drawn(), report.families, tmp_path, form)
            seen.append([path.read_bytes() for path in sorted(tmp_path.iterdir())])
            matplotlib.rcParams.update({"axes.facecolor": "red", "font.size": 20})
        try:
            assert len(seen[0]) == 5
            assert seen[0] == seen[1]
            assert matplotlib.rcParams["font.size"] == 20
        finally:
            matplotlib.rcdefaults()
        assert b"Software" not in seen[0][0]
        assert b"<metadata>" not in seen[0][0]

    def test_needs_no_pyplot(self) -> None:
        code = "import sys, varsim.report.charts.marks; print('matplotlib.pyplot' in sys.modules)"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert found.stdout.strip() == b"False"

    @pytest.mark.parametrize("name", ["throughput", "time_split", "timeline", "staleness", "loss"])
    def test_has_no_text_over_other_text(self, name: str) -> None:
        report = EDGE_CASES["ten strategies with odd names"]().report
        figure, axes = drawn(report.drawn()[name], report.families)
        assert_no_text_over_other_text(figure, axes)

    def test_tells_ten_strategies_apart_by_colour_and_by_marker(self) -> None:
        look = looks(dict.fromkeys(ODD_NAMES, "")).values()
        assert len({each.color for each in look}) == len({each.mark for each in look}) == 10


def test_throughput_is_as_the_table_has_it_the_fastest_first() -> None:
    # 25 examples in 10 s, or in 20 s.
    result = a_result({"a": (1, 2, 2), "b": (1, 1, 1)})
    chart, found = the(result, "throughput"), result.estimate("a", "examples_per_s")
    assert chart.data["who"] == ("b", "a")
    assert chart.data["mean"] == pytest.approx((2.5, 5 / 3))
    assert chart.data["half"][1] == pytest.approx(found.half_width)
    assert chart.data["best"] == (True, True), "too close to call"
    assert chart.x == "examples/s"


class TestStaleness:
    def test_of_the_run_by_hand(self) -> None:
        # Applied (also partly): 0 - 0, 1 - 0, 2 - 2; the dropped and the pending one do not count.
        chart = the(a_result(), "staleness")
        assert chart.data["mean"] == pytest.approx((2 / 3, 1 / 3))
        assert chart.data["x"] == (0, 1)
        (remark,) = chart.remarks.values()
        assert remark == "mean 0.333, at most 1; copies missed 2"

    def test_bins_are_common_and_sum_to_1(self) -> None:
        chart = the(result_of([stale("a", range(10_001)), stale("b", [3, 3, 200])]), "staleness")
        assert len(set(chart.data["x"])) <= 60
        rows = chart.rows()
        wide, narrow = ([row["mean"] for row in rows if row["who"] == who] for who in "ab")
        assert math.fsum(wide) == pytest.approx(1)
        assert narrow[:2] == pytest.approx([2 / 3, 1 / 3])
        assert chart.x.endswith("; 167 values to a bar")

    def test_what_lies_far_out_shares_the_last_bar(self) -> None:
        chart = the(result_of([stale("a", [4] * 999 + [5_000])]), "staleness")
        assert chart.data["x"][-1] == 7  # 4 and a quarter more, and 2
        assert [chart.data["mean"][at] for at in (4, -1)] == pytest.approx([0.999, 0.001])
        assert chart.remarks["a"].endswith("at most 5,000")
        assert chart.x == "staleness of applied gradients, in updates; the last bar: 7 or more"


def test_time_is_cut_as_the_table_has_it() -> None:
    # Of 20 s of two workers: 13 computing, of that 4 in vain; 3 to read, 4 to write.
    chart = the(a_result(), "time_split")
    assert chart.data["part"] == ("compute", "vain", "network")
    assert chart.data["mean"] == pytest.approx((0.45, 0.2, 0.35))


def curves(result: Result, view: int = 0) -> dict[str, NDArray[np.float64]]:
    """Of each strategy `x`, `mean`, `low`, `high`, shape (4, points); views: time, updates."""
    found: dict[str, list[list[float]]] = {}
    for who, *row in zip(*result.report.charts[view].data.values(), strict=True):
        found.setdefault(who, []).append(row)
    return {who: np.array(rows).T for who, rows in found.items()}


class TestCurves:
    def test_against_time_the_loss_lies_on_straight_lines(self) -> None:
        # Loss 2 at 0 s, 1 at 5 s, 0.5 at 10 s.
        (curve,) = curves(a_result()).values()
        x, mean, low, _ = curve
        assert len(x) == POINTS
        assert (x[0], x[-1]) == (0, 10)
        assert mean == pytest.approx(np.interp(x, [0, 5, 10], [2, 1, 0.5]))
        assert np.isnan(low).all()

    def test_against_updates_the_points_are_those_recorded(self) -> None:
        (curve,) = curves(a_result(), 1).values()
        assert curve[:2].tolist() == [[0, 2, 3], [2, 1, 0.5]]

    def test_of_very_many_points_some_are_drawn(self) -> None:
        run = evaluated("a", [(n, n, 1 / (1 + n)) for n in range(5_000)])
        x = curves(result_of([run]), 1)["a"][0]
        assert len(x) == POINTS
        assert (x[0], x[-1]) == (0, 4_999)

    def test_the_band_is_the_interval_over_replications(self) -> None:
        runs = [evaluated("a", [(0, 0, 2), (9, 1, last)], n) for n, last in enumerate((1, 2, 3))]
        curve = curves(result_of(runs))["a"]
        assert tuple(curve[1:, -1]) == pytest.approx(interval([1, 2, 3])[:3])
        assert set(curve[1:, 0]) == {2}

    def test_a_curve_ends_where_its_shortest_replication_ends(self) -> None:
        assert curves(a_result({"a": (1, 2)}))["a"][0, -1] == 10

    def test_what_is_not_finite_is_left_out(self) -> None:
        lost = evaluated("lost", [(0, 0, 2), (5, 1, math.inf), (10, 2, math.nan)])
        none = evaluated("none", [(0, 0, math.nan), (5, 1, math.nan)])
        found = curves(result_of([lost, none, replace(lost, strategy="x")]))
        assert list(found) == ["lost", "x"]
        assert found["lost"][:2].tolist() == [[0], [2]]


def test_a_picture_is_the_same_wherever_its_parts_lie_in_memory(tmp_path: Path) -> None:
    """Ids in an SVG are hashes of coordinates to the last bit, which must not hang on addresses."""
    result = a_result({"N = 3": (1,), "N = 4": (2,), "N = 8": (1,), "N = 16": (3,)})
    elsewhere, seen = [], set()
    for count in range(8):
        elsewhere.append([bytearray(size) for size in range(10, 200 + 613 * (count % 3))])
        figure, _ = drawn(charts_of(result)["staleness"], result.report.families)
        write(figure, tmp_path / "staleness.svg")
        seen.add((tmp_path / "staleness.svg").read_bytes())
    assert len(seen) == 1
