"""What a run costs, counted: events on the heap, gradients worked out. See the benchmarks."""

from typing import Any

import pytest

from tests.building import PENDING, gradient_rows, run

EXPONENTIAL = {"kind": "shifted_exponential", "minimum": 0.05, "mean": 0.1}

# 64 workers, a first-come server whose port is busy half of the time, one variable.
BUSY: dict[str, Any] = {
    "network": {"bandwidth": 40 * 64 / 0.05, "latency": 20e-6, "sharing": "first_come"},
    "problem": {"noise": 1.0},
    "stop": {"global_steps": 100},
}
SYNCHRONOUS = {"kind": "sync_replicas", "replicas_to_aggregate": 61}


def cluster(shards: int, workers: int = 64) -> dict[str, Any]:
    return {"workers": workers, "compute": EXPONENTIAL, "parameter_servers": shards}


@pytest.mark.parametrize("shards", [1, 4, 16])
def test_three_events_per_step_of_a_synchronous_worker(shards: int) -> None:
    trace = run(SYNCHRONOUS, **BUSY, cluster=cluster(shards))

    assert len(trace.gradients) > 6000
    assert trace.heap_events / len(trace.gradients) <= 3.1


@pytest.mark.parametrize("shards", [1, 4, 16])
def test_three_events_per_step_of_an_asynchronous_worker(shards: int) -> None:
    changes = {**BUSY, "stop": {"global_steps": 6400}}
    trace = run("none", **changes, cluster=cluster(shards))

    assert trace.heap_events / len(trace.gradients) <= 3.1


@pytest.mark.parametrize("workers", [8, 64, 512])
@pytest.mark.parametrize("strategy", ["none", SYNCHRONOUS], ids=["asynchronous", "synchronous"])
def test_five_events_per_step_on_fair_links(strategy: Any, workers: int) -> None:
    """A read and a push take an event each, or two where flows that come later slow them down."""
    network = {**BUSY["network"], "bandwidth": 40 * workers / 0.05, "sharing": "fair"}
    steps = 50 * workers
    if strategy != "none":
        strategy, steps = {**strategy, "replicas_to_aggregate": round(0.95 * workers)}, 50
    changes = {**BUSY, "network": network, "stop": {"global_steps": steps}}
    trace = run(strategy, **changes, cluster=cluster(1, workers))

    assert trace.heap_events / len(trace.gradients) <= 5


@pytest.mark.parametrize("workers", [8, 512])
def test_the_number_of_workers_does_not_matter(workers: int) -> None:
    changes = {**BUSY, "stop": {"global_steps": 6400 // workers}}
    network = {**BUSY["network"], "bandwidth": 40 * workers / 0.05}
    strategy = {**SYNCHRONOUS, "replicas_to_aggregate": round(0.95 * workers)}
    trace = run(strategy, **{**changes, "network": network}, cluster=cluster(1, workers))

    assert trace.heap_events / len(trace.gradients) <= 3.1 + 2 / workers


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"collective": "halving_doubling"},
        {"collective": "double_binary_tree"},
        {"collective": "hierarchical", "ranks_per_group": 8},
    ],
    ids=lambda settings: settings.get("collective", "ring"),
)
def test_two_events_per_step_of_a_mirrored_worker(settings: dict[str, Any]) -> None:
    network = {"bandwidth": 1e6, "latency": 20e-6, "sharing": "fair"}
    trace = run(
        {"kind": "on_write", **settings},
        **{**BUSY, "network": network},
        cluster={"workers": 64, "compute": EXPONENTIAL},
    )

    assert trace.heap_events / len(trace.gradients) <= 2.1


def test_gradients_are_worked_out_once_and_only_if_used() -> None:
    # Backup workers: 3 of 64 gradients are dropped, and never worked out.
    trace = run(SYNCHRONOUS, **BUSY, cluster=cluster(1))
    used = sum(row.parts_applied > 0 for row in gradient_rows(trace))
    ended = sum(row.outcome != PENDING for row in gradient_rows(trace))

    assert trace.gradients_evaluated == trace.gradients_aggregated == used == 61 * 100
    assert trace.gradients_evaluated < ended <= len(trace.gradients)


def test_nothing_is_dropped_without_synchronization() -> None:
    # In stacks, the last of which may hold some that the run no longer waits for.
    trace = run("none", **{**BUSY, "stop": {"global_steps": 6400}}, cluster=cluster(1))

    assert trace.gradients_aggregated == 6400
    assert 6400 <= trace.gradients_evaluated <= 6400 + 64
    assert trace.gradients_evaluated / trace.gradients_aggregated == pytest.approx(1.0, abs=0.01)


def test_gradients_of_several_variables_are_worked_out_once() -> None:
    for strategy in ("none", SYNCHRONOUS):
        trace = run(
            strategy,
            **{**BUSY, "problem": {"kind": "linear_regression"}, "stop": {"global_steps": 20}},
            cluster=cluster(4),
        )
        used = sum(row.parts_applied > 0 for row in gradient_rows(trace))
        assert used <= trace.gradients_evaluated <= used + 64
