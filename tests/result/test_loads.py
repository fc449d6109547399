"""Loads of links and servers over time, against what the run counted, and by hand."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import varsim
from tests.building import example
from varsim.cluster.loads import Load, Loads
from varsim.strategies import STRATEGIES
from varsim.study import loads as watching
from varsim.study.loads import Watched, loads
from varsim.study.result import Result
from varsim.study.simulation import Run, started

NONE: Mapping[str, Any] = MappingProxyType({})
NETWORKS: dict[str, dict[str, Any]] = {
    "first come": {},
    "fair": {"sharing": "fair"},
    "forwarding": {"forwarding": "store_and_forward"},
    "fair forwarding": {"forwarding": "store_and_forward", "sharing": "fair"},
    "ring": {"kind": "ring"},
    "racks": {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 2.0, "sharing": "fair"},
    "flows": {"flow_bandwidth": "1 Gbit/s", "flows": 1, "sharing": "fair"},
    "slow link": {"slow_links": [{"rank": 1, "factor": 3.0}]},
}
TIMING = {"problem": {"kind": "timing"}, "model": "resnet50", "batch_size": 32}
EVERY = [example(kind, 4) for kind in STRATEGIES]
MORE: dict[str, dict[str, Any]] = {
    "buckets while computing": {
        "strategies": [
            {"kind": "on_write", "overlap": True, "bucket_size": "10 MiB"},
            {"kind": "none"},
        ]
    },
    "at a slower pace": {
        "strategies": [
            {"kind": "on_write", "overlap": True, "bucket_size": "10 MiB"},
            {"kind": "none"},
        ],
        "cluster": {"overlap_pace": 0.4},
    },
    "wait-free": {
        "strategies": [{"kind": "none", "overlap": True}],
        "network": {"sharing": "fair"},
    },
    "sums on servers": {
        "strategies": [{"kind": "on_write", "collective": "push_pull"}],
        "cluster": {"server_update": {"rate": "5 GB/s", "threads": 2}},
    },
    "deaths": {
        "strategies": [{"kind": "none"}, {"kind": "on_write"}],
        "events": [
            {"at": "1.03 s", "kill": {"worker": 2}},
            {"at": "1.9 s", "restart": {"worker": 2}},
        ],
    },
    "random failures": {
        "strategies": [
            {"kind": "none"},
            {"kind": "on_write", "on_death": "continue_with_fewer"},
        ],
        "failures": {"of": [{"domain": "worker", "mtbf": "3 s", "repair": "300 ms"}]},
        "recovery": {"restart": "100 ms"},
        "stop": {"time": "5 s"},
    },
    "a loss ends it": {
        "workload": {
            "problem": {"kind": "digits"},
            "model": "resnet50",
            "batch_size": 32,
            "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
        "strategies": [{"kind": "none"}, {"kind": "sync_replicas", "replicas_to_aggregate": 3}],
        "stop": {"loss": 2.0, "global_steps": 100},
    },
}


def ran(
    network: Mapping[str, Any] = NONE, cluster: Mapping[str, Any] = NONE, **more: Any
) -> Result:
    described = {
        "name": "loads",
        "seed": 3,
        "cluster": {
            "workers": 4,
            "compute": {"kind": "uniform", "low": "80 ms", "high": "120 ms"},
            "parameter_servers": 2,
            "network": {"kind": "star", "bandwidth": "2 Gbit/s", "latency": "20 us", **network},
            **cluster,
        },
        "workload": TIMING,
        "strategies": EVERY,
        "stop": {"global_steps": 12},
    }
    return varsim.run(described | more)


def carried(load: Load | None, end: int) -> float:
    """The seconds that it was busy up to a moment (ns)."""
    if load is None:
        return 0.0
    return float(load.within(np.array([0, end]))[0]) * end / 1e9


def assert_same_bytes(result: Result) -> None:
    """Bandwidth times the time that it was busy are the bytes that a link carried."""
    found = loads(result)
    for name in result.strategies:
        trace, watched = result.trace(name), found[name]
        assert watched.until == trace.end
        assert name == "single" or any(row.moved for row in trace.links)
        for row in trace.links:
            load = watched.loads.get(row.name)
            # Each message is on it for a whole number of ns.
            assert carried(load, trace.end) * row.bandwidth == pytest.approx(
                row.moved, rel=2e-6, abs=row.bandwidth * 1e-8
            ), (name, row.name)
            assert load is None or 0 <= load.shares.min() <= load.shares.max() <= 1 + 1e-9


@pytest.mark.parametrize("network", NETWORKS)
def test_bytes_of_a_load_are_those_that_were_carried(network: str) -> None:
    assert_same_bytes(ran(NETWORKS[network]))


@pytest.mark.parametrize("name", MORE)
def test_and_where_more_goes_on(name: str) -> None:
    assert_same_bytes(ran(**MORE[name]))


ONE = {
    "workers": 1,
    "compute": {"kind": "constant", "value": "100 ms"},
    "parameter_servers": 1,
    "network": {"kind": "star", "bandwidth": "1 GB/s", "latency": "0 s"},
}
SIZED = {"problem": {"kind": "timing", "size": "50 MB"}, "batch_size": 1}


def alone(**changes: Any) -> tuple[Result, Watched]:
    result = varsim.run(
        {
            "name": "alone",
            "seed": 1,
            "cluster": ONE | changes.pop("cluster", {}),
            "workload": SIZED,
            "strategies": [{"kind": "none"}],
            "stop": {"global_steps": 5},
            **changes,
        }
    )
    return result, loads(result)["none"]


def test_a_link_of_known_load_is_busy_for_a_known_share() -> None:
    # Read 50 ms, compute 100 ms, push 50 ms: each link is busy for 50 of 200 ms.
    result, watched = alone()
    assert watched.until == 1_000_000_000
    down, up = watched.loads["worker 0 down"], watched.loads["worker 0 up"]
    every = np.arange(5) * 200_000_000
    np.testing.assert_array_equal(down.times, np.sort([*every, *every + 50_000_000]))
    np.testing.assert_array_equal(up.times, np.sort([*every + 150_000_000, *every + 200_000_000]))
    assert down.shares.tolist() == up.shares.tolist() == [1.0, 0.0] * 5
    (row,) = [row for row in result.trace("none").links if row.name == "ps 0 down"]
    assert row.moved / (row.bandwidth * 1.0) == 0.25
    assert carried(watched.loads["ps 0 down"], watched.until) == 0.25


def test_a_message_keeps_its_link_busy_for_its_overhead_too() -> None:
    network = ONE["network"] | {"message_overhead": "10 ms"}  # type: ignore[operator]
    for sharing in ("first_come", "fair"):
        _, watched = alone(cluster={"network": network | {"sharing": sharing}})
        # Read 60, compute 100, push 60 ms: its first link is busy for 60 ms, the second for 50.
        up, down = watched.loads["worker 0 up"], watched.loads["ps 0 down"]
        assert watched.until == 1_100_000_000
        assert carried(up, watched.until) == pytest.approx(5 * 0.06, abs=1e-9)
        assert carried(down, watched.until) == pytest.approx(5 * 0.05, abs=1e-9)


def test_messages_that_share_a_port_have_half_of_their_own_links() -> None:
    cluster = {"workers": 2, "network": ONE["network"] | {"sharing": "fair"}}  # type: ignore[operator]
    _, watched = alone(cluster=cluster, stop={"global_steps": 2})
    # Both read for 100 ms at half the rate, compute for 100 ms, push for 100 ms.
    assert watched.until == 300_000_000
    for name, shares in (("ps 0 up", 1.0), ("worker 0 down", 0.5), ("worker 1 down", 0.5)):
        assert watched.loads[name].times.tolist() == [0, 100_000_000]
        assert watched.loads[name].shares.tolist() == [shares, 0.0]
    for name, shares in (("ps 0 down", 1.0), ("worker 0 up", 0.5), ("worker 1 up", 0.5)):
        assert watched.loads[name].times.tolist() == [200_000_000, 300_000_000]
        assert watched.loads[name].shares.tolist() == [shares, 0.0]


def test_a_server_is_busy_with_what_it_handles() -> None:
    overheads = {"pull": "4 ms", "push": "8 ms", "wake": "2 ms"}
    _, watched = alone(cluster={"overheads": overheads})
    # pull 4, read 50, compute 100, push 50, handling 8, wake 2: 214 ms, of which 14 on the server.
    handling = watched.loads["ps 0 handling"]
    assert watched.until == pytest.approx(4 * 214_000_000 + 212_000_000)
    assert carried(handling, watched.until) == pytest.approx(5 * 0.014 - 0.002, abs=1e-9)
    assert handling.times[:4].tolist() == [0, 4_000_000, 204_000_000, 214_000_000 + 4_000_000]


def test_one_of_two_threads_is_half_of_a_server() -> None:
    update = {"time": {"kind": "constant", "value": "20 ms"}, "threads": 2}
    _, watched = alone(cluster={"server_update": update})
    applying = watched.loads["ps 0 applying"]
    assert applying.times[:3].tolist() == [200_000_000, 220_000_000, 420_000_000]
    assert applying.shares[:3].tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    ("update", "names"),
    [
        ({"rate": "1 GB/s"}, {"ps 0..1 applying", "ps 0..1 handling"}),
        (
            {"time": {"kind": "exponential", "mean": "1 ms"}},
            {"ps 0 applying", "ps 1 applying", "ps 0 handling", "ps 1 handling"},
        ),
    ],
)
def test_equal_servers_have_one_load_unless_something_is_drawn(
    update: dict[str, Any], names: set[str]
) -> None:
    cluster = {
        "parameter_servers": 2,
        "placement": "partitioned",
        "overheads": {"push": "1 ms"},
        "server_update": update,
    }
    _, watched = alone(cluster=cluster)
    of_servers = {name for name in watched.loads if name.startswith("ps ")}
    assert {name for name in of_servers if name.endswith("ing")} == names


def test_what_is_too_much_is_left_out_from_a_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ran()
    whole = loads(result)
    for limit, least in (("EVENTS", 1_000), ("OF_ONE", 300), ("PIECES", 2_000)):
        watching._again.cache_clear()
        monkeypatch.setattr(watching, limit, least)
        cut = loads(result)
        monkeypatch.undo()
        assert any(0 < cut[name].until < whole[name].until for name in cut)
        for name, (until, found) in cut.items():
            bounds = np.linspace(0, until, 50).astype(np.int64)
            for link, load in found.items():
                np.testing.assert_allclose(
                    load.within(bounds), whole[name].loads[link].within(bounds), atol=1e-9
                )
    watching._again.cache_clear()


def test_what_a_strategy_leaves_is_there_for_those_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = {"kind": "none", "name": "few"}
    many = {"kind": "on_write", "name": "many", "overlap": True, "bucket_size": "1 MiB"}
    for strategies in ([few, many], [many, few]):
        result = ran(strategies=strategies)
        watching._again.cache_clear()
        needed = {}
        for index, one in enumerate(strategies):
            noted = Loads(10**6)
            job, _ = started(Run(result.scenario, index, 0), record=False, loads=noted)
            job.carried_by(result.trace(one["name"]).end)
            needed[one["name"]] = 10**6 - noted.left
        least, most = sorted(needed.values())
        # Those after the first are sure of a quarter, which it leaves to them.
        enough = least + most if strategies[0] is few else 4 * -(-most // 3)
        monkeypatch.setattr(watching, "PIECES", enough)
        assert most > 4 * least, "more than its half, and the other less than it is sure of"
        for name, one in loads(result).items():
            assert one.until == result.trace(name).end
        watching._again.cache_clear()
        monkeypatch.setattr(watching, "PIECES", enough - 8)
        cut = [name for name, one in loads(result).items() if one.until < result.trace(name).end]
        assert len(cut) == 1
        monkeypatch.undo()
    watching._again.cache_clear()


def test_a_machine_too_large_to_be_made_once_more_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watching._again.cache_clear()
    monkeypatch.setattr(watching, "MOST_WORKERS", 3)
    assert set(loads(ran(strategies=[{"kind": "none"}]))["none"].loads) == set()
    watching._again.cache_clear()


def test_a_run_that_is_not_the_same_once_more_has_none() -> None:
    result = ran(strategies=[{"kind": "none"}])
    result.trace("none").steps[3] += 1
    assert loads(result)["none"] == Watched(0, {})


def test_pieces_are_added_up_where_they_overlap() -> None:
    noted = Loads(10)
    for start, end in ((0, 4), (2, 6), (4, 8), (9, 9), (12, 30)):
        noted.note("a", start, end, 0.25)
    load = noted.found(20)["a"]
    assert load.times.tolist() == [0, 2, 6, 8, 12, 20]
    assert load.shares.tolist() == [0.25, 0.5, 0.25, 0.0, 0.25, 0.0]
    means = load.within(np.array([0, 4, 8, 10, 16, 20]))
    assert means.tolist() == [0.375, 0.375, 0.0, 4 * 0.25 / 6, 0.25]


@pytest.mark.parametrize("strategy", ["none", "ssp"])
def test_what_a_failed_server_had_before_it_is_never_done(strategy: str) -> None:
    # Pull 40 ms of each of 4 workers, one after the other; the server fails at 50 ms, for 20 ms.
    overheads = {"pull": "40 ms", "push": "30 ms"}
    update = {"time": {"kind": "constant", "value": "25 ms"}, "threads": 1}
    down = np.array([[at, at + 0.02] for at in (0.05, 1.3, 1.325, 2.37)])
    played = [[at, "server", 0] for at, _ in down.tolist()]
    result = ran(
        {"bandwidth": "200 Gbit/s"},
        strategies=[example(strategy, 4)],
        cluster={"parameter_servers": 1, "overheads": overheads, "server_update": update},
        failures={"recorded": {"failures": played, "repair": "20 ms"}},
        stop={"time": "4 s"},
    )
    handling, applying = (
        loads(result)[strategy].loads[f"ps 0 {what}"] for what in ("handling", "applying")
    )
    assert handling.times[:3].tolist() == [0, 50_000_000, 70_000_000]
    assert handling.shares[:3].tolist() == [1.0, 0.0, 1.0]
    for load in (handling, applying):
        assert set(load.shares.tolist()) <= {0.0, 1.0}
        for bounds in (down * 1e9).astype(np.int64):
            assert load.within(bounds).tolist() == [0.0]
    assert applying.shares.any()


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_a_server_on_the_machine_of_its_only_worker_needs_no_link(sharing: str) -> None:
    network = {**ONE["network"], "sharing": sharing}  # type: ignore[dict-item]
    changes = {"servers_on": "workers", "overheads": {"pull": "4 ms"}, "network": network}
    _, watched = alone(cluster=changes)
    assert set(watched.loads) == {"ps 0 handling"}
