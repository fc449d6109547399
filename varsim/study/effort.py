"""What a run takes of the machine it is made on: foreseen from sizes, before anything begins.

Where a run ends after so many updates or examples, what it computes is known; where it ends after
some time, at most what its workers can compute in that time, or as much as its beginning shows.
Rates of the machine are of one core of 2024 and generous; whoever decides by them decides about
factors of ten.
"""

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Self

from varsim.cluster.interruptions import MOST, Rules
from varsim.cluster.rows import MOST_KEPT
from varsim.scenario.training import Scenario, runs_made
from varsim.strategies import Strategy
from varsim.study.beginning import begin, rates
from varsim.study.engine import makes_in_arrays
from varsim.study.lives import groups_met
from varsim.study.simulation import rules_of
from varsim.study.why.levers import times_only
from varsim.units import format_bytes, format_count, format_rate, format_seconds
from varsim.values.gradient import EXAMPLES, STACK
from varsim.values.problem import VariableSpec
from varsim.values.workload import Workload

# Seconds and bytes: of a gradient, a worker.
_GRADIENT: Final = (25e-6, 1000.0)
_IN_ARRAYS: Final = 5e-6  # seconds of a gradient whose times are worked out in arrays
_ON_DISK: Final = 60.0  # bytes of a gradient that is on disk, while the run is measured
_WORKER: Final = (250e-6, 20e3)
_FLOPS: Final = 1e9  # a second, in small matrices
_BASE: Final = 150e6  # bytes of the program itself
_NUMBER: Final = 8  # bytes
_LARGEST: Final = 300.0  # of exponents
_TRILLION: Final = 1e12


class Effort(NamedTuple):
    """Gradients of some runs, seconds of one core, bytes of memory; about."""

    gradients: float
    seconds: float
    memory: float

    @classmethod
    def one_by_one(cls, parts: "Iterable[tuple[Effort, float]]") -> Self:
        """Of runs that are forgotten when they have ended, each made so many times."""
        rows = list(parts)
        return cls(
            sum(each.gradients * often for each, often in rows),
            sum(each.seconds * often for each, often in rows),
            max(each.memory for each, _ in rows),
        )


def effort(
    scenario: Scenario, rates: Mapping[str, float] | None = None, *, in_memory: bool = False
) -> Effort:
    """What all runs of a scenario take, which keeps the rows of all until the end.

    `rates`: gradients per second of simulated time of the strategies with these labels; of others
    at most what their workers can compute. `in_memory`: all rows of a run are looked at together,
    be they many.
    """
    workload = scenario.workload
    often = [runs_made(scenario, strategy) for strategy in scenario.strategies]
    workers = [strategy.workers(scenario.cluster_of(strategy)) for strategy in scenario.strategies]
    each = [
        gradients_of_a_run(scenario, strategy, (rates or {}).get(strategy.label))
        for strategy in scenario.strategies
    ]
    own = sum(map(operator.mul, each, often))
    smaller = [smaller_runs(scenario, strategy) for strategy in scenario.strategies]
    seconds = own * _seconds_of_values(scenario) + max(often) * sum(workers) * _WORKER[0]
    gradients, alone = own, times_only(scenario.undisturbed)
    for strategy, number, runs, more in zip(scenario.strategies, each, often, smaller, strict=True):
        gradients += number * more
        seconds += number * runs * _seconds_of_times(scenario, strategy)
        seconds += number * more * _seconds_of_times(alone, strategy)
    memory = _BASE + max(workers) * _WORKER[1]
    for number, count in zip(each, often, strict=True):
        on_disk = 0.0 if in_memory else max(0.0, number - MOST_KEPT)
        memory += (number - on_disk) * count * _GRADIENT[1] + on_disk * _ON_DISK
    if workload.has_values:
        batch = workload.batch_size
        together = max(batch, min(EXAMPLES, STACK * batch))
        example = _NUMBER * sum(map(_activations, workload.problem.variables()))
        memory += max(workers) * batch * _NUMBER + 3 * together * example
    return Effort(gradients, seconds, memory)


def closer_effort(scenario: Scenario, little: Callable[[Effort], bool]) -> Effort:
    """`effort`, at most; but where that is not `little`, at the rates of the beginning."""
    most = effort(scenario)
    if scenario.stop.time is None or little(most):
        return most
    return effort(scenario, rates(begin(scenario)))


def memory_there() -> float:
    """Bytes of memory that this machine has; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


class LongStep(NamedTuple):
    """About what an update of a strategy takes (s), which field says so, and how."""

    strategy: str
    seconds: float
    field: str
    why: str


def longest_step(scenario: Scenario) -> LongStep:
    """Of the strategy for which computing, or sending, a gradient is longest."""
    steps = [_long_step(scenario, strategy) for strategy in scenario.strategies]
    return max(steps, key=lambda one: one.seconds)


class Hopeless(NamedTuple):
    """A run in which more failures strike than are followed; `rolled_back`: work is lost to some.

    `failures`: how many, on average, or more, as nobody computes while hosts are missing. `saved`:
    the model is, in checkpoints.
    """

    strategy: str
    failures: float
    rolled_back: bool
    saved: bool = False

    @property
    def reason(self) -> str:
        """Why it would come to nothing, and what would help."""
        many = "more than a trillion"
        if self.failures < _TRILLION:
            many = f"about {format_count(self.failures)} or more"
        instead = ""
        if self.rolled_back:
            instead = ", save the model (checkpoint)"
            if self.saved:
                instead = ", save the model more often (checkpoint.every)"
        return (
            f"{many} failures would strike before a run ends, at most {MOST:,} are followed: make "
            f"failures rarer (failures.of){instead}, or stop the run earlier"
        )


def hopeless(scenario: Scenario) -> Hopeless | None:
    """That of the most failures, if a strategy meets more than are followed inside a run."""
    met = [_failures_met(scenario, strategy) for strategy in scenario.strategies]
    worst = max(met, key=lambda one: one.failures, default=None)
    return worst if worst is not None and worst.failures > MOST else None


def _failures_met(scenario: Scenario, strategy: Strategy) -> Hopeless:
    """What a run of a strategy meets whose workers do nothing but compute."""
    rules, stop = rules_of(scenario, strategy), scenario.stop_of(strategy)
    # Where a step ends without some workers, or at some loss, it may be over any time.
    if rules is None or strategy.gives_up or stop.loss is not None:
        return Hopeless(strategy.mention, 0.0, rolled_back=False)
    cluster = scenario.cluster_of(strategy)
    rate = rules.failures.rate(cluster, strategy.workers(cluster))
    again = _times_made(scenario, strategy, rules)
    until = min(again * _lasts(scenario, strategy), stop.time or math.inf)
    rolled_back = again > 1 and until != stop.time
    return Hopeless(strategy.mention, rate * until, rolled_back, scenario.checkpoint is not None)


def _lasts(scenario: Scenario, strategy: Strategy) -> float:
    """Seconds of a run in which nothing fails, whose workers do nothing but compute."""
    each = strategy.gradients_per_update(scenario.cluster_of(strategy))
    steps, examples = scenario.stop_of(strategy).most
    updates = min(steps, examples / (scenario.workload.batch_size * each))
    return updates * each / _fastest(scenario, strategy)


def _times_made(scenario: Scenario, strategy: Strategy, rules: Rules) -> float:
    """How often all work of a run is done, on average, as some of it is lost.

    Work W (s) between two checkpoints is lost whenever the model is, which it is at a rate r: all
    of it is done after (e^(r W) - 1) / r on average.
    """
    if not rules.failures.memoryless:
        return 1.0
    between, saved = _lasts(scenario, strategy), rules.checkpoint
    chief = rules.chief and saved is not None
    lost = rules.failures.rate_of_rollbacks(scenario.cluster_of(strategy), chief=chief)
    if saved is not None:
        assert saved.every != "optimal", "a run knows when"
        between = min(between, saved.every)
    if not lost or between == math.inf:
        return 1.0
    return math.expm1(min(lost * between, _LARGEST)) / (lost * between)


def gradients_of_a_run(scenario: Scenario, strategy: Strategy, rate: float | None) -> float:
    """How many gradients one run of a strategy computes, those that are lost in it among them."""
    stop, cluster = scenario.stop_of(strategy), scenario.cluster_of(strategy)
    each, rules = strategy.gradients_per_update(cluster), rules_of(scenario, strategy)
    begun, vain = strategy.iterations_per_update(cluster), strategy.dropped_at_first().gradients
    again = 1.0 if rules is None else _times_made(scenario, strategy, rules)
    limits: list[float] = []
    if stop.global_steps is not None:
        limits.append(stop.global_steps * begun * again + vain)
    if stop.examples is not None:
        updates = stop.examples / (scenario.workload.batch_size * each)
        limits.append(updates * begun * again + vain)
    if stop.time is not None:
        if rate is None:
            rate = _fastest(scenario, strategy)
            if strategy.gives_up:  # who does begins the next gradient all the sooner
                rate *= begun / each
        limits.append(stop.time * rate)
    return min(limits)


def smaller_runs(scenario: Scenario, strategy: Strategy) -> float:
    """Runs that are made on fewer hosts, for lives that go on with them: as so many whole ones."""
    machines = scenario.cluster_of(strategy).network.machines(
        strategy.workers(scenario.cluster_of(strategy))
    )
    return math.fsum(
        often * hosts / machines for hosts, often in groups_met(scenario, strategy).items()
    )


def _long_step(scenario: Scenario, strategy: Strategy) -> LongStep:
    """A gradient is computed, or sent over a worker's link; to all workers in rounds of a ring."""
    cluster, workload = scenario.cluster_of(strategy), scenario.workload
    workers = strategy.workers(cluster)
    share = min(
        1.0, strategy.gradients_per_update(cluster) / (strategy.round.micro_batches * workers)
    )
    each = strategy.round.micro_batches
    computing = each * share * cluster.compute_distribution(workload).expectation()
    size = _sent(workload, strategy) if workers > 1 else 0.0
    rounds = 2 * (workers - 1) if strategy.sends.to == "workers" else 1
    latency = share * rounds * cluster.network.delay if size else 0.0
    moving = share * size / cluster.network.worker_rate
    if computing >= latency + moving:
        return LongStep(strategy.mention, computing, "cluster.compute", "computing alone")
    if latency >= moving:
        why = f"{format_seconds(cluster.network.delay)} in {rounds} round{'s' * (rounds > 1)}"
        return LongStep(strategy.mention, latency + moving, "cluster.network.latency", why)
    why = f"{format_bytes(size)} at {format_rate(cluster.network.worker_rate)}"
    return LongStep(strategy.mention, latency + moving, "cluster.network.bandwidth", why)


def _sent(workload: Workload, strategy: Strategy) -> float:
    """Bytes that a worker sends, or is sent, for every gradient: its own or their mean."""
    if strategy.sends.what == "gradients":
        parts = zip(
            workload.tensor_sizes(),
            workload.sent_shares(),
            workload.gradient_ratios(),
            strict=True,
        )
        return math.fsum(sum(sizes) * share * ratio for sizes, share, ratio in parts)
    return workload.size() / strategy.round.steps if strategy.sends.what == "parameters" else 0.0


def _seconds_of_values(scenario: Scenario) -> float:
    """Seconds in which the values of a gradient are worked out."""
    workload = scenario.workload
    if not workload.has_values:
        return 0.0
    return workload.batch_size * workload.problem.flops_per_example() / _FLOPS


def _seconds_of_times(scenario: Scenario, strategy: Strategy) -> float:
    """Seconds in which the times of a gradient are found."""
    return _IN_ARRAYS if makes_in_arrays(scenario, strategy) else _GRADIENT[0]


def _fastest(scenario: Scenario, strategy: Strategy) -> float:
    """Gradients per second of all workers of a strategy, who do nothing but compute."""
    cluster = scenario.cluster_of(strategy)
    times = [
        max(cluster.compute_distribution(scenario.workload).expectation(), 1e-9)
    ] * strategy.workers(cluster)
    for slow in cluster.slow_workers:
        if slow.after == 0 and slow.until is None and slow.rank < len(times):
            times[slow.rank] *= slow.factor
    return sum(1 / time for time in times)


def _activations(spec: VariableSpec) -> float:
    """Numbers that an example has before and behind a variable."""
    if spec.rows_per_example is not None:
        return spec.rows_per_example * spec.size / spec.shape[0]
    return float(sum(spec.shape))
