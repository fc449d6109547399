"""`--engine` says what makes runs of which only times matter; all files are the same bytes."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli
from varsim.cluster.fast import ENGINE, Gate
from varsim.cluster.fast.served import ServedRun
from varsim.cluster.fast.start import Start

TIMED = """\
# How long does a step take?
name: timed
cluster:
  workers: 3
  compute: {kind: exponential, mean: 10 ms}
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 5 us, sharing: first_come}
workload: {problem: {kind: timing, size: 1 MB}}
strategies:
  - {kind: none}
  - {kind: sync_replicas, replicas_to_aggregate: 2}
stop: {global_steps: 30}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENGINE, "auto")  # set back after the test
    file = tmp_path / "timed.yaml"
    file.write_text(TIMED)
    return file


SGD = "optimizer: {kind: sgd, learning_rate: 0.1}"


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()}


def interpreted(start: Start, gate: Gate, **_: bool) -> ServedRun:
    """A run that is not compiled, whoever asks for it."""
    return ServedRun(start, gate, interpreted=True)


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_both_leave_the_same_files_and_which_it_was_goes_to_stderr(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("varsim.study.simulation.ServedRun", interpreted)
    runs = {}
    for engine in ("simpy", "fast", "auto"):
        out = tmp_path / engine
        runs[engine] = varsim("run", file, "--out", out, "--no-plots", "--engine", engine)
        assert runs[engine].exit_code == 0, runs[engine].stderr

    fast, auto, simpy = (contents(tmp_path / engine) for engine in ("fast", "auto", "simpy"))
    assert fast == auto == simpy
    assert "engine" not in runs["simpy"].stderr
    said = "varsim: simulated by the fast engine (times only): none, sync_replicas\n"
    assert said in runs["fast"].stderr
    assert said not in runs["auto"].stderr  # such a short run is not worth its start


def test_the_fast_one_is_for_those_who_have_numba(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("varsim.cluster.fast.choice.find_spec", lambda name: None)
    done = varsim("run", file, "--engine", "fast")

    assert done.exit_code == 2
    assert done.stderr == "varsim: --engine fast needs numba: pip install 'varsim[fast]'\n"


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_where_the_fast_one_cannot_it_is_refused_in_a_line(file: Path) -> None:
    for command, sets, said in (
        (
            "check",
            "strategies.1={kind: local_sgd, period: 2}",
            "local_sgd: the rules of this strategy",
        ),
        (
            "run",
            "workload={problem: {kind: quadratic}, optimizer: {kind: sgd, learning_rate: 0.1}}",
            "values are worked out",
        ),
    ):
        done = varsim(command, file, "--engine", "fast", "--set", sets)
        assert done.exit_code == 2, done.stdout
        assert "varsim: --engine fast does not cover" in done.stderr
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
