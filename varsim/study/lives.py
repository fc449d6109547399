"""Lives of jobs among random failures: goodput, where the rest went, and when they save."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.description.cluster import Stop
from varsim.cluster.description.recovery import Recovery, goes_on, in_run, restores
from varsim.cluster.failures.interruptions import InterruptionRules
from varsim.cluster.failures.life import DrawnSteps, Life, Pace, PaceError, Saving, Steps
from varsim.cluster.failures.strikes import Strikes
from varsim.cluster.record.trace import HOSTS, Attempt, GradientRow, Trace
from varsim.core.stream import stream
from varsim.scenario.training import Scenario, steps_are_random
from varsim.scenario.use import served
from varsim.strategies import Strategy
from varsim.study.gradients import NANOSECONDS, GradientTable, times_only

if TYPE_CHECKING:
    pass


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
    if strategy.traits.drifts:
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


def rules_of(scenario: Scenario, strategy: Strategy) -> InterruptionRules | None:
    """What strikes inside the runs of a strategy, and how it comes back."""
    for failures in in_run(scenario.failures):
        there = failures if strategy.traits.uses_servers else failures.without_servers()
        chief, cluster = strategy.sends.to == "servers", scenario.cluster_of(strategy)
        whose = served([strategy])
        saved = (
            scenario.checkpoint
            if restores(there, cluster, whose["servers"], whose["chief"])
            else None
        )
        if saved is not None and saved.every == "optimal":
            size = strategy.saves(cluster, scenario.workload_of(strategy))
            rate = there.rate_of_rollbacks(cluster, chief=chief)
            # Where nobody waits for others, the chief alone stops for a checkpoint.
            share = 1.0 if strategy.round.of == "step" else 1.0 / strategy.workers(cluster)
            saved = saved.in_run(cluster.network, size, rate, share)
        return InterruptionRules(there, saved, scenario.recovery or Recovery(), chief)
    return None


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


# In the order in which the parts are told; they sum to 1.
PARTS: Final = {
    "goodput": ("productive", "in work that was kept, with its communication and waiting"),
    "life_checkpoint": ("checkpoint", "that completed checkpoints cost"),
    "life_lost": ("lost", "in work, and checkpoints, that a failure threw away"),
    "life_detection": ("detection", "until failures were noticed"),
    "life_repair": ("repair", "waiting for a spare host, or for the repair of one"),
    "life_restart": ("restart", "restarting, the reading of the checkpoint included"),
}
TO_TARGET: Final = "life_time_to_target"
KEPT: Final = "kept_examples_per_s"
DOWN: Final = ("life_detection", "life_repair", "life_restart")
# Of a sweep and a plan, where `every: optimal` chooses it.
INTERVAL: Final = "checkpoint_interval"


def of_life(
    scenario: Scenario,
    trace: Trace,
    gradients: GradientTable,
    measured: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Each of OF_LIVES of one run; nothing where no failures are followed.

    Where they strike inside the run, its workers are interrupted: all is of their time together.
    `measured`: METRICS of the run; without them it is not told when the target loss is reached.
    """
    life = trace.life
    if life is None:
        return {}
    total = dict(zip(Attempt._fields, life.sum(axis=0).tolist()[:HOSTS], strict=True))
    parts = {name: total[field] for name, (field, _) in PARTS.items()}
    whole, down = sum(parts.values()), sum(parts[name] for name in DOWN)
    often = int((life[:, Attempt._fields.index("failures")] > 0).sum())
    each, lasted = trace.global_step, whole
    inside = bool(in_run(scenario.failures))
    if inside:  # attempts are theirs, and steps their gradients
        often, each = len(life) - trace.workers, int(gradients.used.sum())
        lasted = whole // trace.workers
    kept = total["steps"]
    if goes_on(scenario.recovery):  # whose updates are of fewer examples
        steps = life[:, Attempt._fields.index("steps")]
        kept = float((steps * life[:, HOSTS]).sum()) / scenario.cluster.network.machines(
            trace.workers
        )
    away = (total["lost"] + down) / NANOSECONDS
    examples = float(gradients.weight.sum()) * trace.batch_size / max(1, each)
    return {
        **{name: part / whole for name, part in parts.items()},
        "availability": 1.0 - down / whole,
        KEPT: kept * examples * NANOSECONDS / lasted,
        "failures_per_day": total["failures"] * 86_400 * NANOSECONDS / lasted,
        "interruptions": float(often),
        "cost_per_interruption": away / often if often else math.nan,
        "steps_discarded": float(total["steps_lost"]),
        "spares_used": float(total["spares"]),
        TO_TARGET: _to_target(scenario, trace, measured or {}),
    }


def _to_target(scenario: Scenario, trace: Trace, measured: Mapping[str, float]) -> float:
    """When (s) the update that reaches the target is first made; nan where it never is."""
    assert trace.life is not None
    step = measured.get("updates_to_target", math.nan)
    if math.isnan(step) or not step:
        return step
    inside = bool(in_run(scenario.failures))
    if goes_on(scenario.recovery):
        return math.nan  # other updates than those whose loss is known
    if inside:
        time = round(measured["time_to_target"] * NANOSECONDS)
        until = np.searchsorted(trace.steps, time, side="right")
        return float(trace.steps[until - 1]) / NANOSECONDS
    made = life_of(scenario, trace).updates(int(step))
    return next((time / NANOSECONDS for time, number in made if number == step), math.nan)
