"""Copies of a model on the workers: mirrored (ON_WRITE), or each its own (ON_READ)."""

from typing import NamedTuple

from varsim.cluster.job import Job
from varsim.cluster.worker import Read, Worker
from varsim.values.device import Device
from varsim.values.distribute.creation import Asked
from varsim.values.distribute.mirrored import MirroredVariable
from varsim.values.distribute.mirrored_strategy import MirroredStrategy
from varsim.values.distribute.sync_on_read import SyncOnReadVariable
from varsim.values.distribute.variable import DistributedVariable
from varsim.values.gradient import Array, Gradient, Parameters
from varsim.values.operation import finish
from varsim.values.variable import Aggregation, Synchronization, divergence


class _Round:
    """One all-reduced step: the gradients of all replicas and their mean."""

    __slots__ = ("applied", "gradients", "mean")

    def __init__(self) -> None:
        self.gradients: dict[int, Gradient] = {}
        self.mean: list[Array] | None = None
        self.applied = 0


class MirroredReplicas:
    """Every worker's copy of the model, written by all with the same mean gradient."""

    def __init__(self, job: Job) -> None:
        self._job = job
        made = _variables(job, Synchronization.ON_WRITE, Aggregation.MEAN)
        self.variables = [one for one in made if isinstance(one, MirroredVariable)]
        self._rounds: dict[int, _Round] = {}
        self._latest: tuple[Array, Parameters] | None = None
        # The model as read from outside: the version that all copies have reached.
        self.parameters = self._copy(0)

    def read(self, worker: Worker) -> Read:
        """A worker's own copy; takes no time."""
        return Read(self._copy(worker.rank), worker.ready_at, worker.iteration + 1)

    def _copy(self, rank: int) -> Parameters:
        """One replica's values; replicas whose copies are the same version share the tuple.

        All variables are updated together, so the first one tells the version of all.
        """
        version = self.variables[0].values[rank]
        if self._latest is None or self._latest[0] is not version:
            values = tuple([variable.values[rank] for variable in self.variables])
            self._latest = (version, values)
        return self._latest[1]

    def offer(self, worker: Worker, gradient: Gradient) -> None:
        """A worker's contribution to the reduction of this step."""
        gradient.open = len(self.variables)
        self._rounds.setdefault(gradient.iteration, _Round()).gradients[worker.rank] = gradient

    def apply(self, worker: Worker) -> None:
        """Update a worker's copy with the mean; the step counts when the last copy is updated."""
        job, number = self._job, worker.iteration
        this = self._rounds[number]
        if this.mean is None:
            assert len(this.gradients) == len(job.workers)
            in_order = [this.gradients[worker.rank] for worker in job.workers]
            this.mean = [job.gradients.mean(in_order, i) for i in range(len(self.variables))]
        for variable, mean in zip(self.variables, this.mean, strict=True):
            variable.apply(worker.rank, mean)
        this.applied += 1
        if this.applied == len(job.workers):
            del self._rounds[number]
            if not self._rounds:  # else a fast replica may be ahead already
                assert all(variable.copies_are_equal() for variable in self.variables)
            now = job.clock.time
            for rank in range(len(job.workers)):
                gradient = this.gradients[rank]
                gradient.arrived, gradient.applied, gradient.open = now, gradient.open, 0
                job.ended(gradient)
            self.parameters = self._copy(worker.rank)
            job.count_step()


class OutsideRead(NamedTuple):
    """What somebody outside reads: the copies aggregated."""

    parameters: Parameters
    divergence: float  # largest distance between two copies
    updates: int  # updates of all replicas that are in it


class LocalReplicas:
    """Every worker's own copy of the model, aggregated when read from outside."""

    def __init__(self, job: Job, aggregation: Aggregation) -> None:
        self._job = job
        self.aggregation = aggregation
        made = _variables(job, Synchronization.ON_READ, aggregation)
        self.variables = [one for one in made if isinstance(one, SyncOnReadVariable)]
        self._seen = [0] * len(job.workers)  # updates that each copy contains
        self._made = 0  # updates made by all
        self._unfinished: dict[int, int] = {}  # step: replicas that still have to make it
        self._latest: tuple[int, OutsideRead] | None = None

    def read(self, worker: Worker) -> Read:
        """A worker's own copy; takes no time."""
        parameters = tuple([variable.values[worker.rank] for variable in self.variables])
        self._job.recorder.copy_staleness.append(self._made - self._seen[worker.rank])
        return Read(parameters, worker.ready_at, worker.iteration + 1)

    def apply(self, worker: Worker, gradient: Gradient) -> None:
        """Update a worker's own copy; the step counts when all workers have made it."""
        job = self._job
        for index, variable in enumerate(self.variables):
            variable.apply(worker.rank, job.gradients.value(gradient, index, job.in_flight))
        self._seen[worker.rank] += 1
        self._made += 1
        gradient.arrived = job.clock.time
        gradient.applied = len(self.variables)
        job.ended(gradient, gradient.iteration)
        left = self._unfinished.pop(gradient.iteration, len(job.workers)) - 1
        if left:
            self._unfinished[gradient.iteration] = left
        else:
            job.count_step()

    def outside_read(self, step: int) -> OutsideRead:
        """What an outsider reads after this step; all replicas of a meeting get the same.

        The time that it takes is the strategy's to spend.
        """
        if self._latest is None or self._latest[0] != step:
            alone = self.aggregation is Aggregation.ONLY_FIRST_REPLICA
            updates = self._seen[0] if alone else self._made
            self._latest = (step, OutsideRead(self.aggregate(), self.divergence(), updates))
        return self._latest[1]

    def aggregate(self) -> Parameters:
        """The copies as they are now, aggregated."""
        return tuple([variable.aggregated() for variable in self.variables])

    def divergence(self) -> float:
        """Largest distance between two copies as they are now."""
        ranks = range(len(self._seen))
        return divergence(
            [[variable.values[rank] for variable in self.variables] for rank in ranks]
        )

    def write_back(self, worker: Worker, read: OutsideRead) -> None:
        """Set a worker's copy to what was read."""
        for variable, value in zip(self.variables, read.parameters, strict=True):
            variable.write(worker.rank, variable.share(value))
        self._seen[worker.rank] = read.updates


def _variables(
    job: Job, synchronization: Synchronization, aggregation: Aggregation
) -> list[DistributedVariable]:
    """The variables of the model under a mirrored strategy with a replica on every worker."""
    strategy = MirroredStrategy([Device(task=worker.rank) for worker in job.workers])
    asked = Asked(synchronization, aggregation, optimizer=job.workload.update_rule())
    return [finish(strategy.create(strategy.scope(), value, asked)) for value in job.task.initial()]
