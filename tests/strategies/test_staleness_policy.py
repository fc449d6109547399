"""Staleness policies: what becomes of stale gradients, worked out by hand."""

from typing import Any

import numpy as np
import pytest

from tests.building import APPLIED, DROPPED, MS, gradient_rows, life, losses, run, scenario, slow
from tests.seams import Trace
from varsim.values.gradient_form import IndexedSlices
from varsim.values.staleness import DelayCompensated, InverseStaleness

# Workers of 100 and 250 ms; nothing takes time to send.
TWO: dict[str, Any] = {
    "cluster": {"workers": 2, "slow_workers": (slow(1, 2.5),)},
    "stop": {"time": 0.45},
}
DROP: dict[str, Any] = {"staleness_policy": {"kind": "drop_above", "staleness": 0}}
RANDOM: dict[str, Any] = {
    "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
    "problem": {"kind": "quadratic", "noise": 0.1},
    "stop": {"global_steps": 40},
}
EVERY = [{"kind": "none"}, {"kind": "ssp", "staleness": 3}, {"kind": "k_async", "k": 2},
         {"kind": "k_batch_async", "k": 2}]  # fmt: skip
kinds = pytest.mark.parametrize("strategy", EVERY, ids=lambda one: one["kind"])


def story(trace: Trace) -> list[tuple[int, float, bool]]:
    """Of every gradient whose it was, when it had been computed (ms), and whether it was used."""
    rows = [row for row in gradient_rows(trace) if row.outcome in (APPLIED, DROPPED)]
    return [(row.worker, row.computed / MS, row.outcome == APPLIED) for row in rows]


@pytest.mark.parametrize("strategy", [{"kind": "none"}, {"kind": "none", "use_locking": True},
                                      {"kind": "k_batch_async", "k": 1},
                                      {"kind": "k_async", "k": 1}])  # fmt: skip
def test_a_stale_gradient_makes_no_update(strategy: dict[str, Any]) -> None:
    # At 250 ms 1 has a gradient of values from before two updates. It reads and goes on at once.
    trace = run({**strategy, **DROP}, **TWO)
    assert story(trace) == [
        *((0, 100, True), (0, 200, True), (1, 250, False), (0, 300, True), (0, 400, True)),
    ]
    assert [int(time) / MS for time in trace.steps] == [100, 200, 300, 400]
    assert life(trace, 1) == [("compute", 0, 250), ("compute", 250, 450)]


def test_an_iteration_in_vain_is_an_iteration_on_the_clock() -> None:
    # One ahead: 0 has its second at 200 ms and waits for 1, at 250 ms, though that is dropped.
    trace = run({"kind": "ssp", "staleness": 1, **DROP}, **TWO)
    assert story(trace)[:4] == [(0, 100, True), (0, 200, True), (1, 250, False), (0, 350, True)]
    assert life(trace, 0)[2] == ("barrier", 200, 250)


def test_who_gave_a_stale_gradient_does_not_wait_for_an_update_with_it() -> None:
    # 100, 100 and 250 ms, two of them: 2 comes at 250 ms, stale by two, and begins anew at once.
    trace = run(
        {"kind": "k_async", "k": 2, **DROP},
        cluster={"slow_workers": (slow(2, 2.5),)},
        stop={"time": 0.35},
    )
    assert story(trace)[-3:] == [(2, 250, False), (0, 300, True), (1, 300, True)]
    assert [phase for phase, _, _ in life(trace, 2)] == ["compute", "compute"]


@kinds
def test_nothing_staler_than_the_bound_is_applied(strategy: dict[str, Any]) -> None:
    for bound in (0, 1, 2):
        policy = {"kind": "drop_above", "staleness": bound}
        rows = gradient_rows(run({**strategy, "staleness_policy": policy}, **RANDOM))
        used = [row.applied_step - row.read_step for row in rows if row.outcome == APPLIED]
        vain = [row.applied_step - row.read_step for row in rows if row.outcome == DROPPED]
        assert max(used) <= bound < min(vain, default=bound + 1)


@kinds
def test_what_never_acts_changes_nothing(strategy: dict[str, Any]) -> None:
    plain = run(strategy, **RANDOM)
    for policy in (
        {"kind": "none"},
        {"kind": "drop_above", "staleness": 1000},
        {"kind": "delay_compensated", "variance_control": 0.0},
    ):
        other = run({**strategy, "staleness_policy": policy}, **RANDOM)
        assert other.gradients.tolist() == plain.gradients.tolist()
        assert losses(other) == losses(plain)


def test_a_rate_is_divided_by_two_or_more() -> None:
    for staleness, expected in ((0, 6.0), (1, 6.0), (2, 3.0), (3, 2.0)):
        found = InverseStaleness().adjusted(np.full(1, 6.0), staleness, np.ones(1), np.ones(1))
        assert found.tolist() == [expected]  # type: ignore[union-attr]


def test_of_a_sparse_gradient_only_its_rows_change() -> None:
    now, read = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [1.0], [1.0]])
    sparse = IndexedSlices(np.array([2, 0, 2]), np.array([[1.0], [4.0], [2.0]]))
    policy = DelayCompensated(variance_control=0.5)
    found = policy.adjusted(sparse, 1, now, read)
    assert isinstance(found, IndexedSlices)
    # Row 2: 1 + 2 = 3, and 3 + 0.5 x 9 x (3 - 1) = 12; row 0 was not updated.
    assert (found.indices.tolist(), found.values.tolist()) == ([0, 2], [[4.0], [12.0]])
    halved = InverseStaleness().adjusted(sparse, 2, now, read)
    assert isinstance(halved, IndexedSlices)
    assert halved.dense((3, 1)).tolist() == [[2.0], [0.0], [1.5]]


@pytest.mark.parametrize(
    ("strategy", "changes", "said"),
    [
        ({"staleness_policy": {"kind": "inverse"}}, {"optimizer": {"kind": "adam"}},
         "inverse goes with plain sgd only, not adam"),
        ({"staleness_policy": {"kind": "inverse"}},
         {"problem": {"kind": "timing"}, "workload": {"model": "resnet50", "optimizer": None}},
         "inverse has no effect: problem timing has no values"),
        ({"kind": "ssp", "staleness": 1, "refresh": "when_stale", **DROP}, {},
         "drop_above does not go with refresh: when_stale"),
        ({"staleness_policy": {"kind": "drop_above", "staleness": -1}}, {}, "greater than or"),
        ({"kind": "backup_workers", "replicas_to_aggregate": 2, **DROP}, {}, "Extra inputs"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    strategy: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        scenario({"kind": "none", **strategy}, **changes)
