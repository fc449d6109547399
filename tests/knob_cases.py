"""Pairs of scenarios that differ in one place, and what they start from."""

from collections.abc import Iterator
from typing import Any

from tests.building import declared, example
from tests.seams import STRATEGIES
from varsim.strategies.base import Pair

Case = dict[str, Any]

# A network on which bytes take time; 4 servers or 1 all have work.
WIRE = {"bandwidth": 1e4, "latency": 1e-3, "sharing": "fair"}


def two(base: Case, **pairs: tuple[Any, Any]) -> tuple[Case, Case]:
    """Two cases that differ in one place: `key=(one, other)`, deeper keys as `part__key`."""
    cases: list[Case] = []
    for side in (0, 1):
        case = {
            key: dict(value) if isinstance(value, dict) else value for key, value in base.items()
        }
        for path, pair in pairs.items():
            *parts, key = path.split("__")
            place = case
            for part in parts:
                place = place.setdefault(part, {})
            place[key] = pair[side]
        cases.append(case)
    return cases[0], cases[1]


def law(kind: str, **pairs: Any) -> tuple[Case, Case]:
    """Laws of compute times that differ in one setting, the pair among them."""
    one, other = (
        {key: value[side] if isinstance(value, tuple) and len(value) == 2 else value
         for key, value in pairs.items()}
        for side in (0, 1)
    )  # fmt: skip
    return two(
        {"strategy": "on_write", "cluster": {"workers": 3}, "stop": {"global_steps": 20}},
        cluster__compute=({"kind": kind, **one}, {"kind": kind, **other}),
    )


def learning(kind: str, **pairs: Any) -> tuple[Case, Case]:
    """Optimizers that differ in one setting."""
    return two(
        {"strategy": "single", "optimizer": {"kind": kind, "learning_rate": 0.05}},
        **{f"optimizer__{key}": pair for key, pair in pairs.items()},
    )


def problem(kind: str, base: Case | None = None, **pairs: Any) -> tuple[Case, Case]:
    """Problems that differ in one setting."""
    return two(
        {"strategy": "on_write", "network": WIRE, "problem": {"kind": kind, **(base or {})}},
        **{f"problem__{key}": pair for key, pair in pairs.items()},
    )


SERVED: Case = {
    "strategy": "none",
    "network": WIRE,
    "problem": {"kind": "linear_regression"},
    "cluster": {"workers": 4, "parameter_servers": 2},
    "stop": {"global_steps": 12},
}
# Variables of 40 and of 4 bytes on 4 servers.
CUT: Case = {
    **SERVED,
    "cluster": {"workers": 4, "parameter_servers": 4, "placement": "round_robin"},
}
SYNCHRONOUS: Case = {
    "strategy": {"kind": "sync_replicas", "replicas_to_aggregate": 2},
    "network": WIRE,
    "cluster": {"compute": {"kind": "exponential", "mean": 0.1}},
    "stop": {"global_steps": 12},
}
MIRRORED: Case = {"strategy": "on_write", "network": WIRE}
DEVICE: Case = {
    "strategy": "on_write",
    "workload": {"model": "resnet50", "batch_size": 32},
    "cluster": {"compute": None, "device": {"preset": "a100_sxm_80gb"}},
}
STRAGGLER: Case = {"strategy": "on_write", "stop": {"global_steps": 5}}
FAST = {"kind": "constant", "value": 0.1}
SLOW = {"kind": "constant", "value": 0.3}
MARKOV = {"fast": FAST, "slow": SLOW, "to_slow": 0.4, "to_fast": 0.4}
OTHER_STAR = {**WIRE, "bandwidth": 2e4}


def kill(at: float, worker: int) -> Case:
    return {"at": at, "kill": {"worker": worker}}


def weights(*numbers: float) -> tuple[Case, ...]:
    return tuple(
        {"weight": weight, "law": one} for weight, one in zip(numbers, (FAST, SLOW), strict=True)
    )


def mixed(one: Case, other: Case) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    return (
        ({"weight": 1.0, "law": FAST}, {"weight": 1.0, "law": one}),
        ({"weight": 1.0, "law": FAST}, {"weight": 1.0, "law": other}),
    )


def layers(backward: float, size: float) -> tuple[Case, ...]:
    """Two layers; the second one, of which this says what it takes, is ready first."""
    return ({"backward": 1.0, "size": 1e3}, {"backward": backward, "size": size})


def _of_a_strategy(kind: str) -> Iterator[tuple[str, tuple[Case, Case]]]:
    """Of every strategy its own fields, its optimizer and, where it uses a network, `on`."""
    model, strategy = STRATEGIES[kind], example(kind, 4)
    base: Case = {
        "strategy": strategy,
        "network": WIRE,
        "problem": {"noise": 1.0},
        "optimizer": {"kind": "momentum", "learning_rate": 0.1},
        "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
        "workload": {"layers": layers(1.0, 1e3)},
        "stop": {"global_steps": 12},
    }
    trained = {**base, "workload": {"optimizer": None}}
    for field, other in model.others.items():
        settings = other if isinstance(other, Pair) else Pair({}, {field: other})
        one, changed = ({**strategy, **each} for each in settings)
        assert {key for key in {*one, *changed} if one.get(key) != changed.get(key)} == {field}
        around = trained if "optimizer" in changed else base
        if field == "on_death":
            around = {**base, "events": (kill(0.3, 1),), "stop": {"time": 3.0}}
        yield f"{model.__name__}.{field}", two(around, strategy=(one, changed))
    rates = tuple({"kind": "sgd", "learning_rate": rate} for rate in (0.1, 0.2))
    yield f"{model.__name__}.optimizer", two(trained, strategy__optimizer=rates)
    if declared(strategy).sends.to != "nobody":
        yield f"{model.__name__}.on", two(base, strategy__on=(None, {"network": OTHER_STAR}))


OF_STRATEGIES = dict(pair for kind in STRATEGIES for pair in _of_a_strategy(kind))
