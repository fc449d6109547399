"""The engine for times alone makes the gradients, updates and spans that SimPy makes."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.building import assert_same_run
from tests.oracle import drawing as servers
from tests.properties import drawing as anything
from tests.seams import Run, run_one
from varsim import Scenario
from varsim.cluster.fast import ENGINE
from varsim.cluster.fast.rules import Gate, NotCoveredError, Start
from varsim.cluster.fast.served import ServedRun
from varsim.strategies.on_read import OnRead
from varsim.strategies.on_write import OnWrite
from varsim.study.engine import chosen, fast_run, machine_code_saves, picks_fast, reason_against
from varsim.study.why.levers import times_only
from varsim.values.stream import PURPOSES, stream, streams

MS = 1e-3
# Bytes/s, so many that a message passes in the instant in which it sets off; and who still sends in
# the last instant of a run is not the same in arrays (`local`).
ENDLESS = 1e15
LAW = {"kind": "exponential", "mean": 6 * MS}
SLOW = {"rank": 2, "factor": 3.0}
SERVED: list[dict[str, Any]] = [
    {"kind": "none"},
    {"kind": "sync_replicas", "replicas_to_aggregate": 4, "initial_tokens": 9},
    {"kind": "backup_workers", "replicas_to_aggregate": 4},
    {"kind": "ssp", "staleness": 1},
    {"kind": "ssp", "staleness": 2, "refresh": "when_stale"},
    {"kind": "k_batch_async", "k": 4},
    {"kind": "k_async", "k": 3},
    {"kind": "k_batch_sync", "k": 7},
]
REDUCED: list[dict[str, Any]] = [
    {"kind": "on_write", **more}
    for more in (
        {},
        {"collective": "halving_doubling"},
        {"collective": "recursive_doubling", "bucketing": "layers"},
        {"collective": "hierarchical", "ranks_per_group": 3, "overlap": True},
        {"collective": "double_binary_tree", "micro_batches": 2, "overlap": True},
    )
]
READS: list[dict[str, Any]] = [
    {"kind": "on_read", "read_every": every, **more}
    for every in (1, 3)
    for more in ({}, {"write_back": True}, {"aggregation": "only_first_replica"})
]
STRATEGIES = [*SERVED, *REDUCED, *READS]
NETWORKS: list[dict[str, Any]] = [
    {"kind": "star", "latency": 0.0},
    {"kind": "star", "latency": MS, "slow_links": (SLOW,)},
    {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 2.0, "latency": MS},
    {
        "kind": "nodes",
        "workers_per_node": 3,
        "nics": 1,
        "latency": 0.0,
        "inside": {"bandwidth": 2e3, "latency": MS},
        "message_overhead": MS,
    },
    {"kind": "full_mesh", "latency": MS},
    {
        "kind": "nodes",
        "workers_per_node": 3,
        "nics": 3,
        "latency": MS,
        "inside": {"bandwidth": 2e3, "latency": MS},
    },
]
SERVERS: list[dict[str, Any]] = [
    {},
    {"parameter_servers": 2, "placement": "partitioned"},
    {"parameter_servers": 2, "servers_on": "workers"},
    {"parameter_servers": 3, "placement": "round_robin"},
]
MORE: list[dict[str, Any]] = [
    {},
    {"slow_workers": ({"rank": 1, "factor": 3.0, "after": 0.01, "until": 0.05}, SLOW)},
    {"compute": LAW},
]
# Rooms that only long runs fill: what is too little here is made larger, or written away.
ROOMS = {
    "served._MOST_ROWS": 40,
    "draws._MANY": 0,
    "local._MANY": 50,
    "local.TOGETHER": 100,
    "mirrored.TOGETHER": 100,
}


def tied(strategy: dict[str, Any], stop: dict[str, Any] | None = None, **cluster: Any) -> Scenario:
    """Six workers, times of whole milliseconds, layers of 1, 2 and 3 ms: much happens at once."""
    network = {"bandwidth": 1e3, "sharing": "first_come", **cluster.pop("network", NETWORKS[0])}
    if strategy.get("overlap"):
        cluster["backward_share"] = 0.5
    layers = tuple({"backward": 1.0, "size": 6.0 * size} for size in (2, 1, 3))
    described = {
        "name": "tied",
        "seed": 5,
        "cluster": {
            "workers": 6,
            "compute": {"kind": "constant", "value": 6 * MS},
            "network": network,
            **cluster,
        },
        "workload": {"batch_size": 1, "problem": {"kind": "timing"}, "layers": layers},
        "strategies": (strategy,),
        "stop": stop or {"global_steps": 5},
    }
    return Scenario.model_validate(described)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A run that the engine for times alone covers."""
    sharing = draw(st.sampled_from(["first_come", "fair"]))
    if draw(st.integers(0, 3)):
        strategy = draw(st.sampled_from(STRATEGIES))
        cluster = draw(st.sampled_from(MORE))
        if strategy in SERVED:
            cluster = cluster | draw(st.sampled_from(SERVERS))
        stops = [{"global_steps": 5}, {"examples": 40}, {"time": 0.017}, {"time": 0.09}]
        network = {**draw(st.sampled_from(NETWORKS)), "sharing": sharing}
        made = tied(strategy, draw(st.sampled_from(stops)), **{**cluster, "network": network})
        return Run(made, 0, draw(st.integers(0, 2)))
    seed = draw(st.integers(0, 10**6))
    made = draw(st.sampled_from([lambda: anything.drawn(seed), lambda: servers.drawn(str(seed))]))()
    made = times_only(made.model_copy(update={"events": (), "failures": None}))
    network = made.cluster.network.model_copy(update={"sharing": sharing})
    made = made.model_copy(update={"cluster": made.cluster.model_copy(update={"network": network})})
    return Run(made, draw(st.integers(0, len(made.strategies) - 1)), seed % 3)


@contextmanager
def left_often(every: int | None) -> Iterator[None]:
    """Loops are left after so few events, and rooms are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENGINE, "simpy")
        for place, number in ROOMS.items() if every else ():
            patch.setattr(f"varsim.cluster.fast.{place}", number)
        patch.setattr("varsim.cluster.fast.served._SLICE", every or 500_000)
        yield


def compare(run: Run, every: int | None, interpreted: bool = True) -> bool:
    """Make a run on both engines; whether it is one that both can make."""
    assert run.strategy is not None
    strategy = run.scenario.strategies[run.strategy]
    if reason_against(run.scenario, strategy):
        return False
    if isinstance(strategy, OnRead) and run.scenario.cluster.network.worker_rate > ENDLESS:
        return False
    with left_often(every):
        expected = run_one(run)
        made = fast_run(run.scenario, strategy, run.replication, interpreted=interpreted)
        try:
            assert_same_run(made.trace(strategy.label), expected)
        except NotCoveredError as error:
            return expected.stopped_by == "deadlock" and not error
    return True


def differential(examples: int, interpreted: bool, derandomize: bool) -> None:
    both = 0

    @settings(
        max_examples=examples,
        derandomize=derandomize,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(runs(), st.sampled_from([None, 1, 7, 1000]))
    def same(run: Run, every: int | None) -> None:
        nonlocal both
        both += compare(run, every, interpreted)

    same()
    assert both > 0.6 * examples


def test_the_trace_is_the_same() -> None:
    differential(600, interpreted=True, derandomize=True)


@pytest.mark.slow
@pytest.mark.product
@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_machine_code_gives_the_same() -> None:
    """Making it takes a minute the first time; it is kept in the user's cache."""
    differential(200, interpreted=False, derandomize=True)


@pytest.mark.slow
@pytest.mark.parametrize("interpreted", [True, False])
def test_ten_thousand_others_are_the_same(interpreted: bool) -> None:
    differential(10_000, interpreted, derandomize=False)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_many_draws_are_the_same(strategy: dict[str, Any]) -> None:
    """One worker is so fast that it needs many blocks of them, and the log is often read."""
    fast = {"compute": LAW, "slow_workers": ({"rank": 2, "factor": 0.1},)}
    assert compare(Run(tied(strategy, {"global_steps": 400}, **fast), 0, 0), 1000)


def test_what_it_does_not_cover_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tied(REDUCED[1], network=NETWORKS[2])
    assert "messages of its collective meet on links" in reason_against(made, made.strategies[0])
    for strategy in ({"kind": "none"}, REDUCED[1]):
        made = tied(strategy)
        assert reason_against(made, made.strategies[0]) == ""
    for more in (
        {"overlap": "forward"},
        {"sharding": "gradients"},
        {"collective": "push_pull"},
        {"micro_batches": 4, "drop_compute": {"threshold": 11 * MS}},
    ):
        made = tied({"kind": "on_write", **more})
        assert reason_against(made, made.strategies[0]).startswith("the rules of this strategy")
    monkeypatch.setenv(ENGINE, "quick")
    with pytest.raises(ValueError, match="VARSIM_ENGINE is auto, simpy or fast, not 'quick'"):
        chosen()


def test_a_setting_that_is_new_is_not_covered() -> None:
    class MoreWritten(OnWrite):
        more: int = 1

    class MoreRead(OnRead):
        more: int = 1

    for more in (MoreWritten, MoreRead):
        assert more().rules(tied({"kind": "none"}).cluster) is not None
        assert more(more=2).rules(tied({"kind": "none"}).cluster) is None


def interpreted(start: Start, gate: Gate, **_: bool) -> ServedRun:
    """A run that is not compiled, whoever asks for it."""
    return ServedRun(start, gate, interpreted=True)


@pytest.mark.parametrize("stop", [{"global_steps": 20}, {"time": 0.5}], ids=str)
def test_what_it_cannot_make_is_left_to_the_other(
    stop: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that stands still."""
    stuck = {"replicas_to_aggregate": 8, "total_num_replicas": 7, "initial_tokens": 1}
    run = Run(tied({"kind": "sync_replicas", **stuck}, stop), 0, 0)
    monkeypatch.setattr("varsim.study.engine.ServedRun", interpreted)
    with pytest.raises(NotCoveredError):
        fast_run(run.scenario, run.scenario.strategies[0], 0).trace("it")
    traces = []
    for engine in ("simpy", "fast"):
        monkeypatch.setenv(ENGINE, engine)
        traces.append(run_one(run))
    assert_same_run(*traces)


def test_it_is_chosen_where_it_is_worth_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six workers make 5 gradients in 5 steps if they do not wait."""
    monkeypatch.setattr("varsim.study.engine.can_compile", lambda: True)
    monkeypatch.setenv(ENGINE, "auto")
    fair, placed = {**NETWORKS[2], "sharing": "fair"}, SERVERS[3]
    for strategy, gradients, cluster in (
        ({"kind": "none"}, 5, {}),
        ({"kind": "none"}, 5, {"network": fair}),
        ({"kind": "none"}, 5, {"network": fair, **placed}),
    ):
        made = tied(strategy, **cluster)
        worth = gradients * machine_code_saves(made, made.strategies[0])
        assert worth >= gradients
        for short, picked in ((-0.01, True), (0.01, False)):
            monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda w=worth + short: w)
            assert picks_fast(made, made.strategies[0]) is picked
            assert picks_fast(made, made.strategies[0], among=worth + 1)
    in_arrays = tied(REDUCED[0])
    monkeypatch.setattr("varsim.study.engine.can_compile", lambda: False)
    assert not picks_fast(made, made.strategies[0], among=1e9)
    assert picks_fast(in_arrays, in_arrays.strategies[0])
    monkeypatch.setenv(ENGINE, "simpy")
    assert not picks_fast(in_arrays, in_arrays.strategies[0])


def test_where_machine_code_cannot_be_made_simpy_makes_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    run = Run(tied({"kind": "none"}), 0, 0)
    monkeypatch.setenv(ENGINE, "simpy")
    expected = run_one(run)

    def refused() -> None:
        raise OSError("nowhere to keep it")

    monkeypatch.setenv(ENGINE, "fast")
    monkeypatch.setattr("varsim.cluster.fast.served.compiled", refused)
    assert_same_run(run_one(run), expected)


def test_ctrl_c_while_numba_is_imported_is_no_failure_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("varsim.cluster.fast.served.compiled", interrupted)
    monkeypatch.setattr("varsim.cluster.fast.served.unmade", lambda: 1 / 0)
    scenario = tied({"kind": "none"})
    with pytest.raises(KeyboardInterrupt):
        fast_run(scenario, scenario.strategies[0], 0).trace("none")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_signal_does_not_wait_for_the_end_of_machine_code() -> None:
    """The run would take half a minute, of which nothing returns to Python by itself."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    fair = {**NETWORKS[2], "sharing": "fair"}
    stop = {"global_steps": 500_000}
    scenario = tied({"kind": "none"}, stop, workers=64, compute=LAW, network=fair, **SERVERS[3])
    made = fast_run(scenario, scenario.strategies[0], 0)
    few = tied({"kind": "none"}, {"global_steps": 9}, workers=64, network=fair, **SERVERS[3])
    fast_run(few, few.strategies[0], 0).trace("machine code is there")
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 2.0)
        with pytest.raises(KeyboardInterrupt):
            made.trace("none")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

    assert time.monotonic() - begun < 3.5


def test_streams_are_those_that_numpy_makes_one_by_one() -> None:
    for seed in (0, 7, 2**63 - 5, 2**130 + 3):
        for replication, block in ((0, 0), (2, 5), (2**33, 2**32 + 1)):
            numbers = [0, 1, 7, 31, 32, 63, 64, 5_000, 99_999, 2**32 - 1]
            made = list(streams(seed, replication, "compute", numbers, block))
            for number, generator in zip(numbers, made, strict=True):
                key = (replication, PURPOSES["compute"], number, block)
                sequence = np.random.SeedSequence(seed, spawn_key=key)
                expected = np.random.Generator(np.random.PCG64(sequence)).random(5)
                single = stream(seed, replication, "compute", number, block)
                assert np.array_equal(generator.random(5), expected)
                assert np.array_equal(single.random(5), expected)
                for children in (sequence.spawn(2), sequence.spawn(1)):
                    drawn = [np.random.Generator(np.random.PCG64(one)).random() for one in children]
                    for made_here in (generator, single):
                        spawned = made_here.spawn(len(children))
                        assert [one.random() for one in spawned] == drawn


def test_ranks_that_send_inside_and_between_at_once_are_left_to_simpy() -> None:
    strategy = {"kind": "on_write", "collective": "hierarchical", "ranks_per_group": 3}
    for more, said in (({}, ""), ({"segment_size": 300.0}, "ranks send inside their groups an")):
        made = tied({**strategy, **more}, {"global_steps": 3})
        assert reason_against(made, made.strategies[0])[:33] == said
