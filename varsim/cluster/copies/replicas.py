"""Copies of a model on the workers, each its own (ON_READ), and how a lost one comes back."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.clock import Activity
from varsim.cluster.collectives.group import Group
from varsim.cluster.record.memory import full_slots
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, WorkerRead
from varsim.core.operation import DeviceId, finish
from varsim.distribute.attributes import Aggregation, Synchronization, divergence
from varsim.distribute.context import DEFAULT_CONTEXT
from varsim.distribute.mirrored import SyncOnReadVariable
from varsim.distribute.mirrored_strategy import MirroredStrategy
from varsim.distribute.tensor import Tensor
from varsim.distribute.variable import DistributedVariable, VariableOptions
from varsim.learning.gradient import Array, Gradient, Parameters, Value
from varsim.learning.gradient_form import sum_in_order
from varsim.learning.optimizer import State


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
        made = variables_of(job, Synchronization.ON_READ, aggregation)
        self.variables = [one for one in made if isinstance(one, SyncOnReadVariable)]
        self._seen = [0] * len(job.workers)  # updates that each copy contains
        self._made = 0  # updates made by all
        self.steps = [0] * len(job.workers)  # that each replica has made
        self._met = [0] * len(job.workers)  # after which step each last met the others for a read
        self._read = [0] * len(job.workers)  # after which step each last was read
        self._unfinished: dict[int, int] = {}  # step: replicas that still have to make it
        self.group = Group(job)
        self._latest: tuple[int, OutsideRead] | None = None
        job.ledger.meets = True
        job.processes.without_model.append(self._nobody_left)

    def read(self, worker: Worker) -> WorkerRead:
        """A worker's own copy; takes no time."""
        self._job.recorder.copy_staleness.append(self.missed(worker.rank))
        return WorkerRead(self.copy(worker.rank), self._job.clock.time, self.version(worker.rank))

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

    @property
    def members(self) -> Sequence[int]:
        """Whose copies make up the model."""
        return self.group.members

    @property
    def _there(self) -> Sequence[int]:
        """Whose copies an outsider finds."""
        return [rank for rank in self.members if rank not in self.group.without]

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
        yield from self.group.come_back(worker)
        if self._latest is None:
            self._begin_with(worker.rank, self._job.task.initial(), 0)
            return
        read = self._latest[1]
        shares = zip(self.variables, read.parameters, strict=True)
        self._begin_with(worker.rank, [each.share(value) for each, value in shares], read.updates)

    def _begin_with(self, rank: int, values: Sequence[Array], updates: int) -> None:
        """A worker begins again with such a copy, which contains so many updates; new slots."""
        for variable, value in zip(self.variables, values, strict=True):
            variable.write(rank, value)
            variable.forget(rank)
        self.group.without.discard(rank)
        self._seen[rank] = updates

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
        there = self._there if self._job.task.has_values else ()
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


class MemberReplicas(LocalReplicas):
    """Local copies whose mean is the model; a worker's can be handed over."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, Aggregation.MEAN)
        counts = [self.steps, self._seen, self._met, self._read]
        self._holdings = Holdings(self.variables, counts, [])

    def recover(self, worker: Worker) -> Activity[None]:
        """And, where the dead are left out, a worker that begins again gets all of another one."""
        return self.group.come_back(worker) if self.group.elastic else super().recover(worker)

    def _nobody_left(self) -> bool:
        return self.group.lost() if self.group.elastic else super()._nobody_left()

    def leave(self, ranks: Sequence[int]) -> None:
        """Copies are no part of the model any more; steps that only they had to make count."""
        if not self.members:
            self._unfinished.clear()
        for step in sorted(self._unfinished):
            self._unfinished[step] -= sum(step >= self.steps[rank] for rank in ranks)
            if not self._unfinished[step]:
                del self._unfinished[step]
                self._job.count_step()

    def hand_over(self, source: int, rank: int) -> None:
        """A copy becomes part of the model again, with all that another one has and counts."""
        self._holdings.take(rank, self._holdings.of(source))
        for step in self._unfinished:
            self._unfinished[step] += step >= self.steps[rank]


class Held(NamedTuple):
    """All that a worker has of a model, and counts: what another one takes from it."""

    values: Sequence[Array]
    states: Sequence[State]
    counts: Sequence[int]
    rows: Sequence[NDArray[np.int64]] = ()


class Holdings(NamedTuple):
    """What workers hold, by rank: copies of variables, counts, and rows of numbers."""

    variables: Sequence[DistributedVariable]
    counts: list[list[int]]
    rows: list[NDArray[np.int64]]

    def of(self, rank: int) -> Held:
        """What one of them holds."""
        values = [variable.values[rank] for variable in self.variables]
        states = [variable.states[rank] for variable in self.variables]
        counts = [count[rank] for count in self.counts]
        return Held(values, states, counts, [row[rank].copy() for row in self.rows])

    def take(self, rank: int, held: Held) -> None:
        """One of them takes all that another one has, or had."""
        for variable, value, state in zip(self.variables, held.values, held.states, strict=True):
            variable.values[rank] = value
            variable.states[rank] = state
        for count, number in zip(self.counts, held.counts, strict=True):
            count[rank] = number
        for row, numbers in zip(self.rows, held.rows, strict=True):
            row[rank] = numbers


def _total(variable: SyncOnReadVariable, ranks: Sequence[int]) -> Array:
    """Sum of some copies of a variable, in this order."""
    return sum_in_order(np.stack([variable.values[rank] for rank in ranks]))


def _read(variable: SyncOnReadVariable) -> Array:
    """A variable as read from outside; the time that it takes is the strategy's to spend."""
    value = finish(variable.read(DEFAULT_CONTEXT))
    assert isinstance(value, Tensor)
    return value.array


def variables_of(
    job: Job, synchronization: Synchronization, aggregation: Aggregation
) -> list[DistributedVariable]:
    """The variables of the model under a mirrored strategy with a replica on every worker."""
    strategy = MirroredStrategy([DeviceId(task=worker.rank) for worker in job.workers])
    asked = VariableOptions(synchronization, aggregation, optimizer=job.workload.update_rule())
    return [finish(strategy.create(strategy.scope(), value, asked)) for value in job.task.initial()]
