"""Mirrored copies on the workers that are left: the dead are left out of every all-reduce."""

from collections.abc import Sequence

from varsim.cluster.clock import Activity
from varsim.cluster.collective import Vector
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.exchange import GradientExchange
from varsim.cluster.holdings import Holdings
from varsim.cluster.job import Job
from varsim.cluster.quorum import Quorum
from varsim.cluster.replicas import MirroredReplicas, full_slots
from varsim.cluster.worker import Worker
from varsim.values.gradient import Gradient


class PresentReplicas(MirroredReplicas):
    """Mirrored copies of the model, updated with the mean gradient of the workers present.

    These are the members of a `Quorum`. If its all-reduce fails, the gradients are dropped: what
    others have added of them is lost with the sum.
    """

    def __init__(self, job: Job, choice: Choice, *, of_all: bool) -> None:
        super().__init__(job, of_all=of_all)
        size, of_number = job.workload.gradient_size(), job.workload.gradient_bytes
        first = self._trained[0]
        whole = job.workload.size() * (1 + full_slots(first.state, first.value))

        def vectors(ranks: Sequence[int]) -> list[Vector]:
            schedule = choice.schedule_on(job.cluster.network, ranks, size)
            return [Vector(schedule, size, number_bytes=of_number)]

        self._holdings = Holdings(self.variables, [self._steps], [])
        self._quorum = Quorum(job, job.workers, vectors, whole, self)

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again gets the model after an update, with the optimizer's slots."""
        yield from self._quorum.come_back(worker)

    def reduce(self, worker: Worker) -> Activity[None]:
        """Take part in the all-reduce of a step."""
        ranks = yield from self._quorum.take_part(worker)
        this = self._rounds[self._steps[worker.rank]]
        if not ranks:
            self._drop(this.gradients.pop(worker.rank), lost=False)
            self._job.failures.throw_away(worker.rank)
        elif this.left is None:
            for rank in this.gradients.keys() - set(ranks):
                self._drop(this.gradients.pop(rank), lost=True)
            this.left = set(ranks) & set(self._quorum.members)

    def has_mean(self, worker: Worker) -> bool:
        this = self._rounds.get(self._steps[worker.rank])
        return this is not None and this.left is not None

    def apply(self, worker: Worker) -> None:
        """Update a worker's copy with the mean; the step counts when all present have."""
        super().apply(worker)
        self._quorum.passes(worker)

    def leave(self, ranks: Sequence[int]) -> None:
        """Workers are not present any more: nobody waits for them to apply an update."""
        for step, this in sorted(self._rounds.items()):
            if this.left is not None:
                this.left.difference_update(ranks)
                if not self._quorum.members:
                    this.parameters = None  # whoever had applied it is gone, too
                if not this.left:
                    self._close(step)

    def hand_over(self, source: int, rank: int) -> None:
        """A worker is present, with the copy of another one."""
        self._holdings.take(rank, self._holdings.of(source))


class PresentAllReduce(GradientExchange[Sequence[Gradient]]):
    """Gradients of those present, which are all-reduced once they are computed."""

    def __init__(self, job: Job, copies: PresentReplicas) -> None:
        super().__init__(job)
        self._copies = copies

    def finish(self, worker: Worker, gradient: Sequence[Gradient]) -> Activity[None]:
        return self._copies.reduce(worker)
