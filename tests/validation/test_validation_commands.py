"""varsim validate --runs and varsim calibrate: what they print, write and return."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import varsim
from tests.seams import app as cli
from tests.validation.recording import collective, sync, table, write
from varsim.cluster.description.servers import Overheads

SYNCED = Overheads(pull=1e-3, push=0.8e-3, wake=0.3e-3, commit=0.5e-3)
MET = Overheads(message=0.2e-3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four runs, in a folder of an otherwise empty working directory."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    runs.mkdir()
    write(sync("a", table(4, 60), 3, SYNCED), runs)
    write(sync("b", table(5, 60), 5, SYNCED), runs)
    write(collective("ring_a", table(4, 30), MET, payload_bytes=4096), runs)
    write(collective("ring_b", table(2, 30), MET, payload_bytes=4096), runs)
    return runs


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def test_validate_tells_of_every_run(folder: Path) -> None:
    result = invoke("validate", "--runs", "runs", "--all")

    assert result.exit_code == 0, result.stderr
    first_words = [line.split()[0] for line in result.stdout.splitlines() if line]
    assert {"a", "b", "ring_a", "ring_b", "tf_sync_replicas", "pull", "message"} <= {*first_words}
    assert "varsim: calibrating: collectives, second half" in result.stderr.splitlines()
    assert sorted(path.name for path in Path().iterdir()) == ["runs"], "nothing is written unasked"


def test_validate_as_data(folder: Path) -> None:
    result = invoke("validate", "--runs", "runs", "--quiet", "--format", "json")

    told = json.loads(result.stdout)
    assert [one["code"] for one in told["headline"]] == ["predicted"]
    learnt = [(one["who"], one["half"], one["runs"]) for one in told["notes"]]
    assert ("parameter servers", "first", ["a"]) in learnt
    first = next(one for one in told["runs"] if one["row"] == "a")
    assert first["total"]["unit"] == "s"
    assert first["total_error"]["mean"] == pytest.approx(
        first["total_predicted"]["mean"] / first["total"]["mean"] - 1
    )


def test_calibrate_as_data(folder: Path) -> None:
    result = invoke("calibrate", "--runs", "runs", "--run", "ring_a", "--format", "json")

    told = json.loads(result.stdout)
    assert told["scenario"]["cluster"]["overheads"] == {"message": "200 us"}
    assert "Fitted to: ring_a, ring_b" in told["remarks"]


def test_validate_writes_a_page_and_a_figure(folder: Path) -> None:
    result = invoke("validate", "--runs", "runs", "--out", "reports/here", "--quiet")

    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "report: reports/here/measured.md"
    here = Path("reports/here")
    assert sorted(path.name for path in here.iterdir()) == [*("measured.md", "measured.png")]
    page = (here / "measured.md").read_text()
    assert "Made by `varsim validate --runs runs --out reports/here`." in page
    first = {path.name: path.read_bytes() for path in here.iterdir()}
    invoke("validate", "--runs", "runs", "--out", "reports/here", "--quiet")
    assert {path.name: path.read_bytes() for path in here.iterdir()} == first


def test_a_bound_that_is_not_kept(folder: Path) -> None:
    # Alone, it has no other run to learn from, and is predicted without overheads.
    alone = folder.parent / "alone"
    alone.mkdir()
    write(sync("a", table(4, 60), 3, SYNCED), alone)
    result = invoke("validate", "--runs", alone, "--quiet", "--max-error", "0.5 %")

    assert result.exit_code == 3
    assert result.stderr.startswith("varsim: a is off by ")
    assert result.stderr.endswith(", which is more than 0.5 %\n")


@pytest.mark.parametrize("bound", ["4", "four", "-1%", "4%%"])
def test_a_bound_is_a_percentage(folder: Path, bound: str) -> None:
    result = invoke("validate", "--runs", "runs", f"--max-error={bound}")

    assert result.exit_code == 2
    assert "is not a percentage (for example 4%)" in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["validate", "calibrate"])
class TestWrongFiles:
    def test_each_is_one_line(self, folder: Path, command: str) -> None:
        (folder / "broken.json").write_text("{")
        (folder / "empty.json").write_text("{}")
        result = invoke(command, "--runs", "runs")

        assert (result.exit_code, result.stdout) == (2, "")
        lines = result.stderr.splitlines()
        assert [line.split(": ")[:2] for line in lines] == [
            ["varsim", "runs/broken.json"],
            ["varsim", "runs/empty.json"],
        ]

    def test_no_folder(self, folder: Path, command: str) -> None:
        result = invoke(command, "--runs", "nowhere")

        assert result.exit_code == 2
        assert result.stderr == "varsim: nowhere: there is no such folder\n"


def test_calibrate_makes_the_scenario_of_parameter_servers_too(folder: Path) -> None:
    result = invoke("calibrate", "--runs", "runs", "--run", "b", "--out", "b.yaml")

    assert (result.exit_code, result.stderr) == (0, "")
    scenario = varsim.load("b.yaml")
    assert (scenario.cluster.workers, scenario.strategies[0].kind) == (5, "sync_replicas")
    assert scenario.cluster.overheads is not None
    assert scenario.cluster.overheads.pull == pytest.approx(SYNCED.pull, rel=0.2)
    predicted = invoke("validate", "b.yaml", "--runs", "runs", "--max-error", "5%")
    assert predicted.exit_code == 2  # the rings are of another strategy
    assert "is of on_write, and the scenario of sync_replicas" in predicted.stderr
    (folder / "ring_a.json").unlink()
    (folder / "ring_b.json").unlink()
    predicted = invoke("validate", "b.yaml", "--runs", "runs", "--format", "json")
    assert {row["row"] for row in json.loads(predicted.stdout)["runs"]} == {"a", "b"}
