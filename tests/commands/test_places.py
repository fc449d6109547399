"""A sweep and a plan do not take each other's place, nor that of the file that asks."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli

BASE = """\
# How many?
name: tiny
seed: 3
replications: 2
cluster:
  workers: 2
  compute: {kind: uniform, low: 80 ms, high: 120 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload: {problem: {kind: timing, size: 1 MB}, batch_size: 4}
strategies: [{kind: on_write}]
stop: {time: 2 s}
prices: {device_hour: 1}
"""
SWEEP = BASE + "sweep: {cluster.workers: [2, 3], most_replications: 2}\n"
PLAN = BASE + (
    "targets: {throughput: 50 examples/s}\n"
    "plan: {minimize: cost_per_hour, space: {cluster.workers: [2, 3]}, most_replications: 2}\n"
)
ASKED = {"sweep": SWEEP, "plan": PLAN}
OTHER = {"sweep": "plan", "plan": "sweep"}

both = pytest.mark.parametrize("first", ["sweep", "plan"])


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything goes; the files that ask are beside it."""
    monkeypatch.chdir(tmp_path)
    for kind, text in ASKED.items():
        Path(f"{kind}-tiny.yaml").write_text(text)
    return Path("out")


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [*map(str, arguments), "--quiet"])


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@both
def test_one_is_not_put_where_the_other_is(out: Path, first: str) -> None:
    assert varsim(first, f"{first}-tiny.yaml", "--out", out).exit_code == 0
    before, second = contents(out), OTHER[first]
    refused = varsim(second, f"{second}-tiny.yaml", "--out", out)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"varsim: out holds a {first}: name another directory, say --out "
        f"{Path('reports', f'tiny-{second}')}\n"
    )
    assert contents(out) == before
    assert varsim(first, f"{first}-tiny.yaml", "--out", out).exit_code == 0, "goes on from there"


def test_a_merge_is_not_put_where_a_plan_is(out: Path) -> None:
    assert varsim("sweep", "sweep-tiny.yaml", "--shard", "1/1", "--out", "part").exit_code == 0
    assert varsim("plan", "plan-tiny.yaml", "--out", out).exit_code == 0
    done = CliRunner().invoke(cli.app, ["merge", "sweep-tiny.yaml", "part", "--out", "out"])
    assert (done.exit_code, done.stderr.startswith("varsim: out holds a plan: ")) == (2, True)


def test_a_part_of_a_sweep_is_one(out: Path) -> None:
    assert varsim("sweep", "sweep-tiny.yaml", "--shard", "1/2", "--out", out).exit_code == 0
    assert not (out / "results.json").exists()
    assert "out holds a sweep" in varsim("plan", "plan-tiny.yaml", "--out", out).stderr


@both
def test_the_default_is_refused_with_another_name(out: Path, first: str) -> None:
    second, place = OTHER[first], Path("reports", f"tiny-{OTHER[first]}")
    assert varsim(first, f"{first}-tiny.yaml", "--out", place).exit_code == 0
    said = varsim(second, f"{second}-tiny.yaml").stderr
    assert said.endswith(f"{place} holds a {first}: name another directory, say --out {place}-2\n")


@both
def test_the_file_that_asks_is_not_replaced(out: Path, first: str) -> None:
    file = Path(f"{first}.yaml")
    file.write_text(ASKED[first])
    refused = varsim(first, file, "--out", ".")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"varsim: . holds {file}, which would be replaced: name ")
    assert file.read_text() == ASKED[first]


def test_a_sweep_that_was_written_goes_on_in_its_place(out: Path) -> None:
    assert varsim("sweep", "sweep-tiny.yaml", "--out", out).exit_code == 0
    assert varsim("sweep", out / "sweep.yaml", "--out", out).exit_code == 0


@both
def test_the_report_of_a_run_is_left_alone(out: Path, first: str) -> None:
    Path("plain.yaml").write_text(BASE)
    assert varsim("run", "plain.yaml", "--out", out).exit_code == 0
    refused = varsim(first, f"{first}-tiny.yaml", "--out", out)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("varsim: out holds the report of a run: name another ")
