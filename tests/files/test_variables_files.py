"""The files of a run of variables: complete or absent, and enough to start again from."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.handmade import a_result
from tests.programs import MODES, WIRE, add, read, scenario, variable
from varsim.report.files.directory import KINDS, kinds_of
from varsim.report.files.save import save
from varsim.report.formats import render
from varsim.scenario.loading import load_scenario
from varsim.study.program import COLUMNS, VariablesResult, simulate_variables

WRITTEN = {
    *("scenario.yaml", "summary.csv", "runs.csv", "acts.csv", "sent.csv", "links.csv"),
    "result.json",
}
DRAWN: dict[str, Any] = {"kind": "normal", "mean": 1.0, "standard_deviation": 0.1}
# Everything that can be said of a program in one.
WHOLE: dict[str, Any] = {
    "replicas": (
        {"kind": "compute"},
        add(DRAWN, times=2),
        read(every=2),
        {**add(7.0), "variable": "count"},
        {"kind": "moving_average", "variable": "wide", "value": 1.0, "momentum": 0.5},
    ),
    "outside": (
        read(),
        {"kind": "save", "every": 2},
        {"kind": "restore", "every": 2},
        {"kind": "assign", "variable": "count", "value": 3.0},
    ),
    "steps": 4,
    "replications": 2,
    "variables": (
        variable(),
        variable(name="count", dtype="int64", aggregation="sum"),
        variable(name="wide", shape=(3, 4), aggregation="mean"),
    ),
    "cluster": {
        "workers": 3,
        "compute": {"kind": "exponential", "mean": 1e-3},
        "parameter_servers": 2,
        "network": WIRE,
    },
    "vary": {"reads_per_write": (0, 0.5, 2)},
}


@pytest.fixture(scope="module")
def result() -> VariablesResult:
    return simulate_variables(scenario(**WHOLE))


def saved(result: VariablesResult, directory: Path) -> Path:
    return save(result, directory).directory


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class TestSaving:
    def test_csv_files_have_the_documented_columns(
        self, result: VariablesResult, tmp_path: Path
    ) -> None:
        directory = saved(result, tmp_path / "run")
        for name, columns in COLUMNS.items():
            with (directory / f"{name}.csv").open(encoding="utf-8", newline="") as file:
                header, *rows = csv.reader(file)
            assert header == list(columns)
            assert len(rows) == len(getattr(result, name))
            assert {row[0] for row in rows} == set(MODES)

    def test_rows_by_hand(self, tmp_path: Path) -> None:
        made = scenario((add(3.0, 1.0, 2.0), read()), (read(),), modes=("on_read",))
        directory = saved(simulate_variables(made), tmp_path / "run")
        acts = (directory / "acts.csv").read_text().splitlines()
        # Made after 100 + 2 x 4 us.
        assert acts[2] == (
            "on_read,0,1,replicas.1,0,replica 0,read,v,0.000108000,0.000108000,,3.0,"
            "3.0 | 0.0 | 0.0,"
        )
        assert acts[-1] == (
            "on_read,0,1,outside.0,0,outside,read,v,0.000108000,0.000216000,,6.0,3.0 | 1.0 | 2.0,1"
        )
        sent = (directory / "sent.csv").read_text().splitlines()
        assert sent[3] == (
            "on_read,0,1,0,reduction to one device,replica 1,outside,4,0.000108000,0.000216000"
        )
        runs = (directory / "runs.csv").read_text().splitlines()
        assert runs[1].startswith("on_read,,0,0.000108,0.000216,0.000108,8.0,2.0")

    def test_the_scenario_gives_the_same_files(
        self, result: VariablesResult, tmp_path: Path
    ) -> None:
        first = saved(result, tmp_path / "first")
        loaded = load_scenario(first / "scenario.yaml")
        assert loaded == result.scenario
        again = saved(simulate_variables(loaded), tmp_path / "second")
        assert contents(again) == contents(first)
        assert set(contents(first)) == WRITTEN
        assert not any(b"\r" in text for text in contents(first).values())

    def test_the_summary_holds_what_a_reader_needs(
        self, result: VariablesResult, tmp_path: Path
    ) -> None:
        directory = saved(result, tmp_path / "run")
        text = (directory / "result.json").read_text(encoding="utf-8")
        facts = json.loads(text, parse_constant=pytest.fail)
        assert facts["provenance"] == result.provenance
        assert [one["text"] for one in facts["headline"]] == result.answer().splitlines()
        assert facts["columns"] == COLUMNS
        assert [len(facts["runs"]), len(facts["summary"])] == [4 * 3 * 2, 4 * 3 * 3]
        assert facts["seen"]["none"][1]["outside"]["first"] == list(
            result.view("none", "count").outside.first
        )
        crossed = [one["reads_per_write"]["mean"] for one in facts["crossovers"]]
        assert crossed == [found.reads_per_write.mean for found in result.crossovers()]
        assert json.loads(render(result.report, "json")) == facts
        assert render(result.report, "csv") == (directory / "summary.csv").read_text(
            encoding="utf-8"
        )


class TestKinds:
    """Runs of both kinds may be written to one place, one after the other."""

    def test_one_replaces_the_other_and_leaves_nothing_of_it(
        self, result: VariablesResult, tmp_path: Path
    ) -> None:
        save(a_result(), tmp_path / "run")
        (tmp_path / "run" / "staleness.svg").touch()
        (tmp_path / "run" / "notes.txt").write_text("mine")
        (tmp_path / "run" / "runs.csv").write_text("mine too")
        save(result, tmp_path / "run")
        (tmp_path / "run" / "crossover.png").touch()
        (tmp_path / "run" / "crossover.svg").touch()
        save(result, tmp_path / "run")  # a plot that the new run lacks is gone
        (tmp_path / "run" / "crossover.png").touch()
        assert set(contents(tmp_path / "run")) == {*WRITTEN, "notes.txt", "crossover.png"}
        save(a_result(), tmp_path / "run")
        assert kinds_of(tmp_path / "run") == ["training"]
        assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
        assert not (tmp_path / "run" / "crossover.png").exists()

    def test_what_is_no_part_of_an_older_run_is_kept(self, tmp_path: Path) -> None:
        save(a_result(), tmp_path / "run")
        (tmp_path / "run" / "acts.csv").write_text("mine")  # of a training run this is no part
        save(a_result(), tmp_path / "run")
        assert (tmp_path / "run" / "acts.csv").read_text() == "mine"

    def test_all_that_a_run_consists_of_is_known(self) -> None:
        # Of training those, too, that runs had before: whoever writes there anew replaces them.
        now = ["throughput", "time_split", "timeline", "staleness", "loss"]
        drawn = {
            "training": [*now, "life", "links", "loss_time", "loss_updates"],
            "variables": ["step", "crossover", "cost"],
        }
        for kind, names in drawn.items():
            pictures = {f"{name}.{form}" for name in names for form in ("png", "svg")}
            rest = KINDS[kind].files - pictures
            assert pictures <= KINDS[kind].files
            assert not {name for name in rest if name.endswith((".png", ".svg"))}
        assert WRITTEN | {"report.html"} < KINDS["variables"].files


def test_without_rows_there_are_only_the_numbers(result: VariablesResult, tmp_path: Path) -> None:
    save(result, tmp_path / "run", rows=False)
    assert set(contents(tmp_path / "run")) == {"scenario.yaml", "summary.csv", "result.json"}


def test_rows_that_are_left_out_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("varsim.study.program.MOST_ACTS", 92)
    made = simulate_variables(scenario((add(3.0, 1.0, 2.0), read()), (read(),), steps=5))
    (note,) = save(made, tmp_path / "run").notes
    assert note.startswith("acts.csv: 90 of 105 rows, the first ones of each run")


def test_markdown_has_a_table_for_costs_for_values_and_for_ratios(result: VariablesResult) -> None:
    lines = render(result.report, "md").splitlines()
    heads = [
        line.split("|")[1].strip() for line in lines if line.startswith("| ") and "---" not in line
    ]
    assert [
        heads.count(name)
        for name in ("mode", "Read last: variable, mode", "Time per step: reads per write")
    ] == [1, 1, 1]
    for line in lines:
        assert not line.startswith("|") or line.endswith("|")
    assert result.answer().splitlines()[0] in lines
