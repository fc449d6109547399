"""What the plots of a sweep show, as data, and that they can be drawn for every kind of sweep."""

import math
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from tests.figures import draw_all
from varsim.report.charts.looks import DARK
from varsim.report.plots.figure import panels
from varsim.report.plots.sweep import heat, lines, scaling
from varsim.report.plots.sweep.axis import MOST_PANELS, chosen, main_axis, panels_beside, swept_axis
from varsim.report.plots.sweep.gallery import plots
from varsim.scenario.sweep.loading import sweep_of_text
from varsim.scenario.sweep.space import Sweep
from varsim.study.sweep.campaign import Books, carry_out
from varsim.study.sweep.case import cases_of
from varsim.study.sweep.execution import Here
from varsim.study.sweep.scaling import Yardstick
from varsim.study.sweep.store import Store
from varsim.study.sweep.table import Table, short_names, table_of

BASE = """\
name: tiny
replications: 2
cluster:
  workers: 4
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 8 Gbit/s, latency: 0}
workload:
  problem: {kind: timing, size: 100 MB}
  batch_size: 1
strategies:
  - {kind: single}
  - {kind: none}
  - {kind: backup_workers, replicas_to_aggregate: 1}
stop: {global_steps: 8}
"""


def table(tmp_path: Path, *sets: str, block: str = "") -> Table:
    return swept(tmp_path, sweep_of_text(BASE + block, sets=sets))


def swept(tmp_path: Path, sweep: Sweep) -> Table:
    cases = cases_of(sweep)
    with Store(tmp_path) as store, Here() as backend:
        books = Books.opened(sweep, (case for _, _, case in cases), store.runs())
        carry_out(books, store, backend, lambda status: None, books.begin())
    return table_of(sweep, cases, books)


def names(found: Table) -> list[str]:
    return [plot.name for plot in plots(found)]


def test_what_is_swept_in_step_with_the_axis_is_told(tmp_path: Path) -> None:
    zipped = """\
sweep:
  zip:
    cluster.workers: [2, 3, 4]
    strategies.backup_workers.replicas_to_aggregate: [2, 2, 3]
"""
    along = " Swept in step with the axis: replicas_to_aggregate (2, 2, 3)."
    assert plots(table(tmp_path / "a", block=zipped))[0].caption.endswith(along)
    assert "in step" not in plots(table(tmp_path / "b", "cluster.workers=1,2"))[0].caption


def test_one_worker_by_hand(tmp_path: Path) -> None:
    # A model of 100 MB takes 100 ms each way at 1 GB/s: 10 and 3.33 steps of one example a second.
    found = table(tmp_path, "cluster.workers=1,2")
    by = {(row.strategy, row.point): row for row in found.rows}
    assert by["single", 0].mean("examples_per_s") == pytest.approx(10)
    assert by["none", 0].mean("examples_per_s") == pytest.approx(1 / 0.3)
    assert by["none", 0].scaling["efficiency_fraction"].mean == pytest.approx(1 / 3)
    panel = lines.lines(found, list(found.rows), lines.throughput(found))
    assert [line.flat for line in panel] == [True, False, False]
    assert panel[0].mean == pytest.approx([10, 10])
    x, y = scaling.curve(found, list(found.rows), "none", "speedup")
    assert x == [1, 2]
    assert y[0].mean == pytest.approx(1 / 3)


def test_axes_have_units_and_scales(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.network.bandwidth=1 Gbit/s,10 Gbit/s,100 Gbit/s")
    axis = main_axis(found)
    assert axis.label == "cluster.network.bandwidth (Gbit/s)"
    assert list(axis.positions.values()) == pytest.approx([1, 10, 100])
    assert axis.logarithmic
    words = table(tmp_path, "cluster.network.sharing=fair,first_come", "seed=1,2")
    assert not swept_axis(words, 0).numeric
    assert main_axis(words).index == 1, "numbers before words"


def test_panels_for_what_else_is_swept(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.workers=1,2,3", "cluster.network.latency=0 s,1 ms")
    headings = [heading for heading, _ in panels_beside(found, main_axis(found))]
    assert headings == ["cluster.network.latency = 0 s", "cluster.network.latency = 1 ms"]
    assert chosen(range(20), MOST_PANELS) == [0, 4, 8, 11, 15, 19]


def test_a_map_of_two_quantities(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.workers=1,2,3", "cluster.network.latency=0 s,1 ms")
    assert heat.mapped(found) == ["none", "backup_workers"]
    values = heat.grid(found, "none")
    assert values.shape == (2, 3)
    assert values[0, 0] == pytest.approx(1 / 0.3)
    assert values[1, 0] == pytest.approx(1 / 0.302)
    assert (values[0] > values[1]).all()


def test_which_plots_there_are(tmp_path: Path) -> None:
    assert names(table(tmp_path, "seed=1,2")) == ["throughput", "staleness", "wasted"]
    prices = "prices={device_hour: 3}"
    found = table(tmp_path, "cluster.workers=1,2", "cluster.network.latency=0 s,1 ms", prices)
    assert names(found) == ["throughput", "staleness", "wasted", "heat", "scaling", "pareto"]


@pytest.mark.parametrize(
    "sets",
    [
        ("cluster.workers=1,2", "cluster.network.latency=0 s,1 ms", "prices={device_hour: 3}"),
        ("cluster.network.sharing=fair,first_come",),
        pytest.param(
            ("seed={from: 1, to: 9, step: 1}", "cluster.workers=1,2", "workload.batch_size=1,2"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("cluster.network.sharing=fair,first_come", "workload.batch_size=3,4"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_everything_can_be_drawn(tmp_path: Path, sets: tuple[str, ...]) -> None:
    found = table(tmp_path / "runs", *sets)
    drawn = draw_all(plots(found), found, tmp_path)
    assert list(drawn) == names(found)
    for name in drawn:
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_a_plot_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    found = table(tmp_path / "runs", "cluster.network.sharing=fair,first_come")
    one, other = (draw_all(plots(found), found, tmp_path)["throughput"].svg for _ in range(2))
    assert one == other


def test_costs_by_hand(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.workers=1,2", "prices={device_hour: 36, server_hour: 7.2}")
    by = {(row.strategy, row.point): row for row in found.rows}
    assert by["none", 1].mean("cost_per_hour") == pytest.approx(2 * 36 + 7.2)
    assert by["single", 1].mean("cost_per_hour") == pytest.approx(36)
    # 36 an hour for 10 examples a second: 1,000 for a million.
    assert by["single", 1].mean("cost_per_million_examples") == pytest.approx(1000)
    assert "cost_per_hour_USD" in found.columns
    # One device is the same with one worker and with two: no point is named.
    cheapest = found.report.headline[-1]
    assert (cheapest.code, cheapest.values["best"]) == ("cheapest", "one worker")
    assert cheapest.values["price"].mean == pytest.approx(1000)
    dearer = table(tmp_path, "cluster.workers=1,2", "prices={device_hour: 72, currency: EUR}")
    assert dearer.rows[0].mean("cost_per_hour") == pytest.approx(72)


def test_short_names_tell_apart() -> None:
    assert short_names(["a.b.c", "a.d"]) == ["c", "d"]
    assert short_names(["a.b.c", "a.d.c", "e"]) == ["b.c", "d.c", "e"]
    assert short_names(["a", "b.a"]) == ["a", "b.a"]
    assert short_names(["a.b.0.repair.mean", "a.d"]) == ["repair.mean", "d"]
    assert short_names(["mean"]) == ["mean"]


def test_what_is_told_where_there_is_nothing(tmp_path: Path) -> None:
    found = table(tmp_path, "seed=1,2")
    nothing = Table(found.sweep, tuple(row._replace(estimates={}) for row in found.rows))
    assert [note.code for note in nothing.report.headline] == ["nothing"]
    failed = Table(
        found.sweep,
        tuple(row._replace(estimates={}, values={}, failure="why\nmore") for row in found.rows),
    )
    note = failed.report.notes[0]
    assert (note.code, note.values["why"], note.values["count"]) == ("failed-rows", "why", 6)
    cells = {cell for one in failed.report.table.columns for cell in one.cells}
    assert cells == {"failed"}
    assert all(math.isnan(row.mean("examples_per_s")) for row in failed.rows)


def test_where_hosts_fail_the_work_that_is_kept_is_drawn(tmp_path: Path) -> None:
    """The rate of steps is the same however often a job is saved; what is kept is not."""
    failing = "failures={horizon: 1 d, detection: 0, of: [{domain: worker, mtbf: 8 h}]}"
    saved = "checkpoint={every: 1 min, write: 10 s}", "checkpoint.every=1 min,10 min"
    found = table(tmp_path, "strategies=[{kind: on_write}]", failing, *saved)
    (line,) = lines.lines(found, list(found.rows), lines.throughput(found))
    kept = [row.mean("kept_examples_per_s") for row in found.rows]
    assert line.mean == kept
    assert len({row.mean("examples_per_s") for row in found.rows}) == 1 < len(set(kept))
    assert lines.throughput(found).label == "examples/s kept"


def test_all_that_is_swept_is_on_the_axis(tmp_path: Path) -> None:
    """Also values at which there is nothing to draw, as where a target was not reached."""
    found = table(tmp_path, "cluster.workers=1,2,3")
    only = tuple(row for row in found.rows if row.point == 1)
    figure, (axes,) = panels([2.0], True)
    lines.draw(Table(found.sweep, only), [axes], lines.throughput(found))
    low, high = axes.get_xlim()
    assert low < 1 < 3 < high
    assert axes.get_ylim()[0] == 0
    figure.clear()


def test_a_ring_is_explained_where_there_is_one(tmp_path: Path) -> None:
    def explained(*sets: str) -> list[object]:
        handles = lines.legend(table(tmp_path, *sets), rings=True)
        return [handle.get_label() for handle in handles]

    assert explained("cluster.workers=1,2")[-1] == "its highest mean"
    assert "its highest mean" not in explained("cluster.workers={from: 2, to: 2, step: 1}")


def test_one_number_of_workers_has_no_speed_up() -> None:
    base = BASE.replace("  - {kind: single}\n", "")
    four, some = ["cluster.workers={from: 4, to: 4, step: 1}"], ["cluster.workers=2,4"]
    assert Yardstick.of(sweep_of_text(base, sets=some)) is not None
    assert Yardstick.of(sweep_of_text(base, sets=four)) is None
    assert Yardstick.of(sweep_of_text(BASE, sets=four)) is not None, "one worker beside four"


def whiskers(axes: Axes) -> list[float]:
    """Halves of all whiskers that are drawn in a panel."""
    bars = [one for one in axes.collections if isinstance(one, LineCollection)]
    ends = [segment[:, 1] for one in bars for segment in one.get_segments() if len(segment)]
    return [(high - low) / 2 for low, high in ends if math.isfinite(high - low)]


def test_a_speed_up_has_whiskers_where_something_is_random(tmp_path: Path) -> None:
    said = "Whiskers: 95 % confidence interval, where that is longer than the mark."
    for law, random in (
        ("{kind: constant, value: 100 ms}", False),
        ("{kind: uniform, low: 90 ms, high: 100 ms}", True),
    ):
        base = BASE.replace("{kind: constant, value: 100 ms}", law).replace("8 Gbit/s", "8 Tbit/s")
        sweep = sweep_of_text(
            base.replace("replications: 2", "replications: 5"), sets=["cluster.workers=1,2,4"]
        )
        found = swept(tmp_path / str(random), sweep)
        figure, (upper, lower) = panels(scaling.heights(found), True)
        scaling.draw(found, [upper, lower])
        expected = [
            row.scaling["speedup"].half_width
            for row in found.rows
            if row.strategy != "single" and row.scaling["speedup"].half_width > 0
        ]
        assert sorted(whiskers(upper)) == pytest.approx(sorted(expected))
        assert len(whiskers(lower)) == len(expected)
        assert bool(expected) == random
        (caption,) = (one.caption for one in plots(found) if one.name == "scaling")
        assert (said in caption) == random
        figure.clear()


def test_numbers_on_a_map_are_read_on_a_dark_page_too(tmp_path: Path) -> None:
    """There text and paper change places, the colours of the map do not."""
    found = table(tmp_path, "cluster.workers=1,2,3", "cluster.network.latency=0 s,100 ms")
    figure, (first, *rest) = panels(heat.heights(found), True)
    heat.draw(found, [first, *rest])
    written = {
        str(text.get_color()) for text in first.texts if text.get_text().strip("0123456789.,") == ""
    }
    assert len(written) == 2
    assert not written & set(DARK)
    figure.clear()


def test_the_title_does_not_speak_of_one_worker_that_nobody_ran(tmp_path: Path) -> None:
    with_one = table(tmp_path, "cluster.workers=2,4")
    assert " times as fast as one: " in scaling.title(with_one)
    base = BASE.replace("  - {kind: single}\n", "")
    # With four servers of 1 GB/s each nobody waits for anybody.
    sweep = sweep_of_text(base, sets=["cluster.workers=2,4", "cluster.parameter_servers=4"])
    cases = cases_of(sweep, ["none"])
    with Store(tmp_path) as store, Here() as backend:
        books = Books.opened(sweep, (case for _, _, case in cases), store.runs())
        carry_out(books, store, backend, lambda status: None, books.begin())
    said = scaling.title(table_of(sweep, cases, books))
    faster = "4 workers are at most 2 times as fast as 2: async PS"
    assert said == f"{faster}, an efficiency of 100 %"


def test_what_is_written_at_words(tmp_path: Path) -> None:
    laws = "{kind: constant, value: 1 s},{kind: uniform, low: 1 s, high: 2 s}"
    kinds = swept_axis(table(tmp_path, f"cluster.compute={laws}"), 0)
    assert kinds.texts(12) == ["constant", "uniform"]
    assert kinds.texts(60)[0] == "{kind: constant, value: 1 s}"
    same = "{kind: constant, value: 1 s},{kind: constant, value: 2 s}"
    told = swept_axis(table(tmp_path, f"cluster.compute={same}"), 0).texts(20)
    assert told[0] != told[1]
