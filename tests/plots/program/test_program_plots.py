"""The plots of a result of variables: the data behind them by hand, and what is drawn of it.

A byte takes 1 us, the latency is 100 us (see `programs`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from tests.figures import assert_no_text_over_other_text, draw_all
from tests.programs import MODES, WIRE, add, read, scenario, variable
from varsim.report.charts.looks import looks
from varsim.report.plots.figure import panels, save, style
from varsim.report.plots.plot import Plot
from varsim.report.plots.program import cost, crossover, span, step
from varsim.report.plots.program.gallery import plots
from varsim.strategies import family
from varsim.study.simulation import simulate_variables
from varsim.study.variables import VariablesResult

LARGE = variable(shape=(1000,), aggregation="mean")
COMPUTE = {"kind": "compute"}
RING, SERVED, COLLECTED, FETCHED = 5776, 12100, 8100, 4100


def result(*replicas: Any, **changes: Any) -> VariablesResult:
    whole = {"outside": (read(),), "variables": (LARGE,), **changes}
    return simulate_variables(scenario(replicas, **whole))


def computing(**law: Any) -> dict[str, Any]:
    return {"workers": 3, "compute": law, "network": WIRE}


@pytest.fixture(scope="module")
def crossed() -> VariablesResult:
    return result(add(3.0, 1.0, 2.0, times=4), vary={"reads_per_write": (0, 0.5, 1, 4)})


@pytest.fixture(scope="module")
def counted() -> VariablesResult:
    return result(
        add(3.0, 1.0, 2.0), read(), variables=(variable(),), steps=2,
        outside=(read(), {"kind": "save", "every": 2}),
    )  # fmt: skip


@pytest.fixture(scope="module")
def slow() -> VariablesResult:
    """Worker 1 computes for 3 ms, the others for 1 ms."""
    cluster = computing(kind="constant", value=1e-3)
    cluster["slow_workers"] = ({"rank": 1, "factor": 3.0},)
    return result(COMPUTE, add(1.0), cluster=cluster)


def panels_of(module: Any, of: VariablesResult) -> list[Axes]:
    with style():
        axes = panels(module.heights(of), one_axis=False)[1]
        drawn = module.draw(of, axes) if module is not crossover else [module.draw(of, axes[0])]
    assert drawn == axes
    return axes


class TestCost:
    def test_bars_by_hand(self, crossed: VariablesResult) -> None:
        times = cost.costs(crossed, "time_per_step")
        assert [bar.mean for bar in times] == pytest.approx(
            [COLLECTED * 1e-6, 4 * RING * 1e-6, (4 * SERVED + FETCHED) * 1e-6]
        )
        assert [bar.text for bar in times] == ["8.100 ms", "23.10 ms", "52.50 ms"]
        sizes = cost.costs(crossed, "bytes_per_step")
        assert [bar.text for bar in sizes] == [
            "8 kB in 2 messages", "64 kB in 48 messages", "52 kB in 13 messages",
        ]  # fmt: skip

    def test_times_are_above_and_bytes_below(self, crossed: VariablesResult) -> None:
        above, below = panels_of(cost, crossed)
        assert [bar.get_width() for bar in above.patches] == pytest.approx([8.1, 23.104, 52.5])
        assert above.get_xlabel() == "time per step (ms)"
        assert [bar.get_width() for bar in below.patches] == [8, 64, 52]
        assert below.get_xlabel() == "sent per step (kB)"

    def test_replications_have_whiskers_where_something_is_random(self) -> None:
        cluster = computing(kind="exponential", mean=1e-2)
        several = result(COMPUTE, add(1.0), cluster=cluster, replications=3)
        above, below = panels_of(cost, several)
        assert len(above.containers) == 2 * 3, "three bars, each with a whisker"
        assert len(below.containers) == 3, "bytes are no chance"

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            (
                {"modes": ("on_write", "on_read")},
                "The cheapest is 'on_write': 5.776 ms per step; 'on_read' takes 1.40 times as long",
            ),
            ({"modes": ("none",)}, "A step takes 16.20 ms"),
            (
                {"outside": (), "modes": ("on_read", "on_write")},
                "The cheapest is 'on_read': 0 s per step, 5.776 ms per step with 'on_write'",
            ),
        ],
    )
    def test_title(self, changes: dict[str, Any], said: str) -> None:
        assert cost.title(result(add(1.0), **changes)) == said

    def test_title_of_equals(self) -> None:
        equal = result(read(), outside=(), modes=("on_read", "on_write"))
        assert cost.title(equal) == "'on_read' and 'on_write' are equally cheap: 0 s per step"


class TestCrossover:
    def test_curves_by_hand(self, crossed: VariablesResult) -> None:
        curves = {curve.mode: curve for curve in crossover.curves(crossed)}
        assert list(curves) == list(MODES)
        assert curves["on_read"].ratio.tolist() == [0, 0.5, 1, 4]
        assert curves["on_read"].mean.tolist() == pytest.approx(
            [0, 2 * COLLECTED * 1e-6, 4 * COLLECTED * 1e-6, 16 * COLLECTED * 1e-6]
        )

    def test_who_is_cheapest_where(self, crossed: VariablesResult) -> None:
        first, second = crossover.cheapest(crossed)
        assert (first.begin, first.mode, second.mode, second.end) == (0, "on_read", "on_write", 4)
        assert first.end == second.begin == pytest.approx(RING / COLLECTED)
        assert crossover.title(crossed) == (
            "'on_read' is the cheapest below 0.713 reads per write, 'on_write' above"
        )

    def test_every_crossing_has_a_ring_and_its_number(self, crossed: VariablesResult) -> None:
        (axes,) = panels_of(crossover, crossed)
        rings = [line for line in axes.lines if line.get_markersize() == 11]
        places = [float(line.get_xdata()[0]) for line in rings]
        assert places == pytest.approx([RING / COLLECTED, SERVED / (COLLECTED - FETCHED)])
        assert [text.get_text() for text in axes.texts[:2]] == ["0.713", "3.03"]

    def test_zero_is_drawn_on_linear_axes(self, crossed: VariablesResult) -> None:
        (axes,) = panels_of(crossover, crossed)
        assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
        assert axes.get_xlim() == (0, 4)
        assert axes.get_ylim()[0] == 0

    def test_zero_is_drawn_on_logarithmic_axes(self) -> None:
        ratios = (0, 0.125, 0.25, 0.5, 1, 4, 16, 64)
        far = result(add(1.0, times=8), vary={"reads_per_write": ratios})
        (axes,) = panels_of(crossover, far)
        assert (axes.get_xscale(), axes.get_yscale()) == ("symlog", "symlog")
        assert axes.get_xlim() == (0, 64)
        assert axes.get_xlabel().endswith("(logarithmic)")
        assert axes.get_ylabel() == "time per step (s, logarithmic)"
        # 0 and the first crossing are well apart: neither at the left end nor at the right.
        crossing = axes.transData.transform((RING / COLLECTED, 8 * RING * 1e-6))
        left, right = axes.get_window_extent().x0, axes.get_window_extent().x1
        assert 0.2 < (crossing[0] - left) / (right - left) < 0.8

    def test_without_zero_the_logarithm_is_a_plain_one(self) -> None:
        ratios = (0.125, 0.25, 0.5, 1, 4, 16, 64)
        far = result(add(1.0, times=8), vary={"reads_per_write": ratios})
        (axes,) = panels_of(crossover, far)
        assert axes.get_xscale() == "log"

    def test_numbers_stand_apart(self) -> None:
        """Even of crossings that are close to one another."""
        cluster = {"workers": 3, "network": {**WIRE, "server_bandwidth": 2.7e6}}
        near = result(add(1.0, times=4), vary={"reads_per_write": (0, 1, 3)}, cluster=cluster)
        assert len(near.crossovers()) == 3
        with style():
            figure, axes = panels(crossover.heights(near))
            crossover.draw(near, *axes)
            figure.draw_without_rendering()
            numbers = [text.get_window_extent() for text in axes[0].texts[:3]]
        for index, box in enumerate(numbers):
            assert not any(box.overlaps(other) for other in numbers[:index])

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"modes": ("none",)}, "A step takes 12.10 ms to 20.30 ms"),
            ({"modes": ("on_write",)}, "A step takes 5.776 ms"),
            ({"modes": ("on_write", "none")}, "'on_write' is the cheapest at every ratio"),
        ],
    )
    def test_title(self, changes: dict[str, Any], said: str) -> None:
        varied = result(add(1.0), vary={"reads_per_write": (0, 1, 2)}, **changes)
        assert crossover.title(varied) == said


class TestStep:
    def test_the_step_is_one_in_which_most_happens(self, counted: VariablesResult) -> None:
        assert span.shown_step(counted) == 2
        assert span.shown_step(result(add(1.0, every=3), read(every=2), steps=12)) == 6
        assert span.shown_step(result(add(1.0), steps=5)) == 1

    def test_bars_by_hand(self, slow: VariablesResult) -> None:
        panel = next(panel for panel in step.step(slow) if panel.mode == "on_write")
        assert panel.rows == ["replica 0", "replica 1", "replica 2", "outside"]
        by_row = {
            row: [(bar.kind, round(bar.begin * 1e6), round(bar.end * 1e6)) for bar in panel.bars
                  if bar.row == row]
            for row in (0, 1)
        }  # fmt: skip
        assert by_row[0] == [
            ("compute", 0, 1000),
            (step.WAITING, 1000, 3000),
            ("assign_add", 3000, 3000 + RING),
        ]
        assert by_row[1] == [("compute", 0, 3000), ("assign_add", 3000, 3000 + RING)]
        assert panel.length == pytest.approx((3000 + RING) * 1e-6)

    def test_what_takes_no_time_is_a_mark(self, slow: VariablesResult) -> None:
        panel = step.step(slow)[0]
        assert panel.mode == "on_read"
        marks = [(one.row, one.kind, round(one.moment * 1e6), one.often) for one in panel.instants]
        assert marks == [(0, "assign_add", 1000, 1), (2, "assign_add", 1000, 1),
                         (1, "assign_add", 3000, 1)]  # fmt: skip

    def test_repetitions_at_one_moment_are_counted(self) -> None:
        panel = step.step(result(add(1.0, times=5), modes=("on_read",)))[0]
        assert [one.often for one in panel.instants] == [5, 5, 5]

    def test_messages_are_arrows_between_rows(self, counted: VariablesResult) -> None:
        panels_by_mode = {panel.mode: panel for panel in step.step(counted)}
        served = panels_by_mode["none"]
        assert served.rows[-1] == "ps 0"
        # Three writes to the server, three reads from it, then the outside reads, and saves.
        assert [(arrow.source, arrow.target) for arrow in served.arrows] == [
            (0, 4), (1, 4), (2, 4), (4, 0), (4, 1), (4, 2), (4, 3), (4, 3),
        ]  # fmt: skip
        collected = panels_by_mode["on_read"].arrows
        assert [(arrow.source, arrow.target) for arrow in collected] == [(1, 3), (2, 3)] * 2
        assert panels_by_mode["on_read"].rows == [f"replica {rank}" for rank in range(3)] + [
            "outside"
        ]

    def test_where_they_cannot_be_told_apart_they_are_counted(self) -> None:
        many = result(add(1.0, times=8))
        for panel in step.step(many):
            assert bool(panel.arrows) is (panel.mode != "on_write"), panel.mode
            assert panel.messages == {"on_read": 2, "on_write": 96, "none": 25}[panel.mode]
        (_, ring, _) = panels_of(step, many)
        assert ring.get_title("right") == "96 messages, too many to draw"

    def test_or_they_are_too_short(self) -> None:
        cluster = computing(kind="constant", value=1.0)
        long = result(COMPUTE, add(1.0), cluster=cluster, modes=("on_read",))
        (axes,) = panels_of(step, long)
        assert axes.get_title("right") == "2 messages, too short to draw"

    def test_of_many_replicas_the_slow_ones_are_shown(self) -> None:
        cluster = {
            "workers": 40,
            "network": {**WIRE, "slow_links": ({"rank": 30, "factor": 2.0},)},
        }
        found = result(add(1.0), modes=("on_read",), cluster=cluster)
        (panel,) = step.step(found)
        assert len(panel.rows) == step.MOST_REPLICAS + 1
        assert panel.rows[-2:] == ["replica 30", "outside"]
        (axes,) = panels_of(step, found)
        assert axes.get_title("right").startswith("12 of 40 replicas shown; 39 messages")

    def test_steps_of_like_length_share_a_clock(self, slow: VariablesResult) -> None:
        axes = panels_of(step, slow)
        assert len({each.get_xlim() for each in axes}) == 1
        assert [bool(each.get_xlabel()) for each in axes] == [False, False, True]

    def test_others_have_their_own(self) -> None:
        axes = panels_of(step, result(add(1.0, times=8), modes=("on_read", "none")))
        assert len({each.get_xlim() for each in axes}) == 2
        assert [each.get_xlabel() for each in axes] == ["time since the step began (ms)"] * 2

    def test_the_legend_names_what_is_seen(self, slow: VariablesResult) -> None:
        labels = [each.get_label() for each in step.legend(slow)]
        assert labels == [
            "compute", "assign_add", "assign_add, no time", "read", "read, no time",
            step.WAITING, "message",
        ]  # fmt: skip

    def test_drawn_are_all_bars(self, slow: VariablesResult) -> None:
        for axes, panel in zip(panels_of(step, slow), step.step(slow), strict=True):
            boxes = [each for each in axes.collections if isinstance(each, PolyCollection)]
            assert sum(len(each.get_paths()) for each in boxes) == len(panel.bars)

    def test_title(self, slow: VariablesResult) -> None:
        assert step.title(slow) == (
            "Step 1 took 11.10 ms in 'on_read', 8.776 ms in 'on_write', 17.20 ms in 'none'"
        )

    def test_of_a_run_that_is_cut_a_whole_step_is_shown(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("varsim.study.simulation.MOST_ACTS", 8)
        found = result(add(1.0), outside=(read(every=3),), steps=6, modes=("on_read",))
        assert found.trace("on_read").all_acts == 20
        assert span.shown_step(found) == 1  # of step 3 not all acts are kept
        monkeypatch.setattr("varsim.study.simulation.MOST_SENT", 3)
        monkeypatch.setattr("varsim.study.simulation.MOST_ACTS", 100)
        less = result(add(1.0), outside=(read(every=3),), steps=6, modes=("on_read",))
        assert len(less.trace("on_read").sent) == 3
        assert span.shown_step(less) == 1

    @pytest.mark.parametrize("limit", ["MOST_SENT", "MOST_ACTS"])
    def test_where_not_all_of_the_first_step_is_kept_it_says_so(
        self, limit: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f"varsim.study.simulation.{limit}", 2)
        (axes,) = panels_of(step, result(add(1.0), modes=("on_write",)))
        assert axes.get_title("right").startswith("not all is kept of this step, ")


EDGE_CASES: dict[str, Callable[[], VariablesResult]] = {
    "one replica": lambda: result(
        add(1.0), cluster={"workers": 1, "network": WIRE}, vary={"reads_per_write": (0, 1)}
    ),
    "nothing takes time": lambda: result(
        add(1.0), cluster={"workers": 1, "network": WIRE}, modes=("on_read", "on_write"),
        vary={"reads_per_write": (0, 1)},
    ),
    "one mode without a name": lambda: result(
        add(1.0), variables=({**LARGE, "synchronization": "on_read"},), modes=()
    ),
    "one mode": lambda: result(add(1.0), modes=("none",), vary={"reads_per_write": (1, 2)}),
    "many ratios": lambda: result(
        add(1.0, times=10), vary={"reads_per_write": tuple(n / 10 for n in range(0, 100, 3))}
    ),
    "ratios far apart": lambda: result(
        add(1.0, times=100), vary={"reads_per_write": (0, 0.01, 0.1, 1, 10, 100)},
        modes=("on_read", "on_write"), variables=(variable(),),
    ),
    "a thousand messages": lambda: result(add(1.0, times=20), cluster={
        "workers": 8, "network": WIRE}),
    "several replications": lambda: result(
        COMPUTE, add(1.0), cluster=computing(kind="exponential", mean=1e-3), replications=4,
        vary={"reads_per_write": (0, 1, 2)},
    ),
    "only the outside": lambda: result(outside=({"kind": "save"}, {"kind": "restore"})),
    "steps that overlap": lambda: result(COMPUTE, add(1.0), outside=(read(every=4),), steps=4,
        cluster=computing(kind="exponential", mean=1e-3)),
    "very many that overlap": lambda: result(COMPUTE, add(1.0), outside=(), steps=20,
        cluster=computing(kind="exponential", mean=1e-3)),
    "only replicas": lambda: result(add(1.0), outside=(), steps=3),
    "every kind of action": lambda: result(
        COMPUTE, add(1.0), add(1.0, kind="assign"), add(1.0, kind="assign_sub"), read(),
        {"kind": "moving_average", "variable": "v", "value": 1.0, "momentum": 0.5},
        outside=({"kind": "save"}, read(), {"kind": "restore"}),
        cluster=computing(kind="constant", value=1e-2), vary={"reads_per_write": (0, 0.25)},
    ),
}  # fmt: skip


class TestEveryPlot:
    @pytest.mark.parametrize("case", EDGE_CASES)
    def test_draws_edge_cases_without_a_warning(self, case: str, tmp_path: Path) -> None:
        found = EDGE_CASES[case]()
        figures = draw_all(plots(found), found, tmp_path)
        assert list(figures) == [plot.name for plot in plots(found)]
        assert ("crossover" in figures) is bool(found.ratios)
        for name, figure in figures.items():
            assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8") == figure.svg
            assert figure.title
            assert "nan" not in figure.title

    def test_gives_the_same_bytes_whatever_the_users_style(
        self, crossed: VariablesResult, tmp_path: Path
    ) -> None:
        once, again = tmp_path / "once", tmp_path / "again"
        try:
            for directory in (once, again):
                directory.mkdir()
                draw_all(plots(crossed), crossed, directory)
                matplotlib.rcParams.update({"axes.facecolor": "red", "font.size": 20})
        finally:
            matplotlib.rcdefaults()
        for path in once.iterdir():
            assert (again / path.name).read_bytes() == path.read_bytes(), path.name

    @pytest.mark.parametrize("name", ["cost", "step", "crossover"])
    @pytest.mark.parametrize("case", ["several replications", "every kind of action"])
    def test_has_no_text_over_other_text(self, name: str, case: str, tmp_path: Path) -> None:
        found = EDGE_CASES[case]()
        plot = next(plot for plot in plots(found) if plot.name == name)
        figure, axes = drawn(plot, found, tmp_path)
        assert_no_text_over_other_text(figure, axes)

    def test_actions_differ_by_hatch_and_by_mark(self) -> None:
        looks_of = [look for kind, look in step.ACTIONS.items() if kind != step.WAITING]
        assert len({look.mark for look in looks_of}) == len(looks_of)
        assert len(set(step._MARKS.values())) == len(step.ACTIONS)

    def test_modes_differ_by_colour_and_by_marker(self) -> None:
        look = looks({mode: family(mode) for mode in MODES}).values()
        assert len({each.color for each in look}) == len({each.mark for each in look}) == 3


def drawn(
    plot: "Plot[VariablesResult]", found: VariablesResult, directory: Path
) -> tuple[Figure, list[Axes]]:
    """The figure as it is in the file."""
    with style():
        figure, axes = panels(plot.heights(found), plot.one_axis)
        plot.draw(found, axes)
        save(figure, plot.title(found), plot.legend(found), directory / plot.name)
        figure.draw_without_rendering()
    return figure, axes
