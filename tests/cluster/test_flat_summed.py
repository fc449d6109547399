"""Gradients that servers add up (collective push_pull), on the engine for times alone."""

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import pytest
import tying
from pydantic import ValidationError
from tying import COMPILED, leave_often, same_on_both

from varsim.cluster.flat.replicas import reduce_on
from varsim.cluster.flat.rules import ENGINE
from varsim.cluster.flat.summed import SummedRun
from varsim.scenario.training import Scenario
from varsim.strategies.on_write import OnWrite
from varsim.study.engine import flat_run, machine_code_saves, picks_fast, reason_against

pytestmark = pytest.mark.usefixtures("compared_with_simpy")


compare = partial(same_on_both, kind=SummedRun)

NETWORKS: dict[str, dict[str, Any]] = {
    "star": {"kind": "star", "latency": 0.001},
    "at once": {"kind": "star", "latency": 0.0},
    "racks": {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 2.0, "latency": 0.001},
    "nodes": {
        "kind": "nodes",
        "workers_per_node": 3,
        "nics": 1,
        "latency": 0.0,
        "inside": {"bandwidth": 2000.0, "latency": 0.001},
        "message_overhead": 0.001,
    },
    "ring": {"kind": "ring", "latency": 0.001},
    "full mesh": {"kind": "full_mesh", "latency": 0.001},
    "slow": {"kind": "star", "latency": 0.0, "slow_links": ({"rank": 2, "factor": 3.0},)},
}
NETWORKS |= {f"fair {name}": {**network, "sharing": "fair"} for name, network in NETWORKS.items()}
SERVERS: dict[str, dict[str, Any]] = {
    "one": {},
    "parts": {"parameter_servers": 2, "placement": "partitioned"},
    "beside": {"parameter_servers": 2, "servers_on": "workers"},
    "cut": {
        "parameter_servers": 2,
        "placement": "round_robin",
        "partitioner": {"kind": "fixed", "shards": 2},
    },
}
CLUSTERS: dict[str, dict[str, Any]] = {
    **tying.CLUSTERS,
    "overheads": {"overheads": {"first_iteration": 0.001}, "optimizer_time": 0.001},
}
LAW = {"kind": "exponential", "mean": 0.002}
UPDATES: list[dict[str, Any]] = [
    {},
    {"server_update": {"time": {"kind": "constant", "value": 0.001}}},
    {"server_update": {"rate": 3000.0, "threads": 2}},
    {"server_update": {"time": LAW, "rate": 6000.0}},
    {"server_update": {"time": LAW, "threads": 3}},
]
DROP: dict[str, Any] = {"micro_batches": 3, "drop_compute": {"threshold": 0.011}}
STRATEGIES: list[dict[str, Any]] = [
    {},
    {"overlap": True},
    {"micro_batches": 2},
    {"micro_batches": 2, "overlap": True},
    DROP,
    {**DROP, "overlap": True},
    {"micro_batches": 2, "drop_compute": {"threshold": 0.006, "check": "preempt"}},
]


def tied(
    strategy: dict[str, Any],
    network: str = "star",
    stop: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
    **cluster: Any,
) -> Scenario:
    """Much happens at once, on a network of NETWORKS."""
    links = {"bandwidth": 1000.0, "sharing": "first_come", **NETWORKS[network], **(more or {})}
    return tying.tied({"collective": "push_pull", **strategy}, stop, network=links, **cluster)


def drawn(seed: int) -> Scenario:
    """A random scenario of such sums."""
    source = random.Random(seed)
    while True:
        servers = source.randint(1, 4)
        means = {"mean": source.uniform(0.001, 0.02)}
        batches = source.randint(1, 3)
        strategy: dict[str, Any] = {"micro_batches": batches}
        if source.random() < 0.5:
            strategy["overlap"] = True
        elif batches > 1 and source.random() < 0.5:
            check = source.choice(("between", "preempt"))
            threshold = source.uniform(0.5, 2.5) * means["mean"]
            strategy["drop_compute"] = {"threshold": threshold, "check": check}
        cluster = {
            "workers": source.randint(1, 8),
            "compute": {"kind": source.choice(("exponential", "constant")), **means},
            "parameter_servers": servers,
            "placement": source.choice(("partitioned", "round_robin", "by_bytes")),
            "servers_on": source.choice(("dedicated", "dedicated", "workers")),
        }
        if cluster["compute"]["kind"] == "constant":
            cluster["compute"] = {"kind": "constant", "value": means["mean"]}
        if cluster["placement"] != "partitioned" and servers > 1 and source.random() < 0.5:
            shards = source.randint(2, 5)
            cluster["partitioner"] = {"kind": "fixed", "shards": shards}
        more = ["slow_workers", "overheads", "optimizer_time"]
        for key in source.sample(more, source.randint(0, 3)):
            cluster |= {
                one: value
                for also in CLUSTERS.values()
                for one, value in also.items()
                if one == key
            }
        cluster |= source.choice(UPDATES)
        network = source.choice(list(NETWORKS))
        stop = {"global_steps": source.randint(1, 6)}
        if source.random() < 0.3:
            stop = {"time": source.uniform(0.01, 0.5)}
        links = {"bandwidth": source.uniform(300.0, 5000.0), "latency": source.uniform(0, 0.01)}
        with suppress(ValidationError):
            return tied(strategy, network, stop, links, **cluster)


def compare_drawn(seeds: Iterable[int], *, interpreted: bool) -> Counter[str]:
    """Make random scenarios on both engines; of which kind they were."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        scenario = drawn(seed)
        compare(scenario, interpreted=interpreted)
        compare(scenario, events=20 + seed % 150, interpreted=interpreted)
        cluster, (strategy,) = scenario.cluster, scenario.strategies
        assert isinstance(strategy, OnWrite)
        network = cluster.network
        seen.update([network.kind, network.sharing, cluster.placement, f"on {cluster.servers_on}"])
        seen["overheads of fair messages"] += network.sharing == "fair" and bool(
            network.message_overhead
        )
        seen["several servers"] += cluster.parameter_servers > 1
        seen["partitioner"] += cluster.partitioner is not None
        seen["overlap"] += strategy.overlaps
        update = cluster.server_update
        seen["random updates"] += update is not None and update.is_random
        seen["drop"] += strategy.drop_compute is not None
    return seen


def test_random_scenarios_are_the_same() -> None:
    seen = compare_drawn(range(60), interpreted=True)

    assert min(seen["star"], seen["several servers"], seen["overlap"]) > 10, seen
    assert min(seen["racks"], seen["nodes"], seen["ring"], seen["drop"]) > 2, seen
    assert seen["random updates"] > 5, seen


@pytest.mark.slow
@pytest.mark.parametrize("interpreted", [True, COMPILED])
def test_two_thousand_random_scenarios_are_the_same(interpreted: bool) -> None:
    seen = compare_drawn(range(60, 2060), interpreted=interpreted)

    assert min(seen["racks"], seen["nodes"], seen["ring"], seen["drop"]) > 50, seen


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_it_ends_at_any_moment_and_after_any_number_of_events_alike(
    strategy: dict[str, Any], network: str
) -> None:
    for number, servers in enumerate(SERVERS.values()):
        for also, update in product(CLUSTERS.values(), (UPDATES[0], UPDATES[1 + number])):
            cluster = {**servers, **also, **update}
            if strategy.get("overlap"):
                cluster["backward_share"] = 0.5
            for events in range(1 + number, 300, 83):
                compare(tied(strategy, network, **cluster), events=events)
            for moment in (1, 17, 38, 90):
                compare(tied(strategy, network, {"time": moment * 1e-3}, **cluster))
            compare(tied(strategy, network, {"examples": 40}, **cluster))


def test_it_draws_again_and_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is often read, and there is more on its way than there is room for."""
    monkeypatch.setattr("varsim.cluster.flat.run._MOST_KEPT", 100)
    monkeypatch.setattr("varsim.cluster.flat.summed._MESSAGES", 0)
    law = {"kind": "exponential", "mean": 0.01}
    for strategy in STRATEGIES[:4]:
        compare(tied(strategy, "racks", {"global_steps": 150}, compute=law))
        update = {"server_update": {"time": LAW}, **SERVERS["parts"]}
        compare(tied(strategy, "racks", {"global_steps": 150}, compute=law, **update))


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_machine_code_gives_the_same() -> None:
    for strategy in STRATEGIES:
        for network in NETWORKS:
            for servers in SERVERS.values():
                compare(tied(strategy, network, **servers), interpreted=False)
        for update in UPDATES:
            compare(tied(strategy, **SERVERS["parts"], **update), interpreted=False)


@pytest.mark.parametrize("few", [1, 7, 1000])
def test_it_is_the_same_however_often_the_loop_is_left(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = leave_often(monkeypatch, few, reduce_on)
    for strategy in STRATEGIES:
        trace = compare(tied(strategy, "racks"))
        assert len(left) > 0.9 * trace.heap_events // few  # some are not served before it ends
        left.clear()


def test_messages_that_are_stored_on_the_way_are_not_covered() -> None:
    scenario = tied({}, "racks", more={"forwarding": "store_and_forward"})

    reason = reason_against(scenario, scenario.strategies[0])
    assert reason == "the network forwards with store_and_forward"


def test_it_is_chosen_where_it_is_worth_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tensors are six messages of a worker, each for half a gradient; for 1.5 of a mesh."""
    monkeypatch.setattr("varsim.study.engine.can_compile", lambda: True)
    monkeypatch.setenv(ENGINE, "auto")
    turns = {"parameter_servers": 2, "placement": "round_robin"}
    for micro_batches, network, servers, saved in (
        (1, "star", {}, 4.0),
        (2, "star", {}, 2.5),
        (2, "fair star", SERVERS["parts"], 2.5),
        (2, "fair star", turns, 5.5),
        (1, "fair racks", {}, 10.0),
    ):
        scenario = tied({"micro_batches": micro_batches}, network, **servers)
        (strategy,), gradients = scenario.strategies, 30 * micro_batches
        assert machine_code_saves(scenario, strategy) == saved
        for short, picked in ((0, True), (1, False)):
            worth = round(gradients * saved) + short
            monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _, w=worth: w)
            assert picks_fast(scenario, strategy) is picked
    assert isinstance(flat_run(scenario, strategy, 0), SummedRun)


def test_two_workers_share_a_port_by_hand() -> None:
    """Two workers compute for 6 ms, and send 12 bytes each over links of 1 byte/ms.

    Both are pushed from 6 to 30 ms, at half the pace; the sum is pulled by both from 30 to 54 ms.
    """
    layers = ({"backward": 1.0, "size": 12.0},)
    workload = {"problem": {"kind": "timing"}, "layers": layers}
    network = {**NETWORKS["fair at once"], "bandwidth": 1000.0}
    strategy = {"collective": "push_pull"}
    scenario = tying.tied(strategy, {"global_steps": 2}, workload, workers=2, network=network)
    trace = compare(scenario)

    assert trace.steps.tolist() == [54_000_000, 108_000_000]


def test_two_tensors_by_hand() -> None:
    """One worker computes for 6 ms, and sends 12, 6 and 18 bytes over links of 1 byte/ms.

    The last tensor goes first: it is pushed from 6 to 24 ms, and pulled from 24 to 42 ms. The one
    before is pushed from 24 to 30 ms, and pulled from 42 to 48 ms; the first one from 30 to 42 ms,
    and from 48 to 60 ms.
    """
    scenario = tied({}, "at once", {"global_steps": 2}, workers=1)
    trace = compare(scenario)

    assert trace.steps.tolist() == [60_000_000, 120_000_000]
