"""A job whose gradients are given, whose reads wait for a word, and whose messages are let through.

Everything else is what a run uses: job, workers, clock, server, accumulators, token queue and the
processes of the strategies themselves.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from simpy.events import Event

from tests.building import NO_TIME
from varsim.cluster.clock import Activity, Clock
from varsim.cluster.description.cluster import Cluster, Stop
from varsim.cluster.network.batch import MessageBatch, Route
from varsim.cluster.network.network import Arrived, Content, Network
from varsim.cluster.network.topologies import Star
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Value
from varsim.learning.gradient_form import IndexedSlices
from varsim.learning.optimizer import OPTIMIZERS, Optimizer
from varsim.learning.task import (
    BLOCK,
    Batches,
    Floats,
    Parameters,
    Problem,
    StackedGradients,
    Task,
    VariableSpec,
)
from varsim.learning.workload import Workload

T = TypeVar("T")


class Script(NamedTuple):
    """The gradients of a case: by worker and iteration, one per variable."""

    variables: tuple[VariableSpec, ...]
    initial: Parameters
    gradients: Mapping[tuple[int, int], tuple[Value, ...]]


class GivenProblem(Problem):
    """A problem whose gradients are recorded; `Workload` takes it where nothing is validated."""

    def flops_per_example(self) -> float:
        return 1.0


class GivenTask(Task):
    """A batch says only whose it is and of which iteration."""

    has_values: ClassVar[bool] = True

    def batches(self, worker: int, block: int, batch_size: int) -> Batches:
        return np.array([(worker, block * BLOCK + row) for row in range(BLOCK)])

    def loss(self, parameters: Parameters) -> float:
        return float("nan")


_OPTIMIZER_KEYS: Final = {"name": "kind", "lr": "learning_rate", "b1": "beta1", "b2": "beta2"}


def optimizer(settings: Mapping[str, Any]) -> Optimizer:
    """The optimizer of a case as a scenario would describe it."""
    own = {_OPTIMIZER_KEYS.get(key, key): value for key, value in settings.items()}
    if own.get("form") == "tensorflow":
        del own["form"]
    return OPTIMIZERS[own["kind"]].model_validate(own)


class ScriptedProblem(GivenProblem):
    """A problem whose gradients are looked up."""

    script: Any

    def variables(self) -> tuple[VariableSpec, ...]:
        specs: tuple[VariableSpec, ...] = self.script.variables
        return specs

    def task(self, seed: int, replication: int) -> "ScriptedTask":
        return ScriptedTask(self.script)


class ScriptedTask(GivenTask):
    """Gradients as they were pushed."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def initial(self) -> Parameters:
        return self._script.initial

    def gradients(self, parameters: Parameters, batches: Batches) -> StackedGradients:
        rows = [self._script.gradients[worker, iteration] for worker, iteration in batches.tolist()]
        return tuple(
            list(parts) if isinstance(parts[0], IndexedSlices) else np.stack(parts)
            for parts in zip(*rows, strict=True)
        )


class Sending:
    """What a worker has sent, and what of it has not been let through."""

    def __init__(self, items: int, content: Content, arrived: Arrived, done: Event) -> None:
        self.content = content
        self.left = set(range(items))
        self._arrived, self._done = arrived, done

    def satisfies(self, item: int, now: int) -> None:
        """One item arrives; the worker goes on when all have."""
        self.left.remove(item)
        self.content.arrived = now
        self._arrived(item, self.content)
        if not self.left:
            self._done.succeed()


class HeldNetwork(Network):
    """Nothing moves until it is told to; then it takes no time."""

    def __init__(self, clock: Clock, star: Star) -> None:
        super().__init__(clock, star)
        self.idle: dict[int, Event] = {}  # workers that ask for the variables, by rank
        self.read: dict[int, Any] = {}  # what each read last
        self.sending: dict[int, Sending] = {}

    def fetch(self, worker: Worker, batch: MessageBatch, content: Callable[[], T]) -> Activity[T]:
        self.idle[worker.rank] = Event(self.clock)
        try:
            yield self.idle[worker.rank]
        finally:
            del self.idle[worker.rank]
        self.read[worker.rank] = read = content()
        return read

    def send(
        self, worker: Worker, batch: MessageBatch, content: Content, arrived: Arrived
    ) -> Activity[None]:
        done = Event(self.clock)
        self.sending[worker.rank] = Sending(batch.items, content, arrived, done)
        try:
            yield done
        finally:
            del self.sending[worker.rank]

    def pass_on(
        self,
        route: Route,
        size: float,
        passed: Callable[[], None],
        arrived: Callable[[], None],
        sooner: int = 0,
    ) -> None:
        raise AssertionError("no collective is part of a recorded case")


class ScriptedJob(Job):
    """A job on such a network, into whose processes one can look."""

    def __init__(self, cluster: Cluster, optimizer: Optimizer, script: Script) -> None:
        workload = Workload.model_construct(
            problem=ScriptedProblem.model_construct(script=script),
            optimizer=optimizer,
            batch_size=1,
        )
        super().__init__(cluster, workload, Stop(global_steps=10**9), seed=0, replication=0)
        wired = self.network.routing  # in which the workers have their places
        self.network: HeldNetwork = HeldNetwork(self.clock, cluster.network)
        self.network.routing = wired

    def local(self, name: str) -> Any:
        """A local variable that some process has."""
        return next(found[name] for found in self._locals() if name in found)

    def of_workers(self, name: str) -> dict[int, Any]:
        """A local variable of the workers' processes, by rank; those that ended have none."""
        processes = [found for found in self._locals() if "worker" in found]
        return {found["worker"].rank: found[name] for found in processes if name in found}

    def _locals(self) -> list[dict[str, Any]]:
        parts = [part for parts in self.processes.of.values() for part in parts]
        return [inspect.getgeneratorlocals(part.process.activity) for part in parts]


def cluster(workers: int, servers: int) -> Cluster:
    """Workers of equal speed; what time anything takes is of no importance."""
    return Cluster.model_validate(
        {
            "workers": workers,
            "parameter_servers": servers,
            "compute": {"kind": "constant", "value": 0.1},
            "network": NO_TIME,
        }
    )


def script(variables: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> Script:
    """The gradients of a case, gathered from its pushes; nan for what is never pushed."""
    initial = tuple(np.array(variable["initial"], dtype=np.float64) for variable in variables)
    nothing = tuple(np.full_like(value, np.nan) for value in initial)
    names = [variable["name"] for variable in variables]
    latest: dict[int, int] = {}
    gradients: dict[tuple[int, int], list[Any]] = {}
    for event in events:
        worker = event.get("worker", -1)
        if event["do"] == "start":
            latest[worker] = latest.get(worker, -1) + 1
            gradients[worker, latest[worker]] = [
                _all_rows(value) if variable.get("sparse") else value
                for variable, value in zip(variables, nothing, strict=True)
            ]
        for name, values in event.get("gradients", {}).items():
            row = gradients[worker, latest[worker]]
            index = names.index(name)
            row[index] = _gradient(values, initial[index].shape)
    return Script(
        tuple(
            VariableSpec(v["name"], tuple(v["shape"]), has_gradient=not v.get("no_gradient"))
            for v in variables
        ),
        initial,
        {key: tuple(row) for key, row in gradients.items()},
    )


def _gradient(recorded: Any, shape: tuple[int, ...]) -> Value:
    """A gradient as it is recorded: all values, or some rows."""
    if not isinstance(recorded, Mapping):
        return np.array(recorded, dtype=np.float64).reshape(shape)
    values = np.array(recorded["values"], dtype=np.float64)
    return IndexedSlices(
        np.array(recorded["indices"], dtype=np.int64), values.reshape(-1, *shape[1:])
    )


def _all_rows(whole: Floats) -> IndexedSlices:
    return IndexedSlices(np.arange(len(whole)), whole)
