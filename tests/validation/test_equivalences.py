"""Identities between runs of one scenario: that they hold, and that they would not just anyhow."""

from typing import Any

import pytest

from tests.building import scenario
from validation import identities
from validation.finding import Verdict
from validation.identities import findings
from varsim import Scenario
from varsim.learning.gradient import Gradients

PROBLEMS: dict[str, dict[str, Any]] = {
    "quadratic": {"kind": "quadratic", "dimension": 6, "noise": 0.3},
    "digits": {"kind": "digits", "model": "softmax"},
    "embedding": {"kind": "embedding"},
}


def made(problem: str = "quadratic", **changes: Any) -> Scenario:
    network = {"bandwidth": 1e9, "latency": 1e-3}
    return scenario(
        {"kind": "none"}, **{"problem": PROBLEMS[problem], "network": network, **changes}
    )


@pytest.mark.parametrize("problem", PROBLEMS)
def test_they_hold(problem: str) -> None:
    found = findings(made(problem))
    misses = [one for one in found if one.verdict is Verdict.MISS]
    assert not misses
    assert len({one.group for one in found}) == len(identities.IDENTITIES)
    assert sum(one.verdict is Verdict.PASS for one in found) >= 15


def test_what_says_nothing_is_named_with_the_reason() -> None:
    found = findings(made("embedding"))
    (sparse,) = [one for one in found if one.verdict is Verdict.OUT_OF_SCOPE]
    assert sparse.group == "sync_replicas equals on_write"
    assert "each row" in sparse.why


def test_rounded_gradients_are_not_those_of_a_device_alone() -> None:
    workload = {"gradient_precision": "fp16", "round_gradients": True}
    found = findings(made(workload=workload))
    left_out = {one.group: one.why for one in found if one.verdict is Verdict.OUT_OF_SCOPE}
    assert set(left_out) == {"staleness 0 is synchronous", "n workers are one big batch"}
    assert all("rounded before they are sent" in why for why in left_out.values())
    assert not [one for one in found if one.verdict is Verdict.MISS]


def test_a_difference_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    mean = Gradients.mean

    def off_at_servers(self: Any, *args: Any, by_row: bool = False) -> Any:
        return mean(self, *args, by_row=by_row) + (1e-9 if by_row else 0.0)

    monkeypatch.setattr(Gradients, "mean", off_at_servers)
    missed = {one.group for one in findings(made()) if one.verdict is Verdict.MISS}
    assert missed == {"sync_replicas equals on_write"}
