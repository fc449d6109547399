"""Recordings become ordinary scenarios, and what is read off them is what a replay has."""

from pathlib import Path
from typing import Any

import pytest

from tests.validation.recording import asynchronous, collective, run_of, sync, table
from varsim.calibration.recorded.comparison import measured_totals, predicted_totals
from varsim.calibration.recorded.overheads import (
    measured_latencies,
    predicted_latencies,
)
from varsim.calibration.recorded.runs import Replay
from varsim.cluster.description.servers import Overheads
from varsim.strategies.sync_replicas import SyncReplicas

SERVED = Overheads(first_iteration=0.02, pull=1e-3, push=0.8e-3, wake=0.3e-3)
SYNCED = Overheads(**{**SERVED.model_dump(), "commit": 0.5e-3})
MET = Overheads(message=0.2e-3)

FILES: dict[str, tuple[Any, Overheads]] = {
    "all needed": (sync("all", table(4, 60), 4, SYNCED), SYNCED),
    "backups": (sync("backups", table(6, 60), 4, SYNCED), SYNCED),
    "no tokens": (sync("none", table(4, 60), 3, SYNCED, init_tokens=0), SYNCED),
    "asynchronous": (asynchronous("free", table(4, 60), SERVED), SERVED),
    "collective": (collective("ring", table(4, 40), MET, payload_bytes=4096), MET),
}


@pytest.mark.parametrize("case", FILES)
def test_a_replay_with_the_same_overheads_is_the_run_again(case: str, tmp_path: Path) -> None:
    file, overheads = FILES[case]
    run = run_of(file, tmp_path)
    again = predicted_totals(run, Replay(run).trace(overheads))
    seen = measured_totals(run)

    assert again == pytest.approx(seen)
    assert seen.updates == run.steps
    assert (seen.dropped is not None) == (run.kind == "tf_sync_replicas")
    assert (seen.staleness is not None) == (run.kind == "tf_async_ps")


@pytest.mark.parametrize("case", FILES)
def test_latencies_are_the_same_on_paper_and_in_a_replay(case: str, tmp_path: Path) -> None:
    file, overheads = FILES[case]
    run = run_of(file, tmp_path)
    seen = measured_latencies(run)
    again = predicted_latencies(run, Replay(run).trace(overheads))

    for name in ("start", "back", "on", "collective"):
        one, other = getattr(seen, name), getattr(again, name)
        assert one == other or one == pytest.approx(other, rel=0.02), name
    if run.kind != "gloo_all_reduce":
        assert seen.start is not None
        assert seen.start >= 0.02
        assert seen.pull is None or seen.pull == pytest.approx(1e-3)


def test_a_run_becomes_the_scenario_that_says_the_same(tmp_path: Path) -> None:
    killed = [{"worker": 1, "at": 0.75}]
    file = sync(
        *("settings", table(4, 40), 3), ps=2, payload_bytes=4096, init_tokens=0, killed=killed
    )
    scenario = Replay(run_of(file, tmp_path)).scenario(SYNCED)
    cluster = scenario.cluster
    (strategy,) = scenario.strategies
    (event,) = scenario.events

    assert isinstance(strategy, SyncReplicas)
    assert strategy.replicas_to_aggregate == 3
    assert (strategy.total_num_replicas, strategy.initial_tokens) == (4, 0)
    assert (cluster.workers, cluster.parameter_servers) == (4, 2)
    assert cluster.overheads == SYNCED
    assert scenario.workload.tensor_sizes() == [[4096]]
    assert (event.at, event.rank, scenario.stop.global_steps) == (0.75, 1, 30)
    law = scenario.cluster.compute_distribution(scenario.workload)
    assert law.expectation() == pytest.approx(0.1, rel=0.1)


def test_where_nothing_is_computed_only_overheads_pass(tmp_path: Path) -> None:
    run = run_of(collective("alone", [[0.0] * 20] * 4, MET, payload_bytes=4096), tmp_path)
    without, with_them = (Replay(run).trace(some).steps[-1] / 1e9 for some in (None, MET))

    # 20 all-reduces of 6 rounds with 4 messages of 0.2 ms.
    assert without < 1e-6
    assert with_them == pytest.approx(20 * 24 * 0.2e-3)
