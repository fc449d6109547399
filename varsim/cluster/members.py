"""Copies of a model of which those of members count, who change as workers die and come back."""

from bisect import insort
from collections.abc import Sequence

from varsim.cluster.holdings import Holdings
from varsim.cluster.job import Job
from varsim.cluster.replicas import LocalReplicas
from varsim.values.variable import Aggregation


class MemberReplicas(LocalReplicas):
    """Local copies whose mean is the model; a worker's can be handed over."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, Aggregation.MEAN)
        counts = [self.steps, self._seen, self._met, self._read]
        self._holdings = Holdings(self.variables, counts, [])

    def leave(self, ranks: Sequence[int]) -> None:
        """Copies are no part of the model any more; steps that only they had to make count."""
        for rank in ranks:
            self.members.remove(rank)
        if not self.members:
            self._unfinished.clear()
        for step in sorted(self._unfinished):
            self._unfinished[step] -= sum(step >= self.steps[rank] for rank in ranks)
            if not self._unfinished[step]:
                del self._unfinished[step]
                self._job.count_step()

    def hand_over(self, source: int, rank: int) -> None:
        """A copy becomes part of the model again, with all that another one has and counts."""
        insort(self.members, rank)
        self._holdings.take(rank, self._holdings.of(source))
        self._died.discard(rank)
        for step in self._unfinished:
            self._unfinished[step] += step >= self.steps[rank]
