"""Numbers that other simulators publish: links, fair sharing, parameter servers, staleness."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from validation.finding import Finding, Section
from validation.networks import Ring
from validation.points import laws
from validation.points.estimate import Estimate
from validation.points.scenario import IDEAL, ran, scenario, sent
from validation.references import table
from varsim.cluster.clock import Activity, Clock
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.network.network import network
from varsim.cluster.network.topologies import TOPOLOGIES
from varsim.cluster.record.trace import GradientRow, Phase, Span, Trace
from varsim.cluster.servers.server import ParameterServer
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Gradient
from varsim.learning.optimizer import OPTIMIZERS
from varsim.learning.task import BLOCK, Batches, Parameters, Problem, Task, VariableSpec
from varsim.learning.workload import Workload
from varsim.strategies import STRATEGIES

SECTION: Final = Section(
    "peers",
    "Other simulators",
    "Numbers that other simulators and papers print for small systems: single messages, "
    "all-to-all, fair sharing, a parameter server, a ring, staleness.",
    "Whole nanoseconds exactly; numbers of fluid models to all digits that are printed; averages "
    "of random runs inside their interval.",
)

# The table of what other simulators print, and what it takes to agree with it.


# Where the numbers are random: as far from what is expected as this, and the interval covers it.
RANDOM = 0.005


# (name, quantity) -> what varsim gets; an estimate where it is random.
Measured: TypeAlias = Mapping[tuple[str, str], float | Estimate]


class Row(NamedTuple):
    """One number as it was printed: `text` holds all digits shown."""

    group: str
    name: str
    quantity: str
    unit: str
    text: str
    rule: str  # exact, digits or random
    source: str

    @property
    def expected(self) -> float:
        """The number."""
        return float(self.text)

    @property
    def bound(self) -> str:
        """What it takes to agree, in words."""
        return {
            "exact": "exact",
            "digits": "all digits shown",
            "random": f"inside the 99 % interval, of at most {100 * RANDOM:g} % each way",
        }[self.rule]

    def keeps(self, got: float, half_width: float | None) -> bool:
        """Whether that is good enough."""
        if self.rule == "exact":
            return got == self.expected
        if self.rule == "digits":
            decimals = len(self.text.partition(".")[2])
            return f"{got:.{decimals}f}" == self.text
        assert half_width is not None
        close = abs(got - self.expected) <= half_width
        return close and half_width <= RANDOM * self.expected


def rows() -> list[Row]:
    """All of them, in order."""
    names = ("group", "name", "quantity", "unit", "expected", "rule", "source")
    return [Row(*(one[name] for name in names)) for one in table("peer_checks.csv")]


# Messages alone and against each other, over networks made from their descriptions.


NODES: Final = 16
MESSAGE: Final = 2.0**20
# 50 GiB/s per direction and 500 ns per hop; the latency of a star is that of its two hops.
LINK: Final[dict[str, Any]] = {"bandwidth": 50 * 2.0**30, "latency": 500e-9}
ONE_BY_ONE: Final = {
    "ring": {"kind": "ring", **LINK},
    "full mesh": {"kind": "full_mesh", **LINK},
    "switch": {"kind": "star", **LINK, "latency": 1000e-9},
}


class Message(NamedTuple):
    """So many bytes from one node to another, sent at a time (s)."""

    source: int
    target: int
    size: float
    start: float = 0.0


def single_messages() -> Measured:
    """One message from node 1 to node 4 of 16, over links that cut through."""
    found = {}
    for kind, described in ONE_BY_ONE.items():
        made = {**described, "sharing": "first_come"}
        (time,) = arrivals(made, NODES, [Message(1, 4, MESSAGE)])
        found[f"{kind}, 1 to 4, cut through", "arrival"] = time
    return found


def fair_sharing() -> Measured:
    """Flows that meet in one link."""
    star = {"kind": "star", "bandwidth": 1.25e9, "latency": 0.0, "sharing": "fair"}
    cases = {
        ("two equal flows on one link", "flow"): (
            star,
            [Message(source, 2, 1.25e9) for source in range(2)],
        ),
        ("4 workers push at once", "worker"): (
            {**star, "latency": 10e-6},
            [Message(source, 4, 100e6) for source in range(4)],
        ),
        ("pushes that start one after the other", "worker"): (
            star,
            [Message(rank, 4, 100e6 * (rank + 1), 0.05 * rank) for rank in range(4)],
        ),
    }
    found = {}
    for (name, what), (described, messages) in cases.items():
        ends = arrivals(described, messages[0].target + 1, messages)
        for number, end in enumerate(ends):
            found[name, f"end of {what} {number}"] = end / 1e9
    return found


def arrivals(described: dict[str, Any], hosts: int, messages: Sequence[Message]) -> list[int]:
    """When each message is there (ns)."""
    clock = Clock()
    topology = Ring if described["kind"] == "ring" else TOPOLOGIES[described["kind"]]
    links = network(clock, topology.model_validate(described))
    places = [links.routing.worker(rank) for rank in range(hosts)]
    times = [-1] * len(messages)

    def arrived(number: int) -> None:
        times[number] = clock.time

    for number, one in enumerate(messages):
        route = links.route(places[one.source], places[one.target])
        send = partial(links.pass_on, route, one.size, _nothing, partial(arrived, number))
        clock.call_at(round(one.start * 1e9), send)
    clock.run_until_stopped()
    return times


def _nothing() -> None:
    """Nobody waits for links that are free again."""


# Parameter servers and all-reduces: scenarios, run by the ordinary code.
#
# The others begin with the parameters on the workers; varsim's workers read them first. Times count
# from the moment at which all have read, 0.4 s after the start.


SERVER: dict[str, Any] = {"bandwidth": 1.25e9, "latency": 0.0, "sharing": "fair"}
SIZE = 125e6


def parameter_server() -> Measured:
    """4 workers, 125 MB each way over links of 1.25 GB/s."""
    return {**_synchronous(), **_asynchronous()}


def ring_all_reduce() -> Measured:
    """102.4 MB at 12.5 GB/s, 5 us: from the end of compute, 0.1 s, to the first update."""
    network = {"bandwidth": 12.5e9, "latency": 5e-6, "sharing": "fair"}
    found = {}
    for workers in (4, 16):
        trace = _run({"kind": "on_write"}, workers, 0.1, network, 102.4e6, 1)
        time = (int(trace.steps[0]) - 100_000_000) / 1e6
        found[f"{workers} workers", "all-reduce"] = time
    return found


def _synchronous() -> Measured:
    # The textbook's barrier: without the tokens that TensorFlow's queue has at the start.
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 4, "initial_tokens": 0}
    trace = _run(strategy, 4, 0.5, SERVER, SIZE, 4)
    reads = _read_ends(trace)
    begin = max(ends[0] for ends in reads)
    found = {
        ("synchronous", f"update {number}"): (int(step) - begin) / 1e9
        for number, step in enumerate(trace.steps[:3].tolist(), 1)
    }
    found["synchronous", "last reply"] = (max(ends[3] for ends in reads) - begin) / 1e9
    return found


def _asynchronous() -> Measured:
    slow = ({"rank": 3, "factor": 2.0},)
    trace = _run({"kind": "none"}, 4, 0.5, SERVER, SIZE, 24, slow_workers=slow)
    reads = _read_ends(trace)
    begin = max(ends[0] for ends in reads)
    rows = [GradientRow(*row) for row in trace.gradients.tolist()]
    arrived = {(row.worker, row.iteration): row.arrived - begin for row in rows}
    found: dict[tuple[str, str], float] = {}
    for step in range(5):
        times = {arrived[worker, step] for worker in range(3)}
        assert len(times) == 1, "the fast ones are equal"
        found["asynchronous", f"push {step + 1} of the fast"] = times.pop() / 1e9
        found["asynchronous", f"push {step + 1} of the slow"] = arrived[3, step] / 1e9
    found["asynchronous", "end"] = (reads[3][5] - begin) / 1e9
    return found


def _read_ends(trace: Trace) -> list[list[int]]:
    """When the reads of each worker ended (ns)."""
    ends: list[list[int]] = [[] for _ in range(trace.workers)]
    for span in (Span(*row) for row in trace.spans.tolist()):
        if span.phase == Phase.READ:
            ends[span.worker].append(span.end)
    return [sorted(own) for own in ends]


def _run(
    strategy: dict[str, Any],
    workers: int,
    compute: float,
    network: dict[str, Any],
    size: float,
    steps: int,
    **cluster: Any,
) -> Trace:
    described = scenario(
        strategy,
        workers,
        laws.constant(compute),
        steps,
        network=network,
        workload=sent(size),
        **cluster,
    )
    return ran(described, record=True)


# Staleness counted by hand: single jobs on the ordinary servers, and equal workers for long.


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
        return (VariableSpec("parameter", (1,)),)

    def flops_per_example(self) -> float:
        return 1.0

    def task(self, seed: int, replication: int) -> "ConstantTask":
        return ConstantTask()


class ConstantTask(Task):
    """A gradient of -1 everywhere."""

    def initial(self) -> Parameters:
        return (np.zeros(1),)

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        return np.zeros((BLOCK, 0))

    def gradients(self, parameters: Parameters, batches: Batches) -> Parameters:
        return (np.full((len(batches), 1), -1.0),)

    def loss(self, parameters: Parameters) -> float:
        return -float(parameters[0][0])


def staleness() -> Measured:
    """Everything that the others count."""
    found = {**_jobs(), **_no_time(), **_constant_gradient()}
    for workers in (4, 16):
        found[f"{workers} equal workers", "mean staleness"] = _of_equal_workers(workers)
    return found


def _jobs() -> Measured:
    """Jobs (start, duration) = (1, 3), (3, 5), (5, 1)."""
    rows = _one_job_each({"kind": "trace", "seconds": ((3.0,), (5.0,), (1.0,))})
    stale = [row.applied_step - row.read_step for row in rows]
    found = {("jobs", "mean staleness"): sum(stale) / len(stale)}
    for number, (row, count) in enumerate(zip(rows, stale, strict=True), 1):
        found["jobs", f"completion {number}"] = row.applied / 1e9
        found["jobs", f"staleness {number}"] = float(count)
    return found


def _no_time() -> Measured:
    """The same jobs without duration: 0.1 ns, which is 0 on the clock."""
    rows = _one_job_each({"kind": "constant", "value": 1e-10})
    assert [row.applied for row in rows] == [round(start * 1e9) for start in STARTS]
    largest = max(row.applied_step - row.read_step for row in rows)
    late = sum(row.worker != place for place, row in enumerate(rows))
    return {
        ("zero durations", "largest staleness"): float(largest),
        ("zero durations", "applied out of order"): float(late),
    }


def _constant_gradient() -> Measured:
    """Three asynchronous workers, until so many updates were made."""
    job = _job({"kind": "exponential", "mean": 1.0}, UPDATES)
    STRATEGIES["none"]().start(job)  # type: ignore[call-arg]
    trace = job.run("none")
    assert trace.global_step == UPDATES
    (parameter,) = job.model()[0].tolist()
    return {("constant gradient", "parameter"): parameter / LEARNING_RATE}


def _of_equal_workers(workers: int) -> Estimate:
    """The mean staleness of asynchronous workers with one law, after they have warmed up."""
    steps = (BATCHES + 1) * UPDATES_PER_BATCH
    described = scenario({"kind": "none"}, workers, laws.exponential(1.0), steps)
    rows = _rows(ran(described))
    stale = np.array([row.applied_step - row.read_step for row in rows if row.applied >= 0])
    batches = stale[UPDATES_PER_BATCH:].reshape(BATCHES, UPDATES_PER_BATCH).mean(axis=1)
    half_width = T_99 * float(batches.std(ddof=1)) / math.sqrt(BATCHES)
    return Estimate(float(batches.mean()), half_width)


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


# By group, what varsim gets: (name, quantity) -> number.
GROUPS: dict[str, Callable[[], Measured]] = {
    "single messages": single_messages,
    "fair sharing": fair_sharing,
    "parameter server": parameter_server,
    "ring all-reduce": ring_all_reduce,
    "staleness": staleness,
}


def findings() -> list[Finding]:
    """Every number of the table beside what varsim gets."""
    measured = {group: measure() for group, measure in GROUPS.items()}
    found = []
    for row in rows():
        got = measured[row.group][row.name, row.quantity]
        value, half_width = got[:2] if isinstance(got, Estimate) else (got, None)
        said = (row.group, row.name, row.quantity, row.unit, row.expected)
        line = Finding(*said, value, half_width, source=row.source)
        found.append(line.held(row.keeps(value, half_width), row.bound))
    return found
