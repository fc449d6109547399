"""What answers leave out where it would mislead: the reason, and what to type."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.building import declared
from tests.seams import app as cli

SCENARIO = """\
# Who is told what?
name: told
replications: 1
cluster:
  workers: 4
  compute: {kind: constant, value: 10 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 50 us}
workload: {problem: {kind: quadratic}, optimizer: {kind: sgd, learning_rate: 0.1}}
strategies: [STRATEGY]
stop: {STOP}
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def varsim(command: str, strategy: str, stop: str, more: str = "", *options: str) -> Result:
    text = SCENARIO.replace("STRATEGY", strategy).replace("STOP", stop) + more
    Path("told.yaml").write_text(text)
    return CliRunner().invoke(cli.app, [command, "told.yaml", *options])


def test_too_many_initial_tokens_are_told_of() -> None:
    many = "{kind: sync_replicas, replicas_to_aggregate: 3, initial_tokens: 1000}"
    said = (
        "drops 997 gradients after its first update: the first update "
        "uses up 3 of 1,000 initial tokens, and whoever takes one of the others computes for a "
        "step that is over; initial_tokens: 3 (the default) drops none."
    )
    for command in ("run", "check"):
        assert said in varsim(command, many, "time: 500 ms").stdout, command
        few = many.replace("1000", "4")
        assert "initial tokens" not in varsim(command, few, "time: 500 ms").stdout, command
    # It is so: of those 500 ms two gradients in a hundred are used, those of the first update.
    default = declared({"kind": "sync_replicas", "replicas_to_aggregate": 3})
    assert default.dropped_at_first().gradients == 0
    run = Path("reports/told/summary.json")
    varsim("run", many, "time: 500 ms")
    assert json.loads(run.read_text())["runs"][0]["global_step"] == 1


def test_of_replicas_that_never_met_no_rate_is_told() -> None:
    done = varsim("run", "{kind: on_read, read_every: 1000}", "time: 200 ms")
    assert done.stdout.startswith("Too short to rank: 20 gradients per worker with sync on read")
    assert "--set 'stop.time=" in done.stdout
    assert ", or more: the run has hardly any reads, which take time" in done.stdout
    met = varsim("run", "{kind: on_read, read_every: 3}", "time: 200 ms")
    assert met.stdout.startswith("sync on read: ")


def test_where_reads_were_seen_the_advice_stands_alone() -> None:
    done = varsim("run", "{kind: on_read, read_every: 6}", "time: 200 ms")
    assert "for longer runs: --set 'stop.time=" in done.stdout
    assert "or more" not in done.stdout


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_standstill_ends_with_an_error(command: str) -> None:
    stuck = "{kind: sync_replicas, replicas_to_aggregate: 4}"
    events = "events: [{at: 55 ms, kill: {worker: 1}}]\n"
    done = varsim(command, stuck, "time: 1 s", events)
    assert done.exit_code == 1
    assert "the run deadlocked at" in done.stderr
    assert "because worker 1 was killed" in done.stderr
    assert varsim(command, stuck, "time: 1 s").exit_code == 0


def test_where_there_was_no_update_there_is_nothing_to_explain() -> None:
    done = varsim("explain", "{kind: on_write}", "time: 5 ms")
    assert done.exit_code == 1
    assert "all-reduce made no update before its run was stopped" in done.stdout
    assert "nothing to explain" in done.stderr
    both = varsim("explain", "{kind: on_write}, {kind: single}", "time: 15 ms")
    assert both.exit_code == 0, both.stderr


def test_a_loss_that_no_rate_reaches_asks_for_longer_runs() -> None:
    targets = "targets: {loss: 1e-9}\n"
    done = varsim("tune", "{kind: on_write}", "time: 60 ms", targets, "--rates", "0.1,0.2", "-q")
    assert "[rates-in-vain]" in done.stdout
    assert "--set 'stop.time=240 ms'" in done.stdout
    assert "--rates" not in done.stdout
    reached = targets.replace("1e-9", "0.2")
    done = varsim("tune", "{kind: on_write}", "time: 600 ms", reached, "--rates", "0.1,0.2", "-q")
    assert "next try --rates" in done.stdout  # the best is the largest that was tried


def test_a_report_is_no_recording() -> None:
    assert varsim("run", "{kind: on_write}", "global_steps: 5").exit_code == 0
    done = CliRunner().invoke(cli.app, ["validate", "--runs", "reports/told"])
    assert done.exit_code == 2
    assert "summary.json: this is a report that varsim wrote; --runs takes" in done.stderr


def test_what_a_sweep_says_to_type_is_accepted() -> None:
    noisy = "sweep:\n  cluster.compute.sigma: [1.2, 1.21]\n  most_replications: 2\n"
    chance = ("--set", "replications=2", "--quiet", "--no-plots")
    compute = "--set=cluster.compute={kind: lognormal, mean: 10 ms, sigma: 1.2}"
    kinds = "{kind: on_write}"
    done = varsim("sweep", kinds, "time: 1 s", noisy, *chance, compute)
    assert done.exit_code == 0, done.output
    advice = "--most-replications 5 --set replications=5"
    assert f"try {advice}." in done.stdout
    again = varsim("sweep", kinds, "time: 1 s", noisy, *chance[2:], compute, *advice.split())
    assert again.exit_code == 0, again.output
    assert "too few" not in again.stdout


def test_too_many_gradients_to_be_meant_are_refused_with_what_makes_them_fewer() -> None:
    refused = varsim("run", "{kind: none}", "examples: 100000000000")
    assert refused.exit_code == 2
    assert (
        "gradients to compute, which may take hours and all memory: stop the runs earlier, "
        "lower replications or cluster.workers, or give --yes"
    ) in refused.stderr
