"""K-async, K-batch-async, K-batch-sync: times by hand, and what they are with K 1."""

from typing import Any

import pytest

from tests.building import (
    NO_TIME,
    run,
    scenario,
)

RANDOM: dict[str, Any] = {
    "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
    "problem": {"kind": "quadratic", "noise": 0.1},
    "stop": {"time": 5.0},
}
# 40 bytes hold a link for 10 ms.
WIRE: dict[str, Any] = {"bandwidth": 4e3, "latency": 1e-3, "sharing": "first_come"}
UPDATE = {"server_update": {"time": {"kind": "constant", "value": 0.01}}}


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
