"""Staleness policies: what becomes of stale gradients, worked out by hand."""

from typing import Any

import pytest

from tests.building import APPLIED, DROPPED, gradient_rows, losses, run, scenario

DROP: dict[str, Any] = {"staleness_policy": {"kind": "drop_above", "staleness": 0}}
RANDOM: dict[str, Any] = {
    "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
    "problem": {"kind": "quadratic", "noise": 0.1},
    "stop": {"global_steps": 40},
}
EVERY = [{"kind": "none"}, {"kind": "ssp", "staleness": 3}, {"kind": "k_async", "k": 2},
         {"kind": "k_batch_async", "k": 2}]  # fmt: skip
kinds = pytest.mark.parametrize("strategy", EVERY, ids=lambda one: one["kind"])


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


@pytest.mark.parametrize(
    ("strategy", "changes", "said"),
    [
        ({"staleness_policy": {"kind": "inverse"}}, {"optimizer": {"kind": "adam"}},
         "inverse goes with plain sgd only, not adam"),
        ({"staleness_policy": {"kind": "inverse"}},
         {"problem": {"kind": "timing"}, "workload": {"model": "resnet50", "optimizer": None}},
         "inverse has no effect: problem timing has no values"),
        ({"kind": "ssp", "staleness": 1, "refresh": "when_stale", **DROP}, {},
         "drop_above does not go with refresh when_stale"),
        ({"staleness_policy": {"kind": "drop_above", "staleness": -1}}, {}, "greater than or"),
        ({"kind": "backup_workers", "replicas_to_aggregate": 2, **DROP}, {}, "Extra inputs"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    strategy: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        scenario({"kind": "none", **strategy}, **changes)
