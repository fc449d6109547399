"""Random scenarios: all laws and placements, N and T anywhere, ties and continuous times."""

import random
from collections.abc import Callable
from itertools import count
from typing import Any, Final, NamedTuple

from tests.oracle.agenda import DoubtfulError
from tests.oracle.history import History
from tests.oracle.replicas import expected
from tests.oracle.setting import setting
from varsim import Scenario

Drawn = dict[str, Any]

MOST_WORKERS: Final = 12
_MS: Final = 1e-3
_MODELS: Final = ("mobilenet_v2", "alexnet", "lstm_lm_1500", "dlrm_dense")


class Case(NamedTuple):
    """A scenario and what is to come out of it; `refused`: drawn before, but doubtful."""

    scenario: Scenario
    replication: int
    expected: History
    refused: list[Scenario]


def case(seed: int) -> Case:
    """The case of this seed."""
    refused = []
    for attempt in count():
        scenario, replication = drawn(f"{seed}/{attempt}"), attempt % 3
        try:
            return Case(scenario, replication, expected(setting(scenario, replication)), refused)
        except DoubtfulError:
            refused.append(scenario)
    raise AssertionError


# What a workload is put into for its size.
_ANY: Drawn = {
    "name": "any",
    "cluster": {
        "compute": {"kind": "constant", "value": 1.0},
        "workers": 1,
        "network": {"bandwidth": 1.0, "latency": 0.0},
    },
    "strategies": ({"kind": "none"},),
    "stop": {"global_steps": 1},
}


def drawn(seed: str) -> Scenario:
    """The scenario of this seed; a few hundred gradients at most."""
    source = random.Random(seed)
    workers = source.randint(1, MOST_WORKERS)
    # Computing takes some ms; whole ms are drawn often, so that much happens at once.
    # From a source of its own, so that a new law moves nothing else.
    apart = random.Random(f"{seed} law")
    compute = DISTRIBUTIONS[apart.choice([*DISTRIBUTIONS, "constant", "trace"])](apart, 0)
    workload = _workload(source)
    size = Scenario.model_validate({**_ANY, "workload": workload}).workload.size()
    strategy = _strategy(source, workers)
    cluster: Drawn = {
        "workers": workers,
        "compute": compute,
        "slow_workers": _slow_workers(source, workers),
        "parameter_servers": source.choice([1, 1, 2, 3, 5]),
        "placement": source.choice(["partitioned", "round_robin", "by_bytes"]),
        "network": _network(source, workers, size),
    }
    if source.random() < 0.1:
        strategy["on"] = {"parameter_servers": source.randint(1, 4)}
    # From a source of their own, too.
    after = random.Random(f"{seed} update")
    if after.random() < 0.5:
        cluster["server_update"] = _server_update(after, size)
    if strategy["kind"] == "none" and after.random() < 0.5:
        strategy["use_locking"] = True
    return Scenario.model_validate(
        {
            "name": "drawn",
            "seed": source.randrange(2**63),
            "replications": 3,
            "cluster": cluster,
            "workload": workload,
            "strategies": (strategy,),
            "stop": _stop(source, workers, workload["batch_size"], strategy),
        }
    )


def _strategy(source: random.Random, workers: int) -> Drawn:
    if source.random() < 0.3:
        return {"kind": "none"}
    most = 2 * workers + 2
    needed = source.choice([workers, source.randint(1, workers), source.randint(1, most)])
    total = source.choice([None, workers, needed, source.randint(1, most)])
    least = needed - (workers if total is None else total)
    enough = max(needed - workers, least)  # for the first update
    first = source.choice(
        [None, -1, least, source.randint(least, enough), enough, enough + 3, 2 * needed]
    )
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": needed}
    if total is not None:
        strategy["total_num_replicas"] = total
    if first is not None:
        strategy["initial_tokens"] = first
    return strategy


def _server_update(source: random.Random, size: int) -> Drawn:
    """Often whole ms, so that it ends as something else happens."""
    time = source.choice(
        [
            {"kind": "constant", "value": source.randint(1, 3) * _MS},
            {"kind": "constant", "value": source.choice([0.25, 0.5]) * _MS},
            {"kind": "exponential", "mean": source.uniform(0.1, 2) * _MS},
            {"kind": "trace", "seconds": ((1 * _MS, 2 * _MS), (1 * _MS,)), "replay": "cycle"},
        ]
    )
    update: Drawn = {"threads": source.choice([1, 1, 2])}
    if source.random() < 0.7:
        update["time"] = time
    if "time" not in update or source.random() < 0.3:
        update["rate"] = size / (source.choice([0.5, 1.0, source.uniform(0.1, 3)]) * _MS)
    return update


def _stop(source: random.Random, workers: int, batch_size: int, strategy: Drawn) -> Drawn:
    needed = strategy.get("replicas_to_aggregate", 1)
    copies = max(needed, strategy.get("total_num_replicas", workers))
    iterations = source.randint(10, 300)
    updates = max(1, iterations // (1 if strategy["kind"] == "none" else copies))
    by: Drawn = {
        "global_steps": updates,
        "examples": updates * batch_size * needed + source.randrange(batch_size),
        # Whole ms now and then, at which something else may happen, too.
        "time": source.choice([round, float])(source.uniform(1, 3) * iterations / workers) * _MS
        or _MS,
    }
    chosen = source.choice([*["global_steps"] * 4, "examples", "time", "any"])
    if chosen == "any":
        return by
    return {chosen: by[chosen]}


def _workload(source: random.Random) -> Drawn:
    problem: Drawn = source.choice(
        [
            {"kind": "quadratic", "dimension": source.randint(1, 30)},
            {"kind": "linear_regression", "features": source.randint(1, 30), "examples": 20},
            {"kind": "digits"},
            {"kind": "embedding", "dimension": source.randint(1, 8), "ratings": 100},
            {"kind": "digits", "model": "mlp", "hidden": source.randint(1, 8)},
            {"kind": "timing", "parts": source.randint(1, 6)},
        ]
    )
    workload: Drawn = {"problem": problem, "batch_size": source.randint(1, 8)}
    if problem["kind"] == "timing":
        return {**workload, "model": source.choice(_MODELS)}
    workload["optimizer"] = {"kind": "sgd", "learning_rate": 0.01}
    if source.random() < 0.2:
        workload["model"] = source.choice(_MODELS)
    if source.random() < 0.3:
        workload["evaluate_every"] = source.randint(1, 200)
    return workload


def _network(source: random.Random, workers: int, size: int) -> Drawn:
    """Transfers that take no time, or whole parts of a ms, or any time."""
    style = source.choice(["none", "even", "any", "any"])
    if style == "none":
        return {"bandwidth": 1e20, "latency": 0.0, "sharing": "first_come"}
    sharing = source.choice(["first_come", "fair"])
    some = source.choice([0.0, 1.0] if sharing == "first_come" else [0.0, 1.0, 1.0])
    if style == "even":
        share, latency = source.choice([0.25, 0.5, 1.0]), some * source.choice([0.25, 1.0])
    else:
        # Reads and pushes of all workers may be more than the servers' links can carry.
        share, latency = source.uniform(0.02, 4.0), some * source.uniform(0.001, 1)
    network: Drawn = {
        "bandwidth": size / (share * _MS),
        "latency": latency * _MS,
        "sharing": sharing,
    }
    if source.random() < 0.4:
        network["server_bandwidth"] = network["bandwidth"] * source.choice([0.5, 2.0, 1 / 3, 4.0])
    if source.random() < 0.5:
        # Links of all speeds: gradients overtake each other, one variable and not another.
        ranks = source.sample(range(workers), source.randint(1, workers))
        network["slow_links"] = tuple(
            {"rank": rank, "factor": source.choice([0.5, 2.0, 3.0, 10.0])} for rank in ranks
        )
    return network


def _slow_workers(source: random.Random, workers: int) -> tuple[Drawn, ...]:
    if source.random() < 0.6:
        return ()
    entries = []
    for _ in range(source.randint(1, 3)):
        factor = source.choice([2.0, 4.0, 0.5, source.uniform(0.5, 5)])
        entry: Drawn = {"rank": source.randrange(workers), "factor": factor}
        if source.random() < 0.5:
            entry["after"] = (
                source.choice([0.0, source.randint(1, 30), source.uniform(0, 30)]) * _MS
            )
        if source.random() < 0.5:
            entry["until"] = entry.get("after", 0.0) + source.uniform(1, 20) * _MS
        entries.append(entry)
    return tuple(entries)


def _law(source: random.Random, depth: int) -> Drawn:
    """Any law but one made of laws made of laws, and none of several workers."""
    deep = {"correlated"} | ({"mixture", "stages", "markov"} if depth else set())
    kinds = [kind for kind in DISTRIBUTIONS if kind not in deep]
    return DISTRIBUTIONS[source.choice([*kinds, "constant", "constant"])](source, depth)


def _trace(source: random.Random, depth: int) -> Drawn:
    rows = [
        tuple(source.randint(1, 5) * _MS for _ in range(source.randint(1, 8)))
        for _ in range(source.randint(1, 6))
    ]
    return {
        "kind": "trace",
        "seconds": tuple(rows),
        "replay": source.choice(["cycle", "resample"]),
    }


def _mixture(source: random.Random, depth: int) -> Drawn:
    parts = [
        {"weight": source.uniform(0.1, 2), "distribution": _law(source, depth + 1)}
        for _ in range(source.randint(2, 3))
    ]
    return {"kind": "mixture", "components": tuple(parts)}


def _stages(source: random.Random, depth: int) -> Drawn:
    return {
        "kind": "stages",
        "first": _law(source, depth + 1),
        "works": source.uniform(0.05, 0.95),
        "second": _law(source, depth + 1),
    }


def _markov(source: random.Random, depth: int) -> Drawn:
    return {
        "kind": "markov",
        "fast": _law(source, depth + 1),
        "slow": _law(source, depth + 1),
        "to_slow": source.uniform(0.05, 1),
        "to_fast": source.uniform(0.05, 1),
    }


def _correlated(source: random.Random, depth: int) -> Drawn:
    factors: Drawn = {
        "step": source.uniform(0.05, 0.5),
        "node": source.uniform(0.05, 0.5),
        "worker": source.uniform(0.05, 0.5),
    }
    for name in source.sample(sorted(factors), source.randint(0, 2)):
        del factors[name]
    if "node" in factors:
        factors["workers_per_node"] = source.randint(1, 4)
    return {"kind": "correlated", "distribution": _law(source, depth + 1), **factors}


def _ms(source: random.Random) -> float:
    return source.uniform(1, 5) * _MS


# How each law is drawn, by its kind: (source, depth) to what stands in a scenario.
DISTRIBUTIONS: Final[dict[str, Callable[[random.Random, int], Drawn]]] = {
    "constant": lambda s, _: {"kind": "constant", "value": s.randint(1, 5) * _MS},
    "uniform": lambda s, _: {"kind": "uniform", "low": _ms(s) - _MS, "high": 5 * _MS + _ms(s)},
    "normal": lambda s, _: {"kind": "normal", "mean": _ms(s), "std": _ms(s)},
    "exponential": lambda s, _: {"kind": "exponential", "mean": _ms(s)},
    "shifted_exponential": lambda s, _: {
        "kind": "shifted_exponential",
        "minimum": _ms(s) - _MS,
        "mean": 5 * _MS + _ms(s),
    },
    "lognormal": lambda s, _: {"kind": "lognormal", "mean": _ms(s), "sigma": s.uniform(0.1, 1.5)},
    "gamma": lambda s, _: {"kind": "gamma", "mean": _ms(s), "shape": s.uniform(0.5, 5)},
    "weibull": lambda s, _: {"kind": "weibull", "mean": _ms(s), "shape": s.uniform(0.6, 3)},
    "pareto": lambda s, _: {"kind": "pareto", "minimum": _ms(s), "alpha": s.uniform(1.2, 4)},
    "gumbel": lambda s, _: {
        "kind": "gumbel",
        "location": 4 * _MS + _ms(s),
        "scale": s.uniform(0.1, 1) * _MS,
    },
    "phases": lambda s, _: {"kind": "phases", "forward": _ms(s), "backward": s.randint(1, 5) * _MS},
    "mixture": _mixture,
    "stages": _stages,
    "markov": _markov,
    "trace": _trace,
    "correlated": _correlated,
    "batch_curve": lambda s, _: {
        "kind": "batch_curve",
        "fixed": _ms(s) - _MS,
        "per_example": _ms(s) / 4,
        "sigma": s.choice([None, s.uniform(0.1, 1)]),
    },
}
