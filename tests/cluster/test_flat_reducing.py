"""Workers that all-reduce gradients or copies: the engine for times alone against that on SimPy."""

import random
from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

import numpy as np
import pytest
from building import assert_same
from invariants import drawing
from tying import CLUSTERS, same_on_both, tied

from varsim.cluster.description import Cluster
from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.local import order_of
from varsim.cluster.flat.reduced import ReducedRun
from varsim.cluster.flat.rules import ENGINE
from varsim.strategies.on_read import OnRead
from varsim.strategies.on_write import OnWrite
from varsim.study.engine import flat_run, picks_fast, reason_against
from varsim.study.simulation import Run, run_one
from varsim.study.why.levers import times_only

pytestmark = pytest.mark.usefixtures("compared_with_simpy")

STRATEGIES: list[dict[str, Any]] = [
    {},
    {"collective": "halving_doubling"},
    {"collective": "recursive_doubling", "bucketing": "layers"},
    {"collective": "hierarchical", "ranks_per_group": 3, "overlap": True, "bucketing": "layers"},
    {"collective": "double_binary_tree", "micro_batches": 3},
    {"collective": "binomial_tree", "micro_batches": 2, "overlap": True, "bucketing": "layers"},
    {"kind": "on_read", "read_every": 3, "write_back": True},
    {"kind": "on_read", "read_every": 1, "aggregation": "sum"},
    {"kind": "on_read", "read_every": 2, "aggregation": "only_first_replica"},
    {"kind": "on_read", "read_every": 2, "aggregation": "only_first_replica", "write_back": True},
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_it_ends_at_any_moment_and_after_any_number_of_events_alike(
    strategy: dict[str, Any], cluster: dict[str, Any]
) -> None:
    if strategy.get("overlap"):
        cluster = cluster | {"overlap_pace": 0.5, "backward_share": 0.5}
    if strategy.get("aggregation") == "only_first_replica" and "overheads" in cluster:
        sent = {"message": 0.0001} if strategy.get("write_back") else {}
        cluster = cluster | {"overheads": {"first_iteration": 0.001, **sent}}
    for events in range(1, 200, 23):
        same_on_both(tied(strategy, **cluster), events=events)
    for moment in range(1, 60, 11):
        same_on_both(tied(strategy, {"time": moment * 1e-3}, **cluster))
    for steps in (1, 2, 5):
        same_on_both(tied(strategy, {"global_steps": steps}, **cluster))


def compare_drawn(seeds: Iterable[int]) -> Counter[str]:
    """Make what is made in arrays of the scenarios of these seeds; of which kind it was."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        drawn = drawing.drawn(seed).model_copy(update={"events": (), "failures": None})
        for index, strategy in enumerate(drawn.strategies):
            scenario = times_only(drawn)
            in_arrays = isinstance(strategy, OnWrite | OnRead)
            if in_arrays and not reason_against(scenario, strategy):
                same_on_both(scenario, index)
                made = flat_run(scenario, strategy, 0, interpreted=True)
                by_event = isinstance(made, ReducedRun)
                seen["event by event" if by_event else strategy.kind] += 1
                seen["overlap"] += strategy.overlaps
                seen["buckets"] += getattr(strategy, "bucketing", None) is not None
                seen["alone"] += scenario.cluster.workers == 1
    return seen


def test_random_scenarios_are_the_same() -> None:
    seen = compare_drawn(range(250))

    assert min(seen["on_write"], seen["on_read"]) > 10
    assert min(seen["overlap"], seen["buckets"], seen["alone"]) > 2


@pytest.mark.slow
def test_four_thousand_random_scenarios_are_the_same() -> None:
    seen = compare_drawn(range(250, 4250))

    assert min(seen["on_write"], seen["on_read"]) > 300


def compare_broadcasts(seeds: Iterable[int]) -> Counter[str]:
    """Make runs of these seeds whose model is read from worker 0, and sent to all."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        drawn = drawing.drawn(seed).model_copy(update={"events": (), "failures": None})
        said = {"read_every": 1 + seed % 4, "aggregation": "only_first_replica", "write_back": True}
        strategy = OnRead.model_validate(said)
        scenario = times_only(drawn.model_copy(update={"strategies": (strategy,)}))
        if not reason_against(scenario, strategy):
            try:
                same_on_both(scenario)
                same_on_both(scenario, events=40 + seed % 200)
            except NotCoveredError:
                seen["left to the other"] += 1
            network = scenario.cluster.network
            seen.update([network.kind, network.sharing, network.forwarding])
    return seen


def test_random_broadcasts_are_the_same() -> None:
    seen = compare_broadcasts(range(60))

    assert min(seen["fair"], seen["first_come"], seen["store_and_forward"], seen["nodes"]) > 4
    assert not seen["left to the other"]


def test_broadcasts_that_arrive_as_others_have_computed_are_left_to_the_other() -> None:
    """A copy arrives every 36 ms, as another worker has computed its sixth gradient since its own.

    In which order that happens is known to a heap alone.
    """
    said = {"read_every": 8, "aggregation": "only_first_replica", "write_back": True}
    network = {"kind": "star", "bandwidth": 1000.0, "latency": 0.001, "sharing": "first_come"}
    scenario = tied({"kind": "on_read", **said}, {"global_steps": 20}, network=network)
    with pytest.raises(NotCoveredError, match="ranks begin at a moment at which others"):
        same_on_both(scenario)
    slower = {"compute": {"kind": "constant", "value": 0.007}}
    same_on_both(tied({"kind": "on_read", **said}, {"global_steps": 20}, network=network, **slower))


@pytest.mark.slow
def test_two_thousand_random_broadcasts_are_the_same() -> None:
    seen = compare_broadcasts(range(60, 2300))

    assert seen["fair"] > 800
    assert seen["left to the other"] < 10


def test_events_are_in_the_order_of_a_heap() -> None:
    """Of ranks whose times are few and small, so that much happens at once."""
    source = random.Random(4)
    for _ in range(200):
        ranks, events = source.randint(1, 6), source.randint(1, 9)
        apart = [[source.choice([0, 0, 1, 2]) for _ in range(ranks)] for _ in range(events)]
        times = np.cumsum(apart, axis=0)
        turns = source.sample(range(ranks), ranks)
        heap = [(int(times[0, rank]), turn, 0, rank) for rank, turn in enumerate(turns)]
        heapify(heap)
        found, numbers = [], count(ranks)
        while heap:
            _, _, event, rank = heappop(heap)
            found.append((event, rank))
            if event + 1 < events:
                then = int(times[event + 1, rank])
                heappush(heap, (then, next(numbers), event + 1, rank))
        (places,) = order_of(times[np.newaxis], np.array([turns]))

        assert [places[one] for one in found] == list(range(events * ranks))


def test_what_is_recorded_in_many_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("varsim.cluster.flat.local._MANY", 50)
    for module in ("mirrored", "local"):
        monkeypatch.setattr(f"varsim.cluster.flat.{module}.TOGETHER", 100)
    for law in ({"kind": "constant", "value": 0.006}, {"kind": "exponential", "mean": 0.01}):
        same_on_both(tied({}, {"global_steps": 400}, compute=law))
        same_on_both(tied({"micro_batches": 2}, {"examples": 2001}, **CLUSTERS["overheads"]))
        same_on_both(tied({"kind": "on_read"}, {"examples": 2001}, compute=law))


@pytest.mark.parametrize(
    "strategy",
    [
        {"overlap": "forward"},
        {"sharding": "gradients"},
    ],
    ids=str,
)
def test_other_settings_are_not_covered(strategy: dict[str, Any]) -> None:
    scenario = tied(strategy)

    assert reason_against(scenario, scenario.strategies[0]).startswith("the rules of this strategy")


def test_a_setting_that_is_new_is_not_covered() -> None:
    class MoreWritten(OnWrite):
        more: int = 1

    class MoreRead(OnRead):
        more: int = 1

    cluster: Cluster = tied({}).cluster
    for more in (MoreWritten, MoreRead):
        assert more().rules(cluster) is not None
        assert more(more=2).rules(cluster) is None


@pytest.mark.parametrize("strategy", STRATEGIES[4:], ids=str)
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_a_worker_alone_sends_nothing(strategy: dict[str, Any], cluster: dict[str, Any]) -> None:
    alone = {**cluster, "workers": 1, "slow_workers": cluster.get("slow_workers", ())[:1]}
    if "overheads" in cluster:
        alone["overheads"] = {"first_iteration": 0.001}
    if alone["slow_workers"]:
        alone["slow_workers"] = ({**alone["slow_workers"][0], "rank": 0},)
    for events in (*range(1, 30, 3), None):
        same_on_both(tied(strategy, **alone), events=events)
    same_on_both(tied(strategy, {"time": 0.0231}, **alone))


@pytest.mark.parametrize(
    ("strategy", "cluster", "reason"),
    [
        (
            {"collective": "halving_doubling"},
            {
                "network": {
                    "kind": "ring",
                    "bandwidth": 1e3,
                    "latency": 0.0,
                    "forwarding": "store_and_forward",
                }
            },
            "messages of its collective meet on links, or slow links, and the network forwards "
            "with store_and_forward",
        ),
        (
            {"micro_batches": 3, "drop_compute": {"threshold": 0.01}},
            {"workers": 1},
            "a worker alone drops micro-batches",
        ),
        (
            {"kind": "on_read"},
            {
                "network": {
                    "kind": "ring",
                    "bandwidth": 1e3,
                    "latency": 0.0,
                    "slow_links": ({"rank": 1, "factor": 2.0},),
                    "forwarding": "store_and_forward",
                }
            },
            "messages of its collective meet on links, or slow links, and the network forwards "
            "with store_and_forward",
        ),
    ],
)
def test_what_no_recurrence_is_for_is_not_covered(
    strategy: dict[str, Any], cluster: dict[str, Any], reason: str
) -> None:
    scenario = tied(strategy, **cluster)

    assert reason_against(scenario, scenario.strategies[0]) == reason


def test_it_is_chosen_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tied({}), 0, 0)
    expected = run_one(run)
    monkeypatch.setenv(ENGINE, "auto")
    monkeypatch.setattr("varsim.study.simulation.started", None)

    assert picks_fast(run.scenario, run.scenario.strategies[0])
    assert_same(run_one(run), expected)
