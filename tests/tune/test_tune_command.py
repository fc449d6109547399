"""The command: what it prints and writes, and what it refuses with a line."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli
from tests.seams import load_scenario
from varsim import Scenario

BOWL = """\
# Which is the sooner?
name: bowl
replications: 2
cluster:
  workers: 2
  compute: {kind: constant, value: 100 ms}
  network: {bandwidth: 1 Gbit/s, latency: 1 us}
workload:
  problem: {kind: quadratic, dimension: 4, noise: 0.5}
  optimizer: {kind: sgd, learning_rate: 0.4}
strategies:
  - {kind: on_write}
  - {kind: none, name: "=free"}
stop: {time: 3 s}
targets: {loss: 0.02}
"""
TIMED = BOWL.replace("quadratic, dimension: 4, noise: 0.5", "timing, size: 1 kB").replace(
    "  optimizer: {kind: sgd, learning_rate: 0.4}\n", ""
).replace("targets: {loss: 0.02}\n", "")  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bowl.yaml"
    path.write_text(BOWL)
    return path


def varsim(*arguments: object, code: int = 0) -> tuple[str, str]:
    """What the command prints to stdout, and to stderr."""
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def test_one_line_per_strategy_and_the_answer(file: Path) -> None:
    said, complained = varsim("tune", file)
    lines = said.splitlines()

    assert lines[1] == ""
    head = next(index for index, line in enumerate(lines) if "as good" in line)
    assert {line.split()[0] for line in lines[head + 2 : head + 4]} == {"all-reduce", "=free"}
    for column in ("best rate", "as good", "time to loss 0.02", "vs. the best"):
        assert column in lines[head]
    assert "[fresh-seeds]" in said
    assert not complained


def test_for_programs_there_are_csv_and_json(file: Path) -> None:
    table, closing = varsim("tune", file, "--format", "csv", "--rates", "0.2,0.4")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [(row["strategy"], float(row["learning_rate"]), row["seeds"]) for row in rows] == [
        (strategy, rate, seeds)
        for strategy, best in (("on_write", rows[2]), ("'=free", rows[5]))
        for rate, seeds in (
            (0.2, "search"),
            (0.4, "search"),
            (float(best["learning_rate"]), "fresh"),
        )
    ]
    assert float(rows[2]["time_to_target_low"]) <= float(rows[2]["time_to_target"])
    assert closing.startswith("result sha256: ")

    told = json.loads(varsim("tune", file, "--format", "json", "--rates", "0.2,0.4")[0])
    assert [one["strategy"] for one in told["best"]] == ["on_write", "=free"]
    assert told["result_sha256"] in closing
    assert told["goal"] == "time to loss 0.02"
    assert len(told["rows"]) == 6


def test_the_tuned_scenario_is_written_and_runs(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned.yaml"
    said, _ = varsim("tune", file, "--out", out, "--rates", "0.2,0.8", "--strategy", "on_write")
    assert f"with these rates: varsim run {out}" in said

    text = out.read_text()
    assert text.startswith("# Which is the sooner?\n# Tuned by varsim")
    scenario = load_scenario(out)
    assert isinstance(scenario, Scenario)
    (only,) = scenario.strategies
    assert only.optimizer is not None
    assert only.optimizer.learning_rate in (0.2, 0.8)
    assert scenario.name == "bowl-tuned"
    varsim("run", out, "--out", tmp_path / "report", "--quiet", "--format", "csv")
    varsim("tune", file, "--out", out, "--rates", "0.2,0.8")  # its own file is replaced
    assert len(load_scenario(out).strategies) == 2


def test_nobodys_file_is_replaced(file: Path, tmp_path: Path) -> None:
    for target, words in (
        (file, "already exists, and was not written by varsim tune"),
        (tmp_path, "is a folder: name a file"),
        (tmp_path / "no" / "such" / "tuned.yaml", "there is no folder"),
    ):
        _, said = varsim("tune", file, "--out", target, code=2)
        first, *others = said.splitlines()
        assert words in " ".join(said.split())
        assert not first.startswith(" ")
        assert all(line.startswith("  ") for line in others)  # of a long path
    assert file.read_text() == BOWL


@pytest.mark.parametrize("given", ["", "0.1,", "fast", "0", "-1,2", "inf", "nan", "0.1,0.1"])
def test_rates_that_are_none_are_refused(given: str, file: Path) -> None:
    _, said = varsim("tune", file, "--rates", given, code=2)
    assert "learning rate" in said


@pytest.mark.parametrize(
    ("text", "why"),
    [(TIMED, "problem timing has no loss"), ("kind: variables\n", "variables have no loss")],
    ids=["timing", "variables"],
)
def test_what_learns_nothing_has_no_best_rate(text: str, why: str, file: Path) -> None:
    if text.startswith("kind"):
        file = Path(__file__).parents[2] / "scenarios" / "metric_sum.yaml"
    else:
        file.write_text(text)
    _, said = varsim("tune", file, code=2)
    assert said == f"varsim: {file}: {why}, and so no best learning rate\n"


def test_a_scenario_without_a_target_is_judged_by_its_loss_at_last(file: Path) -> None:
    file.write_text(BOWL.replace("targets: {loss: 0.02}\n", ""))
    told = json.loads(varsim("tune", file, "--rates", "0.05,0.4", "--format", "json")[0])
    assert told["goal"] == "loss at 3 s"
    assert told["headline"][0]["end"] == {"mean": 3.0, "unit": "s"}
