"""Engines: which of the two makes a run; no result depends on it."""

import os
from typing import Literal, TypeAlias, cast, get_args

from varsim.cluster.flat.building import NotCoveredError
from varsim.cluster.flat.choice import can_compile, expected, uncovered, worth_compiling
from varsim.cluster.flat.rules import ENGINE
from varsim.cluster.flat.run import FlatRun
from varsim.cluster.recovery import in_run
from varsim.cluster.trace import Trace
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
    if scenario.events:
        return "something happens to workers (events)"
    if in_run(scenario.failures):
        return "something happens to workers (failures)"
    if strategy.rules(cluster) is None:
        return "the rules of this strategy are not among its own"
    return uncovered(cluster, scenario.workload_of(strategy), scenario.stop_of(strategy))


def picks_fast(scenario: Scenario, strategy: Strategy) -> bool:
    """Whether the engine for times alone makes the runs of a strategy, as far as it can.

    Left to itself where machine code is worth its start; never without numba.
    """
    rules = strategy.rules(scenario.cluster_of(strategy))
    if chosen() == "simpy" or not can_compile():
        return False
    if rules is None or reason_against(scenario, strategy):
        return False
    gradients = expected(scenario.stop_of(strategy), rules, scenario.workload_of(strategy))
    return chosen() == "fast" or gradients >= worth_compiling()


def fast_trace(
    scenario: Scenario, strategy: Strategy, replication: int, events: int | None, record: bool
) -> Trace | None:
    """The trace of a run by the engine for times alone; None if it is one for SimPy.

    `events`: it ends once so many have been put on the heap.
    """
    cluster = scenario.cluster_of(strategy)
    rules = strategy.rules(cluster)
    if rules is None or not picks_fast(scenario, strategy):
        return None
    try:
        return FlatRun(
            cluster,
            scenario.workload_of(strategy),
            scenario.stop_of(strategy),
            rules,
            seed=scenario.seed,
            replication=replication,
            workers=strategy.workers(cluster),
            events=events,
        ).trace(strategy.label, record=record)
    except NotCoveredError:
        return None
