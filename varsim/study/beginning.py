"""The beginning of a scenario, times only: what a step takes, what is unsaid, what all would take.

It is the run itself, with the same draws, up to some iterations of every worker and a number of
events; so what it takes is what the run begins with, on any machine. Values are never worked out.

Beginnings, times only, with the same draws: as it is, and with one key given. None of it is a new
estimate: what networks, buckets and distributions do counts as in the run. Twenty rounds are enough
for a percent, take a tenth of a second on eight workers, and never more than `check` itself.

Where a run ends after so many updates or examples, what it computes is known; where it ends after
some time, at most what its workers can compute in that time, or as much as its beginning shows.
"""

import math
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from varsim.cluster.description.device import DEVICE_SIGMA
from varsim.cluster.failures.interruptions import MOST, InterruptionRules
from varsim.cluster.failures.life import PaceError
from varsim.cluster.record.trace import Outcome, Standstill, Trace
from varsim.cluster.workers.job import TooLongError
from varsim.core import presets
from varsim.core.units import format_count
from varsim.scenario.training import AnyScenario, Scenario, runs_made
from varsim.strategies import Single, Strategy
from varsim.study.gradients import (
    NANOSECONDS,
    GradientTable,
    Window,
    gradients_of,
    times_only,
    window,
)
from varsim.study.lives import check_pace, rules_of
from varsim.study.metrics import ACTIVITIES, left_out, worker_time
from varsim.study.program import work as program_work
from varsim.study.simulation import Run, run_one
from varsim.study.why.levers import alone, overlapped, with_overlap

ITERATIONS: Final = 20  # of every worker
# Put on the heap by all strategies together, about a sixth of a second; so many for each worker of
# a large machine, but not without end.
EVENTS: Final = 24_000
_PER_WORKER: Final = 40
_MOST_EVENTS: Final = 80_000
# What it takes to make a worker, in events; and the fewest with which anything comes of one.
_MADE: Final = 16
_LEAST: Final = 2
# Rounds of replicas that meet after every so many steps, and updates, of those that need many.
_PERIODS: Final = 2
_UPDATES: Final = 8
# What was begun after the last update is left out, unless it lasts so many steps already.
_LATE: Final = 2
# On a network whose flows share many links each event looks at all of them: so many cost as one.
_FLOWS: Final = 64


class Beginning(NamedTuple):
    """What the beginning of one strategy showed; times in seconds.

    `per_iteration`: updates in an iteration of a worker's own, on average; 0 where all make one
    together. `update`: mean time from one update to the next,
    where rates of a run are measured; nan where there was none. `updates`: how many made that mean.
    `shares`: parts of the workers' time, by activity. `gradients`, `dropped`, `lasted`:
    how many were computed, how many of them in vain, in what simulated time. `left_out`: the share
    of micro-batches that went into no update, where a strategy drops some. `limit`: the events
    it had, if they ended it; 0 of a machine too large to begin with so few. `standstill`: of a run
    that deadlocked. `seconds`: what this took of this machine; differs every time.
    """

    strategy: Strategy
    workers: int
    per_iteration: float
    update: float = math.nan
    updates: int = 0
    shares: Mapping[str, float] = MappingProxyType({})
    gradients: int = 0
    dropped: int = 0
    left_out: float = 0.0
    lasted: float = 0.0
    limit: int | None = None
    standstill: Standstill | None = None
    seconds: float = 0.0

    @property
    def begun(self) -> bool:
        """Whether anything could be simulated with so few events."""
        return self.limit is None or self.lasted > 0

    @property
    def rate(self) -> float | None:
        """Gradients computed per second of simulated time; None where too little was seen."""
        seen = self.standstill is not None or self.gradients >= self.workers
        return self.gradients / self.lasted if seen and self.lasted else None


def begin(scenario: Scenario, events: int | None = None) -> list[Beginning]:
    """The beginning of every strategy, in the first replication; each has its share of the events.

    What one leaves over goes to those after it. `events`: by default EVENTS or more. A PaceError
    names all of whose steps no life can be made.
    """
    found, count = [], len(scenario.strategies)
    if events is None:
        workers = sum(one.workers(scenario.cluster_of(one)) for one in scenario.strategies)
        events = min(_MOST_EVENTS, max(EVENTS, _PER_WORKER * workers))
    missing = []
    for index in range(count):
        try:
            one, taken = _beginning(scenario, index, events // (count - index))
        except PaceError as error:
            missing.append(str(error))
            continue
        events -= taken
        found.append(one)
    if missing:
        raise PaceError("\n".join(missing))
    return found


def _beginning(scenario: Scenario, index: int, events: int) -> tuple[Beginning, int]:
    """The beginning of one strategy, and how many events it took."""
    strategy = scenario.strategies[index]
    cluster = scenario.cluster_of(strategy)
    workers = strategy.workers(cluster)
    each = strategy.gradients_per_update(cluster)
    own = strategy.round.of == "iteration" and workers > 1
    per_iteration = workers / each if own else 0.0
    nothing = Beginning(strategy, workers, per_iteration)
    left = events - _MADE * workers
    if strategy.traits.uses_servers and not (
        cluster.network.kind == "star" and cluster.network.plain
    ):
        left = left * _FLOWS // (_FLOWS + workers)
    if left < _LEAST * workers:
        return nothing._replace(limit=0), events
    begun = time.process_time()
    short = opening(scenario, strategy)
    try:
        trace = run_one(Run(short, index, 0), events=left)
    except (TooLongError, OverflowError):  # times that not even 64 bits hold
        return nothing, events
    if trace.stopped_by in ("global_steps", "time"):  # that was all of it
        check_pace(scenario, trace)
    found = _measured(nothing, short, trace)
    taken = round(events * trace.heap_events / left)
    limit = left if trace.stopped_by == "events" else None
    return found._replace(limit=limit, seconds=time.process_time() - begun), taken


def opening(scenario: Scenario, strategy: Strategy) -> Scenario:
    """The scenario up to some iterations of every worker, and some updates, of one strategy."""
    cluster = scenario.cluster_of(strategy)
    workers, each = strategy.workers(cluster), strategy.gradients_per_update(cluster)
    periods = math.ceil(max(ITERATIONS / strategy.round.steps, _PERIODS))
    gradients = max(gradients_of(strategy, workers, periods), _UPDATES * each)
    examples = gradients * scenario.workload.batch_size
    stop, after = scenario.stop, scenario.report.measure_after
    after = None if after else after  # a warm-up may last longer
    limits = {"examples": min(examples, stop.examples or examples), "loss": None}
    changes = {
        "failures": None,  # as long as nothing fails
        "stop": stop.model_copy(update=limits),
        "targets": scenario.targets.model_copy(update={"loss": None, "time_to_target": None}),
        "report": scenario.report.model_copy(update={"measure_after": after}),
    }
    return times_only(scenario.model_copy(update=changes))


def _measured(nothing: Beginning, scenario: Scenario, trace: Trace) -> Beginning:
    """What a trace shows, measured as a run of its own is: between whole rounds, if it has some."""
    span = window(scenario, trace)
    if trace.stopped_by == "events" and span.end == trace.end and len(trace.steps):
        last = int(trace.steps[-1])
        if trace.end - last < _LATE * last / len(trace.steps):
            span = Window(0, last)
    updates = int(span.holds(trace.steps).sum()) if span.length else 0
    spent = worker_time(trace, span).sum(axis=0)
    whole = max(1, span.length) * trace.workers
    strategy, gradients = nothing.strategy, GradientTable.of(trace)
    dropped = int((gradients.outcome == Outcome.DROPPED).sum())
    per_update = nothing.workers * strategy.round.micro_batches
    return nothing._replace(
        per_iteration=nothing.per_iteration * (1 - dropped / max(1, len(trace.gradient_rows))),
        update=span.length / updates / NANOSECONDS if updates else math.nan,
        updates=updates,
        shares=dict(zip(ACTIVITIES, (spent / whole).tolist(), strict=True)),
        gradients=len(trace.gradient_rows),
        dropped=dropped,
        left_out=left_out(trace, gradients, per_update) if strategy.round.varies else 0.0,
        lasted=trace.end / NANOSECONDS,
        standstill=trace.standstill,
    )


def rates(begun: Sequence[Beginning]) -> dict[str, float]:
    """Gradients per second of those strategies of which enough was seen, by their labels."""
    return {one.strategy.label: one.rate for one in begun if one.rate is not None}


# Spreads of step times on clusters that are shared (see data/SOURCES.md).
SHARED_SIGMAS: Final = (0.05, 0.1)
_FP32: Final = 4  # bytes


def overlap_gains(scenario: Scenario) -> dict[str, float]:
    """How many times as fast strategies would be if they sent gradients in the backward pass.

    By their labels; without those that do, cannot, or of which too little was seen.
    """
    found = {}
    for index, strategy in enumerate(scenario.strategies):
        own = alone(scenario, index)
        if (other := overlapped(own)) is not None:
            found[strategy.label] = _speedup(own, other)
    return {label: gain for label, gain in found.items() if math.isfinite(gain)}


def pushed_late(scenario: Scenario) -> list[Strategy]:
    """Those that push gradients to servers after the backward pass, and could do so during it.

    How much faster they would be is not worked out: messages by layer take too many events for a
    beginning, and where servers are the bottleneck they are slower (0.9 to 1.3 times as fast in
    bundled scenarios that push for 6 to 31 % of the time).
    """
    return [
        one
        for one in scenario.strategies
        if one.traits.uses_servers
        and not one.traits.updates_copies
        and with_overlap(scenario, one) is not None
    ]


def sigma_gains(scenario: Scenario) -> dict[float, dict[str, float]]:
    """The same of other spreads of step times, by these; nothing where a scenario chooses one."""
    device = scenario.cluster.device
    if device is None or device.sigma != DEVICE_SIGMA:
        return {}
    return {
        sigma: _gains(scenario, device=device.model_copy(update={"sigma": sigma}))
        for sigma in SHARED_SIGMAS
    }


def optimizer_time(scenario: Scenario) -> float:
    """How long (s) an update of a worker's copy at least takes; 0 where it is known or counted.

    Gradient, parameters and slots pass the device's memory once, parameters and slots back again.
    Step times that somebody measured hold the update already; those that follow from FLOPs do not.
    """
    cluster, workload, device = scenario.cluster, scenario.workload, scenario.cluster.device
    if cluster.optimizer_time is not None or device is None or device.preset is None:
        return 0.0
    rate = presets.device(device.preset).memory_bandwidth
    if rate is None or device.step_time(workload).measured is not None:
        return 0.0
    slots = 0 if workload.optimizer is None else workload.optimizer.numbers_each
    number = workload.size() / workload.bytes_per_parameter
    return number * _FP32 * (3 + 2 * slots) / rate


def optimizer_gains(scenario: Scenario) -> dict[str, float]:
    """The same where workers take `optimizer_time` for their own copies."""
    copies = [one.label for one in scenario.strategies if one.traits.updates_copies]
    if not copies or not (time := optimizer_time(scenario)):
        return {}
    gains = _gains(scenario, optimizer_time=time)
    return {label: gain for label, gain in gains.items() if label in copies}


def _gains(scenario: Scenario, **changes: object) -> dict[str, float]:
    """The speed-ups of all strategies on a cluster that is changed."""
    cluster = scenario.cluster.model_copy(update=changes)
    other = scenario.model_copy(update={"cluster": cluster})
    pairs = zip(begin(scenario), begin(other), strict=True)
    gains = {one.strategy.label: one.update / changed.update for one, changed in pairs}
    return {label: gain for label, gain in gains.items() if math.isfinite(gain)}


def _speedup(scenario: Scenario, other: Scenario) -> float:
    (before,), (after,) = begin(scenario), begin(other)
    return before.update / after.update


# More gradients than these, somebody has to want (--yes).
MOST_GRADIENTS: Final = 1e8
MOST_HOSTS: Final = 100_000  # or workers and servers
MOST_COUNTED: Final = 60  # cases of a sweep of which gradients are counted
_LARGEST: Final = 300.0  # of exponents
_TRILLION: Final = 1e12


def gradients(scenario: AnyScenario, rates: Mapping[str, float] | None = None) -> float:
    """How many gradients all runs of a scenario compute.

    `rates`: gradients per second of simulated time of the strategies with these labels; of others
    at most what their workers can compute. Of a program its acts and messages, at most.
    """
    if not isinstance(scenario, Scenario):
        return program_work(scenario)
    known = rates or {}
    return math.fsum(
        runs_made(scenario, one) * gradients_of_a_run(scenario, one, known.get(one.label))
        for one in scenario.strategies
    )


def gradients_of_yardstick(scenario: AnyScenario) -> float:
    """How many gradients are computed besides by one worker alone, with which runs are compared."""
    if not isinstance(scenario, Scenario):
        return 0.0
    one = Single()
    return runs_made(scenario, one) * gradients_of_a_run(scenario.undisturbed, one, None)


def impossible(scenario: Scenario) -> str:
    """Why no run would end, as too much fails; or nothing."""
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


def excess(scenarios: Sequence[AnyScenario], replications: int, *, sure: bool = False) -> str:
    """Why the runs of many scenarios are not to be made; those that fail at once do not count."""
    if sure:
        return ""
    some = [one for one in spread(scenarios) if isinstance(one, Scenario)]
    return excessive(gradients_of_all(scenarios, replications), max(map(hosts, some), default=0))


def gradients_of_all(scenarios: Sequence[AnyScenario], replications: int) -> float:
    """About how many gradients many scenarios compute; those that fail at once, none."""
    some = spread(scenarios)
    number = sum(gradients(one) for one in some if hopeless(one) is None)
    return replications * number * len(scenarios) / max(1, len(some))


def spread(scenarios: Sequence[AnyScenario]) -> Sequence[AnyScenario]:
    """So many of them as are counted, from the first to the last."""
    if len(scenarios) <= MOST_COUNTED:
        return scenarios
    each = (len(scenarios) - 1) / (MOST_COUNTED - 1)
    return [scenarios[round(index * each)] for index in range(MOST_COUNTED)]


def hosts(scenario: Scenario) -> int:
    """Workers and parameter servers, at most."""
    clusters = [(one, scenario.cluster_of(one)) for one in scenario.strategies]
    return max(one.workers(cluster) + cluster.parameter_servers for one, cluster in clusters)


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


def hopeless(scenario: AnyScenario) -> Hopeless | None:
    """That of the most failures, if a strategy meets more than are followed inside a run."""
    if not isinstance(scenario, Scenario):
        return None
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


def _times_made(scenario: Scenario, strategy: Strategy, rules: InterruptionRules) -> float:
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


def _fastest(scenario: Scenario, strategy: Strategy) -> float:
    """Gradients per second of all workers of a strategy, who do nothing but compute."""
    cluster = scenario.cluster_of(strategy)
    times = [
        max(cluster.compute_distribution(scenario.workload).expectation(), 1e-9)
    ] * strategy.workers(cluster)
    for slow in cluster.stragglers:
        if slow.after == 0 and slow.until is None and slow.rank < len(times):
            times[slow.rank] *= slow.factor
    return sum(1 / time for time in times)
