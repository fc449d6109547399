"""`varsim stragglers`: what is printed and written of measured step times."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli

DATA = Path(__file__).parent.parent / "data"
TIMES = DATA / "step_times" / "bytedance_AR_steps.csv"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["stragglers", *map(str, arguments)])


def test_sentences_and_a_line_per_worker() -> None:
    told = json.loads(invoke(TIMES, "--format", "json").stdout)
    lines = invoke(TIMES, "--all").stdout.splitlines()

    assert told["barrier_mean_seconds"] == pytest.approx(45.3, rel=0.01)
    assert any(line.split() == ["0", "45.3", "s", "1.72", "100", "%"] for line in lines)
    for code in ("step-times", "spread", "two-backups", "autocorrelation"):
        assert any(line.endswith(f"[{code}]") for line in lines), code


def test_all_numbers_as_json_and_a_map(tmp_path: Path) -> None:
    result = invoke(TIMES, "--format", "json", "--out", tmp_path / "there")
    facts = json.loads((DATA / "step_times" / "facts.json").read_text())["bytedance_AR_steps"]
    found = json.loads(result.stdout)

    for key in set(facts) & set(found):
        assert found[key] == pytest.approx(facts[key], rel=1e-5, abs=1e-5), key
    assert len(set(facts) - set(found)) == 0
    assert found["device_hours_wasted"] / found["device_hours"] == pytest.approx(
        found["wasted_share"]
    )
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == [
        "heat_map.png",
        "stragglers.json",
    ]


def test_steps_that_a_worker_lacks_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    file.write_text("worker,step,ms\n0,1,10\n0,2,20\n0,3,30\n1,2,40\n1,3,30\n1,4,99\n")
    result = invoke(file, "--format", "json")
    found = json.loads(result.stdout)

    # Steps 2 and 3 are there of both: 20 and 40 ms, 30 and 30 ms.
    assert (found["steps"], found["rows_left_out"]) == (2, 2)
    assert found["barrier_mean_seconds"] == pytest.approx(0.035)
    assert "[times-left-out]" in invoke(file).stdout


@pytest.mark.parametrize("steps", [1, 40])
def test_equal_times_are_no_answer(tmp_path: Path, steps: int) -> None:
    """Wall times of four ranks of DDP, one of which was made 200 ms slower."""
    file = tmp_path / "steps.csv"
    jitter = [0.4 * ((7 * step) % 5 - 2) for step in range(steps)]
    ranks = "".join(f",worker_{rank}_ms" for rank in range(4))[1:]
    rows = [f"{293.0 + j},{292.2 - j},{293.0 + j},{293.1 - j}\n" for j in jitter]
    file.write_text(f"{ranks}\n{''.join(rows)}")
    said = invoke(file).stdout

    assert "equal times prove nothing about stragglers" in said
    assert all(way in said for way in ("no_sync()", "a CUDA event", "torch.profiler"))
    assert "Waiting for" not in said
    assert "[spread]" not in invoke(file, "--all").stdout
    assert "slowdown" not in said
    found = json.loads(invoke(file, "--format", "json").stdout)
    assert found["note"] in said
    assert found["wasted_share"] is found["barrier_over_mean"] is found["one_backup"] is None
    assert found["mean_seconds"] == pytest.approx(0.292825, rel=1e-3)


def test_traces_of_a_profiler() -> None:
    ranks = [DATA / "kineto" / f"gloo_rank{rank}.json.gz" for rank in (0, 1)]

    assert json.loads(invoke(*ranks, "--format", "json").stdout)["steps"] == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bytes,seconds\n1,2\n", "times.csv: no step times; see varsim calibrate"),
        ("worker,step,s\n0,1,1\n1,2,1\n", "times.csv: no step that all workers have"),
        ("worker,step,s\n0,1,x\n", "times.csv, line 2, column 3 (s): 'x' is not a number"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "times.csv"
    file.write_text(text)
    result = invoke(file)

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [f"varsim: {said}"]
