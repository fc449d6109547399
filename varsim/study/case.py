"""A case is one strategy at one point; points at which nothing differs for it share their case."""

import hashlib
import json
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from varsim.cluster.description.stragglers import SlowWorker
from varsim.cluster.record.trace import Trace
from varsim.scenario import extensions
from varsim.scenario.extensions import needs
from varsim.scenario.training import AnyScenario, Scenario
from varsim.scenario.use import without_unused
from varsim.scenario.writing import trace_sha256
from varsim.strategies import Strategy
from varsim.study import metrics as measuring
from varsim.study.beginning import hopeless
from varsim.study.gradients import GradientTable, micro_batches, warm_up, window
from varsim.study.lives import interval_chosen, of_life
from varsim.study.metrics import COMPUTED, SENT, sent_per_second
from varsim.study.simulation import Run, run_one
from varsim.version import ENGINE_VERSION


class Case(NamedTuple):
    """One strategy at one point, alone; `key` is the same wherever the numbers are the same."""

    key: str
    scenario: AnyScenario


class CaseTask(NamedTuple):
    """One run that is to be made; `packed` is the pickled scenario of its case."""

    key: str
    replication: int
    packed: bytes


class Finished(NamedTuple):
    """One run that was made: every metric, or why there are none; `seconds` is what it took.

    `trace` is the hash of what was simulated.
    """

    key: str
    replication: int
    seconds: float
    measured: dict[str, float]
    failure: str = ""
    trace: str = ""


def case_of(scenario: AnyScenario, strategy: Strategy) -> Case:
    """One strategy of a scenario as a case: without all that makes no difference to its runs."""
    alone = _alone(scenario, strategy)
    said = {"engine": ENGINE_VERSION, "scenario": alone.model_dump(mode="python")}
    if needed := [need.identity for need in needs(alone)]:
        said["needs"] = needed
    text = json.dumps(said, sort_keys=True, allow_nan=False)
    return Case(hashlib.sha256(text.encode()).hexdigest(), alone)


def packed(case: Case) -> bytes:
    """The scenario of a case as a Task carries it to another process."""
    return extensions.packed(case.scenario)


def run_tasks(
    tasks: Iterable[CaseTask], engine: int = ENGINE_VERSION, among: float = 0.0
) -> list[Finished]:
    """Make some runs, here, one after the other. One that fails is no reason not to go on.

    One in which more failures would strike than are followed is not begun.

    `among`: gradients of all runs that this process is to make.
    """
    if engine != ENGINE_VERSION:
        raise RuntimeError(
            f"this process has engine {ENGINE_VERSION} of varsim, the sweep is of {engine}"
        )
    return [_run(task, among) for task in tasks]


def measured(scenario: AnyScenario, trace: Trace) -> dict[str, float]:
    """Every number of a run alone: all in TABLE but comparisons and prices."""
    span = window(scenario, trace)
    split = spent = measuring.worker_time(trace)
    if span != (0, trace.end):
        split = measuring.worker_time(trace, span)
    if not isinstance(scenario, Scenario):
        return measuring.measure_program(trace, split, span)
    gradients = GradientTable.of(trace)
    values = measuring.measure(trace, gradients, split, scenario.target_loss, trace.end, span)
    number = micro_batches(scenario, trace.strategy)
    computed = measuring.computed_per_worker(trace, gradients, warm_up(scenario), number)
    more = {SENT: sent_per_second(scenario, trace, span, spent, split), COMPUTED: computed}
    values |= of_life(scenario, trace, gradients, values) | interval_chosen(scenario, trace)
    return values | more


def _run(task: CaseTask, among: float) -> Finished:
    started = time.perf_counter()
    values: dict[str, float] = {}
    digest = ""
    try:
        scenario = _unpacked(task.packed)
        if (vain := hopeless(scenario)) is not None:
            return Finished(task.key, task.replication, 0.0, {}, vain.reason)
        trace = run_one(Run(scenario, 0, task.replication), among=among)
        digest = trace_sha256(trace)
        if trace.standstill is None:
            values, failure = measured(scenario, trace), ""
        else:
            failure = trace.standstill.report
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    return Finished(task.key, task.replication, seconds, values, failure, digest)


def _alone(scenario: AnyScenario, strategy: Strategy) -> AnyScenario:
    """The scenario with this strategy only, and nothing that it does not use."""
    if not isinstance(scenario, Scenario):
        changes = {"name": "case", "replications": 1}
        return scenario.with_only((strategy,)).model_copy(update=changes)
    cluster = scenario.cluster
    taking_part = strategy.workers(cluster)
    if taking_part < cluster.workers and cluster.network.kind == "star":
        part_of = (one for one in cluster.stragglers if one.rank < taking_part)
        slow = tuple(SlowWorker(**one._asdict()) for one in part_of)
        links = tuple(one for one in cluster.network.slow_links if one.rank < taking_part)
        network = cluster.network.model_copy(update={"slow_links": links})
        part = {"workers": taking_part, "slow_workers": slow, "network": network}
        cluster = cluster.model_copy(update=part)
    workload = scenario.workload_of(strategy)
    cluster = cluster.with_distribution_alone(workload)
    alone = scenario.model_copy(
        update={
            "name": "case",
            "replications": 1,
            "cluster": cluster,
            "workload": workload,
            "strategies": (strategy.model_copy(update={"name": None, "optimizer": None}),),
            "events": tuple(event for event in scenario.events if event.rank < taking_part),
            "stop": scenario.stop_of(strategy).model_copy(update={"equal_examples": True}),
            "targets": type(scenario.targets)(loss=scenario.targets.loss),
            "prices": None,
            "memory": type(scenario.memory)(),
            "report": scenario.report.measuring(),
        }
    )
    return without_unused(alone, [strategy])


@lru_cache(maxsize=256)
def _unpacked(packed: bytes) -> AnyScenario:
    scenario: AnyScenario = extensions.unpacked(packed)
    return scenario
