"""The engine for times alone gives the same traces as that on SimPy, in every field."""

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import tying
from building import assert_same
from invariants import drawing as anything
from numpy.typing import NDArray
from oracle import drawing as servers
from tying import COMPILED, leave_often

from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.compiled import INTERPRETED, is_made
from varsim.cluster.flat.core import advance
from varsim.cluster.flat.record import Record
from varsim.cluster.flat.rules import ENGINE
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario
from varsim.strategies.ssp import StaleSynchronous
from varsim.study.engine import chosen, flat_run, picks_fast, reason_against
from varsim.study.experiment import SweepExperiment, Training, load
from varsim.study.simulation import Run, run_one
from varsim.study.why.levers import times_only
from varsim.values.stream import PURPOSES, stream, streams

pytestmark = pytest.mark.usefixtures("compared_with_simpy")

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


def fast(run: Run, events: int | None = None, *, interpreted: bool = True) -> Trace:
    """The trace of a run by the engine for times alone."""
    scenario = run.scenario
    assert run.strategy is not None
    strategy = scenario.strategies[run.strategy]
    made = flat_run(scenario, strategy, run.replication, events, interpreted=interpreted)
    return made.trace(strategy.label)


def covered(scenario: Scenario) -> Iterator[Run]:
    """The runs of a scenario, times only and without events, that the engine covers."""
    scenario = times_only(scenario.model_copy(update={"events": (), "failures": None}))
    for sharing in ("first_come", "fair"):
        shared = sharing_links(scenario, sharing)
        for index, strategy in enumerate(shared.strategies):
            if not reason_against(shared, strategy):
                yield Run(shared, index, shared.seed % 3)


def sharing_links(scenario: Scenario, sharing: str, **more: object) -> Scenario:
    """The scenario with links that are shared in this way."""
    network = scenario.cluster.network.model_copy(update={"sharing": sharing, **more})
    cluster = scenario.cluster.model_copy(update={"network": network})
    return scenario.model_copy(update={"cluster": cluster})


def compare(scenario: Scenario, *, interpreted: bool = True) -> Counter[str]:
    """Make the runs of a scenario on both engines; of which kind they were."""
    seen: Counter[str] = Counter()
    for run in covered(scenario):
        expected = run_one(run)
        try:
            assert_same(fast(run, interpreted=interpreted), expected)
        except NotCoveredError:
            assert expected.stopped_by == "deadlock"
        assert run.strategy is not None
        strategy = run.scenario.strategies[run.strategy]
        seen[strategy.kind] += 1
        seen[strategy.kind + ", locking"] += getattr(strategy, "use_locking", False)
        fair = run.scenario.cluster.network.sharing == "fair"
        if fair and strategy.uses_servers:
            seen["servers, fair"] += 1
            seen["several, fair"] += run.scenario.cluster.parameter_servers > 1
            seen[run.scenario.cluster.network.kind + ", fair"] += 1
    return seen


def test_random_scenarios_of_servers_are_the_same() -> None:
    seen = sum((compare(servers.drawn(str(seed))) for seed in range(30)), Counter[str]())

    assert min(seen["sync_replicas"], seen["none"], seen["none, locking"]) > 1
    assert seen["several, fair"] > 2


def with_overhead(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with fair links on which each message has an overhead."""
    overhead = (1e-3, 1e-5, 2.5e-4)[seed % 3]
    return sharing_links(scenario, "fair", message_overhead=overhead)


def test_random_scenarios_of_servers_whose_messages_have_overheads_are_the_same() -> None:
    drawn = (with_overhead(servers.drawn(str(seed)), seed) for seed in range(12))
    seen = sum((compare(scenario) for scenario in drawn), Counter[str]())

    assert seen["several, fair"] > 4


def bounded(seed: int) -> Scenario:
    """The scenario of servers of this seed, with a bound on staleness."""
    refresh: Literal["always", "when_stale"] = "when_stale" if seed % 2 else "always"
    strategy = StaleSynchronous(staleness=seed % 5, refresh=refresh)
    return servers.drawn(str(seed)).model_copy(update={"strategies": (strategy,)})


def test_random_scenarios_of_servers_with_bounded_staleness_are_the_same() -> None:
    seen = sum((compare(bounded(seed)) for seed in range(40)), Counter[str]())

    assert seen["ssp"] > 20


def test_random_scenarios_of_anything_are_the_same() -> None:
    """In the last one nothing crosses a link."""
    drawn = (anything.drawn(seed) for seed in (*range(100), 1481))
    seen = sum((compare(scenario) for scenario in drawn), Counter[str]())

    assert min(seen["backup_workers"], seen["sync_replicas"], seen["none"], seen["ssp"]) > 2
    assert min(seen[kind + ", fair"] for kind in ("star", "racks", "nodes")) > 1


@pytest.mark.slow
@pytest.mark.parametrize("interpreted", [True, COMPILED])
def test_two_thousand_random_scenarios_are_the_same(interpreted: bool) -> None:
    drawn = (servers.drawn(str(seed)) for seed in range(30, 1600))
    seen = sum((compare(scenario, interpreted=interpreted) for scenario in drawn), Counter[str]())
    drawn = (anything.drawn(seed) for seed in range(100, 3500))
    seen += sum((compare(scenario, interpreted=interpreted) for scenario in drawn), Counter[str]())
    drawn = (bounded(seed) for seed in range(40, 540))
    seen += sum((compare(scenario, interpreted=interpreted) for scenario in drawn), Counter[str]())

    drawn = (with_overhead(servers.drawn(str(seed)), seed) for seed in range(12, 1600))
    seen += sum((compare(scenario, interpreted=interpreted) for scenario in drawn), Counter[str]())

    assert seen["ssp"] > 300
    assert seen["sync_replicas"] + seen["none"] + seen["backup_workers"] > 2000
    is_made.cache_clear()
    assert interpreted or is_made("advance")


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_bundled_scenarios_are_the_same(file: Path) -> None:
    experiment = load(file)
    scenarios: list[Scenario] = []
    if isinstance(experiment, Training):
        scenarios = [experiment.scenario]
    elif isinstance(experiment, SweepExperiment):
        points = experiment.sweep.points
        scenarios = [points[0].scenario, points[-1].scenario]
    for scenario in scenarios:
        limits = {"global_steps": None, "examples": 300 * scenario.workload.batch_size}
        stop = scenario.stop.model_copy(update=limits)
        compare(scenario.model_copy(update={"stop": stop}))


def tied(strategy: dict[str, object], steps: int = 40, **cluster: object) -> Scenario:
    """The same with servers, and first-come links without latency."""
    network = {"kind": "star", "bandwidth": 1000.0, "latency": 0.0, "sharing": "first_come"}
    cluster = {"compute": {"kind": "constant", "value": 0.004}, "network": network, **cluster}
    workload = {"problem": {"kind": "timing", "size": 2, "parts": 2}}
    return tying.tied(strategy, {"global_steps": steps}, workload, **cluster)


STRATEGIES: list[dict[str, object]] = [
    {"kind": "none"},
    {"kind": "none", "use_locking": True},
    {"kind": "sync_replicas", "replicas_to_aggregate": 4, "initial_tokens": 9},
    {"kind": "backup_workers", "replicas_to_aggregate": 4},
    {"kind": "ssp", "staleness": 1},
    {"kind": "ssp", "staleness": 2, "refresh": "when_stale"},
]
LAW = {"kind": "exponential", "mean": 0.01}
CLUSTERS: dict[str, dict[str, object]] = {
    "plain": {},
    "overheads": {
        "overheads": dict.fromkeys(("pull", "push", "wake", "first_iteration"), 0.001),
        "server_update": {"time": {"kind": "constant", "value": 0.001}, "threads": 2},
    },
    "slow": {"slow_workers": ({"rank": 1, "factor": 3.0, "after": 0.01, "until": 0.05},)},
}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_it_ends_after_any_number_of_events_alike(
    strategy: dict[str, object], cluster: dict[str, object]
) -> None:
    run = Run(tied(strategy, **cluster), 0, 0)
    for events in range(1, 90, 4):
        assert_same(fast(run, events=events), run_one(run, events=events))
    assert compare(run.scenario)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("servers_on", ["dedicated", "workers"])
def test_flows_of_several_servers_are_shared_alike(
    strategy: dict[str, object], servers_on: str
) -> None:
    """Three servers that hold different parts of two variables; flows of three links."""
    limited = {"flows": 1, "flow_bandwidth": 600.0}
    network = {"kind": "star", "bandwidth": 1000.0, "latency": 0.002, "sharing": "fair", **limited}
    placed = {"parameter_servers": 3, "placement": "round_robin", "servers_on": servers_on}
    problem = {"kind": "timing", "size": 9, "parts": 4}
    workload = {"problem": problem, "batch_size": 1}
    slow = ({"rank": 1, "factor": 3.0, "after": 0.01, "until": 0.05},)
    scenario = tied(strategy, network=network, slow_workers=slow, **placed)
    scenario = Scenario.model_validate({**scenario.model_dump(), "workload": workload})

    assert compare(scenario)["several, fair"]


@pytest.mark.parametrize("needed", range(1, 7))
def test_gradients_of_one_moment_are_taken_in_alike(needed: int) -> None:
    """No transfer takes time, two workers take half as long again: many come at once."""
    network = {"kind": "star", "bandwidth": 1e12, "latency": 0.0, "sharing": "first_come"}
    slow = tuple({"rank": rank, "factor": 1.5} for rank in (0, 3))
    strategy = {"kind": "backup_workers", "replicas_to_aggregate": needed}

    assert compare(tied(strategy, network=network, slow_workers=slow))


@pytest.mark.parametrize("few", [0, 1 << 22])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_it_draws_again_and_makes_room(
    strategy: dict[str, object], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker is so fast that it needs many blocks of draws, and the log is often read.

    With `few` 0 as of very many workers only some draws of a block are kept.
    """
    if few == 0:
        monkeypatch.setattr("varsim.cluster.flat.run.expected", lambda *_: 10)
    monkeypatch.setattr("varsim.cluster.flat.run._MOST_KEPT", 100)
    monkeypatch.setattr("varsim.cluster.flat.draws._MANY", few)
    run = Run(tied(strategy, 1700, compute=LAW, slow_workers=({"rank": 2, "factor": 0.1},)), 0, 0)
    trace = run_one(run)

    assert max(Counter(trace.gradients[:, 0].tolist()).values()) > 2 * 128
    assert_same(fast(run), trace)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_log_is_read_worker_by_worker(
    strategy: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for the spans of the busiest worker, and for few gradients that have ended."""
    parts = rooms(monkeypatch)
    slow = ({"rank": 2, "factor": 0.5},)

    assert compare(tied(strategy, 200, compute=LAW, slow_workers=slow))
    assert len(parts) > 3


def test_a_log_of_one_worker_may_need_more_room(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = rooms(monkeypatch)
    monkeypatch.setattr("varsim.cluster.flat.run._MOST_KEPT", 400)

    assert compare(tied({"kind": "none"}, 1000, compute=LAW, workers=1))
    assert len(parts) > 3


def rooms(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Leave room for little at a time; how many spans then are taken together, time after time."""
    monkeypatch.setattr("varsim.cluster.flat.run.BLOCK", 10)
    for module in ("run", "record"):
        monkeypatch.setattr(f"varsim.cluster.flat.{module}.ROOM", 0)
    taken, take_spans = list[int](), Record.take_spans

    def noted(record: Record, columns: NDArray[np.int64]) -> None:
        taken.append(columns.shape[1])
        take_spans(record, columns)

    monkeypatch.setattr(Record, "take_spans", noted)
    return taken


@pytest.mark.parametrize("few", [1, 7, 1000])
def test_it_is_the_same_however_often_the_loop_is_left(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = leave_often(monkeypatch, few, advance)
    for strategy in STRATEGIES:
        assert compare(tied(strategy, parameter_servers=2, placement="round_robin"))
        assert len(left) > 400 // few
        left.clear()


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_machine_code_gives_the_same() -> None:
    """Making it takes some seconds the first time; it is kept in the user's cache."""
    for strategy in STRATEGIES:
        for cluster in CLUSTERS.values():
            assert compare(tied(strategy, **cluster), interpreted=False)


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


def test_what_it_does_not_cover_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = tied({"kind": "none"})
    (strategy,) = scenario.strategies

    assert reason_against(scenario, strategy) == ""
    assert reason_against(sharing_links(scenario, "fair"), strategy) == ""
    stored = sharing_links(scenario, "fair", forwarding="store_and_forward")
    said = "the network forwards with store_and_forward"
    assert reason_against(stored, strategy) == said
    monkeypatch.setenv(ENGINE, "quick")
    with pytest.raises(ValueError, match="VARSIM_ENGINE is auto, simpy or fast, not 'quick'"):
        chosen()


def test_it_is_chosen_where_that_is_asked_for_or_worth_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(tied({"kind": "none"}), 0, 0)
    (strategy,) = run.scenario.strategies
    monkeypatch.setenv(ENGINE, "auto")
    assert not picks_fast(run.scenario, strategy)
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 40)
    assert picks_fast(run.scenario, strategy)
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 10_000)
    assert not picks_fast(run.scenario, strategy, among=9_999)
    assert picks_fast(run.scenario, strategy, among=10_000)
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 40 * 4)
    shared = sharing_links(run.scenario, "fair")
    assert picks_fast(shared, strategy)
    assert not picks_fast(run.scenario, strategy)
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 40 * 6)
    assert not picks_fast(shared, strategy)
    assert picks_fast(sharing_links(run.scenario, "fair", message_overhead=1e-6), strategy)
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 40 * 4)
    sizes = {"workers": 600, "parameter_servers": 2, "placement": "round_robin"}
    many = shared.cluster.model_copy(update=sizes)
    assert not picks_fast(shared.model_copy(update={"cluster": many}), strategy, among=1e9)
    monkeypatch.setenv(ENGINE, "simpy")
    assert not picks_fast(run.scenario, strategy)
    monkeypatch.undo()
    monkeypatch.setenv(ENGINE, "fast")
    expected = fast(run)
    monkeypatch.setattr("varsim.cluster.flat.run.compiled", lambda: INTERPRETED)
    monkeypatch.setattr("varsim.study.simulation.started", None)

    assert_same(run_one(run), expected)


def test_a_run_that_stands_still_is_left_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"replicas_to_aggregate": 8, "total_num_replicas": 7, "initial_tokens": 1}
    stuck = Run(tied({"kind": "sync_replicas", **said}), 0, 0)
    with pytest.raises(NotCoveredError):
        fast(stuck)
    monkeypatch.setattr("varsim.cluster.flat.run.compiled", lambda: INTERPRETED)
    monkeypatch.setenv(ENGINE, "fast")

    assert run_one(stuck).stopped_by == "deadlock"


def test_where_machine_code_cannot_be_made_simpy_makes_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    run = Run(tied({"kind": "none"}), 0, 0)
    monkeypatch.setenv(ENGINE, "simpy")
    expected = run_one(run)

    def refused() -> None:
        raise OSError("nowhere to keep it")

    monkeypatch.setenv(ENGINE, "auto")
    monkeypatch.setattr("varsim.study.engine.worth_compiling", lambda _: 40)
    monkeypatch.setattr("varsim.cluster.flat.run.compiled", refused)
    assert_same(run_one(run), expected)


def test_ctrl_c_while_numba_is_imported_is_no_failure_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def broken() -> None:
        raise AttributeError("partially initialized module")

    monkeypatch.setattr("varsim.cluster.flat.run.compiled", interrupted)
    monkeypatch.setattr("varsim.cluster.flat.run.unmade", broken)
    scenario = tied({"kind": "none"})
    with pytest.raises(KeyboardInterrupt):
        flat_run(scenario, scenario.strategies[0], 0).trace("none")
