"""Where runs say little of the long run: step times of infinite variance, and long spells.

A time whose probability to exceed t falls like t^-a has moments of orders below a alone; with a at
2 or less the means of runs are no longer normal, and Student's intervals too narrow (Embrechts et
al., Modelling Extremal Events, 1997, section 2.2). The largest of independent times is as heavy,
the k-th smallest of n has index a (n - k + 1).

Steps that come in spells count as fewer: n steps whose correlation time is c as n / c. In a
model of two-state workers (c = 20; 1, 4 or 8 workers; 500 or 1,000 runs in intervals of 5 or 10)
runs of 5 c held the truth in 8 to 95 of 100 intervals, of 20 c in 62 to 97, of 50 c in 87 to 100.
"""

import math
from collections.abc import Mapping
from typing import Final

from varsim.scenario.training import Scenario
from varsim.strategies import Strategy
from varsim.values.distributions import Distribution

FINITE: Final = 2.0  # above this index variances are finite
CORRELATION_TIMES: Final = 50  # a run should last
SPELLS: Final = 2.0  # a correlation time above this (steps) is one of spells


def tail_of_step(scenario: Scenario, strategy: Strategy) -> float:
    """Tail index of what ends a strategy's step, at the least; infinite for light tails.

    Workers that are not waited for, and do not give up, may be in a long step from before: what is
    left of it has an index that is less by 1.
    """
    cluster, tail = scenario.cluster_of(strategy), law_of(scenario, strategy).tail()
    workers, needed = strategy.workers(cluster), strategy.gradients_per_update(cluster)
    if strategy.round.of != "step" or math.isinf(tail):
        return tail
    if strategy.gives_up and strategy.iterations_per_update(cluster) != workers:
        return tail * workers  # one that goes on gives all gradients
    spare = max(0, workers - needed)
    return tail * (spare + 1) if strategy.gives_up else tail + spare * (tail - 1)


def law_of(scenario: Scenario, strategy: Strategy) -> Distribution:
    """The law of the compute times of a strategy's workers."""
    return scenario.cluster_of(strategy).compute_distribution(scenario.workload_of(strategy))


def heavy(scenario: Scenario) -> list[Strategy]:
    """The strategies whose steps have no finite variance."""
    return [one for one in scenario.strategies if tail_of_step(scenario, one) <= FINITE]


def correlation_time(scenario: Scenario, strategy: Strategy) -> float:
    """Steps of a worker that say as much as one independent step."""
    return law_of(scenario, strategy).correlation_time()


def in_few_spells(scenario: Scenario, gradients: Mapping[str, float]) -> dict[str, float]:
    """By how many correlation times the runs of strategies lasted, of those too short for theirs.

    `gradients`: that each worker computed, by label.
    """
    found = {}
    for label, number in gradients.items():
        steps = correlation_time(scenario, scenario.strategy(label))
        if steps > SPELLS and number < CORRELATION_TIMES * steps:
            found[label] = number / steps
    return found
