"""Lives of jobs whose steps were simulated, in scenarios with random failures."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.course import (
    DrawnSteps,
    Pace,
    PaceError,
    Steps,
)
from varsim.cluster.life import Life, saving_of
from varsim.cluster.recovery import Recovery, in_run
from varsim.cluster.regrouping import RegroupedLife
from varsim.cluster.stop import Stop
from varsim.cluster.striking import Strikes
from varsim.cluster.trace import GradientRow, Trace
from varsim.scenario.training import Scenario, steps_are_random
from varsim.strategies import Strategy
from varsim.study.why.levers import times_only
from varsim.values.stream import stream

_LARGE: Final = 1e200  # numbers that are made smaller, all of them


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


def life_of(
    scenario: Scenario, trace: Trace, smaller: Smaller | None = None
) -> Life | RegroupedLife:
    """The life of a job whose steps are those of a trace, of a scenario with failures."""
    try:
        return _life_of(scenario, trace, smaller)
    except PaceError as error:
        strategy = scenario.strategy(trace.strategy)
        least, _ = scenario.least_steps(strategy)
        short = len(trace.steps) < least and not steps_are_random(scenario, strategy)
        more = f", {least} at least" if short else ""
        raise PaceError(f"{strategy.mention}: {error}{more}") from None


def _life_of(scenario: Scenario, trace: Trace, smaller: Smaller | None) -> Life | RegroupedLife:
    assert scenario.failures is not None
    strategy = scenario.strategy(trace.strategy)
    cluster, recovery = scenario.cluster_of(strategy), scenario.recovery or Recovery()
    start_up = cluster.set_up
    each, random = strategy.recurs_after(cluster), steps_are_random(scenario, strategy)
    checkpoint = scenario.checkpoint_of(strategy)

    def ends(of: Trace) -> NDArray[np.int64]:
        return _ends(scenario, strategy, of)

    def draws(*number: int) -> Callable[[int], np.random.Generator]:
        of = scenario.seed, trace.replication
        return lambda block: stream(*of, "step", *number, block)

    if recovery.policy == "restart":
        steps: Steps
        if random:
            steps = DrawnSteps(np.diff(ends(trace), prepend=0).reshape(-1, each), draws())
        else:
            steps = Pace.of(ends(trace), each)
        rounds = 0.0
        if checkpoint is not None and checkpoint.every == "optimal":
            rounds = round_of(scenario, trace)
        return Life(
            scenario.failures,
            checkpoint,
            recovery,
            cluster,
            trace.workers,
            steps,
            each,
            start_up=start_up,
            rounds=rounds,
            seed=scenario.seed,
            replication=trace.replication,
        )
    made: dict[int, Steps] = {}
    hosts = cluster.network.machines(trace.workers)

    def steps_of(number: int) -> Steps:
        if number not in made:
            of = trace
            if number < hosts:
                assert smaller is not None, "somebody must simulate fewer workers"
                of = smaller.trace(scenario, trace, number * cluster.workers_of_a_host)
            if random:
                lasted = np.diff(ends(of), prepend=0).reshape(-1, 1)
                made[number] = DrawnSteps(lasted, draws(number))
            else:
                made[number] = Pace.of(ends(of))
        return made[number]

    failures = scenario.failures
    strikes = Strikes(
        failures,
        recovery.spares,
        cluster,
        trace.workers,
        seed=scenario.seed,
        replication=trace.replication,
    )
    restart = round(recovery.restart * 1e9) + start_up
    assert failures.horizon is not None, "a life needs a horizon"
    return RegroupedLife(
        strikes,
        saving_of(failures, checkpoint, cluster, trace.workers, restart),
        steps_of,
        horizon=failures.horizon,
        always=failures.strike == "always",
        number=hosts,
        fewest=hosts if recovery.policy == "wait" else recovery.fewest or 1,
        detection=round(failures.detection * 1e9),
        restart=restart,
        read=round((0.0 if checkpoint is None else checkpoint.restore) * 1e9),
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
