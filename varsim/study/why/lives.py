"""What would leave more of the time of a job among failures, each change on the same failures."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from varsim.cluster.description.failures import hosts
from varsim.cluster.description.recovery import (
    Checkpoint,
    RandomFailures,
    Recovery,
    Spares,
    check_life,
    in_run,
)
from varsim.cluster.failures.life import PaceError
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario, steps_are_random
from varsim.study.gradients import GradientTable, times_only
from varsim.study.lives import Smaller, check_pace, of_life, rules_of, with_life
from varsim.study.simulation import Run, run_alone, run_one
from varsim.study.verdict import Estimate, difference, interval


class Help(NamedTuple):
    """Goodput of a job with something changed; `gain`: what it is more, paired."""

    key: str
    title: str
    goodput: Estimate
    gain: Estimate


class _Rules(NamedTuple):
    failures: RandomFailures
    checkpoint: Checkpoint | None
    recovery: Recovery


def helps(scenario: Scenario, traces: list[Trace]) -> list[Help]:
    """Goodput as it is (of no gain), then with each change by itself; nothing without failures.

    `scenario` has one strategy, and `traces` are its runs, one per replication.
    """
    if scenario.failures is None:
        return []
    inside = bool(in_run(scenario.failures))
    if not inside:
        traces = [_long_enough(scenario, trace) for trace in traces]
    if not inside and not steps_are_random(scenario, scenario.strategies[0]):
        numbers = range(scenario.replications if scenario.failures.is_random else 1)
        traces = [replace(traces[0], replication=number) for number in numbers]
    checkpoint = scenario.checkpoint_of(scenario.strategies[0])
    if known := rules_of(scenario, scenario.strategies[0]):
        checkpoint = known.checkpoint  # nothing where nothing is ever read back
    rules = _Rules(scenario.failures, checkpoint, scenario.recovery or Recovery())
    gradients, smaller = [GradientTable.of(trace) for trace in traces], Smaller(run_alone)

    def goodput(changed: _Rules) -> list[float]:
        other = scenario.model_copy(update=changed._asdict())
        if inside:
            return [_again(times_only(other), number) for number in range(len(traces))]
        lives = (with_life(other, trace, smaller) for trace in traces)
        return [
            of_life(other, trace, rows)["goodput"]
            for trace, rows in zip(lives, gradients, strict=True)
        ]

    base = goodput(rules)
    found = [Help("", "as it is", interval(base), interval([0.0]))]
    optimal = scenario.checkpoint is not None and scenario.checkpoint.every == "optimal"
    for key, title, change in _changes(rules, scenario, optimal=optimal):
        values = goodput(change(rules))
        found.append(Help(key, title, interval(values), difference(values, base)))
    return found


def _long_enough(scenario: Scenario, trace: Trace) -> Trace:
    """The trace, or that of a whole run where no life can be made of its few steps."""
    try:
        check_pace(scenario, trace)
    except PaceError:
        return run_one(Run(times_only(scenario), 0, trace.replication))
    return trace


def _changes(
    rules: _Rules, scenario: Scenario, *, optimal: bool
) -> Iterator[tuple[str, str, Callable[[_Rules], _Rules]]]:
    """Changes that make a difference to these rules; `optimal`: checkpoints are at that interval.

    Inside a run it is known by now as a time.
    """
    failures, checkpoint, recovery = rules
    inside = bool(in_run(failures))
    if checkpoint is None:
        if failures.memoryless and not inside and recovery.policy == "restart":
            every = Checkpoint(every="optimal", write=60.0)
            yield "checkpoints", "checkpoints of a minute, at the optimal interval", _saved(every)
    elif recovery.policy != "restart":
        if checkpoint.write and checkpoint.every != "optimal":
            yield "interval", "checkpoints half as often", _saved(_apart(checkpoint, 2))
            half = checkpoint.model_copy(update={"write": checkpoint.lasts / 2})
            yield "write", "writes twice as fast", _saved(half)
    else:
        costs = inside or checkpoint.stops
        if not optimal and failures.memoryless and not inside and costs:
            best = checkpoint.model_copy(update={"every": "optimal"})
            yield "interval", "checkpoints at the optimal interval", _saved(best)
        elif not optimal and costs:
            yield "interval", "checkpoints twice as often", _saved(_apart(checkpoint, 0.5))
            yield "rarer", "checkpoints half as often", _saved(_apart(checkpoint, 2))
        if checkpoint.write and not inside:
            half = checkpoint.model_copy(update={"write": checkpoint.lasts / 2})
            yield "write", "writes twice as fast", _saved(half)
        blocking = checkpoint.mode == "blocking" and failures.strike != "while_computing"
        if blocking and checkpoint.write != 0:
            beside = checkpoint.model_copy(update={"mode": "asynchronous"})
            said = "checkpoints in the background, at no cost"
            if beside.every == "optimal":  # what costs nothing is done all the time
                beside = beside.model_copy(update={"every": beside.lasts})
                said += " and without a pause"
            yield "asynchronous", said, _saved(beside)
    if failures.detection:
        at_once = failures.model_copy(update={"detection": 0.0})
        yield "detection", "failures noticed at once", lambda one: one._replace(failures=at_once)
    if recovery.restart or (checkpoint is not None and checkpoint.restore):
        quick = recovery.model_copy(update={"restart": recovery.restart / 2})
        saved = checkpoint and checkpoint.model_copy(update={"restore": checkpoint.restore / 2})
        yield (
            "restart",
            "restarting twice as fast",
            lambda one: one._replace(recovery=quick, checkpoint=saved),
        )
    on = recovery.model_copy(update={"policy": "continue_with_fewer", "fewest": None})
    if recovery.policy != "continue_with_fewer" and _possible(
        rules._replace(recovery=on), scenario
    ):
        yield "policy", "going on with those who are left", lambda one: one._replace(recovery=on)
    if any(repair is not None for _, repair in failures.repairs):
        spares = recovery.spares or Spares()
        for key, number, title in _spares(failures, spares, scenario):
            more = spares.model_copy(update={"hot": number})
            manned = recovery.model_copy(update={"spares": more})
            yield key, title, partial(_Rules._replace, recovery=manned)


def _spares(
    failures: RandomFailures, spares: Spares, scenario: Scenario
) -> Iterator[tuple[str, int, str]]:
    """How many hot spares there might be: one more, and as many as a failure takes hosts."""
    (strategy,) = scenario.strategies
    cluster = scenario.cluster_of(strategy)
    workers = strategy.workers(cluster)
    most = cluster.network.machines(workers) - spares.cold
    if spares.hot < most:
        yield "spare", spares.hot + 1, "one hot spare more"
    taken = {
        len(hosts(domain, cluster, workers, 0)): domain
        for domain, repair in failures.repairs
        if repair is not None
    }
    whole = max(taken)
    if spares.hot + 1 < whole <= most:
        yield "spares", whole, f"{whole} hot spares (a {taken[whole]} takes {whole} hosts)"


def _possible(rules: _Rules, scenario: Scenario) -> bool:
    """Whether the job of the only strategy could go on by these rules."""
    (strategy,) = scenario.strategies
    cluster = scenario.cluster_of(strategy)
    try:
        if rules.failures.horizon is not None:
            recovery = rules.recovery
            strategy.check_life(cluster, recovery.policy, recovery.fewest or 1)
        check_life(*rules, cluster, strategy.workers(cluster))
    except ValueError:
        return False
    return not in_run(rules.failures)


def _again(scenario: Scenario, replication: int) -> float:
    """Goodput of the same run, among failures that strike inside it."""
    trace = run_one(Run(scenario, 0, replication))
    return of_life(scenario, trace, GradientTable.of(trace))["goodput"]


def _apart(checkpoint: Checkpoint, factor: float) -> Checkpoint:
    """Checkpoints so many times as far apart; no nearer than one takes."""
    assert checkpoint.every != "optimal", "a time can be changed"
    apart = factor * checkpoint.every
    least = 0.0 if checkpoint.write is None else checkpoint.lasts
    return checkpoint.model_copy(update={"every": max(apart, least)})


def _saved(checkpoint: Checkpoint) -> Callable[[_Rules], _Rules]:
    return lambda one: one._replace(checkpoint=checkpoint)
