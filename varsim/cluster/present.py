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
from varsim.values.gradient import Gradient, Parameters, Value


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

        self._updates: dict[int, _Update] = {}  # by the step they make, until all have applied it
        self._holdings = Holdings(self.variables, [self._steps], [])
        self._quorum = Quorum(job, job.workers, vectors, whole, self)

    def recover(self, worker: Worker) -> Activity[None]:
        """A worker that begins again gets the model after an update, with the optimizer's slots."""
        yield from self._quorum.come_back(worker)

    def reduce(self, worker: Worker) -> Activity[bool]:
        """Take part in the all-reduce of a step; whether it has come to a mean."""
        ranks = yield from self._quorum.take_part(worker)
        step = self._steps[worker.rank]
        if not ranks:
            self._drop(self._rounds[step].gradients.pop(worker.rank), lost=False)
            self._job.failures.throw_away(worker.rank)
        elif step not in self._updates:
            offered = self._rounds.pop(step).gradients
            for rank in offered.keys() - set(ranks):
                self._drop(offered.pop(rank), lost=True)
            present = [rank for rank in ranks if rank in self._quorum.members]
            self._updates[step] = _Update([offered[rank] for rank in ranks], set(present))
        return bool(ranks)

    def apply(self, worker: Worker) -> None:
        """Update a worker's copy with the mean; the step counts when all present have."""
        job, rank = self._job, worker.rank
        step = self._steps[rank]
        update = self._updates[step]
        if update.parameters is None:
            update.mean = job.gradients.means_of_workers(
                update.gradients, job.trained, of_all=self._of_all
            )
        for variable, mean in zip(self._trained, update.mean, strict=False):
            variable.apply(rank, mean)
        self._steps[rank] = step + 1
        update.parameters = self._copy(rank)
        update.left.discard(rank)
        self._close(step)
        self._quorum.passes(worker)

    def leave(self, ranks: Sequence[int]) -> None:
        """Workers are not present any more: nobody waits for them to apply an update."""
        for step in sorted(self._updates):
            update = self._updates[step]
            update.left.difference_update(ranks)
            if not self._quorum.members:
                update.parameters = None  # whoever had applied it is gone, too
            self._close(step)

    def hand_over(self, source: int, rank: int) -> None:
        """A worker is present, with the copy of another one."""
        self._holdings.take(rank, self._holdings.of(source))

    def _close(self, step: int) -> None:
        """The update is made if all who are left have applied it."""
        update = self._updates[step]
        if update.left:
            return
        del self._updates[step]
        together = [gradient for gradients in update.gradients for gradient in gradients]
        if update.parameters is None:
            self._drop(together, lost=True)
            return
        now = self._job.clock.time
        for gradient in together:
            gradient.arrived, gradient.applied, gradient.open = now, gradient.open, 0
            self._job.ledger.ended(gradient, now, step)
        self.parameters = update.parameters
        self._job.count_step()

    def _drop(self, gradients: Sequence[Gradient], *, lost: bool) -> None:
        for gradient in gradients:
            gradient.open, gradient.given_up = 0, lost
            self._job.ledger.ended(gradient, self._job.clock.time)


class _Update:
    """An update: the gradients of those who took part, and who has still to apply their mean.

    `parameters`: what it makes of the model, once anybody has applied it.
    """

    def __init__(self, gradients: list[Sequence[Gradient]], left: set[int]) -> None:
        self.gradients, self.left = gradients, left
        self.mean: list[Value] = []
        self.parameters: Parameters | None = None


class PresentAllReduce(GradientExchange[Sequence[Gradient]]):
    """Gradients of those present, which are all-reduced once they are computed."""

    def __init__(self, job: Job, copies: PresentReplicas) -> None:
        super().__init__(job)
        self._copies = copies

    def finish(self, worker: Worker, gradient: Sequence[Gradient]) -> Activity[bool]:
        """Offer them, and reduce; whether it has come to a mean."""
        self._copies.offer(worker, gradient)
        return self._copies.reduce(worker)
