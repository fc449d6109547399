"""The beginning of a scenario, times only: some iterations of every strategy, measured.

It is the run itself, with the same draws, up to some iterations of every worker and a number of
events; so what it takes is what the run begins with, on any machine. Values are never worked out.
"""

import math
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from varsim.cluster.failures.life import PaceError
from varsim.cluster.record.trace import Outcome, Standstill, Trace
from varsim.cluster.workers.job import TooLongError
from varsim.scenario.training import Scenario
from varsim.strategies import Strategy
from varsim.study.gradients import Gradients, Window
from varsim.study.lives import check_pace
from varsim.study.measure import ACTIVITIES, NANOSECONDS, left_out, worker_time
from varsim.study.rounds import gradients_of, window
from varsim.study.simulation import Run, run_one
from varsim.study.why.levers import times_only

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
    if strategy.uses_servers and not (cluster.network.kind == "star" and cluster.network.plain):
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
    strategy, gradients = nothing.strategy, Gradients.of(trace)
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
