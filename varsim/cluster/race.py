"""A race of all workers, step by step: whoever comes too late starts again with the others."""

from simpy.events import Event

from varsim.cluster.clock import Activity
from varsim.cluster.job import Job
from varsim.cluster.trace import Phase
from varsim.cluster.worker import Worker


class StepOverError(Exception):
    """Thrown into a worker whose step is over before it has come."""


class Race:
    """Every step ends when somebody says so; the workers that have not come are called off it.

    At the instant of the end, they go on first, by rank, then who ended the step, then those who
    waited, in the order in which they came.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        job.allow_breaking_off()
        self._come: set[int] = set()
        self._over = Event(job.clock)

    def begins(self, worker: Worker) -> None:
        """A worker begins to race, or begins again after its death."""
        self._come.discard(worker.rank)

    def comes(self, rank: int) -> None:
        """A worker has done its part of this step."""
        self._come.add(rank)

    def end_step(self) -> None:
        """The step is over: who has come goes on, all others begin anew."""
        come, self._come = self._come, set()
        over, self._over = self._over, Event(self._job.clock)
        for worker in self._job.workers:
            if worker.rank not in come and self._job.failures.running(worker.rank):
                self._job.failures.call_off(worker, StepOverError())
        over.succeed()

    def wait(self, worker: Worker) -> Activity[None]:
        """Wait for the end of the step, if the worker has come and that is not over yet."""
        if worker.rank not in self._come:
            return
        worker.waits(Phase.BARRIER, self)
        yield self._over
        worker.goes_on()

    def __str__(self) -> str:
        return f"the end of a step to which {len(self._come)} have come"
