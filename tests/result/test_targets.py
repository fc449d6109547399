"""Targets: which strategies meet them, and what is said of those that do not."""

import math

import pytest

from tests.building import scenario
from varsim.report.words.targets import sentences
from varsim.study.result import Result
from varsim.study.simulation import simulate
from varsim.study.statistics import one_sided

EXPONENTIAL = {"compute": {"kind": "exponential", "mean": 0.1}}


def result(strategies: tuple[dict[str, object], ...], **changes: object) -> Result:
    return simulate(scenario({}, **{"strategies": strategies, **changes}))


def met(found: Result) -> dict[tuple[str, str], bool]:
    return {(one.target, one.strategy): one.met for one in found.judgements}


def test_one_sided_interval() -> None:
    # Mean 3, standard error sqrt(2.5 / 5); t of 95 % with 4 degrees of freedom is 2.13185.
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert one_sided(values, lower=True) == pytest.approx(3 - 2.13185 * math.sqrt(0.5), abs=1e-5)
    assert one_sided(values, lower=False) == pytest.approx(3 + 2.13185 * math.sqrt(0.5), abs=1e-5)
    assert one_sided([2.5], lower=True) == 2.5
    assert one_sided([2.0, 2.0], lower=False) == 2.0
    assert math.isnan(one_sided([1.0, math.nan], lower=True))


def test_each_strategy_meets_or_misses_each() -> None:
    # Three workers of 100 ms: mirrored 30 examples/s; alone 10. Nothing is wasted or stale.
    targets = {"throughput": 20.0, "wasted": 0.0, "staleness_p99": 0.0, "step_time_p99": 0.1}
    found = result(({"kind": "on_write"}, {"kind": "single"}), targets=targets)
    assert met(found) == {
        ("throughput", "on_write"): True,
        ("throughput", "single"): False,
        ("wasted", "on_write"): True,
        ("wasted", "single"): True,
        ("staleness_p99", "on_write"): True,
        ("staleness_p99", "single"): True,
        ("step_time_p99", "on_write"): True,
        ("step_time_p99", "single"): True,
    }
    assert sentences(found)[:2] == [
        "Target throughput at least 20 examples/s: met by on_write (30 examples/s).",
        "Target throughput at least 20 examples/s: missed by single (10 examples/s).",
    ]
    assert sentences(found)[0] in found.answer()


def test_a_bound_inside_the_interval_is_missed_and_said_to_be_open() -> None:
    settings = {"cluster": EXPONENTIAL, "replications": 4, "stop": {"global_steps": 50}}
    rate = result(({"kind": "on_write"},), **settings).estimate("on_write", "examples_per_s")
    for bound, reached in ((rate.mean - 1e-3, False), (rate.low, True)):
        found = result(({"kind": "on_write"},), targets={"throughput": bound}, **settings)
        assert met(found)["throughput", "on_write"] is reached
        assert ("more replications may decide" in sentences(found)[0]) is not reached


def test_a_loss_that_is_never_reached_is_a_target_missed() -> None:
    targets = {"loss": 1e-9, "time_to_loss": 10.0}
    found = result(({"kind": "on_write"},), targets=targets)
    assert not met(found)["time_to_loss", "on_write"]
    assert sentences(found) == [
        "Target time to loss 1e-09 at most 10 s at learning rate 0.1: missed by on_write "
        "(not reached in every replication)."
    ]


def test_who_stands_still_misses() -> None:
    events = ({"at": 0.25, "kill": {"worker": 0}},)
    found = result(({"kind": "on_write"},), events=events, targets={"wasted": 0.5})
    assert not met(found)["wasted", "on_write"]
    assert "on_write (stands still)" in sentences(found)[0]


def test_a_time_to_no_loss_is_refused() -> None:
    with pytest.raises(ValueError, match=r"targets\.time_to_loss needs targets\.loss"):
        scenario({"kind": "on_write"}, targets={"time_to_loss": 10.0})
    with pytest.raises(ValueError, match="problem timing has no loss"):
        scenario(
            {"kind": "on_write"},
            problem={"kind": "timing", "size": 1e6},
            workload={"optimizer": None},
            targets={"time_to_loss": 10.0},
        )
