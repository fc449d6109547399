"""The interval between checkpoints that `every: optimal` chooses, before a run and of one."""

import math

from varsim.cluster.description.recovery import Recovery, in_run
from varsim.cluster.record.trace import Trace
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy
from varsim.study.goodput import INTERVAL
from varsim.study.lives import round_of
from varsim.study.simulation import rules_of


def optimal_interval(scenario: Scenario, strategy: Strategy, rounds: float = 0.0) -> float:
    """The interval (s) between checkpoints that `every: optimal` chooses; nan where there is none.

    `rounds`: how long (s) those of a job are that is saved after whole ones alone.
    """
    failures, saved = scenario.failures, scenario.checkpoint_of(strategy)
    if failures is None or saved is None or saved.every != "optimal":
        return math.nan
    rules = rules_of(scenario, strategy)
    if rules is not None:
        saved = rules.checkpoint
        return math.nan if saved is None or saved.every == "optimal" else saved.every
    cluster, recovery = scenario.cluster_of(strategy), scenario.recovery or Recovery()
    start = 0.0 if cluster.overheads is None else cluster.overheads.first_iteration
    down = failures.detection + recovery.restart + saved.restore + start
    rate = failures.rate(cluster, strategy.workers(cluster))
    return saved.interval(failures, rate, down, rounds)


def interval_chosen(scenario: Scenario, trace: Trace) -> dict[str, float]:
    """INTERVAL of the run of one of the strategies; nothing where none is chosen."""
    strategy, saved = scenario.strategy(trace.strategy), scenario.checkpoint
    if saved is None or saved.every != "optimal":
        return {}
    rounds = 0.0 if in_run(scenario.failures) else round_of(scenario, trace)
    found = optimal_interval(scenario, strategy, rounds)
    return {} if math.isnan(found) else {INTERVAL: found}
