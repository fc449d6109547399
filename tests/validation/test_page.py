"""What is printed and written of a comparison."""

from pathlib import Path

import pytest

from tests.validation.recording import collective, run_of, sync, table
from varsim import load_scenario
from varsim.calibration.recorded.comparison import Comparison, calibrate_half, compare
from varsim.calibration.recorded.report import (
    calibration_table,
    fragment,
    incomplete_runs,
    markdown,
    run_table,
    summary_table,
)
from varsim.calibration.recorded.runs import Run
from varsim.cluster.overheads import Overheads
from varsim.report.plots import measured as figure

SYNCED = Overheads(pull=1e-3, push=0.8e-3, wake=0.3e-3, commit=0.5e-3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    dead = [{"worker": 1, "at": 0.75}]
    files = [
        sync("a", table(4, 60), 3, SYNCED),
        sync("b", table(5, 60), 5, SYNCED),
        sync("c_dead", table(3, 60), 3, SYNCED, init_tokens=0, killed=dead),
        collective("ring", table(4, 30), Overheads(message=2e-4), payload_bytes=4096),
    ]
    return [run_of(file, folder) for file in files]


@pytest.fixture(scope="module")
def comparison(runs: list[Run]) -> Comparison:
    return compare(runs)


def test_a_row_says_what_was_measured_and_predicted(comparison: Comparison) -> None:
    rows = {row[0]: row for row in run_table(comparison).rows}
    (a,) = [one for one in comparison.predictions if one.run == "a"]

    assert rows["a"][1:3] == ("first", f"{a.measured.total:.3f}")
    assert rows["a"][6] == f"{a.measured.p90_step:.4f}"
    assert rows["a"][9:11] == (str(a.measured.dropped), str(a.best.dropped))
    assert rows["ring"][3:5] == ("", ""), "there is no other run to predict it from"
    assert rows["ring"][5].startswith("-")


def test_the_summary_has_the_worst_of_each_kind(comparison: Comparison) -> None:
    rows = [row for row in summary_table(comparison).rows if row[:2] == _of("tf_sync_replicas")]

    assert [row[2:4] for row in rows] == [("first", "2"), ("second", "1"), ("all", "3")]
    worst = max(float(row[5].rstrip("%")) for row in rows[:2])
    assert float(rows[2][5].rstrip("%")) == worst


def test_columns_have_names_of_their_own(comparison: Comparison) -> None:
    found = calibration_table(comparison)

    assert found.head[0] == "overhead"
    assert {"pull", "push", "commit", "wake", "message"} <= {row[0] for row in found.rows}
    for table_ in (run_table(comparison), summary_table(comparison)):
        assert len(set(table_.head)) == len(table_.head), "a table is cut into parts"
        assert {len(row) for row in table_.rows} == {len(table_.head)}


def test_a_standstill_is_told(comparison: Comparison) -> None:
    (line,) = incomplete_runs(comparison)

    assert line.startswith("c_dead was to make 30 updates; it deadlocked after ")
    (dead,) = [one for one in comparison.predictions if one.run == "c_dead"]
    assert dead.measured.updates == dead.best.updates < 30


def test_the_page_tells_of_every_run_and_its_sources(comparison: Comparison) -> None:
    text = markdown(comparison, "varsim validate", "measured.png")

    for name in ("a", "b", "c_dead", "ring"):
        assert f"| {name} |" in text
    assert "The first half of parameter servers is `a`." in text
    assert "From the second half of collectives nothing can be learnt." in text
    assert "](measured.png)" in text
    widths = {
        line.count("|") for line in text.split("## Run by run")[1].splitlines() if "|" in line
    }
    assert len(widths) == 2, "all rows of a table are equally long"


@pytest.mark.parametrize("family", ["parameter servers", "collectives"])
def test_a_fragment_is_part_of_a_scenario(runs: list[Run], family: str, tmp_path: Path) -> None:
    found = calibrate_half(runs, family)
    assert found is not None
    text = "\n".join(fragment(found))
    kind = "{kind: on_write}" if family == "collectives" else "{kind: sync_replicas, N: 2}"
    path = tmp_path / "scenario.yaml"
    path.write_text(
        "name: fragment\n"
        + text
        + "\n  workers: 2\n  compute: {kind: constant, value: 100 ms}\n"
        + "  network: {kind: star, bandwidth: 1 Gbit/s, latency: 1 us}\n"
        + "workload: {problem: {kind: timing, size: 1 kB}}\n"
        + f"strategies: [{kind.replace('N:', 'replicas_to_aggregate:')}]\n"
        + "stop: {global_steps: 3}\n"
    )
    assert load_scenario(path).cluster.overheads == found.overheads.only(
        frozenset(found.overheads.given)
    )
    assert all(f"#   {run}: " in text for run in found.runs)


def test_the_figure_has_a_mark_for_every_prediction(comparison: Comparison, tmp_path: Path) -> None:
    from varsim.report.plots.figure import panels

    _, (axes,) = panels([3.0])
    figure.draw_errors(comparison, axes)
    marks = [line for line in axes.lines if line.get_marker() not in ("None", "")]

    assert len(marks) == 4 + 3, "ring has no calibrated prediction"
    figure.draw(comparison, tmp_path / "measured")
    assert (tmp_path / "measured.png").stat().st_size > 10_000
    assert (tmp_path / "measured.svg").read_text().startswith("<?xml")
    assert "median of 3 runs" in figure.title(comparison)


def _of(kind: str) -> tuple[str, str]:
    return kind, "total time"
