"""K-async, K-batch-async, K-batch-sync: times by hand, and what they are with K 1."""

from typing import Any

import pytest

from tests.building import (
    DROPPED,
    LOST,
    MS,
    NO_TIME,
    gradient_rows,
    kill,
    life,
    restart,
    run,
    scenario,
    slow,
)
from tests.seams import Trace

# Workers of 100, 200 and 400 ms; nothing takes time to send.
SPEEDS: dict[str, Any] = {"cluster": {"slow_workers": (slow(1, 2.0), slow(2, 4.0))}}
RANDOM: dict[str, Any] = {
    "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
    "problem": {"kind": "quadratic", "noise": 0.1},
    "stop": {"time": 5.0},
}
# 40 bytes hold a link for 10 ms.
WIRE: dict[str, Any] = {"bandwidth": 4e3, "latency": 1e-3, "sharing": "first_come"}
UPDATE = {"server_update": {"time": {"kind": "constant", "value": 0.01}}}


def updates(trace: Trace) -> list[tuple[float, list[int]]]:
    """When each update was made (ms), and of whose gradients."""
    rows = gradient_rows(trace)
    return [
        (
            time / MS,
            sorted(row.worker for row in rows if row.applied_step == step and not row.outcome),
        )
        for step, time in enumerate(trace.steps.tolist())
    ]


def test_nobody_waits_where_any_two_gradients_make_an_update() -> None:
    # At 200 ms there is one of 0 since 100 ms, and those of 0 and 1 come: 0 and 0 make an update.
    # At 300 ms 0 comes to what 1 left; at 400 ms all three come, and that of 2 is left.
    trace = run({"kind": "k_batch_async", "k": 2}, **SPEEDS, stop={"time": 0.45})
    assert updates(trace) == [(200, [0, 0]), (300, [0, 1]), (400, [0, 1])]
    assert all(phase == "compute" for phase, _, _ in life(trace, 1)[:-1])


@pytest.mark.parametrize("kind", ["k_async", "k_batch_async"])
@pytest.mark.parametrize("cluster", [{}, UPDATE])
@pytest.mark.parametrize("network", [NO_TIME, WIRE, {**WIRE, "sharing": "fair"}])
def test_with_k_1_it_is_asynchronous(
    kind: str, cluster: dict[str, Any], network: dict[str, Any]
) -> None:
    shared = {**RANDOM, "cluster": {**RANDOM["cluster"], **cluster}, "network": network}
    one, free = run({"kind": kind, "k": 1}, **shared), run("none", **shared)
    assert one.gradients.tolist() == free.gradients.tolist()
    assert one.steps.tolist() == free.steps.tolist()
    assert [row.loss for row in one.evaluations] == [row.loss for row in free.evaluations]


def test_of_all_workers_it_is_a_barrier() -> None:
    everyone, mirrored = run({"kind": "k_async", "k": 4}, **RANDOM), run("on_write", **RANDOM)
    assert everyone.steps.tolist() == mirrored.steps.tolist()
    assert everyone.evaluations[-1].loss == pytest.approx(mirrored.evaluations[-1].loss, rel=1e-12)


def test_a_fast_worker_gives_two_of_three_gradients_at_what_it_read_once() -> None:
    # 0 at 100 and at 200 ms, and 1, at 200 ms, make an update; 2 has computed 200 of 400 ms in
    # vain. All four read anew: the same again until 400 ms.
    trace = run({"kind": "k_batch_sync", "k": 3}, **SPEEDS, stop={"time": 0.45})
    assert updates(trace) == [(200, [0, 0, 1]), (400, [0, 0, 1])]
    assert [row.read / MS for row in gradient_rows(trace) if row.worker == 0] == [0, 0, 200, 200]
    vain = [row for row in gradient_rows(trace) if row.outcome == DROPPED]
    assert [(row.worker, row.compute_start / MS, row.applied / MS) for row in vain] == [
        *((2, 0, 200), (2, 200, 400)),
    ]


def test_what_comes_with_the_last_but_after_it_is_in_vain() -> None:
    # At 200 ms 0 comes with its second, which ends the step, and 1 after it.
    trace = run({"kind": "k_batch_sync", "k": 2}, **SPEEDS, stop={"time": 0.25})
    assert updates(trace) == [(200, [0, 0])]
    assert [(row.worker, row.computed / MS) for row in gradient_rows(trace) if row.outcome] == [
        *((1, 200), (2, -1 / MS)),
    ]


def test_k_batch_sync_over_a_wire_reads_once_a_step_and_pushes_each() -> None:
    # Every message of 40 bytes holds a link for 10 ms. Reads end at 10, 20, 30 ms, one after the
    # other. 0 has computed at 110 and pushed by 120, and goes on without reading: computed at 220,
    # pushed by 230. 1 (150 ms) has computed at 170 and pushed by 180, and is at its next. So the
    # step ends at 230 with three gradients; 2 (400 ms) and 1 give up and read first, until 240 and
    # 250, by rank; 0, who ended the step, reads until 260.
    trace = run(
        {"kind": "k_batch_sync", "k": 3},
        cluster={"slow_workers": (slow(1, 1.5), slow(2, 4.0))},
        network={**WIRE, "latency": 0.0},
        stop={"time": 0.3},
    )
    assert updates(trace) == [(230, [0, 0, 1])]
    assert life(trace, 0)[:6] == [
        *(("read", 0, 10), ("compute", 10, 110), ("write", 110, 120), ("compute", 120, 220)),
        *(("write", 220, 230), ("queue", 230, 250)),
    ]
    assert life(trace, 1)[3:6] == [("write", 170, 180), ("compute", 180, 230), ("read", 230, 240)]
    (port,) = (link for link in trace.links if link.name == "ps 0 up")
    assert port.moved == 40 * 6


def test_what_one_that_dies_gave_before_counts() -> None:
    # 0 gave one at 100 ms and dies at 150: with that of 1, at 200 ms, it makes an update. 0 is back
    # at 250 ms and has computed at 350; with that of 1 at 400 ms it makes the next.
    trace = run(
        {"kind": "k_batch_sync", "k": 2},
        **SPEEDS,
        events=(kill(0.15, 0), restart(0.25, 0)),
        stop={"time": 0.42},
    )
    assert updates(trace) == [(200, [0, 1]), (400, [0, 1])]
    (lost,) = (row for row in gradient_rows(trace) if row.outcome == LOST)
    assert (lost.worker, lost.compute_start / MS, lost.applied / MS) == (0, 100, 150)


@pytest.mark.parametrize("cluster", [{}, UPDATE])
def test_k_batch_sync_of_one_is_k_sync_of_one(cluster: dict[str, Any]) -> None:
    shared = {**RANDOM, "cluster": {**RANDOM["cluster"], **cluster}}
    one = run({"kind": "k_batch_sync", "k": 1}, **shared)
    first = run({"kind": "backup_workers", "replicas_to_aggregate": 1}, **shared)
    assert one.steps.tolist() == first.steps.tolist()
    assert [row.loss for row in one.evaluations] == [row.loss for row in first.evaluations]


def test_more_than_there_are_workers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"k 4 is more than there are workers \(3\)"):
        scenario({"kind": "k_async", "k": 4})
