"""Engines: which of the two makes a run; no result depends on it."""

import os
from typing import Literal, TypeAlias, cast, get_args

from varsim.cluster.description.recovery import in_run
from varsim.cluster.fast import ENGINE
from varsim.cluster.fast.choice import can_compile, uncovered, weight, worth_compiling
from varsim.cluster.fast.local import LocalRun
from varsim.cluster.fast.mirrored import MirroredRun
from varsim.cluster.fast.rules import (
    Gate,
    NotCoveredError,
    Reading,
    Start,
    expected,
    keep_memory,
)
from varsim.cluster.fast.served import ServedRun
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy

Engine: TypeAlias = Literal["auto", "simpy", "fast"]


def chosen() -> Engine:
    """The engine that is asked for."""
    said = os.environ.get(ENGINE, "auto")
    if said not in get_args(Engine):
        raise ValueError(f"{ENGINE} is auto, simpy or fast, not {said!r}")
    return cast(Engine, said)


def reason_against(scenario: Scenario, strategy: Strategy) -> str:
    """Why the runs of a strategy are not for the engine for times alone; empty if they are."""
    cluster = scenario.cluster_of(strategy)
    rules = strategy.rules(cluster)
    if scenario.events:
        return "something happens to workers (events)"
    if in_run(scenario.failures):
        return "something happens to workers (failures)"
    if rules is None:
        return "the rules of this strategy are not among its own"
    workload, stop = scenario.workload_of(strategy), scenario.stop_of(strategy)
    return uncovered(cluster, workload, stop, rules, strategy.workers(cluster))


def machine_code_saves(scenario: Scenario, strategy: Strategy) -> float:
    """What a gradient costs SimPy that machine code can make (`weight`); 0 if it cannot."""
    cluster = scenario.cluster_of(strategy)
    rules = strategy.rules(cluster)
    if rules is None or reason_against(scenario, strategy):
        return 0.0
    return weight(cluster, rules)


def picks_fast(scenario: Scenario, strategy: Strategy, among: float = 0.0) -> bool:
    """Whether the engine for times alone makes the runs of a strategy, as far as it can.

    Left to itself in arrays always, else where machine code is worth its start; without numba no
    machine code is made. `among`: gradients of all runs that one process makes, if it makes many,
    each times its `weight`.
    """
    return not reason_against(scenario, strategy) and is_worth_it(scenario, strategy, among)


def is_worth_it(scenario: Scenario, strategy: Strategy, among: float = 0.0) -> bool:
    """The same of a strategy, if its runs are for that engine."""
    cluster = scenario.cluster_of(strategy)
    rules = strategy.rules(cluster)
    if chosen() == "simpy" or rules is None:
        return False
    if not isinstance(rules, Gate):
        return True
    if not can_compile():
        return False
    if chosen() == "fast":
        return True
    gradients = expected(scenario.stop_of(strategy), rules, scenario.workload_of(strategy))
    gain = weight(cluster, rules)
    return gain > 0 and max(gradients * gain, among) >= worth_compiling()


def fast_trace(
    scenario: Scenario,
    strategy: Strategy,
    replication: int,
    record: bool,
    among: float,
) -> Trace | None:
    """The trace of a run by the engine for times alone; None if it is one for SimPy.

    `among`: see `picks_fast`.
    """
    if not picks_fast(scenario, strategy, among):
        return None
    try:
        made = fast_run(scenario, strategy, replication)
        return made.trace(strategy.label, record=record)
    except NotCoveredError:
        return None


def fast_run(
    scenario: Scenario,
    strategy: Strategy,
    replication: int,
    *,
    interpreted: bool = False,
) -> ServedRun | MirroredRun | LocalRun:
    """A run by the engine for times alone; see ServedRun."""
    cluster = scenario.cluster_of(strategy)
    rules = strategy.rules(cluster)
    assert rules is not None
    keep_memory()
    workload, stop, seed = scenario.workload_of(strategy), scenario.stop_of(strategy), scenario.seed
    workers = strategy.workers(cluster)
    start = Start(cluster, workload, stop, seed, replication, workers)
    if isinstance(rules, Gate):
        return ServedRun(start, rules, interpreted=interpreted)
    return LocalRun(start, rules) if isinstance(rules, Reading) else MirroredRun(start, rules)
