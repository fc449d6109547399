"""The command: an answer in sentences and files, the same however it is made, or exit 3."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.plan.planning import BLOCK, question, text
from tests.seams import app as cli
from varsim.cli.campaigns import Objectives
from varsim.cli.console import OUT_OF_BOUNDS, USAGE
from varsim.scenario.plan import OBJECTIVES
from varsim.study.judged import every_candidate, some_candidates
from varsim.study.store import STORE, Store

LARGE = """\
minimize: cost_per_hour
space:
  cluster.workers: {from: 2, to: 40, step: 1}
  cluster.parameter_servers: {from: 1, to: 40, step: 1}
  cluster.network.latency: [1 us, 2 us]
most_replications: 8
trials: 48
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(text())
    return path


def varsim(*arguments: object, code: int = 0) -> str:
    """What the command prints to stdout."""
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stdout


def sha256(printed: str) -> str:
    (line,) = (line for line in printed.splitlines() if line.startswith("result sha256: "))
    return line.removeprefix("result sha256: ")


def test_says_what_a_planner_asks(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    printed = varsim("plan", file, "--out", out, "--jobs", 1)
    lines = printed.splitlines()
    assert f"varsim run {out / 'plan.yaml'}" in printed
    facts = json.loads((out / "plan.json").read_text())
    assert facts["answer"]["workers"] == 6
    assert facts["answer"]["minimized"]["mean"] == 12.0
    assert facts["fresh_seeds"]["seed"] == 4
    assert [one["text"] for one in facts["headline"]] == lines[:3]
    codes = [one["code"] for one in facts["headline"] + facts["notes"]]
    assert codes == [
        "plan-answer",
        "in-its-way",
        "holds",
        "margin",
        "busiest",
        "configurations-run",
    ]
    assert facts["configurations"]["distinct"] == 18 > facts["configurations"]["simulated"]
    cells = (out / "configurations.csv").read_text().splitlines()
    assert len(cells) == 1 + facts["configurations"]["simulated"]
    assert cells[0].startswith(
        "configuration,strategy,cluster.workers,cluster.parameter_servers,replications,verdict,"
    )
    page = (out / "report.html").read_text()
    assert re.search(r'<th scope="col">examples/s &gt;= 150\b', page), "on narrow screens, too"
    said = (out / "plan.md").read_text()
    assert lines[0] in said.splitlines()
    assert "against cost per hour (USD/h)](pareto.png)" in said
    assert (out / "pareto.png").stat().st_size > 1000
    assert (out / "plan.yaml").read_text().startswith(f"# What is the cheapest?\n# {lines[0]}\n")


def test_all_shows_every_column_note_and_table(file: Path, tmp_path: Path) -> None:
    options = ("plan", file, "--out", tmp_path / "out", "--quiet")
    brief, every = varsim(*options), varsim(*options, "--all")
    assert "more throughput" not in brief
    assert "more throughput" in every
    assert varsim(*options, "--all", "--format", "json", code=USAGE) == ""


def test_the_answer_runs_and_meets_its_targets(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    varsim("plan", file, "--out", out, "--quiet")
    facts = json.loads((out / "plan.json").read_text())
    written = (out / "plan.yaml").read_text()
    assert "\n  # server_hour: 0.7 (no effect on this strategy)\n" in written
    assert "server_hour: 0.0" not in written
    ran = varsim("run", out / "plan.yaml", "--out", tmp_path / "run", "--format", "json", "--quiet")
    result = json.loads(ran)
    assert result["strategies"] == [facts["answer"]["strategy"]]
    (speed,) = (
        {key: row[key] for key in ("mean", "low", "high")}
        for row in result["summary"]
        if row["metric"] == "examples_per_s"
    )
    assert speed == facts["answer"]["examples_per_s"]
    assert [one["met"] for one in result["targets"]] == [True]
    (cost,) = (row["mean"] for row in result["costs"] if row["cost"] == "cost_per_hour")
    assert cost == facts["answer"]["cost_per_hour"]


@pytest.mark.slow
@pytest.mark.product
def test_one_result_however_it_is_run(file: Path, tmp_path: Path) -> None:
    def planned(name: str, *options: object) -> str:
        return sha256(varsim("plan", file, "--out", tmp_path / name, "--quiet", *options))

    serial = planned("serial", "--jobs", 1)
    assert planned("jobs", "--jobs", 2) == serial
    assert planned("serial", "--jobs", "auto") == serial, "with all runs there already"
    assert planned("all", "--exhaustive") != serial
    again = CliRunner().invoke(cli.app, ["plan", str(file), "--out", str(tmp_path / "serial")])
    assert "runs already there" in again.stderr


def test_no_answer_is_exit_3(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    varsim("plan", file, "--out", out, "--quiet")
    change = ("--set", "targets.throughput=9000 examples/s")
    printed = varsim("plan", file, "--out", out, "--quiet", *change, code=OUT_OF_BOUNDS)
    assert not (out / "plan.yaml").exists(), "of the answer before"
    facts = json.loads((out / "plan.json").read_text())
    assert facts["answer"] is None
    assert [one["code"] for one in facts["headline"]] == ["no-answer", "closest"]
    assert facts["headline"][1]["who"] == "async PS"
    assert printed.startswith(f"{facts['headline'][0]['text']}\n")


@pytest.mark.parametrize("format", ["csv", "json", "md"])
def test_other_formats_are_the_whole_output(file: Path, tmp_path: Path, format: str) -> None:
    printed = varsim("plan", file, "--out", tmp_path / "out", "--format", format, "--quiet")
    name = {"csv": "configurations.csv", "json": "plan.json", "md": "plan.md"}[format]
    written = (tmp_path / "out" / name).read_text()
    assert printed == written or (format == "md" and written.endswith(printed))


def test_options(file: Path, tmp_path: Path) -> None:
    def answer(*options: object) -> dict[str, Any]:
        out = tmp_path / "out"
        printed = varsim("plan", file, "--out", out, "--quiet", "--format", "json", *options)
        found: dict[str, Any] = json.loads(printed)["headline"][0]
        return found

    assert answer("--strategy", "none")["who"] == "async PS"
    assert answer("--minimize", "workers")["value"]["unit"] == "workers"
    assert answer("--set", "cluster.workers=7,8")["where"] == "workers = 7"
    assert "no strategy 'nine'" in CliRunner().invoke(
        cli.app, ["plan", str(file), "--strategy", "nine"]
    ).stderr.replace("\n", " ")
    assert varsim("plan", file, "--backend", "dask", code=USAGE) == ""


def test_check_says_what_is_asked(file: Path) -> None:
    valid, asked = json.loads(varsim("check", file, "--format", "json"))["headline"]
    assert {key: valid[key] for key in ("configurations", "different", "low", "high")} == {
        "configurations": 24,
        "different": 18,
        "low": 2,
        "high": 8,
    }
    assert asked["objective"] == "the cost per hour"
    assert asked["targets"] == ["throughput at least 150 examples/s"]


def test_the_options_name_every_objective() -> None:
    assert set(Objectives.__args__) == set(OBJECTIVES)


def test_a_broken_plan_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text(BLOCK.replace("cost_per_hour", "money")))
    done = CliRunner().invoke(cli.app, ["plan", str(path)])
    assert done.exit_code == USAGE
    assert "unknown minimize 'money' (one of: cost_per_hour" in done.stderr
    assert "Traceback" not in done.output
    assert not (tmp_path / "reports").exists()


class TestTooManyToLookAtAll:
    @pytest.fixture
    def large(self, tmp_path: Path) -> Path:
        path = tmp_path / "large.yaml"
        path.write_text(text(LARGE))
        return path

    @pytest.mark.slow
    @pytest.mark.product
    def test_the_same_trials_whatever_the_jobs(self, large: Path, tmp_path: Path) -> None:
        pytest.importorskip("optuna", reason="needs the extra 'plan'")
        one = varsim("plan", large, "--out", tmp_path / "one", "--jobs", 1, "--quiet")
        two = varsim("plan", large, "--out", tmp_path / "two", "--jobs", 2, "--quiet")
        assert sha256(one) == sha256(two)
        facts = json.loads((tmp_path / "one" / "plan.json").read_text())
        (chosen,) = (each for each in facts["notes"] if each["code"] == "configurations-chosen")
        assert chosen["of"] == 6240
        assert facts["headline"][0]["who"] == "all-reduce"
        assert facts["headline"][0]["where"].startswith("workers = 6, latency = ")

    def test_without_optuna_it_says_what_to_install(
        self, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "optuna", None)
        done = CliRunner().invoke(cli.app, ["plan", str(large), "--out", str(tmp_path / "out")])
        assert done.exit_code == 1
        assert "pip install 'varsim[plan]'" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "out").exists()

    def test_not_all_of_them_are_run(self, large: Path, tmp_path: Path) -> None:
        options = ["plan", str(large), "--exhaustive", "--out", str(tmp_path / "out")]
        done = CliRunner().invoke(cli.app, options)
        assert done.exit_code == USAGE
        assert "too many" in done.stderr


class TestWeight:
    """As with a sweep: too much is refused, before anything is run."""

    def complaints(self, *arguments: object, code: int = 0) -> list[str]:
        done = CliRunner().invoke(cli.app, list(map(str, arguments)))
        assert done.exit_code == code, done.output
        return done.stderr.splitlines()

    def test_a_run_without_end_is_refused(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(file.parent)
        (line,) = self.complaints("plan", file, "--set", "stop={time: 1e9 s}", code=USAGE)
        assert " gradients to compute" in line
        assert line.endswith("or give --yes")
        assert not (file.parent / "reports").exists()

    def test_some_cells_are_from_all_over_the_space(self) -> None:
        asked = question(LARGE)
        some = some_candidates(asked, 5)
        assert [cell.number for cell in some] == [0, 1559, 3119, 4679, 6239]
        ends = [[value.text for value in cell.point.values] for cell in (some[0], some[-1])]
        assert ends == [["2", "1", "1 us"], ["40", "40", "2 us"]]
        small = question()
        assert [cell.label for cell in some_candidates(small, 2)] == ["on_write", "none"]
        assert some_candidates(small, 24) == every_candidate(small)

    def test_where_all_are_left_out_the_first_point_stands_for_them(self) -> None:
        asked = question(LARGE + "where: cluster.workers == 3\n")
        (only,) = some_candidates(asked, 2)
        assert (only.number, only.scenario.cluster.workers) == (0, 3)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupted_it_goes_on_from_there(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    slow = ["--set", "stop.time=120 s", "--exhaustive"]
    command = [sys.executable, "-m", "varsim", "plan", str(file), "--out", str(out), *slow]
    process = subprocess.Popen([*command, "--jobs", "2"], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _kept(out):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130, complaint
    assert "kept in" in complaint
    assert "run the same command again to resume" in complaint
    assert not (out / "plan.json").exists()
    with Store(out) as store:
        assert store.count() > 0


def _kept(out: Path) -> bool:
    return (out / STORE).exists() and b"\n" in (out / STORE).read_bytes()
