"""The plots: the data behind them by hand, what is drawn of it, and files that repeat exactly."""

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.figures import assert_no_text_over_other_text, draw_all
from tests.handmade import ODD_NAMES, a_result, a_trace, result_of
from varsim.cluster.rows import Rows
from varsim.cluster.trace import Trace
from varsim.report.plots import gallery as plots
from varsim.report.plots.figure import panels, save, style
from varsim.report.plots.gallery import PLOTS
from varsim.report.plots.looks import looks
from varsim.report.plots.plot import Plot, draw_one
from varsim.study.result import Result


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


def drawn(plot: Plot, result: Result, directory: Path) -> tuple[Figure, list[Axes]]:
    """The figure as it is in the file."""
    with style():
        figure, axes = panels(plot.heights(result))
        plot.draw(result, axes)
        save(figure, plot.title(result), plot.legend(result), directory / plot.name)
        figure.draw_without_rendering()
    return figure, axes


def plot_called(name: str) -> Plot:
    return next(plot for plot in PLOTS if plot.name == name)


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
    "a run of no time": ["staleness"],
}


class TestEveryPlot:
    @pytest.mark.parametrize("case", EDGE_CASES)
    def test_draws_edge_cases_without_a_warning(self, case: str, tmp_path: Path) -> None:
        result = EDGE_CASES[case]()
        figures = draw_all([plot for plot in PLOTS if plot.shows(result)], result, tmp_path)
        assert list(figures) == [
            plot.name for plot in PLOTS if plot.name not in EMPTY.get(case, ())
        ]
        for name, figure in figures.items():
            assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8") == figure.svg
            assert figure.title
            assert "nan" not in figure.title

    def test_gives_the_same_bytes_whatever_the_users_style(self, tmp_path: Path) -> None:
        result = a_result({"a": (1, 2), "b": (2, 3)})
        once, again = tmp_path / "once", tmp_path / "again"
        for directory in (once, again):
            directory.mkdir()
            draw_all(PLOTS, result, directory)
            matplotlib.rcParams.update({"axes.facecolor": "red", "font.size": 20})
        try:
            files = sorted(path.name for path in once.iterdir())
            assert len(files) == 2 * len(PLOTS)
            assert [(again / name).read_bytes() for name in files] == [
                (once / name).read_bytes() for name in files
            ]
            assert matplotlib.rcParams["font.size"] == 20
        finally:
            matplotlib.rcdefaults()

    def test_carries_no_date_and_no_version(self, tmp_path: Path) -> None:
        draw_one(plot_called("throughput"), a_result(), tmp_path)
        assert b"Software" not in (tmp_path / "throughput.png").read_bytes()
        assert "<metadata>" not in (tmp_path / "throughput.svg").read_text(encoding="utf-8")

    def test_needs_no_pyplot(self) -> None:
        code = "import sys, varsim.report.plots.gallery; print('matplotlib.pyplot' in sys.modules)"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert found.stdout.strip() == b"False"

    @pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
    def test_has_no_text_over_other_text(self, plot: Plot, tmp_path: Path) -> None:
        result = EDGE_CASES["ten strategies with odd names"]()
        figure, axes = drawn(plot, result, tmp_path)
        assert_no_text_over_other_text(figure, axes)

    def test_tells_ten_strategies_apart_by_colour_and_by_marker(self) -> None:
        look = looks(dict.fromkeys(ODD_NAMES, "")).values()
        assert len({each.color for each in look}) == len({each.mark for each in look}) == 10


class TestThroughput:
    def test_bars_are_means_and_whiskers_intervals(self) -> None:
        # 25 examples in 10 s, or in 20 s.
        result = a_result({"a": (1, 2, 2), "b": (1, 1, 1)})
        _, (axes,) = panels([1.0])
        assert plots.throughput(result, axes) is axes
        assert [bar.get_width() for bar in axes.patches] == pytest.approx([5 / 3, 2.5])
        assert len(axes.containers) == 3, "two bars; one whisker: b has no spread"
        (segments,) = axes.containers[1][2]
        low, high = segments.get_segments()[0][:, 0]
        expected = result.estimate("a", "examples_per_s")
        assert (low, high) == pytest.approx((expected.low, expected.high))

    def test_two_replications_that_say_nothing_have_no_whisker(self) -> None:
        result = a_result({"a": (1, 2), "b": (10, 11)})
        _, (axes,) = panels([1.0])
        plots.throughput(result, axes)
        assert len(axes.containers) == 3, "two bars; one whisker: that of b says something"
        said = [text.get_text().split("\n")[0] for text in axes.texts]
        assert said[0] == "1.875 ± ?", "2.5 and 1.25: a half-width of 7.9"
        assert said[1].startswith("0.24 ± 0.1")
        assert axes.get_xlim()[1] < 4, "no room for an interval that is not drawn"

    def test_one_replication_has_no_whisker(self) -> None:
        _, (axes,) = panels([1.0])
        plots.throughput(a_result(), axes)
        assert len(axes.containers) == 1
        assert not axes.lines


class TestStaleness:
    def test_of_the_run_by_hand(self) -> None:
        # Applied (also partly): 0 - 0, 1 - 0, 2 - 2; the dropped and the pending one do not count.
        (found,) = plots.staleness(a_result())
        assert found.percent.tolist() == pytest.approx([200 / 3, 100 / 3])
        assert (found.mean, found.largest, found.width) == (pytest.approx(1 / 3), 1, 1)
        assert found.copies == 2

    def test_bins_are_common_and_sum_to_100(self) -> None:
        wide, narrow = plots.staleness(
            result_of([stale("a", range(10_001)), stale("b", [3, 3, 200])])
        )
        assert wide.lowest.tolist() == narrow.lowest.tolist()
        assert len(wide.lowest) <= plots.MOST_BINS
        assert wide.percent.sum() == pytest.approx(100)
        assert narrow.percent.tolist()[:2] == pytest.approx([200 / 3, 100 / 3])

    def test_what_lies_far_out_shares_the_last_bar(self) -> None:
        result = result_of([stale("a", [4] * 999 + [5_000])])
        (found,) = plots.staleness(result)
        assert found.lowest[-1] == 7  # 4 and a quarter more, and 2
        assert found.percent[[4, -1]].tolist() == pytest.approx([99.9, 0.1])
        assert found.largest == 5_000
        (axes,) = plots.draw_staleness(result, panels([1.0])[1])
        assert axes.get_xlabel().endswith("(updates; the last bar: 7 or more)")

    def test_the_mean_is_marked(self) -> None:
        (axes,) = plots.draw_staleness(a_result(), panels([1.0])[1])
        assert axes.lines[0].get_xdata() == pytest.approx([1 / 3, 1 / 3])
        assert [bar.get_height() for bar in axes.patches] == pytest.approx([200 / 3, 100 / 3])

    def test_a_remark_is_shortened_before_a_name(self) -> None:
        names = ["averaged every 20, 25 Gbit/s", "short"]
        result = result_of([a_trace(n) for n in names])
        with style():
            axes = plots.draw_staleness(result, panels([1.0] * 2)[1])
        assert [each.get_title("left") for each in axes] == names
        assert axes[0].get_title("right") == "mean 0.333 · largest 1 · copies missed 2"
        assert axes[1].get_title("right").endswith("copies, when read, had missed 2 on average")


class TestTimeSplit:
    def test_of_the_run_by_hand(self) -> None:
        # Of 20 s of two workers: 13 compute, 3 read, 4 write.
        shares = plots.time_shares(a_result({"a": (1, 2)}))["a"]
        assert {name: share for name, share in shares.items() if share} == pytest.approx(
            {"compute": 65, "read": 15, "write": 20}
        )

    def test_bars_tile_the_whole(self) -> None:
        result = a_result()
        _, (axes,) = panels([1.0])
        assert plots.time_split(result, axes) is axes
        edges = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
        # 13 s of 20 s are computing; 30.8 % of that, 4 s, went into a gradient that was dropped.
        parts = ((0, 45), (45, 65), (65, 80), (80, 100))
        assert edges == [pytest.approx(pair) for pair in parts]
        assert [text.get_text() for text in axes.texts] == ["45 %", "20 %", "15 %", "20 %"]
        hatches = [bar.get_hatch() for bar in axes.patches]
        assert hatches == ["", "xx", "///", "\\\\\\"]
        (split,) = (plot for plot in PLOTS if plot.name == "time_split")
        handles = [str(handle.get_label()) for handle in split.legend(result)]
        assert handles == ["compute", "compute, wasted", "read", "write"]
        # The table of the page says the same.
        (cell,) = (one.cells[0] for one in result.report.table.columns if one.key == "time")
        assert dict(cell.parts) == pytest.approx({"compute": 0.45, "vain": 0.2, "network": 0.35})

    def test_activities_differ_by_hatch_too(self) -> None:
        hatches = [look.mark for look in plots.ACTIVITIES.values()]
        assert len(set(hatches)) == len(hatches)


def test_a_figure_is_the_same_svg_wherever_its_parts_lie_in_memory(tmp_path: Path) -> None:
    """Ids in an SVG are hashes of coordinates to the last bit, which must not hang on addresses."""
    result = a_result({"N = 3": (1,), "N = 4": (2,), "N = 8": (1,), "N = 16": (3,)})
    (plot,) = (plot for plot in PLOTS if plot.name == "staleness")
    elsewhere, seen = [], set()
    for count in range(8):
        elsewhere.append([bytearray(size) for size in range(10, 200 + 613 * (count % 3))])
        seen.add(draw_one(plot, result, tmp_path).svg)
    assert len(seen) == 1
