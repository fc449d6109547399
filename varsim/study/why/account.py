"""Bottleneck analysis of one strategy: runs of it with some causes of waiting taken away.

How long a step takes then, what that shows, what a step waits for, and what was busy.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Final, NamedTuple

from varsim.cluster.description.cluster import Stop
from varsim.cluster.record.trace import GradientRow, Outcome, Trace
from varsim.scenario.training import Scenario, steps_are_random
from varsim.study.gradients import NANOSECONDS, GradientTable, gradients_of, times_only
from varsim.study.metrics import left_out
from varsim.study.shown import Shown
from varsim.study.simulation import Run, run_one
from varsim.study.stragglers import Table, compute_times
from varsim.study.verdict import (
    CLOSE,
    WORSE,
    Estimate,
    beside,
    difference,
    interval,
    lead_of,
    ratio,
    verdict,
)
from varsim.study.why.levers import Lever, alone, levers, without
from varsim.study.why.lives import Help, helps
from varsim.study.why.path import CriticalPath, enders, iterations, shares, step_paths, typical
from varsim.study.why.resources import ResourceUse, uses

BETTER: Final = "better"

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


class StepPart(NamedTuple):
    """A part of the step time (s), with its interval over the replications, one value each."""

    key: str
    cause: str
    seconds: Estimate
    values: tuple[float, ...]


def looked_at(scenario: Scenario) -> Scenario:
    """The scenario of one strategy, with as much of a run as is looked at."""
    (strategy,) = scenario.strategies
    workers = strategy.workers(scenario.cluster)
    slow = scenario.cluster.stragglers
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


class Account:
    """One strategy: what a step consists of, what was busy, and what it would be like otherwise.

    `scenario` has this strategy alone; it is run as it is and with causes taken away, on the same
    draws, and `ran` is called after each run. A step lasts from one update to the next. Of an
    `asynchronous` strategy, whose round is each worker's own iteration, it is one of these: the
    time in which there are as many updates as all of them make, in whole rounds; `paths` are then
    the iterations of all workers. `stuck`: it deadlocked, or made no update; then there is nothing
    to say. `uses`: what was busy, busiest first.
    """

    def __init__(self, scenario: Scenario, ran: Callable[[], None] = lambda: None) -> None:
        self.scenario, self._ran = scenario, ran
        self.tried = levers(scenario)
        self.levers = [lever for lever in self.tried if lever.has_part]
        self.replications = min(scenario.replications, MOST_REPLICATIONS)
        self.traces = [self._first(number) for number in range(self.replications)]
        self.stuck = any(trace.standstill or not len(trace.steps) for trace in self.traces)
        (self.strategy,) = scenario.strategies
        self.label, self.shards = self.strategy.label, self.strategy.traits.shards
        # Servers may also add up the gradients of workers that have copies of their own.
        self.servers = self.strategy.traits.uses_servers and not self.strategy.traits.updates_copies
        gradients = self.strategy.gradients_per_update(scenario.cluster)
        self._per_iteration = self.workers / gradients  # updates, where no gradient is in vain
        self._updates = max(1, round(self._per_iteration))  # of a round of iterations
        own = self.strategy.round.of == "iteration" and self.workers > 1
        self.asynchronous = own and not self.stuck
        self._times: dict[tuple[str, ...], tuple[float, ...]] = {}
        each = iterations if self.asynchronous else self._steps
        self.paths = [] if self.stuck else [path for one in self.traces for path in each(one)]
        self.stuck = not self.paths
        self.uses = [] if self.stuck else uses(scenario, self.traces)

    def _steps(self, trace: Trace) -> list[CriticalPath]:
        batches = self.strategy.round.micro_batches
        return step_paths(trace, servers=self.servers, batches=batches)

    @cached_property
    def helps(self) -> list[Help]:
        """What its job keeps of its time among failures, and would with changes; else nothing."""
        return helps(self.scenario, self.traces)

    @cached_property
    def together(self) -> Gain | None:
        """All causes but compute taken away; None where there are not two of them."""
        others = [lever for lever in self.levers if lever.key != "compute"]
        return self.gain_of(others, "all of these") if len(others) > 1 else None

    @property
    def main(self) -> StepPart:
        """The largest part of the step."""
        return max(self.parts, key=lambda part: part.seconds.mean)

    def share(self, part: StepPart) -> float:
        """A part of the step time, as a share of it."""
        return part.seconds.mean / self.step_time.mean

    @property
    def exact(self) -> bool:
        """Whether nothing random has an effect on its times."""
        return not steps_are_random(self.scenario, self.strategy)

    def faster(self, gain: Gain) -> str:
        """The verdict on a gain: WORSE is what the scenario is beside it, if it is surely faster.

        Of several gains the largest is looked for, so that their intervals hold together.
        """
        if not all(map(math.isfinite, gain.step_times)):
            return CLOSE
        lead = lead_of(
            self.base,
            gain.step_times,
            comparisons=max(len(self.gains), 1),
            exact=self.exact,
        )
        return verdict(lead, WORSE, BETTER, self.scenario.report.equal_within)

    def beside_main(self, part: StepPart) -> str:
        """The verdict on another part of the step beside the largest."""
        rivals = beside(
            "main",
            {"main": self.main.values, "other": part.values},
            equal_within=self.scenario.report.equal_within,
            highest=True,
            additive=True,
            exact=lambda _: self.exact,
            comparisons=max(len(self.parts) - 1, 1),
        )
        return rivals[0].said

    def gain(self, key: str) -> Gain | None:
        """What it is like without one cause."""
        return next((gain for gain in self.gains if gain.key == key), None)

    @cached_property
    def typical(self) -> CriticalPath:
        """The step of median length."""
        return typical(self.paths)

    @cached_property
    def shares(self) -> dict[str, float]:
        """What part of all steps is spent on what."""
        return shares(self.paths)

    @cached_property
    def enders(self) -> dict[int, float]:
        """In what part of the steps each worker is waited for."""
        return enders(self.paths)

    @cached_property
    def compute_times(self) -> list[Table]:
        """Of every replication the times that all workers computed; empty where one has none."""
        if self.strategy.round.varies:  # the long ones are missing
            return []
        number = self.strategy.round.micro_batches
        found = [compute_times(trace, number) for trace in self.traces]
        there = [table for table in found if table is not None]
        return there if len(there) == len(found) else []

    @cached_property
    def left_out(self) -> float | None:
        """Share of micro-batches that went into no update; None where a strategy drops none."""
        most = self.strategy.gradients_per_update(self.scenario.cluster)
        shares = [left_out(one, GradientTable.of(one), most) for one in self.traces]
        return math.fsum(shares) / len(shares) if self.strategy.round.varies else None

    @property
    def jam(self) -> ResourceUse | None:
        """What one queues for: the busiest of what is shared, else of the workers' own links."""
        shared = [use for use in self.uses if use.kind not in ("link", "compute")]
        return next(iter(shared or [use for use in self.uses if use.kind == "link"]), None)

    @property
    def examples_per_s(self) -> Estimate:
        """Throughput in what was looked at; gradients that were applied, by their shares."""
        size = self.scenario.workload.batch_size
        return interval(
            [
                float(trace.gradients[:, -1].sum()) / trace.variables * size / (trace.end / 1e9)
                for trace in self.traces
            ]
        )

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
    def parts(self) -> list[StepPart]:
        """The step time in parts that add up to it: causes are taken away one after the other.

        What one takes away when those before it are gone is its part; what is left is the rest.
        """
        found = []
        before = self.base
        for index, lever in enumerate(self.levers, 1):
            after = self.times(self.levers[:index])
            gaps = tuple(a - b for a, b in zip(before, after, strict=True))
            found.append(StepPart(lever.key, lever.cause, difference(before, after), gaps))
            before = after
        return [*found, StepPart("rest", "all else", interval(before), before)]

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


@dataclass(frozen=True, repr=False)
class Why(Shown):
    """Result of `varsim.explain`: for each strategy the causes of its step time.

    `accounts` holds the causes, and what would help, strategy by strategy.
    """

    offers = (*Shown.offers, "scenario", "accounts")
    product: ClassVar = "explain"

    scenario: Scenario
    accounts: list[Account]


def why(scenario: Scenario, progress: Callable[[int, int], None] | None = None) -> Why:
    """Run and rerun every strategy; `progress(done, total)` after each run."""
    accounts: list[Account] = []
    indices = range(len(scenario.strategies))
    ends = list(accumulate(number_of_runs(alone(scenario, index)) for index in indices))
    total, done = ends[-1], 0

    def tell(now: int) -> None:
        nonlocal done
        done = now
        if progress is not None:
            progress(now, total)

    for index in indices:
        found = Account(alone(scenario, index), lambda: tell(done + 1))
        if not found.stuck:
            _ = found.gains, found.parts, found.together, found.helps
        accounts.append(found)
        tell(ends[index])
    return Why(scenario, accounts)
