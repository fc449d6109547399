"""Staleness counted by hand: single jobs on the ordinary servers, and equal workers for long."""

import math
from typing import Any, ClassVar, Literal

import numpy as np

from validation.peers.table import Got, Measured
from varsim.cluster.clock import Activity
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.record.trace import GradientRow, Trace
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.scenario.training import Scenario
from varsim.strategies import STRATEGIES
from varsim.study.simulation import Run, run_one
from varsim.values.gradient import Gradient
from varsim.values.optimizer import OPTIMIZERS
from varsim.values.task import BLOCK, Batches, Parameters, Problem, Task, VariableSpec
from varsim.values.workload import Workload

# A message takes no time: that of a few bytes rounds to 0 ns.
IDEAL: dict[str, Any] = {"bandwidth": 1e18, "latency": 0.0, "sharing": "first_come"}
STARTS = (1.0, 3.0, 5.0)
LEARNING_RATE = 0.25
UPDATES = 12
# Of the law of large numbers: so many batches of updates, for the interval.
BATCHES, UPDATES_PER_BATCH = 20, 1_000
T_99 = 2.861  # Student's, two-sided, of 20 batches


class ConstantGradient(Problem):
    """One parameter from 0 on, whose gradient is always -1."""

    about: ClassVar[str] = "a gradient of -1 everywhere"

    kind: Literal["constant_gradient"] = "constant_gradient"

    def variables(self) -> tuple[VariableSpec, ...]:
        """One number."""
        return (VariableSpec("parameter", (1,)),)

    def flops_per_example(self) -> float:
        """None to speak of."""
        return 1.0

    def task(self, seed: int, replication: int) -> "ConstantTask":
        """The same for every seed."""
        return ConstantTask()


class ConstantTask(Task):
    """A gradient of -1 everywhere."""

    def initial(self) -> Parameters:
        """0."""
        return (np.zeros(1),)

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        """Batches (BLOCK, 0)."""
        return np.zeros((BLOCK, 0))

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        """Whatever the parameters are (k, 1)."""
        return (np.full((len(batches), 1), -1.0),)

    def loss(self, parameters: Parameters) -> float:
        """It falls for ever."""
        return -float(parameters[0][0])


def staleness() -> Measured:
    """Everything that the others count."""
    found = {**_jobs(), **_no_time(), **_constant_gradient()}
    for workers in (4, 16):
        found[f"{workers} equal workers", "mean staleness"] = _of_equal_workers(workers)
    return found


def _jobs() -> dict[tuple[str, str], Got]:
    """Jobs (start, duration) = (1, 3), (3, 5), (5, 1)."""
    rows = _one_job_each({"kind": "trace", "seconds": ((3.0,), (5.0,), (1.0,))})
    stale = [row.applied_step - row.read_step for row in rows]
    found = {("jobs", "mean staleness"): Got(sum(stale) / len(stale))}
    for number, (row, count) in enumerate(zip(rows, stale, strict=True), 1):
        found["jobs", f"completion {number}"] = Got(row.applied / 1e9)
        found["jobs", f"staleness {number}"] = Got(float(count))
    return found


def _no_time() -> dict[tuple[str, str], Got]:
    """The same jobs without duration: 0.1 ns, which is 0 on the clock."""
    rows = _one_job_each({"kind": "constant", "value": 1e-10})
    assert [row.applied for row in rows] == [round(start * 1e9) for start in STARTS]
    largest = max(row.applied_step - row.read_step for row in rows)
    late = sum(row.worker != place for place, row in enumerate(rows))
    return {
        ("zero durations", "largest staleness"): Got(float(largest)),
        ("zero durations", "applied out of order"): Got(float(late)),
    }


def _constant_gradient() -> dict[tuple[str, str], Got]:
    """Three asynchronous workers, until so many updates were made."""
    job = _job({"kind": "exponential", "mean": 1.0}, UPDATES)
    STRATEGIES["none"]().start(job)  # type: ignore[call-arg]
    trace = job.run("none")
    assert trace.global_step == UPDATES
    (parameter,) = job.model()[0].tolist()
    return {("constant gradient", "parameter"): Got(parameter / LEARNING_RATE)}


def _of_equal_workers(workers: int) -> Got:
    """The mean staleness of asynchronous workers with one law, after they have warmed up."""
    scenario = Scenario.model_validate(
        {
            "name": "peer",
            "replications": 1,
            "cluster": {
                "workers": workers,
                "compute": {"kind": "exponential", "mean": 1.0},
                "network": IDEAL,
            },
            "workload": {"problem": {"kind": "timing", "size": 4.0}, "batch_size": 1},
            "strategies": ({"kind": "none"},),
            "stop": {"global_steps": (BATCHES + 1) * UPDATES_PER_BATCH},
        }
    )
    rows = _rows(run_one(Run(scenario, 0, 0), record=False))
    stale = np.array([row.applied_step - row.read_step for row in rows if row.applied >= 0])
    batches = stale[UPDATES_PER_BATCH:].reshape(BATCHES, UPDATES_PER_BATCH).mean(axis=1)
    half_width = T_99 * float(batches.std(ddof=1)) / math.sqrt(BATCHES)
    return Got(float(batches.mean()), half_width)


def _one_job_each(compute: dict[str, Any]) -> list[GradientRow]:
    """Worker i reads at STARTS[i], computes and pushes, once; gradients in order of their end."""
    job = _job(compute, len(STARTS))
    server = ParameterServer(job, drops=False)
    job.observe(lambda: server.parameters)

    def receive(variable: int, gradient: Gradient) -> None:
        server.apply(variable, [gradient])
        job.count_step()

    server.on_arrival(receive)
    for worker, start in zip(job.workers, STARTS, strict=True):
        worker.sets_up(round(start * 1e9))
        job.start_on(worker, _one_job, worker, server)
    return _rows(job.run("jobs"))


def _one_job(worker: Worker, server: ParameterServer) -> Activity[None]:
    """Read, compute, push: a job of an asynchronous worker."""
    read = yield from server.fetch(worker)
    gradient = yield from server.begin(worker, read)
    yield from server.finish(worker, gradient)


def _job(compute: dict[str, Any], updates: int) -> Job:
    """Three workers on an ideal network."""
    cluster = Cluster.model_validate({"workers": 3, "compute": compute, "network": IDEAL})
    optimizer = OPTIMIZERS["sgd"].model_validate({"learning_rate": LEARNING_RATE})
    workload = Workload.model_construct(
        problem=ConstantGradient(), optimizer=optimizer, batch_size=1
    )
    return Job(cluster, workload, Stop(global_steps=updates), seed=0, replication=0)


def _rows(trace: Trace) -> list[GradientRow]:
    return [GradientRow(*row) for row in trace.gradients.tolist()]
