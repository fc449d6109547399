"""The page of a sweep, how it is drawn again, and how much work a sweep may be."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import Number
from tests.seams import app as cli
from tests.sweep.sweeping import BASE, SWEPT, carried_out, noted, sweep, told, with_values
from varsim.report import page
from varsim.report.files.save import put_report, write_sweep
from varsim.report.formats import csv_text
from varsim.report.products.sweep import best_so_far
from varsim.study.grid import Grid
from varsim.study.grid import SweepTable as Table


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SWEPT)
    return path


def drawn(table: Table, directory: Path, question: str = "") -> Path:
    """The page, where the sweep is."""
    write_sweep(table.sweep, question, directory)
    put_report(replace(told(table), question=question), directory)
    return directory / "report.html"


def test_the_page_says_it_all(tmp_path: Path) -> None:
    table = carried_out(sweep(), tmp_path)
    (tmp_path / "results.csv").write_text(csv_text(told(table).data))
    page = drawn(table, tmp_path, "How many?").read_text()
    assert page.count('class="chart"') == 1
    assert page.count('class="scroll map"') == 1, "a map per strategy to which both axes matter"
    every = page.partition("<summary>All points</summary>")[2].partition("</table>")[0]
    assert every.count('<tr><th scope="row">') == len(table.rows)
    for said in ("How many?", 'href="results.csv"', table.sha256, "sweep sweep.yaml"):
        assert said in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")


def test_a_page_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    table = carried_out(sweep(), tmp_path)
    first = drawn(table, tmp_path).read_bytes()
    assert drawn(table, tmp_path).read_bytes() == first


def test_a_plot_that_cannot_be_written_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = carried_out(sweep(), tmp_path)
    drawn(table, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(report: object, directory: Path, beside: Path) -> None:
        (directory / "throughput.png").write_bytes(b"half of")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(page, "write", full)
    with pytest.raises(OSError, match="No space left") as refused:
        drawn(table, tmp_path)
    assert refused.value.filename == str(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_plots_of_another_sweep_go(tmp_path: Path) -> None:
    two = carried_out(sweep(), tmp_path)
    drawn(two, tmp_path)
    assert (tmp_path / "heat.png").exists()
    (tmp_path / "mine.png").write_bytes(b"of somebody else")
    one = carried_out(sweep("seed: [1, 2]"), tmp_path)
    drawn(one, tmp_path)
    there = {path.stem for path in tmp_path.glob("*.png")}
    assert there == {"mine", *told(one).drawn()}


def test_a_sweep_is_drawn_again(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = varsim("sweep", file, "--out", out, "--quiet", "--strategy", "on_write")
    assert f"report: {out / 'report.html'}" in run.stdout
    before = {path.name: path.read_bytes() for path in out.glob("*.[shp]*g*")}
    page = (out / "report.html").read_bytes()
    varsim("sweep", file, "--out", out, "--quiet", "--strategy", "on_write", "--no-plots")
    assert not list(out.glob("*.[sp]*g"))
    assert (out / "report.html").read_bytes() == page, "its charts are not files"
    again = varsim("sweep", out / "sweep.yaml", "--out", out, "--quiet", "--strategy", "on_write")
    assert again.exit_code == 0, again.output
    assert (out / "report.html").read_bytes() == page
    assert {path.name: path.read_bytes() for path in out.glob("*.[shp]*g*")} == before


def test_the_report_of_a_run_is_left_alone(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plain = tmp_path / "plain.yaml"
    plain.write_text(BASE)
    assert varsim("run", plain, "--out", out, "--quiet").exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    refused = varsim("sweep", file, "--out", out, "--quiet")
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"varsim: {out} holds the report of a run: name another directory, say --out "
        f"{Path('reports', 'tiny-sweep')}\n"
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_times_from_a_file_are_written_out(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("worker,seconds\n0,0.1\n0,0.12\n1,0.11\n")
    text = BASE.replace(
        "{kind: uniform, low: 80 ms, high: 120 ms}", "{kind: trace, file: steps.csv}"
    )
    path = tmp_path / "trace.yaml"
    path.write_text(text + "sweep:\n  cluster.network.latency: [0 s, 1 ms]\n")
    out = tmp_path / "elsewhere" / "out"
    first = varsim("sweep", path, "--out", out, "--quiet")
    assert "seconds: [[0.1, 0.12], [0.11]]" in (out / "sweep.yaml").read_text()
    again = varsim("sweep", out / "sweep.yaml", "--out", tmp_path / "again", "--quiet")
    assert again.stdout.splitlines()[-3] == first.stdout.splitlines()[-3] != ""
    assert again.stdout.splitlines()[-3].startswith("result sha256: ")


class TestTold:
    def test_along_one_axis_values_are_rows_and_strategies_columns(self, tmp_path: Path) -> None:
        two = BASE.replace("stop:", "  - {kind: sync_replicas, replicas_to_aggregate: 2}\nstop:")
        block = (
            "zip:\n  strategies.backup_workers.replicas_to_aggregate: [1, 2]\n"
            "  strategies.sync_replicas.replicas_to_aggregate: [2, 3]"
        )
        table = carried_out(sweep(block, base=two), tmp_path)
        found = told(table).table
        assert found.rows == ("1, 2", "2, 3"), "the strategies have values of their own"
        speeds = [one for one in found.columns if one.key.startswith("examples_per_s ")]
        assert [one.head for one in speeds] == [
            *("all-reduce", "sync PS + backup", "sync PS"),
        ]
        marks = [getattr(cell, "verdict", "") for cell in speeds[1].cells]
        assert marks == ["", "best"]
        assert [getattr(cell, "verdict", "") for cell in speeds[0].cells] == ["", ""]
        assert "marks" in noted(table)

    @pytest.mark.parametrize("several", [True, False])
    def test_what_is_not_told_from_the_best_along_the_axis_is_a_range(
        self, tmp_path: Path, several: bool
    ) -> None:
        backups = "  - {kind: backup_workers, replicas_to_aggregate: 2}\n"
        base = BASE if several else BASE.replace(backups, "")
        table = carried_out(sweep("cluster.workers: [2, 3, 4]", base=base), tmp_path)
        speeds = {0: (100.0, 100.1, 99.9), 1: (150.0, 150.1, 149.9), 2: (150.0, 149.9, 150.1)}
        rows = tuple(with_values(row, speeds[row.candidate.at]) for row in table.rows)
        first, *_ = told(replace(table, rows=rows)).headline
        who = first.values["tied"]
        assert isinstance(who, tuple)
        assert all(str(one).endswith("workers = 3 to 4") for one in who)
        assert len(who) == 1 + several

    @pytest.mark.parametrize(
        ("slow", "where"),
        [
            ({(2, 10), (3, 10), (4, 10), (2, 25)}, "workers = 3 to 4, bandwidth = 25 Gbit/s"),
            ({(2, 10), (3, 10), (2, 25)}, "workers = 3, bandwidth = 25 Gbit/s"),
        ],
    )
    def test_of_two_axes_what_is_not_told_from_the_best(
        self, tmp_path: Path, slow: set[tuple[int, int]], where: str
    ) -> None:
        """The range along each axis; where it has gaps, the point with the fewest machines."""
        block = "cluster.workers: [2, 3, 4]\ncluster.network.bandwidth: [10 Gbit/s, 25 Gbit/s]"
        table = carried_out(sweep(block), tmp_path)
        places = [tuple(value.text for value in point.values) for point in table.sweep.points]
        poor = {(str(workers), f"{rate} Gbit/s") for workers, rate in slow}
        fast = places.index(("4", "25 Gbit/s"))

        def rates(point: int) -> tuple[float, ...]:
            if places[point] in poor:
                return (100.0, 100.1, 99.9)
            return (150.0, 150.1, 150.0) if point == fast else (150.0, 149.9, 150.1)

        rows = tuple(with_values(row, rates(row.candidate.at)) for row in table.rows)
        found = told(replace(table, rows=rows))
        who = found.headline[0].values["tied"]
        assert isinstance(who, tuple)
        assert [str(one).partition(" at ")[2] for one in who] == [where, where]
        cells = {one.head: one.cells[0] for one in found.table.columns}
        assert f"workers = {cells['workers']}, bandwidth = {cells['bandwidth']}" == where

    def test_of_two_axes_the_best_point_of_each_then_the_map(self, tmp_path: Path) -> None:
        table = carried_out(sweep(), tmp_path)
        found = told(table)
        assert found.table.rows == ("all-reduce", "sync PS + backup")
        assert found.table.best == 1
        first, every = found.details
        assert found.always == 1
        assert (len(first.rows), len(first.columns)) == (2, 2)
        assert len(every.rows) == len(table.rows)

    def test_one_point(self, tmp_path: Path) -> None:
        table = carried_out(sweep("cluster.workers: [4]"), tmp_path)
        found = told(table)
        assert found.table.rows[0] == "all-reduce"
        assert "efficiency" not in [one.key for one in found.table.columns]
        assert found.headline[0].values["best"] == "all-reduce at workers = 4"

    def test_a_learning_rate_has_no_effect_on_throughput(self, tmp_path: Path) -> None:
        """There is no fastest point, and no other one that is slower."""
        base = BASE.replace("{kind: timing, size: 1 MB}", "{kind: quadratic}")
        base = base.replace("batch_size: 4", "optimizer: {kind: sgd, learning_rate: 1}")
        block = "workload.optimizer.learning_rate: [0.1, 0.2, 0.3]"
        table = carried_out(sweep(block, base=base), tmp_path)
        first = told(table).headline[0]
        assert first.values["best"] == "all-reduce"
        assert noted(table)["no-effect"].values == {"what": ("learning_rate",)}
        assert "marks" not in noted(table)

    def test_nor_on_what_a_million_examples_cost(self, tmp_path: Path) -> None:
        """No point is named where none is better; what has no price is."""
        base = BASE.replace("{kind: timing, size: 1 MB}", "{kind: quadratic}")
        base = base.replace("batch_size: 4", "optimizer: {kind: sgd, learning_rate: 1}")
        base = base.replace("  - {kind: on_write}\n", "  - {kind: none}\n")
        base += "prices: {device_hour: 2.0}\nreport: {measure_after: 0 s}\n"
        block = "workload.optimizer.learning_rate: [0.1, 0.2]\ncluster.parameter_servers: [1, 4]"
        table = carried_out(sweep(block, base=base), tmp_path)
        cheapest = told(table).headline[-1]
        assert cheapest.code in ("cheapest", "cheapest-tie")
        assert "learning_rate" not in str(cheapest.values)
        assert noted(table)["no-price"].values["what"] == "parameter servers"

    def test_times_to_a_loss_at_one_rate_are_not_ranked(self, tmp_path: Path) -> None:
        """All-reduce makes one update of four gradients where async PS makes four of one."""
        base = BASE.replace("{kind: timing, size: 1 MB}", "{kind: quadratic}")
        base = base.replace("batch_size: 4", "optimizer: {kind: sgd, learning_rate: 0.1}")
        base = base.replace("{kind: backup_workers, replicas_to_aggregate: 2}", "{kind: none}")
        base = base.replace("{global_steps: 10}", "{global_steps: 60, loss: 0.01}")
        one_rate = carried_out(sweep("cluster.workers: [2, 4]", base=base), tmp_path)
        assert told(one_rate).headline[1].code == "reached-unranked"
        assert noted(one_rate)["shared-rate"].values["low"] == Number(1)
        block = "workload.optimizer.learning_rate: [0.05, 0.1]"
        swept = carried_out(sweep(block, base=base), tmp_path / "own")
        assert told(swept).headline[1].code in ("soonest", "soonest-tie")
        assert "shared-rate" not in noted(swept)

    def test_two_replications_that_are_apart_are_called_too_few(self, tmp_path: Path) -> None:
        """A lead of some percent whose intervals are wide: no more is known."""
        block = "cluster.workers: [2, 4]\nmost_replications: 2"
        table = carried_out(sweep(block), tmp_path)
        values = {"on_write": (100.0, 110.0), "backup_workers": (90.0, 108.0)}
        rows = tuple(with_values(row, values[row.strategy]) for row in table.rows)
        first, *_ = told(replace(table, rows=rows)).headline
        assert (first.code, first.values["count"]) == ("too-few", 2)
        assert first.values["more"] == "--most-replications 5 --set replications=5"

    def test_too_few_mark_no_values_either(self, tmp_path: Path) -> None:
        block = "cluster.workers: [2, 3, 4]\nmost_replications: 2"
        table = carried_out(sweep(block), tmp_path)
        rows = tuple(
            with_values(row, [90.0 + 10 * row.candidate.at - less, 110.0 + row.candidate.at])
            for row in table.rows
            for less in [8 * (row.strategy == "backup_workers")]
        )
        report = told(replace(table, rows=rows))
        cells = [cell for column in report.table.columns for cell in column.cells]
        assert not any(isinstance(cell, Number) and cell.verdict for cell in cells)
        assert "marks" not in [note.code for note in report.notes]
        first = report.headline[0]
        assert first.code == "too-few"
        tied = first.values["tied"]
        assert isinstance(tied, tuple)
        assert len(tied) == 2
        assert not any(" to " in who for who in tied)

    @pytest.mark.parametrize(
        ("stop", "said"),
        [
            ("{global_steps: 10}", "async PS: 30 examples/s"),
            (
                "{global_steps: 10, loss: 0.1}",
                "async PS at learning_rate = 0.1: 30 examples/s",
            ),
        ],
    )
    def test_nor_does_the_progress_name_one(self, stop: str, said: str) -> None:
        base = BASE.replace("{kind: timing, size: 1 MB}", "{kind: quadratic}")
        base = base.replace("batch_size: 4", "optimizer: {kind: sgd, learning_rate: 1}")
        base = base.replace("{global_steps: 10}", stop).replace("on_write", "none")
        swept = sweep("workload.optimizer.learning_rate: [0.1, 0.2]", base=base)
        experiment = Grid(swept)
        text = best_so_far(experiment)(experiment.cases[0].key, 30.0)
        assert text.replace("workload.optimizer.", "") == said

    @pytest.mark.parametrize("replications", [1, 2])
    def test_equal_strategies_tie(self, tmp_path: Path, replications: int) -> None:
        base = BASE.replace("kind: uniform, low: 80 ms, high: 120 ms", "kind: constant, value: 1 s")
        base = base.replace("{kind: backup_workers, replicas_to_aggregate: 2}",
                            "{kind: on_write, name: b}\n  - {kind: on_write, name: c}")  # fmt: skip
        base = base.replace("replications: 2", f"replications: {replications}")
        block = f"cluster.workers: [2, 4]\nmost_replications: {replications}"
        table = carried_out(sweep(block, base=base), tmp_path)
        first, *_ = told(table).headline
        assert (first.code, first.values["tied"]) == (
            *("tie", ("all-reduce at workers = 4", "b at workers = 4", "c at workers = 4")),
        )

    def test_rows_that_are_not_printed(self, tmp_path: Path) -> None:
        block = "seed: {from: 1, to: 41, step: 1}\nmost_replications: 2"
        table = carried_out(sweep(block), tmp_path)
        assert len(told(table).table.rows) == 2
        assert len(told(table).details[-1].rows) == 82


class TestWeight:
    """As `varsim run` does: too much is refused; nothing has begun by then."""

    def test_a_run_without_end_is_refused(self, file: Path) -> None:
        refused = varsim("sweep", file, "--set", "stop={time: 1e9 s}")
        assert refused.exit_code == 2
        line = refused.stderr.splitlines()[-1]
        assert line.startswith("varsim: about ")
        assert "gradients to compute" in line
        assert line.endswith("or give --yes")
        assert not (file.parent / "reports").exists()
