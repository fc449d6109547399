"""What is absurd is refused before it begins, by its gradients, hosts and failures."""

import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.building import scenario
from tests.seams import app as cli
from tests.seams import simulate
from varsim.study import beginning
from varsim.study.beginning import gradients, hopeless

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
VAIN = """\
name: vain
cluster:
  workers: 2
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload: {problem: {kind: timing, size: 1 MB}, batch_size: 1}
strategies: [{kind: none}]
stop: {global_steps: 800}
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
    ("change", "said"),
    [
        ("stop={global_steps: 200000000}", "illion gradients to compute, "),
        ("stop={time: 1e9 s}", " gradients to compute, "),
        ("cluster.workers=100001", "100,002 workers and servers, "),
    ],
)
@pytest.mark.parametrize("command", ["run", "explain"])
def test_what_is_absurd_wants_a_yes(file: Path, command: str, change: str, said: str) -> None:
    begun = time.process_time()
    done = varsim(command, file, "--strategy", "none", "--set", change)
    assert time.process_time() - begun < 5
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert line.endswith("or give --yes")
    assert not Path("reports").exists()


def test_the_yardstick_is_counted_with_what_is_run(file: Path) -> None:
    """Workers that wait for the network compute little, but one alone computes all the time."""
    fast = ("--set", "cluster.compute={kind: constant, value: 1 ns}", "--set", "stop={time: 1 s}")
    chosen = ("--strategy", "none", "--quiet")
    done = varsim("run", file, *chosen, *fast)
    assert done.exit_code == 2
    assert done.stderr.startswith("varsim: about 1 billion gradients to compute, ")
    assert varsim("explain", file, *chosen, *fast).exit_code == 0


def test_with_yes_it_is_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "MOST_GRADIENTS", 100)
    assert varsim("run", file, "--quiet").exit_code == 2
    assert varsim("run", file, "--quiet", "--yes").exit_code == 0
    assert "varsim run needs --yes" in varsim("check", file).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="where memory can be limited")
def test_what_outgrows_its_memory_says_so_and_stops(file: Path) -> None:
    """A gigabyte is enough for the program, and not for a batch of 10 GB."""
    run = ["run", str(file), "--set", "workload.batch_size=100000000"]
    limited = 'ulimit -d 1000000 && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", sys.executable, "-m", "varsim", *run],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == ("varsim: out of memory, so it was stopped; try fewer workers, steps or --jobs")


def test_gradients_that_are_foreseen_are_about_those_that_are_computed() -> None:
    made = scenario({"kind": "none"}, cluster={"workers": 4}, stop={"time": 20.0})
    computed = len(simulate(made).traces[0].gradients)

    assert gradients(made) == pytest.approx(computed, rel=0.1)


def test_tokens_that_nobody_waits_for_are_counted_not_kept(file: Path) -> None:
    """10^9 initial tokens take no memory: only the gradients that they let through are work."""
    tokens = "strategies.0.initial_tokens=1000000000"
    only = ("--strategy", "sync_replicas", "--quiet")
    done = varsim("run", file, *only, "--set", tokens, "--set", "stop={time: 3 s}")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    checked = varsim("check", file, *only[:2], "--set", tokens)
    assert "varsim run needs --yes" in checked.stdout


def test_gradients_of_old_tokens_are_foreseen() -> None:
    """Each token that is left after the first update is of step 0, and so is a gradient dropped."""
    made = scenario(
        {"kind": "sync_replicas", "replicas_to_aggregate": 4, "initial_tokens": 1000},
        cluster={"workers": 4},
        stop={"global_steps": 20},
    )
    computed = len(simulate(made).traces[0].gradients)
    assert computed == pytest.approx(1000 - 4 + 20 * 4, abs=8)
    assert gradients(made) == pytest.approx(computed, rel=0.02)


SWEEP = "sweep: {cluster.workers: [2, 4]}\n"
PLAN = """\
targets: {throughput: 1 examples/s}
prices: {device_hour: 1.0}
plan: {minimize: cost_per_hour, space: {cluster.workers: [2, 4]}}
"""


@pytest.mark.parametrize(("command", "block"), [("sweep", SWEEP), ("plan", PLAN)])
def test_sweeps_and_plans_are_refused_as_runs_are(
    file: Path, monkeypatch: pytest.MonkeyPatch, command: str, block: str
) -> None:
    file.write_text(LARGE.replace("replications: 1", "replications: 2") + block)
    checked = varsim("check", file)
    assert checked.exit_code == 0, checked.stderr
    assert " 960 gradients" in checked.stdout
    assert "--yes" not in checked.stdout
    monkeypatch.setattr(beginning, "MOST_GRADIENTS", 100)
    assert f"varsim {command} needs --yes." in varsim("check", file).stdout
    refused = varsim(command, file, "--quiet", "--jobs", "1")
    assert refused.exit_code == 2
    assert refused.stderr.rstrip().endswith("or give --yes")
    assert not Path("reports").exists()
    assert varsim(command, file, "--quiet", "--jobs", "1", "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("domain", "mean", "changes", "failures", "rolled_back"),
    [
        # Two workers make 30 updates of 1 s in 15 s; without a failure: once in e^15 times.
        ("server", 1.0, {}, math.expm1(15), True),
        # Each quarter of a second is made once in e^5 times.
        ("server", 0.05, {"checkpoint": {"every": 0.25, "write": 0.0}}, 60 * math.expm1(5), False),
        (
            "server",
            0.02,
            {"checkpoint": {"every": 0.25, "write": 0.0}},
            60 * math.expm1(12.5),
            True,
        ),
        # Every other failure is that of worker 0, which goes back to a checkpoint never made.
        ("worker", 1.0, {"checkpoint": {"every": 60.0, "write": 0.0}}, 2 * math.expm1(15), True),
        ("worker", 1.0, {}, 30, False),
        ("worker", 1e-4, {}, 300_000, False),
        # Time ends it, or a loss may.
        ("server", 1.0, {"stop": {"global_steps": 30, "time": 500.0}}, 500, False),
        ("server", 1.0, {"stop": {"global_steps": 30, "loss": 0.1}}, 0, False),
    ],
)
def test_runs_in_which_too_much_fails_are_told_before_they_are_made(
    domain: str, mean: float, changes: dict[str, Any], failures: float, rolled_back: bool
) -> None:
    made = scenario(
        {"kind": "none"},
        **{
            "cluster": {"workers": 2, "compute": {"kind": "constant", "value": 1.0}},
            "failures": {"of": ({"domain": domain, "mtbf": mean},)},
            "stop": {"global_steps": 30},
            **changes,
        },
    )
    found = hopeless(made)

    if failures <= 100_000:
        assert found is None
    else:
        assert found is not None
        assert found.failures == pytest.approx(failures, rel=1e-9)
        assert found.rolled_back is rolled_back


@pytest.mark.parametrize(("saved", "advice"), [(False, " (checkpoint)"), (True, "more often")])
def test_runs_in_which_too_much_fails_are_refused(tmp_path: Path, saved: bool, advice: str) -> None:
    file = tmp_path / "vain.yaml"
    more = "checkpoint: {every: 1 h, write: 0 s}\n" * saved
    failing = "failures: {of: [{domain: server, mtbf: 1 s}]}\n"
    file.write_text(VAIN + failing + more)
    for command in ("check", "run", "explain"):
        done = CliRunner().invoke(cli.app, [command, str(file)])
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("varsim: async PS: more than a trillion failures would strike")
        assert advice in line


@pytest.mark.parametrize(
    ("command", "block", "found", "code"),
    [
        ("sweep", "sweep: {failures.of.0.mtbf: [1 s, 1000 s]}\n", " at mtbf = 1 s: ", 4),
        (
            "plan",
            PLAN.replace("cluster.workers: [2, 4]", "failures.of.0.mtbf: [1 s, 1000 s]"),
            "1 of 2 configurations failed, such as async PS with mtbf = 1 s: ",
            0,
        ),
    ],
)
def test_a_point_at_which_too_much_fails_is_told_at_once_and_the_others_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, block: str, found: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "vain.yaml"
    file.write_text(f"{VAIN}failures: {{of: [{{domain: server, mtbf: 1 s}}]}}\n{block}")
    begun = time.process_time()
    done = varsim(command, file, "--quiet", "--jobs", "1", "--format", "json")
    assert time.process_time() - begun < 10  # of 100,000 failures alone it would be minutes
    assert done.exit_code == code
    told = varsim(command, file, "--quiet", "--jobs", "1").stdout
    assert f"{found}more than a trillion failures would strike before a run ends" in told
    assert {
        "sweep": "mtbf = 1000 s: 19.4 examples/s kept.",
        "plan": "Cheapest to meet the target",
    }[command] in told
