"""Lives of jobs whose steps were simulated, in scenarios with random failures."""

from dataclasses import replace

import numpy as np

from varsim.cluster.course import Course, Drawn, Pace, Saving, Steady
from varsim.cluster.life import Life
from varsim.cluster.recovery import Recovery
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario, steps_are_random
from varsim.values.stream import stream


def with_life(scenario: Scenario, trace: Trace) -> Trace:
    """The trace of one of the strategies with the life of its job, where there are failures.

    Raises PaceError where no life can be made of its steps.
    """
    if scenario.failures is None:
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
    ends = trace.steps - start_up

    def course(saving: Saving, horizon: int) -> Course:
        if not steps_are_random(scenario, strategy):
            return Steady(Pace.of(ends), saving, horizon)
        lasted = np.diff(ends, prepend=0)
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
