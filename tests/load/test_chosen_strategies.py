"""Of a scenario of several strategies only those that will run need to fit the rest of it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli
from tests.seams import load_text, question_of_text, sweep_of_text
from varsim import Scenario, ScenarioError, sweep

TEXT = """\
name: chief
replications: 2
cluster:
  workers: 3
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
  optimizer_time: 1 ms
workload: {problem: {kind: timing}, model: resnet50, batch_size: 4}
strategies:
  - {kind: sync_replicas, replicas_to_aggregate: 2}
  - {kind: none}
  - {kind: on_write, overlap: true}
  - {kind: on_read, read_every: 2}
events:
  - {at: 1 s, stop: chief}
stop: {time: 2 s}
"""
SWEEP = "sweep: {cluster.workers: [3, 4], most_replications: 2}\n"
PLAN = (
    "targets: {throughput: 1 examples/s}\n"
    "plan: {minimize: workers, space: {cluster.workers: [3, 4]}}\n"
)
LIVES = """\
failures: {of: [{domain: worker, mtbf: 30 d, repair: 2 h}], horizon: 30 d}
stop: {global_steps: 100}
"""
CHOSEN = ["sync_replicas"]


def refusal(strategies: list[str]) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_text(TEXT, "a.yaml", strategies=strategies)
    return str(caught.value)


def test_who_has_no_chief_is_refused_only_if_it_runs() -> None:
    assert "overlap does not go with events" in refusal([])
    assert "'none' has no chief" in refusal(["sync_replicas", "none"])
    assert "overlap does not go with events" in refusal(["sync_replicas", "on_write"])
    found = load_text(TEXT, strategies=CHOSEN)
    assert isinstance(found, Scenario)
    assert [strategy.label for strategy in found.strategies] == CHOSEN
    assert [event.stop for event in found.events] == ["chief"]
    assert found.cluster.optimizer_time is None, "what only the others use is left out"


def test_what_does_not_fit_the_cluster_is_refused_only_if_it_runs() -> None:
    text = TEXT.replace("{kind: none}", "{kind: backup_workers, replicas_to_aggregate: 9}")
    assert load_text(text, strategies=CHOSEN) == load_text(TEXT, strategies=CHOSEN)
    with pytest.raises(ScenarioError, match="is more than there are workers"):
        load_text(text, strategies=["backup_workers"])


def test_what_is_wrong_in_itself_is_refused_all_the_same() -> None:
    with pytest.raises(ScenarioError, match="unknown key"):
        load_text(TEXT.replace("kind: none", "kind: none, read_every: 3"), strategies=CHOSEN)


def test_a_strategy_that_is_not_there_is_one_line() -> None:
    known = "it has: sync_replicas, none, on_write, on_read"
    assert refusal(["gossip", "sync_replicas"]).endswith(
        f"a.yaml: error: no strategy 'gossip' in this scenario; {known}"
    )


def test_in_a_sweep() -> None:
    with pytest.raises(ScenarioError, match="does not go with events"):
        sweep_of_text(TEXT + SWEEP)
    rows = sweep(TEXT + SWEEP, strategies=CHOSEN).rows
    assert [row.strategy for row in rows] == CHOSEN * 2


def test_in_a_plan() -> None:
    with pytest.raises(ScenarioError, match="does not go with events"):
        question_of_text(TEXT + PLAN)
    assert question_of_text(TEXT + PLAN, strategies=CHOSEN).strategies == tuple(CHOSEN)
    with pytest.raises(ScenarioError, match="no strategy 'gossip'"):
        question_of_text(TEXT + PLAN, strategies=["gossip"])


@pytest.mark.parametrize(
    ("command", "block"), [("run", ""), ("explain", ""), ("sweep", SWEEP), ("plan", PLAN)]
)
def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, block: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chief.yaml").write_text(TEXT + block)
    refused = CliRunner().invoke(cli.app, [command, "chief.yaml"])
    assert refused.exit_code == 2
    assert "does not go with events" in refused.stderr
    done = CliRunner().invoke(cli.app, [command, "chief.yaml", "--strategy", "sync_replicas"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("command", "block"),
    [("run", ""), ("check", ""), *((one, SWEEP) for one in ("check", "sweep"))]
    + [(one, PLAN) for one in ("check", "plan")],
)
def test_one_that_is_not_there_is_told_alike_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, block: str
) -> None:
    """Also where the lives of jobs are made from the least steps of those that run: of none."""
    monkeypatch.chdir(tmp_path)
    lives = TEXT.replace("events:\n  - {at: 1 s, stop: chief}\nstop: {time: 2 s}", LIVES)
    Path("lives.yaml").write_text(lives + block)
    done = CliRunner().invoke(cli.app, [command, "lives.yaml", "--strategy", "gossip"])
    assert done.exit_code == 2
    assert done.stderr.startswith("lives.yaml: error: no strategy 'gossip' in this scenario; ")
    assert len(done.stderr.splitlines()) == 1


def test_a_name_goes_before_a_kind() -> None:
    named = "{kind: none, name: on_read}"
    text = TEXT.replace("{kind: none}", named).replace("read_every: 2", "read_every: 2, name: r")
    text = text.replace("events:\n  - {at: 1 s, stop: chief}\n", "")

    def chosen(*names: str) -> list[str]:
        found = load_text(text, strategies=names)
        assert isinstance(found, Scenario)
        return [one.kind for one in found.strategies]

    assert chosen("on_read") == ["none"]
    assert chosen("on_read", "on_write") == ["none", "on_write"]
