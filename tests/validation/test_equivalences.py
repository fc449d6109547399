"""Identities between runs of one scenario: that they hold, and that they would not just anyhow."""

from typing import Any

import numpy as np
import pytest

from tests.building import scenario
from validation.equivalences import identities
from validation.equivalences.findings import findings
from validation.equivalences.scaling import stretched
from validation.equivalences.trials import distance
from validation.finding import Verdict
from varsim import Scenario
from varsim.values.gradient import Gradients

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


def test_they_hold_where_only_strategies_have_optimizers() -> None:
    own = {"kind": "none", "optimizer": {"kind": "momentum", "learning_rate": 0.05}}
    found = findings(scenario(own, problem=PROBLEMS["quadratic"], workload={"optimizer": None}))
    assert {one.verdict for one in found} == {Verdict.PASS}


def test_they_hold_beside_strategies_that_put_more_gradients_into_an_update() -> None:
    found = findings(made(strategies=({"kind": "none"}, {"kind": "on_write"})))
    assert {one.verdict for one in found} == {Verdict.PASS}


def test_what_says_nothing_is_named_with_the_reason() -> None:
    found = findings(made("embedding"))
    (sparse,) = [one for one in found if one.verdict is Verdict.OUT_OF_SCOPE]
    assert sparse.group == "sync_replicas equals on_write"
    assert "each row" in sparse.why


def test_what_a_strategy_does_not_use_is_left_out_of_its_trial() -> None:
    # `single` has no servers, whose link would have no effect.
    network = {"bandwidth": 1e9, "latency": 1e-3, "server_bandwidth": 5e8}
    found = findings(made(network=network))
    assert {one.verdict for one in found} == {Verdict.PASS}


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


def test_distance_is_relative_to_the_largest() -> None:
    one = (np.array([4.0, 2.0]), np.array([1.0]))
    other = (np.array([4.0, 2.0]), np.array([1.5]))
    assert distance(one, one) == 0
    assert distance(one, other) == 0.125


class TestStretched:
    def test_times_and_rates(self) -> None:
        before = made(cluster={"overheads": {"pull": 2e-3, "payload": 1e9}})
        after = stretched(before, 4)
        assert after.cluster.overheads is not None
        assert after.cluster.overheads.pull == 0.008
        assert after.cluster.overheads.payload == 0.25e9
        assert after.cluster.network.delay == 4 * before.cluster.network.delay
        assert after.cluster.network.worker_rate == before.cluster.network.worker_rate / 4
        assert after.cluster.workers == before.cluster.workers

    def test_a_preset_becomes_numbers(self) -> None:
        before = made(network={"preset": "pcie_3_x16"})
        after = stretched(before, 2)
        assert after.cluster.network.preset is None
        assert after.cluster.network.worker_rate == before.cluster.network.worker_rate / 2
        assert after.cluster.network.delay == 2 * before.cluster.network.delay
