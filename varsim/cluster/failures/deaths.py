"""Deaths of workers: their processes end, begin again, and are called off a step.

What a worker had handed over stays on the links until it is through, but nobody takes it in: what
has arrived stays, the rest is lost. On failure a computing worker discards its gradient, a waiting
one leaves the queue, and one that reads has nothing to lose.
"""

from collections.abc import Sequence
from functools import partial

from varsim.cluster.clock import Ended, Killed, Stopped
from varsim.cluster.description.failures import ProcessEvent
from varsim.cluster.primitives import TokenQueue
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.job import Job
from varsim.cluster.workers.worker import Worker
from varsim.learning.gradient import Gradient


class TooCalmError(Exception):
    """Somebody dies in a run that counted on it that nobody does."""


class DeathWatch:
    """Deaths of the workers of a job, and their returns.

    `events` end processes and let them begin again. The run is in vain (`TooCalmError`) if somebody
    dies in whose collectives it is counted on that nobody does; see `Processes.expect`.
    """

    def __init__(
        self, job: Job, events: Sequence[ProcessEvent] = (), *, calm: bool = False
    ) -> None:
        self._job, self._clock, self._processes = job, job.clock, job.processes
        self._untold: list[int] = []  # who has ended, of which nobody has been told
        job.allow_breaking_off()
        if events:
            job.processes.expect(returns=any(one.restart is not None for one in events), calm=calm)
        for event in events:
            if event.rank < len(job.workers):
                job.clock.call_at(round(event.at * 1e9), partial(self._happen, event))

    def kill(self, rank: int) -> None:
        """A worker's processes disappear; others are told of it later, by `tell`."""
        self._end(self._job.workers[rank], Killed())

    def stop(self, rank: int) -> None:
        """A worker's processes end in good order; that, too, is told by `tell`."""
        self._end(self._job.workers[rank], Stopped())

    def tell(self) -> None:
        """Nobody else dies at this instant: now it is known who has."""
        untold, self._untold = self._untold, []
        self._processes.tell(untold)

    def restart(self, rank: int, *, at_start: bool = False) -> None:
        """The processes of a worker that was killed begin again, in the order of their start.

        `at_start`: as if for the first time.
        """
        worker = self._job.workers[rank]
        assert self._processes.exits.pop(rank).killed
        worker.comes_back()
        if at_start:
            worker.restarts = 0
        self._processes.start_again(worker)

    def forget(self) -> None:
        """What all workers did is begun anew, none of which runs; of their gradients nothing is."""
        self._processes.forget()
        for gradient in list(self._job.ledger.in_flight):
            gradient.open = gradient.unsent = 0
            gradient.given_up = True
            self._job.ledger.ended(gradient, self._clock.time)

    def call_off(self, worker: Worker, reason: Exception) -> None:
        """A worker gives up the gradient it is at, which is dropped; `reason` is thrown into it."""
        gradient = self._break_off(worker)
        worker.breaks_off()
        if gradient is not None:
            gradient.open = 0
            self._job.ledger.ended(gradient, self._clock.time)
            gradient.given_up = True
        (replica,) = (one for one in self._processes.of[worker.rank] if not one.role)
        self._clock.interrupt(replica.process, reason)

    def _happen(self, event: ProcessEvent) -> None:
        assert event.rank in self._processes.of, (
            f"{event}, but none of its processes is known: strategies start them with Job.start_on"
        )
        if event.restart is not None:
            self.restart(event.rank)
            return
        (self.stop if event.kill is None else self.kill)(event.rank)
        self.tell()

    def _end(self, worker: Worker, how: Ended) -> None:
        processes = self._processes
        if processes.counted_on:
            raise TooCalmError
        processes.died = True
        doing, for_token = self._doing(worker), isinstance(worker.waits_for, TokenQueue)
        gradient = self._break_off(worker)
        worker.goes_down()
        if gradient is not None and gradient.unsent:
            gradient.given_up = True
            gradient.open -= gradient.unsent
            gradient.unsent = 0
            if gradient.open == 0:
                self._job.ledger.ended(gradient, self._clock.time)
        for one in processes.of[worker.rank]:
            if one.process.is_alive:
                self._clock.end(one.process, how)
        killed = isinstance(how, Killed)
        processes.note_exit(worker.rank, killed=killed, doing=doing, for_token=for_token)
        self._untold.append(worker.rank)

    def _break_off(self, worker: Worker) -> Gradient | None:
        """Take back what is recorded of a worker's time to come.

        Its latest gradient, unless that has come to its end; `unsent` parts of it never arrive.
        """
        now = self._clock.time
        self._job.recorder.take_back(worker.rank, now)
        gradient = self._latest(worker)
        if gradient is None:
            return None
        if gradient.open < 0 or gradient.computed > now:
            if gradient.compute_start >= now:
                worker.take_back(gradient)
                return None
            if gradient.computed > now:
                gradient.computed = -1
            if gradient.open < 0:
                gradient.open = gradient.unsent = 1
        return gradient

    def _latest(self, worker: Worker) -> Gradient | None:
        """The worker's latest gradient, unless all of it has been applied or dropped."""
        gradient = worker.latest
        return gradient if gradient in self._job.ledger.in_flight else None

    def _doing(self, worker: Worker) -> str:
        """What a worker is at now, in words."""
        gradient = self._latest(worker)
        now = self._clock.time
        if gradient is not None and (gradient.open < 0 or gradient.computed > now):
            return "computing" if gradient.compute_start < now else "reading"
        if gradient is not None and gradient.unsent:
            return "sending its gradient"
        if worker.waits_for is not None and worker.waits_for is not self._job.network:
            return f"waiting for {worker.waits_for}"
        return "sending" if worker.phase == Phase.WRITE else "reading"
