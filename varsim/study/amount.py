"""How much a scenario asks for, counted from its sizes before anything begins.

Where a run ends after so many updates or examples, what it computes is known; where it ends after
some time, at most what its workers can compute in that time, or as much as its beginning shows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from varsim.cluster.clock import END_OF_TIME
from varsim.cluster.failures.interruptions import MOST, Rules
from varsim.scenario.training import Scenario, runs_made
from varsim.strategies import Strategy
from varsim.study.simulation import rules_of
from varsim.units import format_bytes, format_count, format_rate, format_seconds
from varsim.values.workload import Workload

# More gradients than these, somebody has to want (--yes).
MOST_GRADIENTS: Final = 1e8
MOST_HOSTS: Final = 100_000  # or workers and servers
MOST_COUNTED: Final = 60  # cases of a sweep of which gradients are counted
_FEW_STEPS: Final = 4  # in all the time that the clock counts

_LARGEST: Final = 300.0  # of exponents
_TRILLION: Final = 1e12


def gradients(scenario: Scenario, rates: Mapping[str, float] | None = None) -> float:
    """How many gradients all runs of a scenario compute.

    `rates`: gradients per second of simulated time of the strategies with these labels; of others
    at most what their workers can compute.
    """
    known = rates or {}
    return math.fsum(
        runs_made(scenario, one) * gradients_of_a_run(scenario, one, known.get(one.label))
        for one in scenario.strategies
    )


def impossible(scenario: Scenario) -> str:
    """Why no run would end: a step is too long for the clock, or too much fails; or nothing."""
    longest = longest_step(scenario)
    if longest.seconds > END_OF_TIME / 1e9 / _FEW_STEPS:
        return (
            f"one step of {longest.strategy} takes about {format_seconds(longest.seconds)} "
            f"({longest.why}), but the clock ends at 1,281,000 h: is the unit of {longest.field} "
            "right?"
        )
    found = hopeless(scenario)
    return "" if found is None else f"{found.strategy}: {found.reason}"


def excessive(number: float, machines: int) -> str:
    """Why so many gradients, or workers and servers, are too much to be meant; or nothing."""
    if number > MOST_GRADIENTS:
        said = f"about {format_count(number)} gradients to compute"
        instead = "stop the runs earlier, lower replications or cluster.workers"
    elif machines > MOST_HOSTS:
        said, instead = f"{machines:,} workers and servers", "lower cluster.workers"
    else:
        return ""
    return f"{said}, which may take hours and all memory: {instead}, or give --yes"


def excess(scenarios: Sequence[Scenario], replications: int, *, sure: bool = False) -> str:
    """Why the runs of many scenarios are not to be made; those that fail at once do not count."""
    some = spread(scenarios)
    reasons = (impossible(one) for one in some if hopeless(one) is None)
    found = next(filter(None, reasons), "")
    if found or sure:
        return found
    return excessive(gradients_of(scenarios, replications), max(map(hosts, some), default=0))


def gradients_of(scenarios: Sequence[Scenario], replications: int) -> float:
    """About how many gradients many scenarios compute; those that fail at once, none."""
    some = spread(scenarios)
    number = sum(gradients(one) for one in some if hopeless(one) is None)
    return replications * number * len(scenarios) / max(1, len(some))


def spread(scenarios: Sequence[Scenario]) -> Sequence[Scenario]:
    """So many of them as are counted, from the first to the last."""
    if len(scenarios) <= MOST_COUNTED:
        return scenarios
    each = (len(scenarios) - 1) / (MOST_COUNTED - 1)
    return [scenarios[round(index * each)] for index in range(MOST_COUNTED)]


def hosts(scenario: Scenario) -> int:
    """Workers and parameter servers, at most."""
    clusters = [(one, scenario.cluster_of(one)) for one in scenario.strategies]
    return max(one.workers(cluster) + cluster.parameter_servers for one, cluster in clusters)


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
