"""The charts of a sweep as data, and that they can be drawn for every kind of sweep."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sweep.booked import booked
from varsim.report.charts.marks import drawn, write_all
from varsim.report.products.sweep_points import axes, beside
from varsim.report.told import Chart, Report
from varsim.scenario.space import Sweep
from varsim.scenario.sweep import sweep_of_text
from varsim.study.candidate import short_names
from varsim.study.case import Finished
from varsim.study.grid import SPEEDS as COLUMNS
from varsim.study.grid import SweepTable as Table
from varsim.study.grid import Yardstick

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
    found, _ = booked(sweep, tmp_path)
    return found


def charts(found: Table) -> dict[str, list[Chart]]:
    report: Report = found.report
    return report.drawn()


def the(found: Table, name: str) -> Chart:
    (chart,) = charts(found)[name]
    return chart


def line(chart: Chart, who: str) -> list[tuple[float, float]]:
    return [(row["x"], row["mean"]) for row in chart.rows() if row["who"] == who]


def test_one_worker_by_hand(tmp_path: Path) -> None:
    # A model of 100 MB takes 100 ms each way at 1 GB/s: 10 and 3.33 steps of one example a second.
    found = table(tmp_path, "cluster.workers=1,2")
    by = {(row.strategy, row.candidate.at): row for row in found.rows}
    assert by["single", 0].mean("examples_per_s") == pytest.approx(10)
    assert by["none", 0].mean("examples_per_s") == pytest.approx(1 / 0.3)
    assert by["none", 0].scaling["efficiency"].mean == pytest.approx(1 / 3)
    chart = the(found, "throughput")
    assert {row["who"] for row in chart.rows() if row["flat"]} == {"one worker"}
    assert [y for _, y in line(chart, "one worker")] == pytest.approx([10, 10])
    speedup, efficiency = charts(found)["scaling"]
    assert [x for x, _ in line(speedup, "async PS")] == [1, 2]
    assert line(speedup, "async PS")[0][1] == pytest.approx(1 / 3)
    assert line(speedup, "ideal") == [(1, 1), (2, 2)]
    assert line(efficiency, "ideal") == [(1, 1), (2, 1)]
    assert not line(speedup, "one worker"), "which does not scale"


def test_axes_are_written_as_they_were_swept(tmp_path: Path) -> None:
    found = table(tmp_path / "a", "cluster.network.bandwidth=1 Gbit/s,10 Gbit/s,100 Gbit/s")
    chart = the(found, "throughput")
    assert (chart.x, chart.log) == ("cluster.network.bandwidth", "x")
    assert [text for _, text in chart.ticks] == ["1 Gbit/s", "10 Gbit/s", "100 Gbit/s"]
    assert [x for x, _ in chart.ticks] == pytest.approx([1.25e8, 1.25e9, 1.25e10])
    words = table(tmp_path / "b", "cluster.network.sharing=fair,first_come", "seed=1,2")
    numbers, texts = axes(words)
    assert (numbers.label, texts.label) == ("seed", "cluster.network.sharing")
    assert list(texts.places.values()) == [0, 1]


def test_what_is_written_at_words(tmp_path: Path) -> None:
    laws = "{kind: constant, value: 1 s},{kind: uniform, low: 1 s, high: 2 s}"
    (kinds,) = axes(table(tmp_path, f"cluster.compute={laws}"))
    assert [text for _, text in kinds.ticks()] == ["constant", "uniform"]
    same = "{kind: constant, value: 1 s},{kind: constant, value: 2 s}"
    (told,) = axes(table(tmp_path, f"cluster.compute={same}"))
    assert told.ticks()[0][1] == "{kind: constant, value: 1 s}"


def test_a_panel_for_each_value_of_what_else_is_swept(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.workers=1,2,3", "cluster.network.latency=0 s,1 ms")
    headings = [f"cluster.network.latency = {value}" for value in ("0 s", "1 ms")]
    assert list(dict.fromkeys(the(found, "throughput").data["panel"])) == headings
    assert list(beside(found, axes(found)[0], 1 + 1)) == headings


def test_a_map_of_two_quantities(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.workers=1,2,3", "cluster.network.latency=0 s,1 ms")
    chart = the(found, "heat")
    assert set(chart.data["who"]) == {"async PS", "sync PS + backup"}
    at = {(row["x"], row["row"]): row["mean"] for row in chart.rows() if row["who"] == "async PS"}
    assert len(at) == 6
    assert at["1", "0 s"] == pytest.approx(1 / 0.3)
    assert at["1", "1 ms"] == pytest.approx(1 / 0.302)
    assert (chart.x, chart.y, chart.by) == ("cluster.workers", "latency", "examples/s")
    assert sum(chart.data["best"]) == 2, "of each strategy"


def test_which_there_are_and_that_they_can_be_drawn(tmp_path: Path) -> None:
    few = table(tmp_path / "a", "cluster.network.sharing=fair,first_come")
    assert list(charts(few)) == ["throughput", "staleness", "wasted"]
    prices = "prices={device_hour: 3}"
    sets = "cluster.workers=1,2", "cluster.network.latency=0 s,1 ms", prices
    found = table(tmp_path / "b", *sets)
    assert list(charts(found)) == [
        *("throughput", "staleness", "wasted", "heat", "scaling", "pareto")
    ]
    for made in (few, found):
        write_all(charts(made), made.report.families, tmp_path)
        for name in charts(made):
            assert (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_costs_by_hand(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.workers=1,2", "prices={device_hour: 36, server_hour: 7.2}")
    by = {(row.strategy, row.candidate.at): row for row in found.rows}
    assert by["none", 1].mean("cost_per_hour") == pytest.approx(2 * 36 + 7.2)
    assert by["single", 1].mean("cost_per_hour") == pytest.approx(36)
    # 36 an hour for 10 examples a second: 1,000 for a million.
    assert by["single", 1].mean("cost_per_million_examples") == pytest.approx(1000)
    assert "cost_per_hour" in found.columns
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
    nothing = Table(found.sweep, tuple(replace(row, runs=()) for row in found.rows))
    assert [note.code for note in nothing.report.headline] == ["nothing"]
    assert charts(nothing) == {}
    why = Finished("key", 0, 0.1, {}, "why\nmore")
    failed = Table(found.sweep, tuple(replace(row, runs=(why,)) for row in found.rows))
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
    chart = the(found, "throughput")
    kept = [row.mean("kept_examples_per_s") for row in found.rows]
    assert list(chart.data["mean"]) == kept
    assert len({row.mean("examples_per_s") for row in found.rows}) == 1 < len(set(kept))
    assert chart.y == "examples/s kept"


def test_all_that_is_swept_is_on_the_axis(tmp_path: Path) -> None:
    """Also values at which there is nothing to draw, as where a target was not reached."""
    found = table(tmp_path, "cluster.workers=1,2,3")
    only = tuple(row for row in found.rows if row.candidate.at == 1)
    chart = the(Table(found.sweep, only), "throughput")
    _, (panel,) = drawn([chart], found.report.families)
    low, high = panel.get_xlim()
    assert low < 1 < 3 < high


def test_the_best_of_each_strategy_has_a_ring_where_it_matters(tmp_path: Path) -> None:
    chart = the(table(tmp_path / "a", "cluster.workers=1,2"), "throughput")
    assert {row["who"] for row in chart.rows() if row["ring"]} == {
        *("async PS", "sync PS + backup")
    }
    alone = table(tmp_path / "b", "cluster.workers={from: 2, to: 2, step: 1}")
    assert not any(the(alone, "throughput").data["ring"])


def test_one_number_of_workers_has_no_speed_up() -> None:
    base = BASE.replace("  - {kind: single}\n", "")
    four, some = ["cluster.workers={from: 4, to: 4, step: 1}"], ["cluster.workers=2,4"]
    assert Yardstick.of(sweep_of_text(base, sets=some)) is not None
    assert Yardstick.of(sweep_of_text(base, sets=four)) is None
    assert Yardstick.of(sweep_of_text(BASE, sets=four)) is not None, "one worker beside four"


@pytest.mark.parametrize(
    ("law", "random"),
    [
        ("{kind: constant, value: 100 ms}", False),
        ("{kind: uniform, low: 90 ms, high: 100 ms}", True),
    ],
)
def test_a_speed_up_has_an_interval_where_something_is_random(
    law: str, random: bool, tmp_path: Path
) -> None:
    base = BASE.replace("{kind: constant, value: 100 ms}", law).replace("8 Gbit/s", "8 Tbit/s")
    five = base.replace("replications: 2", "replications: 5")
    found = swept(tmp_path, sweep_of_text(five, sets=["cluster.workers=1,2,4"]))
    for name, chart in zip(COLUMNS, charts(found)["scaling"], strict=True):
        expected = [
            row.scaling[name].half_width
            for row in found.rows
            if row.strategy != "single" and row.scaling[name].half_width > 0
        ]
        halves = [(row["high"] - row["low"]) / 2 for row in chart.rows()]
        assert sorted(filter(None, halves)) == pytest.approx(sorted(expected))
        assert bool(expected) == random


def test_the_front_of_prices_is_named(tmp_path: Path) -> None:
    found = table(tmp_path, "cluster.workers=1,2", "prices={device_hour: 3}")
    chart = the(found, "pareto")
    assert [row["text"] for row in chart.rows() if row["front"]] == [""], "one worker alone"
    assert chart.x == "USD/h"
    assert not any(row["text"] for row in chart.rows() if not row["front"])
