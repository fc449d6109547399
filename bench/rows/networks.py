"""What networks cost beside simpler ones."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from bench.cases import one, scenario
from bench.measuring import Row, Spread, in_turn
from bench.rows.engines import flat
from varsim.scenario.training import Scenario

FAIR: dict[str, Any] = {"sharing": "fair", "bandwidth": 12.5e9}


def rows(_: bool) -> Iterator[Row]:
    """Collectives beside the ring, racks beside a star, many servers beside few."""
    tasks = {
        name: one(changed("on_write", 1024, 5, strategy={"collective": name}))
        for name in ("double_binary_tree", "ring")
    }
    ratio = in_turn(tasks, 2).ratio("double_binary_tree", "ring")
    yield Row("double_binary_tree / ring, W = 1,024, 5 steps", 10.0, ratio)
    racks = {"kind": "racks", "hosts_per_rack": 32, "oversubscription": 4.0}
    for kind in ("sync_replicas", "none"):
        tasks = {
            name: one(changed(kind, 1024, 2, network={**FAIR, **network}))
            for name, network in (("racks", racks), ("star", {}))
        }
        ratio = in_turn(tasks, 3).ratio("racks", "star")
        yield Row(f"fair, one server, racks / star, {kind}, W = 1,024", 1.5, ratio)
    for kind in ("sync_replicas", "none"):
        tasks = {str(servers): one(servers_of(kind, servers, FAIR)) for servers in (16, 4)}
        fast = find_spec("numba") is not None
        if fast:
            tasks |= {f"compiled {name}": flat(servers_of(kind, int(name), FAIR)) for name in tasks}
        turns = in_turn(tasks, 2)
        name = f"per message, fair, round_robin, P = 16 / P = 4, {kind}, W = 64"
        yield Row(name, 1.3, turns.ratio("16", "4", 4 / 16))
        if fast:
            ratio = turns.ratio("compiled 16", "compiled 4", 4 / 16)
            yield Row(f"{name}, compiled", 1.3, ratio)
            beside = f"compiled / SimPy, fair, round_robin, P = 16, {kind}, W = 64"
            yield Row(beside, 0.05, turns.ratio("compiled 16", "16"))
    for kind in ("sync_replicas", "none"):
        tasks = {str(servers): one(servers_of(kind, servers, {}, 100)) for servers in (64, 4)}
        ratio = in_turn(tasks, 5).ratio("64", "4")
        yield Row(f"first come, round_robin, P = 64 / P = 4, {kind}, W = 64", 1.5, ratio)
    for kind in ("sync_replicas", "none"):
        told = f"fair, one server, overlap, {kind}, W = 16, 160 tensors"
        piecewise = changed(kind, 16, 20, strategy={"overlap": True}, network=FAIR)
        trace = one(piecewise)()
        events = Spread.of([trace.heap_events / len(trace.gradients)])
        yield Row(f"heap events per worker-step, {told}", 20.0, events)


def servers_of(kind: str, servers: int, network: dict[str, Any], steps: int = 5) -> Scenario:
    """64 workers, and so many servers that hold a tensor each in turn."""
    cluster = {"parameter_servers": servers, "placement": "round_robin"}
    return changed(kind, 64, steps, cluster=cluster, network=network)


def changed(
    kind: str,
    workers: int,
    steps: int,
    *,
    strategy: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None,
) -> Scenario:
    """The benchmarks' scenario of times only, changed in parts."""
    whole = scenario(kind, workers, steps, "timing").model_dump(exclude_unset=True)
    whole["strategies"] = ({**whole["strategies"][0], **(strategy or {})},)
    whole["cluster"] |= cluster or {}
    whole["cluster"]["network"] |= network or {}
    return Scenario.model_validate(whole)
