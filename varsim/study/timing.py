"""What runs take of this machine, in seconds of one core: measured, by short runs that are timed.

A run takes what it takes to begin it, then so much for the times and the values of each gradient,
and for each look at the loss of all examples. The first two are those of the beginning of a
scenario, the others are timed apart, as a round of a thousand workers may have values of minutes.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from varsim.cluster.failing import members
from varsim.cluster.stop import Stop
from varsim.cluster.trace import Trace
from varsim.scenario.training import Scenario, runs_made
from varsim.strategies import Single, Strategy
from varsim.study.beginning import EVENTS, Beginning, begin, opening, rates
from varsim.study.effort import (
    Effort,
    closer_effort,
    effort,
    gradients_of_a_run,
    smaller_runs,
)
from varsim.study.engine import machine_code_saves, makes_in_arrays, picks_fast
from varsim.study.simulation import Run, run_one, started
from varsim.study.why.levers import times_only
from varsim.values.blas import one_blas_thread
from varsim.values.gradient import STACK

# What is timed of values, at most: operations, and examples of a batch.
_OPERATIONS: Final = 2e8
_EXAMPLES: Final = 512
_MACHINE_CODE: Final = 2e-6  # seconds of a gradient over a first-come link
# Of what SimPy takes for messages of all-reduces on shared links; much less where times are equal.
_MACHINE_CODE_SHARED: Final = 0.35
# Events of a collective whose messages share links: after a third of them it is looked at first.
_EVENTS: Final = 45_000
_ALL: Final = 1 << 40
_AGAIN: Final = 0.3  # seconds of a beginning that is timed once more
# Of what is too large to be begun: seconds of a worker, and of a gradient.
_MADE: Final = 250e-6
_UNSEEN: Final = 25e-6
_CROSSING: Final = 20e-6  # seconds in which a message passes a link, where none was seen
# The yardstick: seconds of a gradient besides its values, which are worked out one by one.
_ALONE: Final = 15e-6
_ONE_BY_ONE: Final = 2.0
_LIFE: Final = 25e-6  # seconds in which the failures of a member are drawn
_STRUCK: Final = 4.0  # as many members take as long as a failure
_PATIENCE: Final = 2.0  # seconds of short runs of cases
_TRIES: Final = 5
_LONG_TRIES: Final = 0.1  # seconds
_LOOKS: Final = 50  # updates in which a loss is looked for


class Foreseen(NamedTuple):
    """Seconds of one core in which all runs are made, from `least` to `most`.

    They differ while a target loss is looked for: nobody knows when it is reached. `unseen`: the
    labels of strategies of which too little was seen in a short run; they take more.
    """

    least: float
    most: float
    unseen: tuple[str, ...] = ()


class Pace(NamedTuple):
    """Seconds of a strategy's runs: to begin one, and then of a gradient (its times, its values).

    `sure`: so much of it was seen that it is no guess.
    """

    start: float
    times: float
    values: float
    sure: bool = True

    def run(self, gradients: float) -> float:
        """A run of so many gradients."""
        return self.start + gradients * (self.times + self.values)


def times_as_long(cases: Sequence[Scenario]) -> float:
    """How many times as long as is counted (`effort`) runs take, by short ones of some cases.

    The longest first; the others as far as time is left for them.
    """
    counted, timed, begun = 0.0, 0.0, time.process_time()
    for case in sorted(cases, key=lambda one: effort(one).seconds, reverse=True):
        if counted and time.process_time() - begun > _PATIENCE:
            break
        beginnings = begin(case, EVENTS // len(cases))
        counted += effort(case, rates(beginnings)).seconds
        timed += seconds_here(case, beginnings, yardstick=False).most
    return timed / counted


def seconds_here(
    scenario: Scenario, begun: Sequence[Beginning], *, yardstick: bool = True
) -> Foreseen:
    """What all runs take of this machine; `begun`: how each strategy begins.

    `yardstick`: that one worker alone takes is found out as well.
    """
    known, found, looked, unseen = rates(begun), 0.0, 0.0, list[str]()
    look, batch = seconds_of_a_look(scenario), scenario.workload.batch_size
    more = _seconds_of_looking(scenario)
    for one in begun:
        strategy, own = one.strategy, pace(scenario, one)
        often = runs_made(scenario, strategy)
        number = gradients_of_a_run(scenario, strategy, known.get(strategy.label))
        unseen += [strategy.label] * (not own.sure)
        found += often * own.run(number)
        found += smaller_runs(scenario, strategy) * number * own.times
        found += _LIFE * _lives(scenario, strategy)
        every = scenario.workload_of(strategy).examples_between_evaluations(one.workers)
        found += often * number * batch / every * look
        updates = number / strategy.iterations_per_update(scenario.cluster_of(strategy))
        looked += often * updates * more
    if yardstick:
        alone = gradients_of_a_run(scenario, Single(), None) * runs_made(scenario, Single())
        found += alone * (_ALONE + _ONE_BY_ONE * seconds_of_values(scenario))
    most = found + looked
    return Foreseen(most if scenario.stop.loss is not None else found, most, tuple(unseen))


def timed_effort(scenario: Scenario, little: Callable[[Effort], bool]) -> Effort:
    """What all runs take; by short runs, where they might take more than is `little`."""
    found = closer_effort(scenario, little)
    if little(found._replace(seconds=max(found.seconds, found.gradients * longest(scenario)))):
        return found
    begun = begin(scenario)
    return effort(scenario, rates(begun))._replace(seconds=seconds_here(scenario, begun).most)


def _lives(scenario: Scenario, strategy: Strategy) -> float:
    """Members whose failures are drawn, and failures, in the lives of a strategy's jobs."""
    failures = scenario.failures
    if failures is None or failures.horizon is None:
        return 0.0
    cluster = scenario.cluster_of(strategy)
    workers = strategy.workers(cluster)
    number = sum(members(one.domain, cluster, workers) for one in failures.of)
    struck = failures.horizon * failures.rate(cluster, workers)
    return scenario.replications * (number + _STRUCK * struck)


def pace(scenario: Scenario, one: Beginning) -> Pace:
    """That of a strategy whose beginning is known."""
    strategy, values = one.strategy, seconds_of_values(scenario)
    if not one.limit and one.limit is not None:  # too large to be begun
        return Pace(one.workers * _MADE, _UNSEEN, values, sure=False)
    index, short = scenario.strategies.index(strategy), opening(scenario, strategy)
    begun = _timed(lambda: run_one(Run(short, index, 0), events=1))
    compiled = _compiled(scenario, strategy)
    fair = scenario.cluster_of(strategy).network.sharing == "fair"
    if (fair if compiled else one.limit is not None) and (whole := _round(short, index)):
        each = whole / (one.workers * strategy.round.steps * strategy.round.micro_batches)
        return Pace(begun, _MACHINE_CODE_SHARED * each if compiled else each, values)
    if compiled:
        return Pace(begun, _MACHINE_CODE * machine_code_saves(scenario, strategy), values)
    seconds, gradients = one.seconds, one.gradients
    # Values, and failures inside a run, are not for the engine for times alone.
    other = picks_fast(short, strategy) and not picks_fast(scenario, strategy)
    if other or seconds < _AGAIN:  # the first time something may have been imported
        events = _EVENTS if other else one.limit
        traces: list[Trace] = []

        def again() -> None:
            traces.append(run_one(Run(short, index, 0), lazy=not other, events=events or _ALL))

        seconds = _timed(again)
        gradients = len(traces[0].gradient_rows)
    seen = gradients >= one.workers
    each = max(0.0, seconds - begun) / max(1, gradients if seen else one.workers)
    return Pace(begun, each, values, sure=seen or one.limit is None)


def seconds_of_values(scenario: Scenario) -> float:
    """Seconds in which the values of a gradient are worked out."""
    workload = scenario.workload
    if not workload.has_values:
        return 0.0
    batch = min(workload.batch_size, _EXAMPLES)
    operations = batch * workload.problem.flops_per_example()
    number = max(1, min(STACK, int(_OPERATIONS / max(1.0, operations))))
    task = workload.problem.task(scenario.seed, 0)
    parameters, batches = task.initial(), task.batches(0, 0, batch)
    drawn = _least(lambda: task.batches(0, 0, batch)) / len(batches)
    seconds = _least(lambda: task.gradients(parameters, batches[:number]))
    return (drawn + seconds / min(number, len(batches))) * workload.batch_size / batch


def seconds_of_a_look(scenario: Scenario) -> float:
    """Seconds in which the loss of all examples is worked out, and the accuracy."""
    if not scenario.workload.has_values:
        return 0.0
    task = scenario.workload.problem.task(scenario.seed, 0)
    parameters = task.initial()
    return _least(lambda: (task.loss(parameters), task.accuracy(parameters)))


def _seconds_of_looking(scenario: Scenario) -> float:
    """Seconds an update in which a loss is looked for that is waited for; most are seen to be far.

    By a few updates of one worker, with it and without.
    """
    if scenario.targets.loss is None and scenario.stop.loss is None:
        return 0.0
    goal = min(loss for loss in (scenario.targets.loss, scenario.stop.loss) if loss is not None)
    batch = min(scenario.workload.batch_size, _EXAMPLES)
    workload = scenario.workload_of(scenario.strategies[0])
    workload = workload.model_copy(update={"batch_size": batch})
    taken = []
    for loss in (None, goal):
        changes = {
            "strategies": (Single(),),
            "workload": workload,
            "failures": None,
            "events": (),
            "stop": Stop(global_steps=_LOOKS),
            "targets": type(scenario.targets)(loss=loss),
        }
        only = scenario.undisturbed.model_copy(update=changes)
        taken.append(_timed(partial(run_one, Run(only, 0, 0), record=False)))
    return max(0.0, taken[1] - taken[0]) / _LOOKS


def _round(short: Scenario, index: int) -> float | None:
    """Seconds of a round in which all meet, of whose messages only some are seen; else None.

    What is left of it takes as long for each link that a message passes as what was seen last.
    """
    seen = []
    for events in (_EVENTS // 3, _EVENTS):
        job, strategy = started(Run(times_only(short), index, 0))
        if not job.network.crossed_in_a_round:
            return None
        job.end_after(events)
        seconds = _timed(partial(job.run, strategy.label))
        passed = sum(link.messages for link in job.network.routing.links)
        seen.append((seconds, passed))
    whole = sum(crossed() for crossed in job.network.crossed_in_a_round)
    (little, few), (much, many) = seen
    each = (much - little) / (many - few) if many > few and much > little else _CROSSING
    if many < whole:
        return much + (whole - many) * each
    return much * whole / many


def longest(scenario: Scenario) -> float:
    """Seconds that a gradient may take, whatever its messages meet on the links."""
    found = 0.0
    for strategy in scenario.strategies:
        cluster, pieces = scenario.cluster_of(strategy), len(scenario.workload.tensors())
        messages = 2 * (strategy.workers(cluster) if strategy.sends.to == "workers" else 1)
        if strategy.uses_servers and not (cluster.network.kind == "star" and cluster.network.plain):
            messages += strategy.workers(cluster)  # all flows are looked at for each
        own_links = cluster.network.kind in ("star", "full_mesh") and not cluster.network.slow_links
        if own_links and strategy.sends.to == "workers":
            messages = 1
        found = max(found, messages * (pieces if strategy.overlaps else 1) * 2 * _CROSSING)
    return found + seconds_of_values(scenario)


def _compiled(scenario: Scenario, strategy: Strategy) -> bool:
    """Whether machine code makes the runs, which is not worth its start for a beginning."""
    return picks_fast(scenario, strategy) and not makes_in_arrays(scenario, strategy)


def _least(call: Callable[[], object]) -> float:
    """Of several times, as the first finds nothing in caches; unless one is long itself."""
    taken = [_timed(call)]
    while len(taken) < _TRIES and sum(taken) < _LONG_TRIES:
        taken.append(_timed(call))
    return min(taken)


@one_blas_thread()
def _timed(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun
