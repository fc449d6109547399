"""Account without a cause: exact where times are constant, and parts that add up to the step."""

import math

import numpy as np
import pytest

from tests.building import example, scenario, slow
from tests.why.hand import saturated, timed
from varsim.scenario.training import Scenario
from varsim.strategies import STRATEGIES
from varsim.study.gradients import times_only
from varsim.study.simulation import Run, run_one
from varsim.study.why.account import Account
from varsim.study.why.levers import alone


def rerun(made: Scenario) -> Account:
    return Account(alone(made, 0))


def gains(reruns: Account) -> dict[str, float]:
    """How long a step is (ms) without each cause."""
    return {gain.key: gain.step_time.mean * 1e3 for gain in reruns.gains}


def parts(reruns: Account) -> dict[str, float]:
    """What each cause takes of a step (ms)."""
    return {part.key: part.seconds.mean * 1e3 for part in reruns.parts}


def test_without_the_straggler_a_step_is_as_long_as_the_others_need() -> None:
    reruns = rerun(scenario({"kind": "on_write"}, cluster={"slow_workers": (slow(2, 2.0),)}))
    assert reruns.step_time.mean == pytest.approx(0.2)
    assert gains(reruns) == pytest.approx(
        {"stragglers": 100, "bandwidth": 200, "compute": 0}, abs=1e-3
    )
    assert parts(reruns) == pytest.approx(
        {"bandwidth": 0, "stragglers": 100, "compute": 100, "rest": 0}, abs=1e-3
    )


def test_the_port_of_the_server_is_worth_what_it_makes_workers_wait() -> None:
    # 40 updates take 300 ms + 39 x 100 ms = 4.2 s: 420 ms for four of them. With free servers
    # every worker needs 300 ms, with a free network 100 ms, without compute the port is as full.
    reruns = rerun(saturated())
    assert reruns.asynchronous
    assert reruns.step_time.mean == pytest.approx(0.42)
    found = gains(reruns)
    assert found == pytest.approx(
        {"server": 300, "bandwidth": 100, "links": 420, "compute": 410}, abs=1e-3
    )
    assert parts(reruns) == pytest.approx(
        {"server": 120, "bandwidth": 200, "compute": 100, "rest": 0}, abs=1e-3
    )


def test_where_messages_are_short_it_is_the_latency() -> None:
    # A ring of 2 sends twice, each time 10 ms after what was sent; 8 bytes take 4 ns a piece.
    network = {"bandwidth": 1e9, "latency": 0.01}
    reruns = rerun(timed("on_write", 8, cluster={"workers": 2}, network=network))
    assert parts(reruns) == pytest.approx(
        {"bandwidth": 8e-6, "latency": 20, "compute": 100, "rest": 0}, abs=1e-6
    )


def test_the_latency_of_uplinks_goes_with_that_of_links() -> None:
    # A ring of 2 in two racks: 10 ms in a rack, 5 ms more between them, twice.
    racks = {"kind": "racks", "hosts_per_rack": 1, "oversubscription": 1.0}
    network = {"bandwidth": 1e9, "latency": 0.01, "uplink_latency": 0.005, **racks}
    reruns = rerun(timed("on_write", 8, cluster={"workers": 2}, network=network))
    assert parts(reruns) == pytest.approx(
        {"uplinks": 0, "bandwidth": 8e-6, "latency": 30, "compute": 100, "rest": 0}, abs=1e-6
    )
    no_other = {**network, "latency": 0.0}
    only = rerun(timed("on_write", 8, cluster={"workers": 2}, network=no_other))
    assert parts(only)["latency"] == pytest.approx(10)


@pytest.mark.parametrize("uplink", [{"oversubscription": 4.0}, {"uplink_bandwidth": 5e8}])
def test_uplinks_of_racks_are_a_cause_of_their_own(uplink: dict[str, float]) -> None:
    # Recursive doubling of 4 in racks of 2: 100 ms in the racks, then two messages of 100 MB at
    # 0.5 GB/s, which take 400 ms, and 100 ms with unlimited uplinks.
    network = {"kind": "racks", "hosts_per_rack": 2, "bandwidth": 1e9, "latency": 0.0, **uplink}
    described = {"kind": "on_write", "collective": "recursive_doubling"}
    reruns = rerun(timed(described, cluster={"workers": 4}, network=network))
    assert parts(reruns) == pytest.approx(
        {"uplinks": 300, "bandwidth": 200, "compute": 100, "rest": 0}, abs=1e-3
    )
    assert gains(reruns)["uplinks"] == pytest.approx(300)


def test_where_nobody_waits_only_whole_rounds_of_all_workers_are_counted() -> None:
    # 4 workers of 100 ms at a time: of 6 updates 4 come at 100 ms, 2 at 200 ms.
    network = {"bandwidth": 1e18, "latency": 0.0}
    reruns = rerun(timed("none", cluster={"workers": 4}, network=network, stop={"global_steps": 6}))
    assert reruns.asynchronous
    assert reruns.step_time.mean == pytest.approx(0.1)
    few = rerun(timed("none", cluster={"workers": 4}, network=network, stop={"global_steps": 3}))
    assert few.step_time.mean == pytest.approx(0.4 / 3)


def test_what_servers_do_is_taken_away_with_their_ports() -> None:
    # One worker: a read and a push of 100 ms each, handled in 5 ms and 3 ms.
    overheads = {"pull": 0.005, "push": 0.003}
    reruns = rerun(timed("none", cluster={"workers": 1, "overheads": overheads}))
    assert reruns.step_time.mean == pytest.approx(0.308)
    assert parts(reruns)["server"] == pytest.approx(8)


def test_what_is_not_there_is_not_taken_away() -> None:
    assert [lever.key for lever in rerun(scenario({"kind": "single"})).levers] == ["compute"]
    served = rerun(timed("none", cluster={"slow_workers": (slow(0, 2.0),)}))
    assert [lever.key for lever in served.levers] == [
        *("server", "bandwidth", "stragglers", "compute"),
    ]


@pytest.mark.parametrize("kind", [kind for kind in STRATEGIES if kind != "single"])
def test_parts_add_up_to_the_step_in_every_replication(kind: str) -> None:
    cluster = {
        "compute": {"kind": "exponential", "mean": 0.1},
        "slow_workers": (slow(1, 3.0),),
        "overheads": {"first_iteration": 0.01},
    }
    network = {"bandwidth": 1e9, "latency": 1e-3}
    reruns = rerun(
        timed(example(kind), cluster=cluster, network=network, stop={"time": 30.0}, replications=3)
    )
    total = math.fsum(part.seconds.mean for part in reruns.parts)
    assert total == pytest.approx(reruns.step_time.mean, rel=1e-12)
    assert reruns.replications == 3


def test_counterfactuals_meet_the_same_draws() -> None:
    # A step lasts as long as the slowest draw of the three, with or without a network.
    cluster = {"compute": {"kind": "exponential", "mean": 0.1}}
    free = rerun(scenario({"kind": "on_write"}, cluster=cluster))
    slowed = rerun(timed("on_write", 75e6, cluster=cluster))
    (without,) = [gain for gain in slowed.gains if gain.key == "bandwidth"]
    assert without.step_times == pytest.approx(free.base, rel=1e-9)


def test_a_cluster_of_its_own_is_that_of_its_strategy() -> None:
    described = {"kind": "none", "on": {"parameter_servers": 4}}
    # Four ports: every worker has one to itself most of the time.
    assert rerun(saturated(strategies=(described,))).step_time.mean < 0.42
    assert alone(saturated(strategies=(described,)), 0).cluster.parameter_servers == 4


def test_one_that_stands_still_is_told_as_such() -> None:
    made = scenario(
        {"kind": "on_write"},
        events=({"at": 0.05, "kill": {"worker": 1}},),
        stop={"time": 10.0},
    )
    assert rerun(made).stuck
    assert Account(alone(made, 0)).stuck


@pytest.mark.parametrize("kind", ["on_write", "on_read", "none"])
def test_only_times_are_the_same_times(kind: str) -> None:
    cluster = {"compute": {"kind": "exponential", "mean": 0.1}}
    made = scenario({"kind": kind}, cluster=cluster, stop={"global_steps": 30})
    valued, timed_only = (run_one(Run(each, 0, 0)) for each in (made, times_only(made)))
    assert np.array_equal(valued.spans, timed_only.spans)
    assert np.array_equal(valued.gradients, timed_only.gradients)
    assert math.isnan(timed_only.evaluations[-1].loss)
    ends_by_loss = scenario({"kind": kind}, stop={"global_steps": 30, "loss": 0.1})
    assert times_only(ends_by_loss) is ends_by_loss
