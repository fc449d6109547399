"""One run of a strategy, by the engine that is for it; and many, in several processes."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from numbers import Integral
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from varsim.cluster.clock import uncollected
from varsim.cluster.description.recovery import in_run
from varsim.cluster.failures.deaths import DeathWatch, TooCalmError
from varsim.cluster.failures.interruptions import Interruptions
from varsim.cluster.fast import Gate, Reading
from varsim.cluster.fast.arrays import MirroredRun
from varsim.cluster.fast.choice import Picked, pick
from varsim.cluster.fast.local import LocalRun
from varsim.cluster.fast.served import ServedRun
from varsim.cluster.fast.start import NotCoveredError, Start
from varsim.cluster.record.evaluation import Evaluation
from varsim.cluster.record.rows import handed_over_in
from varsim.cluster.record.trace import Trace
from varsim.cluster.workers.allreduce import Reducing
from varsim.cluster.workers.job import Job
from varsim.core.blas import one_blas_thread
from varsim.scenario.extensions import packed, unpacked
from varsim.scenario.training import AnyScenario, Scenario
from varsim.strategies import Single, Strategy
from varsim.study.lives import Smaller, rules_of, with_life

A = TypeVar("A")
B = TypeVar("B")


class Run(NamedTuple):
    """One strategy in one replication of a scenario.

    `strategy` None is the yardstick `single`, to which no events happen.
    """

    scenario: AnyScenario
    strategy: int | None
    replication: int


def check_jobs(jobs: int) -> None:
    """Raise TypeError or ValueError where that is no number of processes."""
    if not isinstance(jobs, Integral) or isinstance(jobs, bool):
        raise TypeError(f"jobs is a number of processes, not {jobs!r}")
    if jobs < 1:
        raise ValueError("jobs must be at least 1")


@one_blas_thread()
def run_one(
    run: Run,
    *,
    lazy: bool = True,
    record: bool = True,
    events: int | None = None,
    among: float = 0.0,
) -> Trace:
    """One run, from start to stop rule; `lazy` and `record` as in Job.

    `events`: it ends once so many have been put on the heap of SimPy, which makes it then, and
    nothing is made of what it showed. `among`: see `engine_of`.
    """
    scenario, trace = run.scenario, None
    if not isinstance(scenario, Scenario):
        assert run.strategy is not None, "programs are compared with no yardstick"
        return scenario.run_of(run.strategy, run.replication)
    if lazy and events is None and run.strategy is not None:
        strategy = scenario.strategies[run.strategy]
        trace = _fast_trace(scenario, run.replication, strategy, record, among)
    if trace is None:
        trace = _simpy_trace(run, events, lazy, record)
    if events or run.strategy is None:
        return trace
    return with_life(scenario, trace, Smaller(run_alone))


def run_alone(scenario: Scenario, replication: int) -> Trace:
    """A run of the only strategy of a scenario, of which just the times of steps are asked for."""
    return run_one(Run(scenario, 0, replication), record=False)


@uncollected()
def _simpy_trace(run: Run, events: int | None, lazy: bool, record: bool) -> Trace:
    try:  # often nobody dies before the end: then all-reduces need no messages
        job, trace = _carried_out(run, events, lazy, record, calm=True)
    except TooCalmError:
        job, trace = _carried_out(run, events, lazy, record, calm=False)
    if job.sends_on and events is None:
        again, _ = started(run, lazy=lazy, record=False)
        links, sent = again.carried_by(trace.end)
        trace = replace(trace, links=links, sent=sent)
    return trace


def _carried_out(
    run: Run, events: int | None, lazy: bool, record: bool, *, calm: bool
) -> tuple[Job, Trace]:
    job, strategy = started(run, lazy=lazy, record=record, calm=calm)
    if events is not None:
        job.end_after(events)
    return job, job.run(strategy.label)


def started(
    run: Run, *, lazy: bool = True, record: bool = True, calm: bool = False
) -> tuple[Job, Strategy]:
    """The job of one run, with the strategy's processes in it, at time 0."""
    scenario = run.scenario
    assert isinstance(scenario, Scenario), "a program of variables has no job"
    strategy: Strategy = Single() if run.strategy is None else scenario.strategies[run.strategy]
    cluster = scenario.cluster_of(strategy)
    stop = scenario.stop_of(strategy)
    job = Job(
        cluster,
        scenario.workload_of(strategy),
        stop,
        seed=scenario.seed,
        replication=run.replication,
        workers=strategy.workers(cluster),
        lazy=lazy,
        record=record,
    )
    if run.strategy is None:
        Evaluation(job, stop)
    else:
        evaluation = Evaluation(job, stop, scenario.targets.loss)
        if scenario.events:
            DeathWatch(job, scenario.events, calm=calm)
        if (rules := rules_of(scenario, strategy)) is not None:
            Interruptions(job, rules, evaluation, calm=calm)
    if strategy.sends.what == "gradients":
        job.round_gradients()
    job.begin(strategy.start)
    return job, strategy


def mapped(function: Callable[[A], B], runs: Iterable[A], jobs: int) -> Iterator[B]:
    """What `function` makes of each, in order, in so many processes (1: in this one)."""
    if jobs == 1:
        yield from map(function, runs)
        return
    from varsim.study.pool import Pool

    folder = TemporaryDirectory(prefix="varsim-", ignore_cleanup_errors=True)
    with folder as name, Pool(jobs) as pool:
        futures = [pool.submit(_unpacked, name, packed((function, run))) for run in runs]
        for future in futures:
            yield pickle.loads(future.result())


def _unpacked(folder: str, content: bytes) -> bytes:
    """What a packed function makes of what is packed with it, pickled; rows on disk in a folder."""
    import cloudpickle

    function, given = unpacked(content)
    found = function(given)
    with handed_over_in(folder):
        return bytes(cloudpickle.dumps(found))


def engine_of(scenario: AnyScenario, strategy: Strategy, among: float = 0.0) -> Picked:
    """Which engine makes the runs of a strategy; `among` as in `pick`."""
    if not isinstance(scenario, Scenario):
        return Picked(against="programs of variables are run on SimPy")
    if scenario.events:
        return Picked(against="something happens to workers (events)")
    if in_run(scenario.failures):
        return Picked(against="something happens to workers (failures)")
    start = _start(scenario, strategy, 0)
    return pick(start, strategy.rules(start.cluster), among)


def _fast_trace(
    scenario: Scenario, replication: int, strategy: Strategy, record: bool, among: float
) -> Trace | None:
    """The trace of a run by the engine for times alone; None if it is one for SimPy."""
    if not engine_of(scenario, strategy, among).fast:
        return None
    try:
        made = fast_run(scenario, strategy, replication)
        return made.trace(strategy.label, record=record)
    except NotCoveredError:
        return None


def fast_run(
    scenario: Scenario, strategy: Strategy, replication: int, *, interpreted: bool = False
) -> ServedRun | MirroredRun | LocalRun:
    """A run by the engine for times alone; see ServedRun."""
    start = _start(scenario, strategy, replication)
    rules = strategy.rules(start.cluster)
    if isinstance(rules, Gate):
        return ServedRun(start, rules, interpreted=interpreted)
    if isinstance(rules, Reading):
        return LocalRun(start, rules)
    assert isinstance(rules, Reducing)
    return MirroredRun(start, rules)


def _start(scenario: Scenario, strategy: Strategy, replication: int) -> Start:
    """What a run begins with."""
    cluster, workload = scenario.cluster_of(strategy), scenario.workload_of(strategy)
    workers, stop = strategy.workers(cluster), scenario.stop_of(strategy)
    return Start(cluster, workload, stop, scenario.seed, replication, workers)
