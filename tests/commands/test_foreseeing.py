"""Time and memory are foreseen from sizes: told by check, asked about by run."""

import time
from pathlib import Path

import numpy as np
import pytest
from building import scenario
from typer.testing import CliRunner, Result

from varsim import cli
from varsim.cluster.envelope import Envelope
from varsim.commands import weighing
from varsim.effort import effort
from varsim.simulation import simulate

LARGE = """\
name: large
replications: 1
cluster:
  workers: 4
  compute: {kind: exponential, mean: 100 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 10 us}
workload: {problem: {kind: digits, model: softmax}, optimizer: {kind: sgd, learning_rate: 0.1}}
strategies: [{kind: sync_replicas, replicas_to_aggregate: 4}, {kind: on_write}, {kind: none}]
stop: {global_steps: 20}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "large.yaml"
    path.write_text(LARGE)
    return path


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


@pytest.mark.parametrize(
    "change",
    [
        "cluster.workers=100000",
        "workload.batch_size=1000000",
        "strategies.0.initial_tokens=1000000000",
    ],
)
def test_check_says_soon_what_a_huge_scenario_takes(file: Path, change: str) -> None:
    begun = time.process_time()
    done = varsim("check", file, "--set", change)

    assert time.process_time() - begun < 2
    assert "To run it takes about" in done.stdout
    assert "varsim: all runs take about" in done.stderr


def test_what_takes_hours_wants_a_yes(file: Path) -> None:
    done = varsim(
        "run", file, "--set", "workload.batch_size=1000000", "--set", "stop={time: 9 min}"
    )

    assert done.exit_code == 2
    assert "workload.batch_size" in done.stderr
    assert done.stderr.rstrip().endswith("or give --yes")
    assert not Path("reports").exists()


def test_with_yes_it_is_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighing, "TOO_LONG", 0.0)
    monkeypatch.setattr(weighing, "LONG", 0.0)

    assert varsim("run", file, "--quiet").exit_code == 2
    done = varsim("run", file, "--quiet", "--yes")
    assert done.exit_code == 0, done.stderr
    assert "to have it sooner lower stop.global_steps" in done.stderr


def test_more_memory_than_there_is_is_refused_even_so(file: Path) -> None:
    for command in (["run", file, "--yes"], ["check", file]):
        done = varsim(*command, "--set", "strategies.0.initial_tokens=1000000000000")
        assert done.exit_code == 2
        assert "more memory than there is here: lower" in done.stderr
        assert "strategies.0.initial_tokens" in done.stderr


def test_gradients_that_are_foreseen_are_about_those_that_are_computed() -> None:
    made = scenario({"kind": "none"}, cluster={"workers": 4}, stop={"time": 20.0})
    computed = len(simulate(made).traces[0].gradients)

    assert effort(made).gradients == pytest.approx(computed, rel=0.1)


def test_of_very_many_workers_some_stand_for_all() -> None:
    law = {"kind": "exponential", "mean": 0.1}
    made = scenario({"kind": "on_write"}, cluster={"workers": 20_000, "compute": law})
    envelope = Envelope(made.cluster, made.workload, 0)
    # The slowest of n exponential times is H_n times the mean; standard deviation 0.128 a step.
    harmonic = float(np.sum(1 / np.arange(1, 20_001)))

    assert envelope.kth(20_000) == pytest.approx(0.1 * harmonic, abs=4 * 0.128 / 26**0.5)
    assert envelope.kth(10_000) == pytest.approx(0.1 * np.log(2), rel=0.02)
