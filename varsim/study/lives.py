"""Lives of jobs whose steps were simulated, in scenarios with random failures."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Stop
from varsim.cluster.description.recovery import Recovery, goes_on, in_run
from varsim.cluster.failures.life import DrawnSteps, Life, Pace, PaceError, Saving, Steps
from varsim.cluster.failures.strikes import Strikes
from varsim.cluster.record.trace import GradientRow, Trace
from varsim.scenario.training import Scenario, steps_are_random
from varsim.strategies import Strategy
from varsim.study.why.levers import times_only
from varsim.values.stream import stream

_NS: Final = 1e9


class Smaller:
    """Jobs on fewer hosts than they have, times only: each is simulated once, when it is needed.

    `run`: makes the only strategy of a scenario in a replication.
    """

    def __init__(self, run: Callable[[Scenario, int], Trace]) -> None:
        self._run = run
        self._known: dict[tuple[str, int, int], Trace] = {}

    def trace(self, scenario: Scenario, of: Trace, workers: int) -> Trace:
        """As many steps of the same strategy as a trace has, by so many of its workers."""
        strategy = scenario.strategy(of.strategy)
        replication = of.replication if steps_are_random(scenario, strategy) else 0
        key = of.strategy, workers, replication
        if key not in self._known:
            alone = {
                "prices": None,
                "cluster": scenario.cluster_of(strategy).model_copy(update={"workers": workers}),
                "strategies": (strategy.model_copy(update={"on": None}),),
                "stop": Stop(global_steps=len(of.steps)),
            }
            smaller = times_only(scenario.undisturbed.model_copy(update=alone))
            self._known[key] = self._run(smaller, replication)
        return self._known[key]


def with_life(scenario: Scenario, trace: Trace, smaller: Smaller | None = None) -> Trace:
    """The trace of one of the strategies with the life of its job, where failures have a horizon.

    `smaller`: makes its steps on fewer hosts, where it goes on with them. Raises PaceError where no
    life can be made of its steps.
    """
    if scenario.failures is None or in_run(scenario.failures):
        return trace
    return replace(trace, life=life_of(scenario, trace, smaller).attempts())


def check_pace(scenario: Scenario, trace: Trace) -> None:
    """Raise PaceError where no life can be made of the steps of a whole run."""
    if scenario.failures is not None and not in_run(scenario.failures):
        life_of(scenario, trace, None)


def life_of(scenario: Scenario, trace: Trace, smaller: Smaller | None = None) -> Life:
    """The life of a job whose steps are those of a trace, of a scenario with failures."""
    try:
        return _life_of(scenario, trace, smaller)
    except PaceError as error:
        strategy = scenario.strategy(trace.strategy)
        least, _ = scenario.least_steps(strategy)
        short = len(trace.steps) < least and not steps_are_random(scenario, strategy)
        more = f", {least} at least" if short else ""
        raise PaceError(f"{strategy.mention}: {error}{more}") from None


def _life_of(scenario: Scenario, trace: Trace, smaller: Smaller | None) -> Life:
    failures = scenario.failures
    assert failures is not None, "a life needs failures"
    assert failures.horizon is not None, "a life needs a horizon"
    strategy = scenario.strategy(trace.strategy)
    cluster, recovery = scenario.cluster_of(strategy), scenario.recovery or Recovery()
    restarts = recovery.policy == "restart"
    each = strategy.recurs_after(cluster) if restarts else 1
    random, checkpoint = steps_are_random(scenario, strategy), scenario.checkpoint_of(strategy)
    key = scenario.seed, trace.replication
    hosts = cluster.network.machines(trace.workers)
    made: dict[int, Steps] = {}

    def steps_of(number: int) -> Steps:
        if number not in made:
            of, place = trace, () if restarts else (number,)
            if number < hosts:
                assert smaller is not None, "somebody must simulate fewer workers"
                of = smaller.trace(scenario, trace, number * cluster.workers_of_a_host)
            ends = _ends(scenario, strategy, of)
            if random:
                lasted = np.diff(ends, prepend=0).reshape(-1, each)
                made[number] = DrawnSteps(lasted, lambda block: stream(*key, "step", *place, block))
            else:
                made[number] = Pace.of(ends, each)
        return made[number]

    restore = 0.0 if checkpoint is None else checkpoint.restore
    rounds = 0.0
    if restarts and checkpoint is not None and checkpoint.every == "optimal":
        steps_of(hosts)  # which may find that there is no rhythm
        rounds = round_of(scenario, trace)
    detection, start_up = round(failures.detection * _NS), cluster.set_up
    # All of a job that restarts read its checkpoint.
    restart = round((recovery.restart + restore * restarts) * _NS) + start_up
    return Life(
        Strikes(
            failures,
            recovery.spares,
            cluster,
            trace.workers,
            seed=scenario.seed,
            replication=trace.replication,
        ),
        Saving.of(failures, checkpoint, cluster, trace.workers, detection + restart, rounds),
        steps_of,
        each,
        horizon=failures.horizon,
        always=failures.strike == "always",
        number=hosts,
        fewest=(recovery.fewest or 1) if goes_on(recovery) else hosts,
        restarts=restarts,
        detection=detection,
        restart=restart,
        read=round(restore * (not restarts) * _NS),
        start_up=start_up,
    )


def round_of(scenario: Scenario, trace: Trace) -> float:
    """How long (s) a round is at whose end alone the job of a trace is saved; 0 where at any."""
    strategy = scenario.strategy(trace.strategy)
    each = strategy.recurs_after(scenario.cluster_of(strategy))
    if each == 1:
        return 0.0
    over = _ends(scenario, strategy, trace)
    return float(over[-1]) / 1e9 * each / len(over) if len(over) else 0.0


def _ends(scenario: Scenario, strategy: Strategy, trace: Trace) -> NDArray[np.int64]:
    """When steps were over (ns) since the job was set up."""
    cluster = scenario.cluster_of(strategy)
    ended = trace.steps
    if strategy.drifts:
        ended = _ended(trace, strategy.recurs_after(cluster))
    return ended - cluster.set_up


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
