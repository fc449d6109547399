"""Lives of jobs whose steps were simulated, in scenarios with random failures."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.course import Course, Drawn, Pace, Saving, Steady
from varsim.cluster.life import Life
from varsim.cluster.recovery import Recovery, in_run
from varsim.cluster.trace import GradientRow, Trace
from varsim.scenario.training import Scenario, steps_are_random
from varsim.values.stream import stream


def with_life(scenario: Scenario, trace: Trace) -> Trace:
    """The trace of one of the strategies with the life of its job, where failures have a horizon.

    Raises PaceError where no life can be made of its steps.
    """
    if scenario.failures is None or in_run(scenario.failures):
        return trace
    return replace(trace, life=life_of(scenario, trace).attempts())


def check_pace(scenario: Scenario, trace: Trace) -> None:
    """Raise PaceError where no life can be made of the steps of a whole run."""
    if scenario.failures is not None:
        life_of(scenario, trace)


def life_of(scenario: Scenario, trace: Trace) -> Life:
    """The life of a job whose steps are those of a trace, of a scenario with failures."""
    assert scenario.failures is not None
    (strategy,) = (one for one in scenario.strategies if one.label == trace.strategy)
    cluster = scenario.cluster_of(strategy)
    overheads = cluster.overheads
    start_up = round((0.0 if overheads is None else overheads.first_iteration) * 1e9)
    each = strategy.recurs_after(cluster)
    ends = _ended(trace, each) - start_up if strategy.drifts else trace.steps - start_up

    def course(saving: Saving, horizon: int) -> Course:
        if not steps_are_random(scenario, strategy):
            return Steady(Pace.of(ends, each), saving, horizon)
        lasted = np.diff(ends, prepend=0).reshape(-1, each)
        key = scenario.seed, trace.replication, "step"
        return Drawn(lasted, saving, lambda block: stream(*key, block))

    return Life(
        scenario.failures,
        scenario.checkpoint_of(strategy),
        scenario.recovery or Recovery(),
        cluster,
        trace.workers,
        course,
        start_up=start_up,
        seed=scenario.seed,
        replication=trace.replication,
    )


def _ended(trace: Trace, each: int) -> NDArray[np.int64]:
    """When steps were over (ns), all of whole rounds: at the end of a round when all had gone on.

    What they average, or are read for, after their last update is a part of the round.
    """
    rows = trace.gradients
    iterations = rows[:, GradientRow._fields.index("iteration")]
    begun = np.zeros(len(trace.steps) + 2, dtype=np.int64)
    near = iterations < len(begun)
    np.maximum.at(begun, iterations[near], rows[near, GradientRow._fields.index("read")])
    whole = (np.bincount(iterations[near], minlength=len(begun)) == trace.workers)[each::each]
    rounds = len(whole) if whole.all() else int(np.argmin(whole))
    ends = trace.steps[: rounds * each].copy()
    ends[each - 1 :: each] = begun[each : rounds * each + 1 : each]
    return ends
