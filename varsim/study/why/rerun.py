"""Runs of one strategy with some causes taken away: how long a step takes, and what that shows."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from varsim.cluster.description.cluster import Stop
from varsim.cluster.record.trace import GradientRow, Outcome, Trace
from varsim.scenario.training import Scenario
from varsim.study.gradients import NANOSECONDS, gradients_of
from varsim.study.simulation import Run, run_one
from varsim.study.verdict import Estimate, difference, interval, ratio
from varsim.study.why.levers import Lever, levers, times_only, without

# How much of a run is looked at: so many gradients in each replication, and so many of these.
MOST_GRADIENTS: Final = 600
LEAST_ROUNDS: Final = 20  # of all workers, however many they are
MOST_REPLICATIONS: Final = 3
# Where something happens at a certain time (a death, a slow spell), as much as reaches beyond it.
MOST_GRADIENTS_OF_EVENTS: Final = 6_000
# A counterfactual that takes so many times as long as the run has deadlocked.
_PATIENCE: Final = 20


class Gain(NamedTuple):
    """What a scenario without some cause is like; step times in s, one per replication."""

    key: str
    title: str
    step_times: tuple[float, ...]
    step_time: Estimate
    speedup: Estimate  # paired: how many times as fast


class Part(NamedTuple):
    """A part of the step time (s), with its interval over the replications, one value each."""

    key: str
    cause: str
    seconds: Estimate
    values: tuple[float, ...]


def looked_at(scenario: Scenario) -> Scenario:
    """The scenario of one strategy, with as much of a run as is looked at."""
    (strategy,) = scenario.strategies
    workers = strategy.workers(scenario.cluster)
    slow = scenario.cluster.slow_workers
    timed = bool(scenario.events) or any(one.after or one.until for one in slow)
    most = MOST_GRADIENTS_OF_EVENTS if timed else MOST_GRADIENTS
    gradients = max(most, LEAST_ROUNDS * workers)
    if strategy.round.of == "outer step":  # whole rounds: few of them are looked at
        rounds = max(1, gradients // (workers * strategy.round.steps))
        gradients = gradients_of(strategy, workers, rounds)
    examples = gradients * scenario.workload.batch_size
    stop = scenario.stop
    if stop.examples is not None and stop.examples <= examples:
        return scenario
    return scenario.model_copy(update={"stop": stop.model_copy(update={"examples": examples})})


def number_of_runs(scenario: Scenario) -> int:
    """How many runs are made of the only strategy of a scenario: as it is, and without causes."""
    tried = levers(scenario)
    parts = [lever.key for lever in tried if lever.has_part]
    ways: set[tuple[str, ...]] = {(lever.key,) for lever in tried}
    ways |= {tuple(parts[:count]) for count in range(len(parts) + 1)}
    return len(ways) * min(scenario.replications, MOST_REPLICATIONS)


class Reruns:
    """One strategy, run as it is and with causes taken away, on the same draws.

    `scenario` has this strategy alone. A step: one update; where its round is an iteration of each
    worker, as much time as that takes, in whole rounds. `ran` is called after each run.
    """

    def __init__(self, scenario: Scenario, ran: Callable[[], None] = lambda: None) -> None:
        self.scenario, self._ran = scenario, ran
        self.tried = levers(scenario)
        self.levers = [lever for lever in self.tried if lever.has_part]
        self.replications = min(scenario.replications, MOST_REPLICATIONS)
        self.traces = [self._first(number) for number in range(self.replications)]
        self.stuck = any(trace.standstill or not len(trace.steps) for trace in self.traces)
        (self.strategy,) = scenario.strategies
        gradients = self.strategy.gradients_per_update(scenario.cluster)
        self._per_iteration = self.workers / gradients  # updates, where no gradient is in vain
        self._updates = max(1, round(self._per_iteration))  # of a round of iterations
        own = self.strategy.round.of == "iteration" and self.workers > 1
        self.asynchronous = own and not self.stuck
        self._times: dict[tuple[str, ...], tuple[float, ...]] = {}

    @property
    def steps(self) -> int:
        """Updates that were looked at, in all replications."""
        return sum(len(trace.steps) for trace in self.traces)

    @property
    def workers(self) -> int:
        """How many take part."""
        return self.traces[0].workers

    @cached_property
    def base(self) -> tuple[float, ...]:
        """The step time of the scenario as it is (s), per replication."""
        return tuple(map(self._step_time, self.traces))

    @property
    def step_time(self) -> Estimate:
        """The step time of the scenario as it is (s)."""
        return interval(self.base)

    def times(self, taken: Sequence[Lever]) -> tuple[float, ...]:
        """The step time (s) per replication with these causes taken away; nan: it never ends."""
        key = tuple(lever.key for lever in taken)
        if not key:
            return self.base
        if key not in self._times:
            changed = without(self.scenario, list(taken))
            self._times[key] = tuple(
                self._again(changed, number) for number in range(self.replications)
            )
        return self._times[key]

    def gain_of(self, taken: Sequence[Lever], title: str = "") -> Gain:
        """What it is like without these causes."""
        times = self.times(taken)
        return Gain(
            "+".join(lever.key for lever in taken),
            title or taken[0].title,
            times,
            interval(times),
            ratio(self.base, times),
        )

    @cached_property
    def gains(self) -> list[Gain]:
        """Each cause taken away by itself."""
        return [self.gain_of([lever]) for lever in self.tried]

    @cached_property
    def parts(self) -> list[Part]:
        """The step time in parts that add up to it: causes are taken away one after the other.

        What one takes away when those before it are gone is its part; what is left is the rest.
        """
        found = []
        before = self.base
        for index, lever in enumerate(self.levers, 1):
            after = self.times(self.levers[:index])
            gaps = tuple(a - b for a, b in zip(before, after, strict=True))
            found.append(Part(lever.key, lever.cause, difference(before, after), gaps))
            before = after
        return [*found, Part("rest", "all else", interval(before), before)]

    def _first(self, replication: int) -> Trace:
        return self._run(self.scenario, looked_at(self.scenario).stop, replication)

    def _again(self, scenario: Scenario, replication: int) -> float:
        trace = self.traces[replication]
        if not len(trace.steps):
            return math.nan  # it has no step that could be shorter
        seconds = _PATIENCE * trace.end / NANOSECONDS + 1
        stop = Stop(global_steps=len(trace.steps), time=seconds)
        again = self._run(scenario, stop, replication)
        done = len(again.steps) == len(trace.steps)
        return self._step_time(again) if done else math.nan

    def _run(self, scenario: Scenario, stop: Stop, replication: int) -> Trace:
        # Steps are looked at; what failures leave of them is told beside.
        changed = times_only(scenario.undisturbed.model_copy(update={"stop": stop}))
        trace = run_one(Run(changed, 0, replication))
        self._ran()
        return trace

    def _step_time(self, trace: Trace) -> float:
        if not len(trace.steps):
            return math.nan
        number = len(trace.steps)
        if self.asynchronous:  # workers that are alike finish together
            number -= number % self._updates if number > self._updates else 0
        each = float(trace.steps[number - 1]) / number / NANOSECONDS
        return each * self._per_iteration * _used(trace) if self.asynchronous else each


def _used(trace: Trace) -> float:
    """The share of gradients that was not dropped."""
    outcomes = trace.gradients[:, GradientRow._fields.index("outcome")]
    ended = int((outcomes != Outcome.PENDING).sum())
    return 1.0 - int((outcomes == Outcome.DROPPED).sum()) / ended if ended else 1.0
