"""Copies of a model on the workers: mirrored (ON_WRITE), or each its own (ON_READ)."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from simpy.events import Event

from varsim.cluster.clock import Activity
from varsim.cluster.network.network import nothing
from varsim.cluster.record.memory import full_slots
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.processes import restart_all
from varsim.cluster.workers.worker import Read, Worker
from varsim.core.operation import Device, finish
from varsim.distribute.attributes import Aggregation, Synchronization, divergence
from varsim.distribute.context import DEFAULT_CONTEXT
from varsim.distribute.mirrored import MirroredVariable, SyncOnReadVariable
from varsim.distribute.mirrored_strategy import MirroredStrategy
from varsim.distribute.tensor import Tensor
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.learning.gradient import Array, Gradient, Parameters, Value
from varsim.learning.gradient_form import sum_in_order


class _Round:
    """A step: the gradients offered for it, by rank; then who has still to apply their mean.

    `parameters`: what it makes of the model, once anybody has applied it.
    """

    __slots__ = ("gradients", "left", "mean", "parameters")

    def __init__(self) -> None:
        self.gradients: dict[int, Sequence[Gradient]] = {}
        self.left: set[int] | None = None  # until the mean is known
        self.mean: list[Value] = []
        self.parameters: Parameters | None = None

    def __iter__(self) -> Iterator[Gradient]:
        return (one for _, own in sorted(self.gradients.items()) for one in own)


class MirroredReplicas:
    """Mirrored copies of the model, updated by all workers with the same mean gradient.

    Each worker offers the gradients of its micro-batches. The mean is over those offered, or,
    `of_all`, over as many as there could be; where there are none, a step changes nothing.
    """

    def __init__(self, job: Job, *, of_all: bool = False) -> None:
        self._job, self._of_all = job, of_all
        made = _variables(job, Synchronization.ON_WRITE, Aggregation.MEAN)
        self.variables = [one for one in made if isinstance(one, MirroredVariable)]
        self._trained = [self.variables[index] for index in job.trained]
        self._number = len(self._trained)
        # Where gradients are zeros, they change nothing.
        self._learning = self._trained if job.task.has_values else []
        self._steps = [0] * len(job.workers)  # updates made to each copy
        self._rounds: dict[int, _Round] = {}  # by the step they make
        self._recovery = Recovery(job)
        job.explain(self._recovery.remedy)
        job.processes.without_model.append(self._recovery.impossible)
        self._version: Array | None = None
        self._latest: Parameters = ()  # the copy of which this is the first trained variable
        # The model as read from outside: the version that all copies have reached.
        self.parameters = self._copy(0)

    def read(self, worker: Worker) -> Read:
        """A worker's own copy; takes no time."""
        return Read(self._copy(worker.rank), worker.free_at, self._steps[worker.rank])

    def recover(self, worker: Worker) -> Activity[Sequence[Gradient] | None]:
        """A worker that begins again gets its copy back, from another one.

        What it has in the round that makes its next step, if it has offered it.
        """
        yield from self._recovery.fetch(worker)
        this = self._rounds.get(self._steps[worker.rank])
        return None if this is None else this.gradients.get(worker.rank)

    def _copy(self, rank: int) -> Parameters:
        """One replica's values; replicas whose copies are the same version share the tuple.

        All that are trained are updated together, so the first one tells the version of all.
        """
        version = self._trained[0].values[rank]
        if self._version is not version:
            self._version = version
            self._latest = tuple([variable.values[rank] for variable in self.variables])
        return self._latest

    def offer(self, worker: Worker, gradients: Sequence[Gradient]) -> None:
        """A worker's contribution to the reduction of this step."""
        for gradient in gradients:
            gradient.open = self._number
        step = self._steps[worker.rank]
        if step not in self._rounds:
            self._rounds[step] = _Round()
        self._rounds[step].gradients[worker.rank] = gradients

    def has_mean(self, worker: Worker) -> bool:
        """Whether the reduction of a worker's step has come to a mean; here it always has."""
        return True

    def apply(self, worker: Worker) -> None:
        """Update a worker's copy with the mean; the step counts when the last copy is updated."""
        job, rank = self._job, worker.rank
        step = self._steps[rank]
        this = self._rounds[step]
        if this.left is None:
            assert len(this.gradients) == len(self._steps)
            this.left = set(this.gradients)
        if this.parameters is None:
            workers = [this.gradients[rank] for rank in sorted(this.gradients)]
            this.mean = job.gradients.means_of_workers(workers, job.trained, of_all=self._of_all)
        for variable, mean in zip(self._learning, this.mean, strict=False):
            variable.apply(rank, mean)
        self._steps[rank] = step + 1
        this.parameters = self._copy(rank)
        this.left.discard(rank)
        if not this.left:
            self._close(step)

    def _close(self, step: int) -> None:
        """All who are to have applied an update; if nobody is left who did, it is lost."""
        this = self._rounds.pop(step)
        if this.parameters is None:
            self._drop(this, lost=True)
            return
        now = self._job.clock.time
        for gradient in this:
            gradient.arrived, gradient.applied, gradient.open = now, gradient.open, 0
            self._job.ledger.ended(gradient, now, step)
        if not (self._rounds or self._job.processes.died):  # else a replica may be ahead
            assert all(variable.copies_are_equal() for variable in self.variables)
        self.parameters = this.parameters
        self._job.count_step()

    def _drop(self, gradients: Iterable[Gradient], *, lost: bool) -> None:
        for gradient in gradients:
            gradient.open, gradient.given_up = 0, lost
            self._job.ledger.ended(gradient, self._job.clock.time)


class OutsideRead(NamedTuple):
    """Read from outside: the copies aggregated."""

    parameters: Parameters
    divergence: float  # largest distance between two copies
    updates: int  # updates of all replicas that are in it


class LocalReplicas:
    """Local copies of the model, aggregated when read from outside."""

    def __init__(self, job: Job, aggregation: Aggregation) -> None:
        self._job = job
        self._learns = job.task.has_values  # else gradients are zeros, and change nothing
        self.aggregation = aggregation
        self._is_first = aggregation is Aggregation.ONLY_FIRST_REPLICA
        made = _variables(job, Synchronization.ON_READ, aggregation)
        self.variables = [one for one in made if isinstance(one, SyncOnReadVariable)]
        self._seen = [0] * len(job.workers)  # updates that each copy contains
        self._made = 0  # updates made by all
        self.steps = [0] * len(job.workers)  # that each replica has made
        self._met = [0] * len(job.workers)  # after which step each last met the others for a read
        self._read = [0] * len(job.workers)  # after which step each last was read
        self._unfinished: dict[int, int] = {}  # step: replicas that still have to make it
        self.members = list(range(len(job.workers)))  # whose copies make up the model
        self._died: set[int] = set()  # whose copies died with them
        self._recovery = Recovery(job)
        job.explain(self._recovery.remedy)
        self._latest: tuple[int, OutsideRead] | None = None
        job.ledger.meets = True
        job.processes.on_deaths(self._lose)
        job.processes.without_model.append(self._nobody_left)

    def read(self, worker: Worker) -> Read:
        """A worker's own copy; takes no time."""
        self._job.recorder.copy_staleness.append(self.missed(worker.rank))
        return Read(self.copy(worker.rank), worker.free_at, self.version(worker.rank))

    def copy(self, rank: int) -> Parameters:
        """One replica's values."""
        return tuple([variable.values[rank] for variable in self.variables])

    def version(self, rank: int) -> int:
        """How often a copy has been changed, but for what all have met for; here by its steps."""
        return self.steps[rank]

    def missed(self, rank: int) -> int:
        """How many updates, made by others, a copy does not contain."""
        return self._made - self._seen[rank]

    def is_due(self, worker: Worker, every: int) -> bool:
        """Whether a replica is to be read that is read after every so many steps."""
        step = self.steps[worker.rank]
        return step % every == 0 and self._read[worker.rank] != step

    def has_met(self, worker: Worker) -> bool:
        """Whether a replica that is due has already met the others."""
        return self._met[worker.rank] == self.steps[worker.rank]

    def apply(
        self, worker: Worker, gradient: Gradient, mean: Sequence[Value] | None = None
    ) -> None:
        """Update a worker's own copy; the step counts when all workers have made it.

        With its own gradient, or with what came of it and those of others (`mean`).
        """
        job, version = self._job, self.version(worker.rank)
        for place, index in enumerate(job.trained):
            if mean is None:
                value = job.gradients.value(gradient, index, job.ledger.in_flight)
            else:
                value = mean[place]
            if self._learns:
                self.variables[index].apply(worker.rank, value)
        self._seen[worker.rank] += 1
        self._made += 1
        gradient.arrived = job.clock.time
        gradient.applied = len(job.trained)
        job.ledger.ended(gradient, job.clock.time, version)
        self._made_step(worker.rank)

    def _made_step(self, rank: int) -> None:
        """A replica has made its step; it counts when all have."""
        step = self.steps[rank]
        self.steps[rank] += 1
        left = self._unfinished.pop(step, len(self.members)) - 1
        if left:
            self._unfinished[step] = left
        else:
            self._job.count_step()

    def _lose(self, ranks: Sequence[int]) -> None:
        """The copies of workers that were killed are not there any more."""
        exits = self._job.processes.exits
        self._died.update(rank for rank in ranks if exits[rank].killed)

    @property
    def _there(self) -> Sequence[int]:
        """Whose copies an outsider finds."""
        return [rank for rank in self.members if rank not in self._died]

    def _nobody_left(self) -> bool:
        """Whether the copies are gone of which the model would be made."""
        there = self._there
        return not (0 in there if self._is_first else there)

    def outside_read(self, worker: Worker) -> OutsideRead:
        """What an outsider reads when a replica has met the others; all of them get the same.

        The time that it takes is the strategy's to spend.
        """
        step = self._met[worker.rank] = self.steps[worker.rank]
        if self._latest is None or self._latest[0] != step:
            updates = self._seen[0] if self._is_first else self._made
            self._latest = (step, OutsideRead(self.aggregate(), self.divergence(), updates))
        return self._latest[1]

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again gets what was read last, from another one; new slots.

        What its replica had learnt since is lost; it goes on at its step.
        """
        yield from self._recovery.fetch(worker)
        rank, read = worker.rank, self._latest
        values = self._job.task.initial() if read is None else read[1].parameters
        for variable, value in zip(self.variables, values, strict=True):
            whole = value if read is None else variable.share(value)
            variable.write(rank, whole)
            variable.forget(rank)
        self._died.discard(rank)
        self._seen[rank] = 0 if read is None else read[1].updates

    def full_slots(self) -> int:
        """How many slots of the optimizer are as large as what they belong to."""
        return full_slots(self.variables[0].state, self.variables[0].values[0])

    def aggregate(self) -> Parameters:
        """The copies that are there, aggregated as they are now."""
        there = self._there
        if len(there) == len(self.steps) or self._is_first:
            return tuple([_read(variable) for variable in self.variables])
        if self.aggregation is Aggregation.SUM:
            return tuple([_total(variable, there) for variable in self.variables])
        return tuple([self.mean(variable, there) for variable in self.variables])

    def mean(self, variable: SyncOnReadVariable, ranks: Sequence[int]) -> Array:
        """Mean of some copies of a variable, added up in this order."""
        return _total(variable, ranks) / len(ranks)

    def divergence(self) -> float:
        """Largest distance between two copies as they are now."""
        there = self._there
        return divergence([self.copy(rank) for rank in there]) if there else 0.0

    def end_read(self, worker: Worker) -> None:
        """A replica has been read."""
        self._read[worker.rank] = self.steps[worker.rank]

    def write_back(self, worker: Worker, read: OutsideRead) -> None:
        """Set a worker's copy to what was read."""
        for variable, value in zip(self.variables, read.parameters, strict=True):
            variable.write(worker.rank, variable.share(value))
        self._seen[worker.rank] = read.updates


class DriftingReplicas(LocalReplicas):
    """Local copies that take over from others what these have learnt, and never meet all at once.

    The model is looked at from outside at any time. `counts_each`: every update of one copy counts
    as a step, not only what all have made.
    """

    def __init__(self, job: Job, *, counts_each: bool) -> None:
        super().__init__(job, Aggregation.MEAN)
        self._counts_each = counts_each

    def settle(self) -> Activity[None]:
        """Wait until all that happens at this moment has: then a copy can be read."""
        yield from self._job.clock.let_pass()

    def _made_step(self, rank: int) -> None:
        if not self._counts_each:
            super()._made_step(rank)
            return
        self.steps[rank] += 1
        self._job.count_step()


class Recovery:
    """Recovery of the model by a worker that begins again, where no server has it.

    The first worker that has the model sends it: all parameters, over the network.

    Should that worker die meanwhile, which is noticed when all should have come, another sends it.
    If no running worker has it any more, it is lost, and whoever needs it waits for ever.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._without: set[int] = set()  # who has begun again and does not have it yet
        self._unserved: list[Event] = []  # of those who found nobody that has it

    def fetch(self, worker: Worker) -> Activity[None]:
        """Wait until the model is there."""
        job = self._job
        yield from worker.free()
        self._without.add(worker.rank)
        whole = False
        while not whole:
            source = self._source()
            if source is None:
                worker.waits(Phase.READ, "the model, which no running worker has")
                self._unserved.append(Event(job.clock))
                yield self._unserved[-1]
                worker.goes_on()
            else:
                whole = yield from received(job, source, worker, job.workload.size())
        self._without.discard(worker.rank)
        unserved, self._unserved = self._unserved, []
        for event in unserved:
            event.succeed()

    def impossible(self) -> bool:
        """Whether no running worker has the model any more."""
        return self._source() is None

    def remedy(self, dead: Sequence[int]) -> str:
        """What would free a run that needs everybody; see `Job.explain`."""
        if self.impossible():
            return "nothing can, as no running worker has the model any more"
        return restart_all(dead)

    def _source(self) -> Worker | None:
        for worker in self._job.workers:
            if self._job.processes.running(worker.rank) and worker.rank not in self._without:
                return worker
        return None


def received(job: Job, source: Worker, worker: Worker, size: float) -> Activity[bool]:
    """A worker gets the model, of so many bytes, from another; whether that has lived on."""
    life = source.restarts
    worker.waits(Phase.READ, f"the model from worker {source.rank}")
    arrived = Event(job.clock)
    route = job.network.route(source.place, worker.place)
    job.network.pass_on(route, size, nothing, partial(_happen, arrived))
    yield arrived
    worker.goes_on()
    return job.processes.running(source.rank) and source.restarts == life


def _total(variable: SyncOnReadVariable, ranks: Sequence[int]) -> Array:
    """Sum of some copies of a variable, in this order."""
    return sum_in_order(np.stack([variable.values[rank] for rank in ranks]))


def _read(variable: SyncOnReadVariable) -> Array:
    """A variable as read from outside; the time that it takes is the strategy's to spend."""
    value = finish(variable.read(DEFAULT_CONTEXT))
    assert isinstance(value, Tensor)
    return value.array


def _variables(
    job: Job, synchronization: Synchronization, aggregation: Aggregation
) -> list[DistributedVariable]:
    """The variables of the model under a mirrored strategy with a replica on every worker."""
    strategy = MirroredStrategy([Device(task=worker.rank) for worker in job.workers])
    asked = VariableOptions(synchronization, aggregation, optimizer=job.workload.update_rule())
    return [finish(strategy.create(strategy.scope(), value, asked)) for value in job.task.initial()]


def _happen(event: Event) -> None:
    event.succeed()
