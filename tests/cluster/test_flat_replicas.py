"""All-reduces event by event on the engine for times alone: links on which messages meet, drops.

They are of gradients, or of copies that are read.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
import tying
from invariants import drawing
from pydantic import ValidationError
from tying import CLUSTERS, COMPILED, leave_often, same_on_both

from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.reduced import ReducedRun
from varsim.cluster.flat.replicas import reduce_on
from varsim.cluster.flat.rules import ENGINE
from varsim.scenario.training import Scenario
from varsim.strategies.on_read import OnRead
from varsim.strategies.on_write import OnWrite
from varsim.study.engine import flat_run, machine_code_saves, picks_fast, reason_against
from varsim.study.why.levers import times_only

pytestmark = pytest.mark.usefixtures("compared_with_simpy")


compare = partial(same_on_both, kind=ReducedRun)


def met(seed: int) -> Scenario:
    """A random scenario of all-reduces on links that are shared, slow, or relay."""
    for attempt in range(1000):
        with suppress(ValidationError):
            described = drawing.described(f"{seed}/met/{attempt}")
            network = described["cluster"]["network"]
            network["sharing"] = "fair" if seed % 2 else "first_come"
            network.pop("forwarding", None)
            described.pop("events", None)
            scenario = times_only(Scenario.model_validate(described))
            strategies = tuple(
                strategy.model_copy(update={"on": None})
                for strategy in scenario.strategies
                if isinstance(strategy, OnWrite | OnRead) and not reason_against(scenario, strategy)
            )
            scenario = scenario.model_copy(update={"strategies": strategies})
            runs = (flat_run(scenario, one, 0, interpreted=True) for one in strategies)
            if any(isinstance(made, ReducedRun) for made in runs):
                return scenario
    raise AssertionError(f"nothing is drawn for seed {seed}")


def compare_drawn(seeds: Iterable[int], *, interpreted: bool) -> Counter[str]:
    """Make what is made event by event of the scenarios of these seeds; of which kind it was."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        scenario = met(seed)
        for index, strategy in enumerate(scenario.strategies):
            if not isinstance(flat_run(scenario, strategy, 0, interpreted=True), ReducedRun):
                continue
            compare(scenario, index, interpreted=interpreted)
            compare(scenario, index, 20 + seed % 150, interpreted=interpreted)
            overheads, network = scenario.cluster.overheads, scenario.cluster.network
            seen.update([network.kind, network.sharing, strategy.kind])
            seen["slow links"] += bool(network.slow_links)
            if not isinstance(strategy, OnWrite):
                seen["written back"] += strategy.write_back
                continue
            seen[strategy.collective] += 1
            seen["overlap"] += strategy.overlaps
            seen["pace"] += strategy.overlaps and scenario.cluster.overlap_pace is not None
            seen["adding"] += overheads is not None and overheads.reduction is not None
            seen["drop"] += strategy.drop_compute is not None
    return seen


def test_random_scenarios_are_the_same() -> None:
    seen = compare_drawn(range(80), interpreted=True)

    assert min(seen["slow links"], seen["racks"], seen["nodes"], seen["ring"], seen["drop"]) > 5
    assert min(seen["fair"], seen["first_come"]) > 30
    assert min(seen["overlap"], seen["adding"], seen["double_binary_tree"]) > 2
    assert min(seen["on_read"], seen["written back"]) > 2


@pytest.mark.slow
@pytest.mark.parametrize("interpreted", [True, COMPILED])
def test_two_thousand_random_scenarios_are_the_same(interpreted: bool) -> None:
    seen = compare_drawn(range(80, 2080), interpreted=interpreted)

    assert min(seen["slow links"], seen["racks"], seen["nodes"], seen["drop"]) > 200
    assert min(seen["overlap"], seen["pace"], seen["adding"]) > 20
    assert min(seen["on_read"], seen["written back"]) > 100


NETWORKS: dict[str, dict[str, Any]] = {
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
    "fair": {
        **{"kind": "racks", "hosts_per_rack": 2, "uplink_bandwidth": 1500.0, "latency": 0.001},
        **{"sharing": "fair", "message_overhead": 0.001},
    },
    "slow": {"kind": "star", "latency": 0.0, "slow_links": ({"rank": 2, "factor": 3.0},)},
    "apart": {"kind": "star", "latency": 0.001},
}
# Of the ring that reads copies, messages meet nowhere: it is slow links that have them sent.
SLOW: dict[str, dict[str, Any]] = {
    f"slow {name}": {**network, "slow_links": ({"rank": 2, "factor": 3.0},)}
    for name, network in NETWORKS.items()
    if name != "slow"
}


def tied(
    strategy: dict[str, Any],
    network: str = "racks",
    stop: dict[str, Any] | None = None,
    **cluster: Any,
) -> Scenario:
    """The same on a network of NETWORKS."""
    links = {"bandwidth": 1000.0, "sharing": "first_come", **{**NETWORKS, **SLOW}[network]}
    return tying.tied(strategy, stop, network=links, **cluster)


DROPS: list[dict[str, Any]] = [
    {"micro_batches": 4, "drop_compute": {"threshold": 0.013}},
    {"micro_batches": 3, "drop_compute": {"threshold": 0.011}, "overlap": True},
    {"micro_batches": 3, "drop_compute": {"threshold": 0.011, "check": "preempt"}},
    {"micro_batches": 2, "drop_compute": {"threshold": 0.006, "check": "preempt"}},
]
STRATEGIES: list[dict[str, Any]] = [
    {"collective": "halving_doubling"},
    {"collective": "recursive_doubling", "bucketing": "layers"},
    {"collective": "hierarchical", "ranks_per_group": 3, "overlap": True, "bucketing": "layers"},
    {"collective": "double_binary_tree", "micro_batches": 2, "overlap": True, "bucketing": "ddp"},
    *({"collective": "halving_doubling", **drop} for drop in DROPS),
    # Some have the mean before others, and break off the next step's while these still send.
    {"collective": "binomial_tree", **DROPS[3]},
]
READS: list[dict[str, Any]] = [
    {"kind": "on_read", "read_every": 3, "write_back": True},
    {"kind": "on_read", "read_every": 1, "aggregation": "sum"},
    {"kind": "on_read", "read_every": 2},
]
# Nothing meets "apart", where only runs that drop micro-batches are made event by event.
CASES = [
    (strategy, network)
    for strategy in STRATEGIES
    for network in NETWORKS
    if network != "apart" or "drop_compute" in strategy
]
CASES += [(strategy, network) for strategy in READS for network in SLOW]


@pytest.mark.parametrize(("strategy", "network"), CASES, ids=str)
def test_it_ends_at_any_moment_and_after_any_number_of_events_alike(
    strategy: dict[str, Any], network: str
) -> None:
    for cluster in CLUSTERS.values():
        if strategy.get("overlap"):
            cluster = cluster | {"overlap_pace": 0.5, "backward_share": 0.5}
        for events in range(1, 300, 43):
            compare(tied(strategy, network, **cluster), events=events)
        for moment in (1, 17, 38):
            compare(tied(strategy, network, {"time": moment * 1e-3}, **cluster))
        compare(tied(strategy, network, {"examples": 40}, **cluster))


@pytest.mark.parametrize("drop", DROPS, ids=str)
def test_micro_batches_are_dropped(drop: dict[str, Any]) -> None:
    """The slow worker computes fewer of them than the others."""
    slow = {"slow_workers": ({"rank": 2, "factor": 2.0},)}
    trace = compare(tied(drop, "apart", **slow))

    rows = trace.gradients
    counted = Counter(rows[rows[:, 9] == 0, 0].tolist())
    assert counted[2] < counted[0] == counted[1]


def test_it_draws_again_and_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """More messages are on their way than there is room for, and the log is often read."""
    monkeypatch.setattr("varsim.cluster.flat.run._MOST_KEPT", 100)
    monkeypatch.setattr("varsim.cluster.flat.reduced._MESSAGES", 1)
    law = {"kind": "exponential", "mean": 0.01}
    for strategy in (STRATEGIES[3], STRATEGIES[4]):
        compare(tied(strategy, "racks", {"global_steps": 150}, compute=law))
        compare(tied(strategy, "fair", {"global_steps": 60}, compute=law))
    for strategy in READS[:2]:
        compare(tied(strategy, "slow apart", {"global_steps": 150}, compute=law))


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_machine_code_gives_the_same() -> None:
    """Making it takes some seconds the first time; it is kept in the user's cache."""
    for strategy in STRATEGIES:
        for cluster in CLUSTERS.values():
            compare(tied(strategy, "racks", **cluster), interpreted=False)
            compare(tied(strategy, "fair", **cluster), interpreted=False)
    for strategy in READS:
        for network in SLOW:
            compare(tied(strategy, network), interpreted=False)
    compare(tied(DROPS[0], "apart"), interpreted=False)


@pytest.mark.parametrize("few", [1, 7, 1000])
@pytest.mark.parametrize("network", ["racks", "fair"])
def test_it_is_the_same_however_often_the_loop_is_left(
    network: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = leave_often(monkeypatch, few, reduce_on)
    for strategy in STRATEGIES:
        trace = compare(tied(strategy, network))
        assert len(left) > 0.9 * trace.heap_events // few  # some are not served before it ends
        left.clear()
    compare(tied(DROPS[0], "apart"))
    compare(tied(READS[0], f"slow {network}"))


def test_copies_that_are_read_over_a_slow_link() -> None:
    """Two workers make steps of 6 ms; after two of them, 36 bytes are read: halves there and back.

    A half takes 18 ms at 1 byte/ms, three times as long over the slow link, which is in both of the
    rounds: a read takes 108 ms. Each copy lacks what the other worker has learnt since the start,
    or, if copies are written back, since the read before.
    """
    slow = {"kind": "star", "latency": 0.0, "slow_links": ({"rank": 1, "factor": 3.0},)}
    links = {"bandwidth": 1000.0, "sharing": "first_come", **slow}
    for back, missed in ((False, [0, 0, 0, 1, 2, 2, 2, 3]), (True, [0, 0, 0, 1, 0, 0, 0, 1])):
        reads = {"kind": "on_read", "read_every": 2, "write_back": back}
        trace = compare(tying.tied(reads, {"global_steps": 4}, workers=2, network=links))

        assert trace.steps.tolist() == [6_000_000, 12_000_000, 126_000_000, 132_000_000]
        assert trace.copy_staleness.tolist() == missed
        looks = [(look.time, look.global_step, look.examples) for look in trace.evaluations]
        assert looks == [(0, 0, 0), (120_000_000, 2, 4), (132_000_000, 4, 8)]


def test_the_rates_of_a_mesh_count_as_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting them takes as long as many events."""
    left = leave_often(monkeypatch, 100, reduce_on)
    trace = compare(tied(STRATEGIES[2], "fair", workers=12))

    assert len(left) > 2 * trace.heap_events / 100


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_signal_does_not_wait_for_the_end_of_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run would take half a minute, of which nothing returns to Python by itself."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    nodes = {**NETWORKS["nodes"], "workers_per_node": 8, "sharing": "fair"}
    monkeypatch.setitem(NETWORKS, "many", nodes)
    strategy = {"collective": "hierarchical", "ranks_per_group": 8}
    law = {"kind": "exponential", "mean": 0.01}
    scenario = tied(strategy, "many", {"global_steps": 50}, workers=512, compute=law)
    made = flat_run(scenario, scenario.strategies[0], 0)
    flat_run(scenario, scenario.strategies[0], 0, 100).trace("machine code is there")
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 2.0)
        with pytest.raises(KeyboardInterrupt):
            made.trace("on_write")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

    assert time.monotonic() - begun < 3.5


def test_too_many_micro_batches_are_left_to_the_other() -> None:
    many = {"micro_batches": 100, "drop_compute": {"threshold": 0.012}}
    with pytest.raises(NotCoveredError, match="too many micro-batches"):
        compare(tied(many))


def test_it_is_chosen_where_it_is_worth_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six ranks, 5 steps: 30 gradients, each as long as one and those of its messages."""
    monkeypatch.setattr("varsim.study.engine.can_compile", lambda: True)
    scenario, apart = tied(STRATEGIES[0]), tied({}, "apart")
    (strategy,), (foreseen,) = scenario.strategies, apart.strategies
    (dropping,) = tied(DROPS[0], "apart").strategies
    monkeypatch.setenv(ENGINE, "auto")
    saved = machine_code_saves(scenario, strategy)

    assert not picks_fast(scenario, strategy)
    assert not picks_fast(apart, dropping)
    assert picks_fast(apart, foreseen)
    assert machine_code_saves(apart, foreseen) == 0.0
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 30 * saved)
    assert picks_fast(scenario, strategy)
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 30 * saved + 1)
    assert not picks_fast(scenario, strategy)
    # A ring of six sends 2 (6 - 1) messages a rank, each for half a gradient, once in a read.
    for every, weight in ((1, 6.0), (5, 2.0)):
        reads = tied({"kind": "on_read", "read_every": every}, "slow")
        assert machine_code_saves(reads, reads.strategies[0]) == weight
    shared = tied(STRATEGIES[0], "fair")
    assert machine_code_saves(shared, strategy) > 2 * saved
    monkeypatch.setattr("varsim.cluster.flat.choice._MOST_FLOWS", 5)
    assert machine_code_saves(shared, strategy) == 0.0
    assert not picks_fast(shared, strategy, among=1e9)
    monkeypatch.setattr("varsim.study.engine.can_compile", lambda: False)
    assert not picks_fast(scenario, strategy, among=1e9)
    assert picks_fast(apart, foreseen)


def test_random_scenarios_are_random() -> None:
    """As many are drawn as there are seeds."""
    seeds = random.Random(0).sample(range(10_000), 5)

    assert len({met(seed).model_dump_json() for seed in seeds}) == 5
