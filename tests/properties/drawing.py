"""Random scenarios of anything a scenario of training can say, each of a few dozen gradients."""

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from hypothesis import reject
from hypothesis.strategies import DrawFn, composite, randoms
from pydantic import ValidationError

from tests.building import declared, example
from tests.seams import STRATEGIES
from varsim import Scenario

Drawn = dict[str, Any]

_MS: Final = 1e-3
_KIB: Final = 1024
# Small models: their tensors are real, and no gradient takes long to be counted.
_MODELS: Final = ("mobilenet_v2", "alexnet", "lstm_lm_1500", "dlrm_dense")
_COLLECTIVES: Final = (
    *("ring", "recursive_doubling", "halving_doubling", "binomial_tree", "double_binary_tree"),
    *("hierarchical", "push_pull"),
)
# Of these everything is drawn that they can be; of others their example, changed now and then.
_DRAWN: Final = ("on_write", "on_write", "on_read", "none", "sync_replicas", "backup_workers")
_OTHERS: Final = tuple(kind for kind in STRATEGIES if kind not in (*_DRAWN, "single"))


class _Outline(NamedTuple):
    """What must be known of a scenario before the rest of it is drawn."""

    workers: int
    strategies: tuple[Drawn, ...]
    events: bool  # something may happen to its processes

    def any(self, key: str) -> bool:
        """Whether a strategy has this switched on."""
        return any(strategy.get(key) for strategy in self.strategies)

    def kinds(self) -> set[str]:
        """The kinds of its strategies; `push_pull` of an all-reduce by servers."""
        return {s.get("collective", "") for s in self.strategies} & {"push_pull"} | {
            strategy["kind"] for strategy in self.strategies
        }

    def servers(self) -> bool:
        """Whether there are parameter servers."""
        return any(declared(strategy).traits.uses_servers for strategy in self.strategies)

    def all_servers(self) -> bool:
        """Whether each strategy has parameter servers."""
        return all(self._replace(strategies=(s,)).servers() for s in self.strategies)


def drawn(seed: int) -> Scenario:
    """The scenario of this seed: of what is drawn for it the first that is valid."""
    for attempt in range(100):
        with suppress(ValidationError):
            source, apart = f"{seed}/{attempt}", f"{seed}/{attempt} apart"
            return Scenario.model_validate(described(random.Random(source), random.Random(apart)))
    raise AssertionError(f"nothing valid is drawn for seed {seed}")


@composite
def scenarios(draw: DrawFn) -> Scenario:
    """Any scenario of training, as a strategy of Hypothesis, which makes it small if it fails."""
    source = draw(randoms(use_true_random=False))
    try:
        return Scenario.model_validate(described(source, source))
    except ValidationError:
        reject()


def described(source: random.Random, apart: random.Random) -> Drawn:
    """What a scenario file could say; most of it is valid.

    What was thought of later is drawn from `apart`, so that it moves nothing else of a seed.
    """
    outline = _outline(source)
    size, workload = _workload(source, outline)
    whole = {
        "name": "drawn",
        "seed": source.randrange(2**63),
        "replications": source.choice([1, 1, 2]),
        "cluster": _cluster(source, outline, size),
        "workload": workload,
        "strategies": outline.strategies,
        "stop": _stop(source, outline, workload["batch_size"]),
    }
    if outline.events:
        whole["events"] = tuple(_events(source, outline))
    cluster = whole["cluster"]
    if outline.any("overlap") and apart.random() < 0.3:
        cluster["overlap_pace"] = apart.choice([0.3, 0.7, 0.9])
    for strategy in outline.strategies:
        if strategy["kind"] == "on_write" and apart.random() < 0.4:
            strategy["micro_batches"] = apart.randint(1, 4)
            if apart.random() < 0.6:
                strategy["drop_compute"] = {"threshold": 10 ** apart.uniform(-2, 0)}
        elif (
            (strategy["kind"], strategy.get("collective")) == ("on_write", "ring")
            and not outline.events
            and "overlap_pace" not in cluster
            and apart.random() < 0.5
        ):
            sharding = apart.choice([None, "optimizer", "gradients", "parameters"])
            if "overlap" in strategy and sharding != "parameters":
                strategy["overlap"] = apart.choice([True, "forward"])
            strategy["sharding"] = sharding
    _in_common(apart, outline, whole)
    return whole


def _in_common(source: random.Random, outline: _Outline, whole: Drawn) -> None:
    """Nodes whose rings go side by side, shards in groups, factors in common, protocols."""
    workers, cluster = outline.workers, whole["cluster"]
    sizes = [size for size in range(2, workers) if workers % size == 0]
    if cluster["network"]["kind"] == "nodes" and sizes and source.random() < 0.5:
        size = source.choice(sizes)
        cluster["network"] |= {"workers_per_node": size, "nics": source.randint(2, size)}
    for strategy in outline.strategies:
        if strategy.get("sharding") and sizes:
            strategy |= _some(source, 0.4, shard_group=lambda: source.choice(sizes))
            strategy |= _some(source, 0.4, micro_batches=lambda: source.randint(2, 3))
        if strategy.get("collective") == "hierarchical" and not outline.events:
            strategy |= _some(source, 0.5, segment_size=lambda: source.uniform(0.05, 1) * 1e5)
    if source.random() < 0.15:
        spread = source.choice([{"step": 0.3}, {"worker": 0.3}, {"step": 0.2, "worker": 0.1}])
        cluster["compute"] = {"kind": "correlated", "distribution": cluster["compute"], **spread}
    network = cluster["network"]
    reduces = any(declared(one).sends.to == "workers" for one in outline.strategies)
    if reduces and network["latency"] and source.random() < 0.2:
        protocol = {"latency": network["latency"] / 4, "payload": source.choice([0.5, 0.92])}
        inside = {"inside_latency": 0.0} if network["kind"] == "nodes" else {}
        network["protocols"] = ({**protocol, **inside},)


def _some(source: random.Random, share: float, **values: Any) -> Drawn:
    """Each of these keys, as often as `share` says; functions are called for their value."""
    return {
        key: value() if callable(value) else value
        for key, value in values.items()
        if source.random() < share
    }


def _outline(source: random.Random) -> _Outline:
    workers = source.randint(1, 8)
    events = source.random() < 0.4
    overlap = not events and source.random() < 0.25
    strategies = []
    for number in range(source.choice([1, 1, 2])):
        strategy = _strategy(source, workers, overlap, events)
        if source.random() < 0.1:
            strategy["on"] = {"network": _network(source, workers, 1e5, False)}
        strategies.append({**strategy, "name": f"s{number}"})
    return _Outline(workers, tuple(strategies), events)


def _strategy(source: random.Random, workers: int, overlap: bool, events: bool) -> Drawn:
    kind = source.choice([*_DRAWN, *_OTHERS])
    on = {"overlap": True} if overlap else {}
    if kind in _OTHERS:
        more = dict(STRATEGIES[kind].others)
        made = example(kind, workers) | (on if more.pop("overlap", False) else {})
        for key, value in _some(source, 0.5, **more).items():
            made |= getattr(value, "other", {key: value})  # one setting, or a pair of some
        return made
    if kind == "on_read":
        return {
            "kind": kind,
            "read_every": source.randint(1, 6),
            "aggregation": source.choice(["mean", "sum", "only_first_replica"]),
            "write_back": source.random() < 0.5,
        }
    if kind == "none":
        return {"kind": kind, "use_locking": source.random() < 0.4, **on}
    if kind == "backup_workers":
        return {"kind": kind, "replicas_to_aggregate": source.randint(1, workers), **on}
    if kind == "sync_replicas":
        needed = source.randint(1, workers + 2)
        more = _some(
            source,
            0.3,
            total_num_replicas=lambda: source.randint(1, workers + 2),
            initial_tokens=lambda: source.randint(-1, 2 * workers),
        )
        return {"kind": kind, "replicas_to_aggregate": needed, **more, **on}
    collective = source.choice([*_COLLECTIVES, "ring", "ring"])
    if events and collective == "push_pull":
        collective = "ring"
    strategy = {"kind": kind, "collective": collective, **on}
    if collective.startswith("hierarchical"):
        groups = [size for size in range(1, workers + 1) if workers % size == 0]
        strategy["ranks_per_group"] = source.choice(groups)
    if collective == "double_binary_tree":
        strategy |= _some(source, 0.5, segment_size=lambda: source.uniform(0.05, 1) * 1e5)
    if collective != "push_pull" and source.random() < 0.4:
        strategy |= source.choice(
            [
                {"bucketing": "layers"},
                {"bucketing": "bytes_per_pack", "bucket_size": source.uniform(1, 100) * _KIB},
                {"bucket_size": source.uniform(1, 100) * _KIB, "first_bucket_size": 4.0 * _KIB},
            ]
        )
    return strategy


def _workload(source: random.Random, outline: _Outline) -> tuple[float, Drawn]:
    """Bytes of a gradient, roughly, and what is trained."""
    problem: Drawn = source.choice(
        [
            {"kind": "quadratic", "dimension": source.randint(1, 30), "noise": 0.1},
            {"kind": "linear_regression", "features": source.randint(1, 30), "examples": 20},
            {"kind": "digits", "model": "mlp", "hidden": source.randint(1, 6)},
            {"kind": "embedding", "users": 12, "items": 9, "dimension": 3, "ratings": 60},
            {"kind": "timing", "parts": source.randint(1, 4)},
            {"kind": "timing", "parts": 1},
        ]
    )
    workload: Drawn = {"problem": problem, "batch_size": source.randint(1, 8)}
    size = {"digits": 2000.0, "embedding": 500.0}.get(problem["kind"], 60.0)
    timing = problem["kind"] == "timing"
    if not timing:
        rules = ["sgd", "momentum", "adam", "adagrad", "rmsprop"]
        workload["optimizer"] = {"kind": source.choice(rules), "learning_rate": 0.01}
        workload |= _some(source, 0.2, evaluate_every=lambda: source.randint(1, 50))
        workload |= _some(source, 0.2, bytes_per_parameter=lambda: source.randint(1, 8))
    elif not outline.any("overlap") and source.random() < 0.5:
        size = 10 ** source.uniform(0, 7)
        problem["size"] = float(round(size))
        return size, workload
    if source.random() < 0.5 or timing:
        if source.random() < 0.6:
            size = 1e5
            workload["layers"] = tuple(
                {"backward": float(source.randint(0, 5)), "size": float(source.randint(10, 40_000))}
                for _ in range(source.randint(2, 6))
            )
        else:
            size, workload["model"] = 1e8, source.choice(_MODELS)
            if outline.any("overlap"):
                workload |= _some(source, 0.5, layers=source.choice(["by_flops", "by_bytes"]))
    if "layers" not in workload or isinstance(workload["layers"], str):
        if any(declared(strategy).sends.what == "gradients" for strategy in outline.strategies):
            workload |= _some(source, 0.2, gradient_precision=source.choice(["fp16", "bf16"]))
        if "gradient_precision" in workload and not timing:
            workload |= _some(source, 0.5, round_gradients=True)
    return size, workload


def _cluster(source: random.Random, outline: _Outline, size: float) -> Drawn:
    workers = outline.workers
    cluster: Drawn = {
        "workers": workers,
        "compute": _law(source, 0),
        "network": _network(source, workers, size, outline.all_servers()),
        **_some(source, 0.3, slow_workers=lambda: _slow_workers(source, workers)),
    }
    made = [declared(strategy) for strategy in outline.strategies]
    if outline.servers():
        cluster["parameter_servers"] = source.choice([1, 1, 2, 3])
        cluster |= _some(source, 0.3, server_update=lambda: _server_update(source))
        if source.random() < 0.5:
            cluster["placement"] = source.choice(["round_robin", "by_bytes"])
            cluster |= _some(source, 0.5, partitioner=lambda: _partitioner(source, size))
        if source.random() < 0.2 and "server_bandwidth" not in cluster["network"]:
            cluster["servers_on"] = "workers"
    if any(strategy.traits.updates_copies for strategy in made):
        cluster |= _some(source, 0.3, optimizer_time=source.choice([1 * _MS, 0.3 * _MS]))
    if outline.any("overlap"):
        cluster |= _some(source, 0.3, backward_share=lambda: source.uniform(0.1, 1))
    if source.random() < 0.3:
        cluster["overheads"] = _overheads(source, outline)
    return cluster


def _overheads(source: random.Random, outline: _Outline) -> Drawn:
    names = {"first_iteration"}
    for strategy in map(declared, outline.strategies):
        names |= strategy.subject_to() if strategy.sends.what == "gradients" else set()
    chosen = source.sample(sorted(names), source.randint(1, len(names)))
    return {
        name: 10 ** source.uniform(6, 9)
        if name in ("payload", "reduction")
        else source.choice([1.0, 0.1, source.uniform(0.01, 2)]) * _MS
        for name in chosen
    }


def _server_update(source: random.Random) -> Drawn:
    described = source.choice(
        [
            {"time": {"kind": "constant", "value": source.randint(1, 3) * _MS}},
            {"time": {"kind": "exponential", "mean": 1 * _MS}},
            {"rate": 1e7},
            {"time": {"kind": "constant", "value": 1 * _MS}, "rate": 1e8},
        ]
    )
    return {**described, "threads": source.randint(1, 3)}


def _partitioner(source: random.Random, size: float) -> Drawn:
    part = max(1.0, float(round(size / source.randint(1, 6))))
    return source.choice(
        [
            {"kind": "fixed", "shards": source.randint(2, 4)},
            {"kind": "min_size", "size": part, "max_shards": source.randint(2, 4)},
            {"kind": "max_size", "size": part, "max_shards": source.randint(2, 5)},
        ]
    )


def _network(source: random.Random, workers: int, size: float, servers: bool) -> Drawn:
    """Any kind; a whole gradient takes next to no time, some ms, or most of the time."""
    kind = source.choice(["star", "star", "full_mesh", "racks", "nodes"])
    holds = source.choice([1e-6, source.choice([0.25, 1.0]), source.uniform(0.05, 8), 30.0]) * _MS
    network: Drawn = {
        "kind": kind,
        "bandwidth": size / holds,
        "latency": source.choice([0.0, 1.0, source.uniform(0.001, 2), 20.0]) * _MS,
        "sharing": source.choice(["fair", "first_come"]),
        **_some(source, 0.1, efficiency=0.7),
        **_some(source, 0.2, message_overhead=source.choice([0.01, 0.1, 1.0]) * _MS),
    }
    if source.random() < 0.2:
        network |= {"flows": 2, "flow_bandwidth": network["bandwidth"] * source.choice([0.1, 1.0])}
    if source.random() < 0.3:
        ranks = source.sample(range(workers), source.randint(1, workers))
        network["slow_links"] = tuple(
            {"rank": rank, "factor": source.choice([0.5, 2.0, 10.0])} for rank in ranks
        )
    if servers and kind in ("star", "racks", "nodes"):
        network |= _some(source, 0.3, server_bandwidth=network["bandwidth"] * 3)
    if kind == "racks":
        network["hosts_per_rack"] = source.randint(1, 4)
        network |= _some(source, 0.5, uplink_latency=0.5 * _MS)
        network |= source.choice(
            [{"oversubscription": 4.0}, {"uplink_bandwidth": network["bandwidth"] * 2}]
        )
    if kind == "nodes":
        network["workers_per_node"] = source.randint(1, 4)
        network["nics"] = source.randint(1, network["workers_per_node"])
        network["inside"] = {
            "bandwidth": network["bandwidth"] * source.choice([1.0, 10.0]),
            "latency": source.choice([0.0, 0.01 * _MS]),
            "shared": source.random() < 0.4,
        }
    return network


def _stop(source: random.Random, outline: _Outline, batch_size: int) -> Drawn:
    """A few dozen gradients; the time is there for runs that would stand still."""
    steps = source.randint(1, 60 // outline.workers)
    chosen = source.choice(["global_steps", "examples", "time", "both"])
    time = source.choice([float(source.randint(2, 80)), source.uniform(2, 300)]) * _MS
    limits: Drawn = {
        "global_steps": steps,
        "examples": steps * batch_size,
        "time": time,
    }
    if chosen == "both":
        return {"global_steps": steps, "time": time}
    return {chosen: limits[chosen]}


def _events(source: random.Random, outline: _Outline) -> Iterator[Drawn]:
    """Deaths and restarts, in order of their times; now and then the chief ends in good order."""
    time, dead = 0.0, set[int]()
    for _ in range(source.randint(1, 4)):
        time += source.choice([float(source.randint(0, 12)), source.uniform(0, 30)]) * _MS
        rank = source.randrange(outline.workers)
        if rank in dead:
            dead.remove(rank)
            yield {"at": time, "restart": {"worker": rank}}
        else:
            dead.add(rank)
            yield {"at": time, "kill": {"worker": rank}}
    if (
        all(declared(one).sends.committed_by == "chief" for one in outline.strategies)
        and 0 not in dead
        and source.random() < 0.3
    ):
        yield {"at": time + 1 * _MS, "stop": "chief"}


def _slow_workers(source: random.Random, workers: int) -> tuple[Drawn, ...]:
    entries = []
    for _ in range(source.randint(1, 2)):
        entry: Drawn = {
            "rank": source.randrange(workers),
            "factor": source.choice([2.0, 0.5, source.uniform(0.5, 5)]),
            **_some(source, 0.4, after=lambda: source.randint(0, 20) * _MS),
        }
        entry |= _some(source, 0.4, until=entry.get("after", 0.0) + source.randint(1, 20) * _MS)
        entries.append(entry)
    return tuple(entries)


def _law(source: random.Random, depth: int) -> Drawn:
    """Some ms, often whole ones, so that much happens at once."""
    mean = source.choice([float(source.randint(1, 5)), source.uniform(1, 5)]) * _MS
    laws: list[Drawn] = [
        {"kind": "constant", "value": mean},
        {"kind": "constant", "value": mean},
        {"kind": "exponential", "mean": mean},
        {"kind": "uniform", "low": 0.0, "high": 2 * mean},
        {"kind": "normal", "mean": mean, "std": mean / 2},
        {"kind": "lognormal", "mean": mean, "sigma": 0.8},
        {"kind": "pareto", "minimum": mean / 2, "alpha": 1.5},
        {"kind": "batch_curve", "fixed": mean / 2, "per_example": mean / 4},
        {"kind": "phases", "forward": mean / 2, "backward": mean},
        {"kind": "trace", "seconds": ((mean, 2 * mean, 3 * mean), (mean,)), "replay": "cycle"},
    ]
    if depth == 0 and source.random() < 0.1:
        fast, slow = _law(source, 1), _law(source, 1)
        return {"kind": "markov", "fast": fast, "slow": slow, "to_slow": 0.3, "to_fast": 0.5}
    return source.choice(laws)
