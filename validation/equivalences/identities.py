"""The identities: what is compared with what, and how far apart they may be."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from validation.equivalences.alone import Replica, of_all
from validation.equivalences.scaling import stretched
from validation.equivalences.trials import (
    MOST_WORKERS,
    STEPS,
    begun,
    calm,
    calm_trial,
    distance,
    trial,
)
from varsim.cluster.record.trace import GradientRow, Trace
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy
from varsim.strategies.none import NoSynchronization
from varsim.strategies.on_read import OnRead
from varsim.strategies.on_write import OnWrite
from varsim.strategies.single import Single
from varsim.strategies.sync_replicas import SyncReplicas

# Of sums in another order: 2^-53 for each of a few hundred additions, over STEPS updates.
ROUNDING: Final = 1e-12
SLOWER: Final = 8
# Durations are rounded to whole ns before and after. Where workers queue at a server, 1 ns becomes
# ten every fifty gradients or so; hence a course of STEPS updates and no more.
CLOCK: Final = 1e-6
_OF_A_COURSE: Final = (
    "worker",
    "iteration",
    "read_step",
    "applied_step",
    "outcome",
    "parts_applied",
)


class Comparison(NamedTuple):
    """Two things that must be equal: how far apart they are, relative to what they are."""

    name: str
    quantity: str
    apart: float
    most: float


class Identity(NamedTuple):
    """`statement`: what must hold. `unless`: why it says nothing of a scenario; else empty."""

    name: str
    statement: str
    compare: Callable[[Scenario], Iterator[Comparison]]
    unless: Callable[[Scenario], str]


def _synchronous(scenario: Scenario) -> Iterator[Comparison]:
    with_unit, waited = calm_trial(scenario, OnWrite()), _waiting_for_all(scenario)
    yield _models(waited.label, with_unit.model, calm_trial(scenario, waited).model)


def _not_stale(scenario: Scenario) -> Iterator[Comparison]:
    alone = calm_trial(scenario, Single())
    others: list[Strategy] = [
        NoSynchronization(),
        SyncReplicas(replicas_to_aggregate=1, initial_tokens=0),
        OnWrite(),
        OnRead(read_every=STEPS),
    ]
    for strategy in others:
        model = calm_trial(scenario, strategy, workers=1).model
        yield _models(f"{strategy.kind} of one worker", alone.model, model, most=0.0)


def _one_big_batch(scenario: Scenario) -> Iterator[Comparison]:
    made = calm(scenario, OnWrite())
    first = made.model_copy(update={"stop": made.stop.model_copy(update={"global_steps": 1})})
    big = of_all(made)
    yield _models(
        f"{made.cluster.workers} batches of {made.workload.batch_size}",
        big,
        trial(first, OnWrite()).model,
    )


def _sum_of_replicas(scenario: Scenario) -> Iterator[Comparison]:
    read = OnRead(read_every=STEPS, aggregation="sum")
    made = calm(scenario, read)
    replicas = [Replica(made, rank) for rank in range(made.cluster.workers)]
    for replica in replicas:
        replica.train(STEPS)
    total = tuple(sum(parts) for parts in zip(*(one.values for one in replicas), strict=True))
    yield _models(f"{len(replicas)} replicas", total, trial(made, read).model)


def _shards(scenario: Scenario) -> Iterator[Comparison]:
    waited = _waiting_for_all(scenario)
    whole = calm_trial(scenario, waited)
    for placement in ("partitioned", "round_robin", "by_bytes"):
        for shards in (2, 4):
            cut = calm_trial(scenario, waited, parameter_servers=shards, placement=placement)
            yield _models(f"{shards} shards, {placement}", whole.model, cut.model)


def _collectives(scenario: Scenario) -> Iterator[Comparison]:
    ring = calm_trial(scenario, OnWrite())
    others = [
        "recursive_doubling",
        "halving_doubling",
        "binomial_tree",
        "double_binary_tree",
    ]
    for name in others:
        other = calm_trial(scenario, OnWrite(collective=name))
        yield _models(name, ring.model, other.model)


def _slow_motion(scenario: Scenario) -> Iterator[Comparison]:
    short = begun(scenario).with_distribution_alone()
    slow = stretched(short, SLOWER)
    for strategy in scenario.strategies:
        as_it_is = trial(short, strategy).trace
        other = trial(slow, stretched(strategy, SLOWER)).trace
        same = np.array_equal(_course(as_it_is), _course(other))
        yield Comparison(strategy.label, "another course of events (0: none)", float(not same), 0.0)
        if same:
            yield Comparison(
                strategy.label,
                "relative difference of the end",
                abs(other.end / (SLOWER * as_it_is.end) - 1),
                CLOCK,
            )


def _again(scenario: Scenario) -> Iterator[Comparison]:
    short = begun(scenario)
    for strategy in scenario.strategies:
        one, other = (trial(short, strategy) for _ in range(2))
        same = np.array_equal(one.trace.gradients, other.trace.gradients)
        same = same and one.trace.end == other.trace.end
        yield Comparison(strategy.label, "another course of events (0: none)", float(not same), 0.0)
        if scenario.workload.has_values:
            yield _models(strategy.label, one.model, other.model, most=0.0)


def _values(scenario: Scenario) -> str:
    return "" if scenario.workload.has_values else "problem timing has no values to be equal"


def _sent_as_they_are(scenario: Scenario) -> str:
    if scenario.workload.round_gradients:
        return "gradients are rounded before they are sent; a device alone rounds none"
    return _values(scenario)


def _dense_values(scenario: Scenario) -> str:
    if any(spec.rows_per_example is not None for spec in scenario.workload.problem.variables()):
        return (
            "a sparse accumulator divides each row by the number of gradients that have it, an "
            "all-reduce by the number of replicas"
        )
    return _values(scenario)


def _anything(scenario: Scenario) -> str:
    return ""


IDENTITIES: Final = (
    Identity(
        "sync_replicas equals on_write",
        "as many gradients as workers, and no straggler: the same updates",
        _synchronous,
        _dense_values,
    ),
    Identity(
        "staleness 0 is synchronous",
        "one worker alone reads what it has just written: every strategy trains as one device does",
        _not_stale,
        _sent_as_they_are,
    ),
    Identity(
        "n workers are one big batch",
        "one synchronous update equals that of a device with all their examples in one batch",
        _one_big_batch,
        _sent_as_they_are,
    ),
    Identity(
        "ON_READ SUM is the sum of the replicas",
        "what is read is the sum of what each replica has learnt alone",
        _sum_of_replicas,
        _values,
    ),
    Identity(
        "sharding keeps the values",
        "the variables are the same on 1, 2 and 4 servers, however they are placed",
        _shards,
        _values,
    ),
    Identity(
        "the collective keeps the values",
        "whichever algorithm adds the gradients up, the sum is the same",
        _collectives,
        _values,
    ),
    Identity(
        "slow motion",
        f"all times {SLOWER} times as long, all rates as much lower: the same run, "
        f"{SLOWER} times as long, over the first {STEPS} updates",
        _slow_motion,
        _anything,
    ),
    Identity("once more", "the same scenario gives the same run", _again, _anything),
)


def _waiting_for_all(scenario: Scenario) -> SyncReplicas:
    workers = min(scenario.cluster.workers, MOST_WORKERS)
    name = f"{workers} of {workers} gradients"
    return SyncReplicas(name=name, replicas_to_aggregate=workers, initial_tokens=0)


def _models(name: str, one: Any, other: Any, most: float = ROUNDING) -> Comparison:
    quantity = "largest difference of a parameter, relative to the largest"
    return Comparison(name, quantity, distance(one, other), most)


def _course(trace: Trace) -> Any:
    """Which gradients came to an end, in order, how stale and with what outcome; no times."""
    columns = {name: index for index, name in enumerate(GradientRow._fields)}
    ended = trace.gradients[trace.gradients[:, columns["applied"]] >= 0]
    return ended[:, [columns[name] for name in _OF_A_COURSE]]
