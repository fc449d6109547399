"""The files of a run of variables: complete or absent, and enough to start again from."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.handmade import a_result
from tests.programs import MODES, WIRE, add, read, scenario, variable
from varsim.report.files.directory import kinds_of
from varsim.report.files.save import save
from varsim.report.formats import render
from varsim.scenario.loading import load_scenario
from varsim.scenario.variables import VariablesScenario
from varsim.study.program import of_program
from varsim.study.result import Result, simulate
from varsim.study.tables import columns_of

WRITTEN = {
    *("scenario.yaml", "summary.csv", "summary.json", "acts.csv", "sent.csv", "links.csv"),
    *("spans.csv", "steps.csv", "trace.json.gz"),
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
}


@pytest.fixture(scope="module")
def result() -> Result[VariablesScenario]:
    return simulate(scenario(**WHOLE))


def saved(result: Result[VariablesScenario], directory: Path) -> Path:
    return save(result, directory).directory


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class TestSaving:
    def test_csv_files_have_the_documented_columns(
        self, result: Result[VariablesScenario], tmp_path: Path
    ) -> None:
        directory = saved(result, tmp_path / "run")
        for name, columns in columns_of(result.scenario).items():
            with (directory / f"{name}.csv").open(encoding="utf-8", newline="") as file:
                header, *rows = csv.reader(file)
            assert header == list(columns)
            assert {row[0] for row in rows} == set(MODES)

    def test_rows_by_hand(self, tmp_path: Path) -> None:
        made = scenario((add(3.0, 1.0, 2.0), read()), (read(),), modes=("on_read",))
        directory = saved(simulate(made), tmp_path / "run")
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

    def test_the_scenario_gives_the_same_files(
        self, result: Result[VariablesScenario], tmp_path: Path
    ) -> None:
        first = saved(result, tmp_path / "first")
        loaded = load_scenario(first / "scenario.yaml")
        assert loaded == result.scenario
        again = saved(simulate(loaded), tmp_path / "second")
        assert contents(again) == contents(first)
        assert set(contents(first)) == WRITTEN
        texts = {name: text for name, text in contents(first).items() if not name.endswith(".gz")}
        assert not any(b"\r" in text for text in texts.values())

    def test_the_summary_holds_what_a_reader_needs(
        self, result: Result[VariablesScenario], tmp_path: Path
    ) -> None:
        directory = saved(result, tmp_path / "run")
        text = (directory / "summary.json").read_text(encoding="utf-8")
        facts = json.loads(text, parse_constant=pytest.fail)
        assert facts["provenance"] == result.provenance
        assert [one["text"] for one in facts["headline"]] == result.answer().splitlines()
        assert facts["columns"] == columns_of(result.scenario)
        assert [len(facts["runs"]), len(facts["summary"])] == [3 * 2, 3 * len(result.metrics)]
        (count,) = (view for view in facts["seen"]["none"] if view["variable"] == "count")
        (view,) = (one for one in of_program(result.trace("none")).views if one.variable == "count")
        assert view.outside is not None
        assert count["outside"]["first"] == list(view.outside.first)
        assert render(result.report, "csv") == (directory / "summary.csv").read_text(
            encoding="utf-8"
        )


def test_a_run_of_training_takes_its_place_and_leaves_nothing_of_it(
    result: Result[VariablesScenario], tmp_path: Path
) -> None:
    save(result, tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "run" / "step_time.png").touch()
    save(a_result(), tmp_path / "run")
    there = set(contents(tmp_path / "run"))
    assert not there & {"acts.csv", "sent.csv", "step_time.png"}
    assert "notes.txt" in there
    save(result, tmp_path / "run")
    assert set(contents(tmp_path / "run")) == {*WRITTEN, "notes.txt"}
    assert kinds_of(tmp_path / "run") == ["run"]


def test_without_rows_there_are_only_the_numbers(
    result: Result[VariablesScenario], tmp_path: Path
) -> None:
    save(result, tmp_path / "run", rows=False)
    assert set(contents(tmp_path / "run")) == {"scenario.yaml", "summary.csv", "summary.json"}


def test_rows_that_are_left_out_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("varsim.scenario.variables.MOST_ACTS", 92)
    made = simulate(scenario((add(3.0, 1.0, 2.0), read()), (read(),), steps=5))
    (note,) = save(made, tmp_path / "run").notes
    assert note.startswith("acts.csv: 90 of 105 rows, the first ones of each run")


def test_markdown_has_a_table_for_costs_and_one_for_values(
    result: Result[VariablesScenario],
) -> None:
    lines = render(result.report, "md").splitlines()
    heads = [
        line.split("|")[1].strip() for line in lines if line.startswith("| ") and "---" not in line
    ]
    assert [heads.count(name) for name in ("mode", "Read last: variable, mode")] == [1, 1]
    assert result.answer().splitlines()[0] in lines
