"""From recorded runs to a scenario, and from that to a prediction of others: by the commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import varsim
from tests.pages import ROOT
from tests.seams import app as cli

LOOP = ROOT / "validation/data/loop"
STEPS = 40


def record(
    folder: Path, run: str, ranks: int, *, slow: float = 1, size: int = 4096, steps: int = STEPS
) -> None:
    """Files as a recorder writes them: 100 ms of compute, then a ring of 2 (ranks - 1) ms."""
    folder.mkdir(exist_ok=True)
    step = 0.1 * slow + 0.002 * (ranks - 1)
    for rank in range(ranks):
        own = 0.1 * (slow if rank == ranks - 1 else 1)
        found: dict[str, Any] = {"schema": 1, "kind": "rank", "run": run}
        found |= {"rank": rank, "ranks": ranks, "clock": "here", "began": 5.0}
        found |= {"slow": slow} if rank == ranks - 1 else {}
        found["bytes"] = [size] * steps
        found["before"] = [5 + number * step + own for number in range(steps)]
        found["after"] = [5 + (number + 1) * step for number in range(steps)]
        (folder / f"{run}.rank{rank}.json").write_text(json.dumps(found))


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record(Path("known"), "two", 2)
    record(Path("known"), "four", 4)
    record(Path("unseen"), "eight", 8)
    record(Path("unseen"), "two_slow", 2, slow=3)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def calibrated(*options: object) -> str:
    done = invoke("calibrate", "--runs", "known", *options, "--out", "made.yaml")
    assert (done.exit_code, done.stderr) == (0, "")
    return Path("made.yaml").read_text()


def test_the_scenario_has_what_was_recorded_and_runs() -> None:
    text = calibrated()
    scenario = varsim.load("made.yaml")
    assert (scenario.name, scenario.cluster.workers) == ("four", 4)
    assert scenario.workload.size() == 4096
    assert scenario.stop.global_steps == STEPS
    assert [one.kind for one in scenario.strategies] == ["on_write"]
    # 2 messages for each further rank, of 1 ms each, however many bytes.
    assert scenario.cluster.network.latency == pytest.approx(1e-3, rel=0.01)
    assert "# Assumed: the all-reduce is a ring" in text
    seconds = STEPS * 0.106
    assert varsim.run("made.yaml").estimate("on_write", "simulated_time").mean == pytest.approx(
        seconds
    )


def test_more_ranks_and_a_slow_one_are_predicted() -> None:
    calibrated()
    done = invoke("validate", "made.yaml", "--runs", "unseen", "--format", "json")
    told = json.loads(done.stdout)
    assert told["headline"][0]["count"] == 2
    for row in told["runs"]:
        assert abs(row["total_error"]["mean"]) < 0.005
        assert abs(row["total_replayed_error"]["mean"]) < 0.005
    by_name = {row["row"]: row for row in told["runs"]}
    assert by_name["two_slow"]["total"]["mean"] == pytest.approx(STEPS * 0.302)
    assert invoke("validate", "made.yaml", "--runs", "unseen", "--max-error", "1%").exit_code == 0


def test_who_is_slow_is_the_recordings_word_and_else_the_scenarios() -> None:
    text = calibrated()
    Path("made.yaml").write_text(
        text.replace("cluster:\n", "cluster:\n  slow_workers: [{rank: 1, factor: 2}]\n", 1)
    )
    done = invoke("validate", "made.yaml", "--runs", "unseen", "--format", "json")
    off = {row["row"]: row["total_error"]["mean"] for row in json.loads(done.stdout)["runs"]}
    # 200 ms instead of 100; the ring is a little shorter where all but one are there before.
    assert 0.8 < off["eight"] < 0.1 / 0.114
    assert abs(off["two_slow"]) < 0.005


def test_a_run_that_it_was_made_from_proves_little_and_one_of_another_size_is_no_forecast() -> None:
    calibrated()
    record(Path("known"), "large", 4, size=10**6)
    done = invoke("validate", "made.yaml", "--runs", "known", "--format", "json")
    told = json.loads(done.stdout)
    notes = {note["code"]: note for note in told["notes"]}
    assert set(notes["seen-run"]["runs"]) == {"two", "four"}
    assert notes["other-workload"]["runs"] == ["large"]
    (large,) = (row for row in told["runs"] if row["row"] == "large")
    assert "mean" not in large["total_predicted"]
    assert abs(large["total_replayed_error"]["mean"]) < 1


def test_runs_of_ddp_with_a_slow_rank_are_predicted_from_runs_without() -> None:
    for width in (64, 1024, 8192):
        named = ("--run", f"4r-w{width}-even", "--out", f"w{width}.yaml")
        assert invoke("calibrate", "--runs", LOOP / "even", *named).exit_code == 0
        asked = ("validate", f"w{width}.yaml", "--runs", LOOP / "slow")
        done = invoke(*asked, "--max-error", "5%", "--format", "json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["headline"][0]["count"] == 2


def half_written() -> None:
    path = Path("known/two.rank1.json")
    path.write_text(path.read_text()[:300])


def one_missing() -> None:
    Path("known/four.rank2.json").unlink()


def one_shorter() -> None:
    record(Path("other"), "four", 4, steps=20)
    Path("other/four.rank3.json").replace("known/four.rank3.json")


def two_sizes() -> None:
    record(Path("known"), "large", 4, size=10**6)


def none_there() -> None:
    for path in Path("known").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (half_written, "known/two.rank1.json: Invalid JSON"),
        (one_missing, "run four: rank 2 of 4 has no file"),
        (one_shorter, "run four: rank 3 has 20 collectives of 4 ranks, rank 0 40 of 4"),
        (two_sizes, "these runs are of 2 jobs, a scenario is of one: name a run with --run"),
        (none_there, "known: no file *.json there"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_bad_recordings_are_one_line(spoil: Any, said: str) -> None:
    spoil()
    done = invoke("calibrate", "--runs", "known")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("calibrate", "--runs", "known", "--run", "fuor"), "no recorded run 'fuor'; did you mean"),
        (("calibrate", "--run", "four"), "name files of measurements, or recorded runs"),
        (("validate", "made.yaml"), "name the folder of your recorded runs: --runs DIR"),
        (("validate", "made.yaml", "--runs", "known"), "made.yaml"),
        (("validate", "metric_sum", "--runs", "known"), "recorded runs are of training"),
        (("validate", "quickstart", "--runs", "known"), "run four is of on_write"),
    ],
)
def test_what_cannot_be_predicted_is_refused(command: tuple[str, ...], said: str) -> None:
    done = invoke(*command)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
