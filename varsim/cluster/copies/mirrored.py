"""Mirrored copies of a model (ON_WRITE), their gradients, and how these are accumulated."""

from collections.abc import Iterable, Iterator, Sequence

from varsim.cluster.clock import END_OF_TIME, Activity, Ended
from varsim.cluster.collectives.group import Group
from varsim.cluster.copies.replicas import Holdings, variables_of
from varsim.cluster.description.device import DropCompute
from varsim.cluster.record.memory import full_slots
from varsim.cluster.workers.exchange import GradientExchange
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker, WorkerRead
from varsim.distribute.attributes import Aggregation, Synchronization
from varsim.distribute.mirrored import MirroredVariable
from varsim.learning.gradient import Array, Gradient, Parameters, Value


class Accumulation:
    """Accumulation of the gradients of so many `micro_batches` a step, which are sent as one.

    They are computed one after the other, at the same parameters, each of `batch_size` examples and
    with a compute time of its own; their mean is reduced once. With `drop_compute` a worker gives
    up the rest of them after a time (DropCompute); those are passed over, so that the next step
    meets the same ones whatever was dropped.
    Only the last one's backward pass overlaps with the exchange (DDP's no_sync), and only if it is
    the last for sure: one before which a worker stops is not known to be, and what it added up is
    sent when it has stopped.
    """

    def __init__(
        self,
        job: Job,
        exchange: GradientExchange[Sequence[Gradient]],
        number: int,
        drop: DropCompute | None,
    ) -> None:
        self._clock, self._ledger, self._exchange = job.clock, job.ledger, exchange
        self._number = number
        # In ns: some time, so that one micro-batch at least is computed.
        self._threshold = END_OF_TIME if drop is None else max(1, round(drop.threshold * 1e9))
        job.gradients.accumulate(number)

    def compute(self, worker: Worker, weights: "MirroredReplicas") -> Activity[Sequence[Gradient]]:
        """Compute the gradients of a step on a worker's copy, and offer them: those that count.

        A worker that has begun again may have offered them before.
        """
        gradients = weights.offered(worker)
        if gradients is None:
            read = weights.read(worker)
            if self._number == 1:  # the commonest step takes a shorter way
                gradients = [(yield from self._exchange.begin(worker, read))]
            else:
                gradients = yield from self._compute_all(worker, read)
            weights.offer(worker, gradients)
        return gradients

    def _compute_all(self, worker: Worker, read: WorkerRead) -> Activity[list[Gradient]]:
        gradients: list[Gradient] = []
        try:
            yield from self._compute_each(worker, read, gradients)
        except Ended:
            for gradient in gradients:  # it dies with what it has added up
                gradient.open, gradient.given_up = 0, True
                # Of a copy that may be a step ahead of others.
                self._ledger.ended(gradient, self._clock.time, gradient.read.global_step)
            raise
        return gradients

    def _compute_each(
        self, worker: Worker, read: WorkerRead, gradients: list[Gradient]
    ) -> Activity[None]:
        clock = self._clock
        deadline = clock.time + self._threshold
        for left in range(self._number, 0, -1):
            if clock.time >= deadline:
                worker.pass_over(left)
                break
            if left > 1:
                gradient = yield from worker.compute_gradient(read)
            else:
                gradient = yield from self._exchange.begin(worker, read)
                gradients.append(gradient)
                return
            gradients.append(gradient)
        self._exchange.is_ready(worker)


class MirroredReplicas:
    """Mirrored copies of the model, updated by all workers with the same mean gradient.

    Each worker offers the gradients of its micro-batches. The mean is over those offered, or, as
    `drop` may say, over as many as there could be; where there are none, a step changes nothing.
    With `leaves_out` the workers present go on without the dead (`Group`). If their all-reduce
    fails, the gradients are dropped: what others have added of them is lost with the sum.
    """

    def __init__(
        self, job: Job, *, drop: DropCompute | None = None, leaves_out: bool = False
    ) -> None:
        self._job, self._of_all = job, drop is not None and drop.divide_by == "all"
        made = variables_of(job, Synchronization.ON_WRITE, Aggregation.MEAN)
        self.variables = [one for one in made if isinstance(one, MirroredVariable)]
        self._trained = [self.variables[index] for index in job.trained]
        self._number = len(self._trained)
        # Where gradients are zeros, they change nothing.
        self._learning = self._trained if job.task.has_values else []
        self._steps = [0] * len(job.workers)  # updates made to each copy
        self._rounds: dict[int, _Round] = {}  # by the step they make
        self.group = Group(job)
        job.processes.without_model.append(self.group.lost)
        self._holdings = Holdings(self.variables, [self._steps], [])
        if leaves_out:
            first = self._trained[0]
            slots = full_slots(first.state, first.value)
            self.group.leave_out_the_dead(self, job.workload.size() * (1 + slots))
        self._version: Array | None = None
        self._latest: Parameters = ()  # the copy of which this is the first trained variable
        # The model as read from outside: the version that all copies have reached.
        self.parameters = self._copy(0)

    def read(self, worker: Worker) -> WorkerRead:
        """A worker's own copy; takes no time."""
        return WorkerRead(self._copy(worker.rank), self._job.clock.time, self._steps[worker.rank])

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again gets its copy from another one."""
        return self.group.come_back(worker)

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

    def offered(self, worker: Worker) -> Sequence[Gradient] | None:
        """What a worker has offered for the step that comes next, if it has."""
        this = self._rounds.get(self._steps[worker.rank])
        return None if this is None else this.gradients.get(worker.rank)

    def apply_mean(self, worker: Worker, present: Sequence[int] | None = None) -> Activity[None]:
        """Spend what it takes to apply the mean of a step that was reduced, and `apply` it.

        `present`: whose gradients are in it, by default all; of none there is no mean to apply.
        """
        if self.group.elastic and not self._reduced(worker.rank, present or ()):
            return
        yield from worker.update_copy()
        self.apply(worker)

    def _reduced(self, rank: int, present: Sequence[int]) -> bool:
        """Note whose gradients are in the mean of a worker's step; whether there is one."""
        this = self._rounds[self._steps[rank]]
        if not present:
            self._drop(this.gradients.pop(rank), lost=False)
            self._job.ledger.throw_away(rank, self._job.clock.time)
        elif this.left is None:
            for absent in this.gradients.keys() - set(present):
                self._drop(this.gradients.pop(absent), lost=True)
            this.left = set(present) & set(self.group.members)
        return bool(present)

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
        self.group.passes(worker)

    def leave(self, ranks: Sequence[int]) -> None:
        """Workers are not present any more: nobody waits for them to apply an update."""
        for step, this in sorted(self._rounds.items()):
            if this.left is not None:
                this.left.difference_update(ranks)
                if not self.group.members:
                    this.parameters = None  # whoever had applied it is gone, too
                if not this.left:
                    self._close(step)

    def hand_over(self, source: int, rank: int) -> None:
        """A worker is present, with the copy of another one."""
        self._holdings.take(rank, self._holdings.of(source))

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
