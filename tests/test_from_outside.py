"""What misled a reader once, as it is seen from outside: by commands and their files alone."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli
from validation import command as validation

REFERENCES = Path(validation.__file__).parent / "data" / "references"
TRAINING = """\
name: seen
replications: 2
cluster:
  workers: 4
  device: v100_sxm2
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 10 us}
workload: {problem: {kind: timing}, model: resnet50, batch_size: 32}
strategies: [{kind: none, name: "=1+2"}, {kind: on_write}]
stop: {global_steps: 40}
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The report of a run of four devices."""
    monkeypatch.chdir(tmp_path)
    Path("seen.yaml").write_text(TRAINING)
    done = CliRunner().invoke(cli.app, ["run", "seen.yaml", "--quiet", "--rows", "--out", "seen"])
    assert done.exit_code == 0, done.stderr
    return Path("seen")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_steps_of_a_device_differ(report: Path) -> None:
    spans = [row for row in rows(report / "spans.csv") if row["activity"] == "compute"]
    times = {round(float(row["end_s"]) - float(row["start_s"]), 6) for row in spans}
    assert len(times) > 100


def test_no_cell_of_text_is_a_formula(report: Path) -> None:
    for path in report.glob("*.csv"):
        assert not [row for row in rows(path) if row["strategy"].startswith("=")], path.name


def test_equal_alternatives_have_no_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("same.yaml").write_text(
        TRAINING.replace('{kind: none, name: "=1+2"}, {kind: on_write}', "{kind: none}")
    )
    nearly = ["--set", "cluster.network.latency=10 us,10.001 us"]
    done = CliRunner().invoke(cli.app, ["sweep", "same.yaml", "--quiet", *nearly])
    assert done.exit_code == 0, done.stderr
    assert "Fastest:" not in done.stdout
    assert done.stdout.startswith("Tied fastest: latency = 10 us to 10.001 us")


def test_measurements_are_known_whatever_their_experiment_is_called(tmp_path: Path) -> None:
    published = (REFERENCES / "published.csv").read_text().splitlines()
    own = [line for line in published if line.startswith("mxnet-1gpu-batch-k80,")]
    renamed = [line.replace("mxnet-1gpu-batch-k80", "mine", 1) for line in own]
    (tmp_path / "mine.csv").write_text("\n".join([published[0], *renamed]) + "\n")
    options = ["--published", str(tmp_path / "mine.csv"), "--out", str(tmp_path / "v")]
    done = CliRunner().invoke(validation.app, [*options, "--quiet"])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("Published measurements: 11 of 11 lines keep their bound.")
