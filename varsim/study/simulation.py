"""From a scenario to its result: every strategy, every replication, each a run of its own."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from numbers import Integral
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from varsim.cluster.clock import uncollected
from varsim.cluster.description.recovery import Recovery, in_run
from varsim.cluster.description.refusals import restores
from varsim.cluster.failures.deaths import TooCalmError
from varsim.cluster.failures.interruptions import Rules
from varsim.cluster.record.rows import handed_over_in
from varsim.cluster.record.trace import Trace
from varsim.cluster.workers.job import Job
from varsim.scenario.extensions import packed, unpacked
from varsim.scenario.together import served
from varsim.scenario.training import Scenario, runs_made
from varsim.strategies import Single, Strategy
from varsim.study.engine import fast_trace
from varsim.study.lives import Smaller, with_life
from varsim.values.blas import one_blas_thread

if TYPE_CHECKING:
    from varsim.cluster.programs import ProgramTrace
    from varsim.distribute.program_run import Mode
    from varsim.scenario.variables import VariablesScenario
    from varsim.study.result import Result
    from varsim.study.variables import VariablesResult

A = TypeVar("A")
B = TypeVar("B")

# What is kept of all runs of the program of a scenario of variables, at most about 100 MB of text:
# acts, the copies that are looked at in them, and messages.
MOST_ACTS, MOST_GLANCES, MOST_SENT = 200_000, 800_000, 300_000


class ProgramPoint(NamedTuple):
    """One program under one mode in one replication of a scenario of variables.

    `reads_per_write` None: the program as it is written.
    """

    scenario: "VariablesScenario"
    reads_per_write: float | None
    mode: "Mode"
    replication: int


class Run(NamedTuple):
    """One strategy in one replication of a scenario.

    `strategy` None is the yardstick `single`, to which no events happen.
    """

    scenario: Scenario
    strategy: int | None
    replication: int


def simulate(
    scenario: Scenario, jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> "Result":
    """Run a scenario and return its Result, the same for any number of jobs.

    Where nothing is random there is one replication, whatever the scenario asks for.

    `jobs`: processes to use, at most one per run. `progress(done, total)` is called after each
    run. Where a strategy deadlocks, the result says so (`Result.deadlock`).
    """
    if not isinstance(scenario, Scenario):
        if getattr(scenario, "kind", None) == "variables":
            raise TypeError("a scenario of kind variables is run with varsim.simulate_variables")
        raise TypeError("simulate takes a Scenario; load one with varsim.load_scenario(path)")
    check_jobs(jobs)
    from varsim.study.result import Result

    often = {
        index: runs_made(scenario, Single() if index is None else scenario.strategies[index])
        for index in (*range(len(scenario.strategies)), None)
    }
    fails = scenario.failures is not None and scenario.failures.is_random
    count = scenario.replications if fails else max(often.values())
    runs = [
        Run(scenario, strategy, replication)
        for strategy, made in often.items()
        for replication in range(made)
    ]
    traces, smaller = [], Smaller(run_alone)
    for done, (run, trace) in enumerate(
        zip(runs, mapped(_made, runs, min(jobs, len(runs))), strict=True), 1
    ):
        # Beside strategies that are random, one that is exact is the same in every replication.
        same = range(1, count if often[run.strategy] == 1 else 1)
        others = (replace(trace, replication=number) for number in same)
        if run.strategy is not None:
            others = (with_life(scenario, other, smaller) for other in others)
        traces += [trace, *others]
        if progress is not None:
            progress(done, len(runs))
    return Result(scenario, traces[:-count], traces[-count:])


def check_jobs(jobs: int) -> None:
    """Raise TypeError or ValueError where that is no number of processes."""
    if not isinstance(jobs, Integral) or isinstance(jobs, bool):
        raise TypeError(f"jobs is a number of processes, not {jobs!r}")
    if jobs < 1:
        raise ValueError("jobs must be at least 1")


def simulate_variables(
    scenario: "VariablesScenario", jobs: int = 1, progress: Callable[[int, int], None] | None = None
) -> "VariablesResult":
    """Run a scenario of kind variables under each of its modes; otherwise as `simulate`."""
    from varsim.scenario.variables import VariablesScenario

    if not isinstance(scenario, VariablesScenario):
        raise TypeError("simulate_variables takes a scenario of kind variables; see simulate")
    check_jobs(jobs)
    from varsim.study.variables import VariablesResult

    ratios = scenario.vary.reads_per_write if scenario.vary is not None else ()
    points = [
        ProgramPoint(scenario, ratio, mode, replication)
        for ratio in (None, *ratios)
        for mode in scenario.all_modes
        for replication in range(scenario.replications)
    ]
    traces = []
    for trace in mapped(run_point, points, min(jobs, len(points))):
        traces.append(trace)
        if progress is not None:
            progress(len(traces), len(points))
    return VariablesResult(scenario, traces)


def run_point(point: ProgramPoint) -> "ProgramTrace":
    """One run of a program, from start to end; where it is varied, without its rows."""
    from varsim.cluster.programs import run_program
    from varsim.distribute.program_run import MOST_COPIES

    scenario, ratio, mode, replication = point
    runs = len(scenario.all_modes) * scenario.replications
    copies = min(scenario.cluster.workers, MOST_COPIES)
    most_acts = max(1, min(MOST_ACTS, MOST_GLANCES // copies) // runs)
    trace = run_program(
        scenario.cluster,
        scenario.program if ratio is None else scenario.with_reads_per_write(ratio),
        scenario.variables,
        mode,
        seed=scenario.seed,
        replication=replication,
        algorithm=scenario.cross_device_ops,
        most_acts=most_acts if ratio is None else 0,
        most_sent=max(1, MOST_SENT // runs) if ratio is None else 0,
    )
    return trace if ratio is None else trace.totals()


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
    nothing is made of what it showed. `among`: see `picks_fast`.
    """
    trace = None
    if lazy and events is None and run.strategy is not None:
        strategy = run.scenario.strategies[run.strategy]
        trace = fast_trace(run.scenario, strategy, run.replication, record, among)
    if trace is None:
        trace = _simpy_trace(run, events, lazy, record)
    return (
        trace
        if events or run.strategy is None
        else with_life(run.scenario, trace, Smaller(run_alone))
    )


def run_alone(scenario: Scenario, replication: int) -> Trace:
    """A run of the only strategy of a scenario, of which just the times of steps are asked for."""
    return run_one(Run(scenario, 0, replication), record=False)


def _made(run: Run) -> Trace:
    """One run; of the yardstick, of which only the speed is of interest, without spans."""
    return run_one(run, record=run.strategy is not None)


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
    strategy: Strategy = Single() if run.strategy is None else scenario.strategies[run.strategy]
    cluster = scenario.cluster_of(strategy)
    job = Job(
        cluster,
        scenario.workload_of(strategy),
        scenario.stop_of(strategy),
        seed=scenario.seed,
        replication=run.replication,
        workers=strategy.workers(cluster),
        events=() if run.strategy is None else scenario.events,
        rules=None if run.strategy is None else rules_of(scenario, strategy),
        target_loss=None if run.strategy is None else scenario.targets.loss,
        lazy=lazy,
        record=record,
        calm=calm,
    )
    if strategy.sends.what == "gradients":
        job.round_gradients()
    job.begin(strategy.start)
    return job, strategy


def rules_of(scenario: Scenario, strategy: Strategy) -> Rules | None:
    """What strikes inside the runs of a strategy, and how it comes back."""
    for failures in in_run(scenario.failures):
        there = failures if strategy.uses_servers else failures.without_servers()
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
        return Rules(there, saved, scenario.recovery or Recovery(), chief)
    return None


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
