"""Failures of workers: their processes end, begin again, and are called off a step.

What a worker had handed over stays on the links until it is through, but nobody takes it in: what
has arrived stays, the rest is lost. On failure a computing worker discards its gradient, a waiting
one leaves the queue, and one that reads has nothing to lose.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock, Ended, Killed, Process, Stopped
from varsim.cluster.description.failures import ProcessEvent
from varsim.cluster.primitives import TokenQueue
from varsim.cluster.record.ledger import Ledger
from varsim.cluster.record.trace import Phase
from varsim.cluster.workers.worker import Worker
from varsim.values.gradient import Gradient


class Exit(NamedTuple):
    """How the processes of a worker ended."""

    time: int  # ns
    killed: bool  # or stopped in good order
    doing: str
    roles: tuple[str, ...]  # what it was besides a replica
    for_token: bool  # it waited for one, which others get now


class TooCalmError(Exception):
    """Somebody dies in a run that counted on it that nobody does."""


class WorkerProcess:
    """Process of a worker; `begin` makes it anew."""

    def __init__(self, begin: Callable[[], Activity[None]], role: str, waits_for: object) -> None:
        self.begin = begin
        self.role = role
        self.waits_for = waits_for
        self.process: Process


class Failures:
    """Failures of workers: which processes run on which, and which of them have ended.

    `network`: what a worker waits for whose messages are on the links. `detection`: so long (ns)
    after a death those who go on without a worker know of it. `random`: some strike at random.
    Then it is noted when workers have `met`, by which what one has learnt outlives it, and when
    what one has done since was `thrown_away`: its rank, and when (ns). `calm`: collectives may
    count on it that nobody dies, and the run is in vain (`TooCalmError`) if then somebody does.
    """

    detection: int = 0

    def __init__(
        self,
        clock: Clock,
        workers: Sequence[Worker],
        network: object,
        ledger: Ledger,
        events: Sequence[ProcessEvent],
        *,
        random: bool = False,
        calm: bool = False,
    ) -> None:
        self._clock, self._workers, self._network, self._ledger = clock, workers, network, ledger
        self._processes: dict[int, list[WorkerProcess]] = {}
        self.exits: dict[int, Exit] = {}  # by rank
        self._expected = random or bool(events)  # somebody will die
        self._restarts = random or any(event.restart is not None for event in events)
        self._calm, self._counted_on = calm, False
        self.random = random
        self.meets = False  # workers learn by themselves, and meet from time to time
        self.met: list[tuple[int, int]] = []
        self.thrown_away: list[tuple[int, int]] = []
        self.died = False  # somebody has
        self.copies_lost: Callable[[], None] = lambda: None  # called when nobody has the model
        # Whether nobody has it, though nobody may know.
        self.nobody_left: Callable[[], bool] = lambda: False
        self._told: list[Callable[[Sequence[int]], None]] = []
        self._untold: list[int] = []  # who has ended, of which nobody has been told
        for event in events:
            if event.rank < len(workers):
                clock.call_at(round(event.at * 1e9), partial(self._happen, event))

    def start(
        self, worker: Worker, begin: Callable[[], Activity[None]], role: str, waits_for: object
    ) -> None:
        """Start a process on a worker; it ends with it and begins again with it.

        On one that is down, it begins when that does.
        """
        one = WorkerProcess(begin, role, waits_for)
        self._processes.setdefault(worker.rank, []).append(one)
        if self.running(worker.rank):
            self._set_off(worker, one)

    def disturbs(self, *, may_fail: bool) -> bool:
        """Whether a collective has to reckon with deaths and returns; see Collective."""
        found = self._restarts or (may_fail and self._expected)
        self._counted_on |= found and self._calm
        return found and not self._calm

    def tell(self, function: Callable[[Sequence[int]], None]) -> None:
        """Call a function with the ranks of workers that end at once, when all of them have."""
        self._told.append(function)

    def meet(self, rank: int) -> None:
        """What a worker has learnt is with others, too."""
        if self.random:
            self.met.append((rank, self._clock.time))

    def throw_away(self, rank: int) -> None:
        """What a worker has done since it last handed something over is in vain, for a death."""
        if self.random:
            self.thrown_away.append((rank, self._clock.time))

    def running(self, rank: int) -> bool:
        """Whether a worker's processes run."""
        return rank not in self.exits

    def kill(self, rank: int) -> None:
        """A worker's processes disappear; others are told of it later, by `tell_of_deaths`."""
        self._end(self._workers[rank], Killed())

    def stop(self, rank: int) -> None:
        """A worker's processes end in good order; that, too, is told by `tell_of_deaths`."""
        self._end(self._workers[rank], Stopped())

    def tell_of_deaths(self) -> None:
        """Nobody else dies at this instant: now it is known who has."""
        untold, self._untold = self._untold, []
        for function in self._told if untold else ():
            function(untold)

    def restart(self, rank: int, *, at_start: bool = False) -> None:
        """The processes of a worker that was killed begin again, in the order of their start.

        `at_start`: as if for the first time.
        """
        worker = self._workers[rank]
        assert self.exits.pop(rank).killed
        worker.comes_back()
        if at_start:
            worker.restarts = 0
        for one in self._processes[rank]:
            self._set_off(worker, one)

    def forget(self) -> None:
        """What all workers did is begun anew, none of which runs; of their gradients nothing is."""
        assert len(self.exits) == len(self._workers), "somebody still works"
        self._processes.clear()
        self._told.clear()
        for gradient in list(self._ledger.in_flight):
            gradient.open = gradient.unsent = 0
            gradient.given_up = True
            self._ledger.ended(gradient, self._clock.time)

    def call_off(self, worker: Worker, reason: Exception) -> None:
        """A worker gives up the gradient it is at, which is dropped; `reason` is thrown into it.

        `Job.allow_breaking_off` must have been called.
        """
        gradient = self._break_off(worker)
        worker.breaks_off()
        if gradient is not None:
            gradient.open = 0
            self._ledger.ended(gradient, self._clock.time)
            gradient.given_up = True
        (replica,) = (one for one in self._processes[worker.rank] if not one.role)
        self._clock.interrupt(replica.process, reason)

    def roles(self) -> list[tuple[str, object]]:
        """What runs besides replicas: its name and what it waits for."""
        return [
            (one.role, one.waits_for)
            for rank, processes in self._processes.items()
            for one in processes
            if one.role and self.running(rank)
        ]

    def _happen(self, event: ProcessEvent) -> None:
        assert event.rank in self._processes, (
            f"{event}, but none of its processes is known: strategies start them with Job.start_on"
        )
        if event.restart is not None:
            self.restart(event.rank)
            return
        (self.stop if event.kill is None else self.kill)(event.rank)
        self.tell_of_deaths()

    def _set_off(self, worker: Worker, one: WorkerProcess) -> None:
        """Begin a process; if it comes to its own end, it has ended in good order."""
        one.process = self._clock.process(one.begin())
        one.process.callbacks.append(lambda _: self._left(worker))

    def _left(self, worker: Worker) -> None:
        if self.running(worker.rank):
            worker.goes_down()
            self._note(worker, killed=False, doing="at the end of its work")

    def _end(self, worker: Worker, how: Ended) -> None:
        if self._counted_on:
            raise TooCalmError
        self.died = True
        doing, for_token = self._doing(worker), isinstance(worker.waits_for, TokenQueue)
        gradient = self._break_off(worker)
        worker.goes_down()
        if gradient is not None and gradient.unsent:
            gradient.given_up = True
            gradient.open -= gradient.unsent
            gradient.unsent = 0
            if gradient.open == 0:
                self._ledger.ended(gradient, self._clock.time)
        for one in self._processes[worker.rank]:
            if one.process.is_alive:
                self._clock.end(one.process, how)
        self._note(worker, killed=isinstance(how, Killed), doing=doing, for_token=for_token)
        self._untold.append(worker.rank)

    def _note(self, worker: Worker, *, killed: bool, doing: str, for_token: bool = False) -> None:
        roles = tuple(one.role for one in self._processes[worker.rank] if one.role)
        self.exits[worker.rank] = Exit(self._clock.time, killed, doing, roles, for_token)

    def _break_off(self, worker: Worker) -> Gradient | None:
        """Take back what is recorded of a worker's time to come.

        Its latest gradient, unless that has come to its end; `unsent` parts of it never arrive.
        """
        now = self._clock.time
        self._ledger.recorder.take_back(worker.rank, now)
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
        return gradient if gradient in self._ledger.in_flight else None

    def _doing(self, worker: Worker) -> str:
        """What a worker is at now, in words."""
        gradient = self._latest(worker)
        now = self._clock.time
        if gradient is not None and (gradient.open < 0 or gradient.computed > now):
            return "computing" if gradient.compute_start < now else "reading"
        if gradient is not None and gradient.unsent:
            return "sending its gradient"
        if worker.waits_for is not None and worker.waits_for is not self._network:
            return f"waiting for {worker.waits_for}"
        return "sending" if worker.phase == Phase.WRITE else "reading"


class StepOverError(Exception):
    """Thrown into a worker whose step is over before it has come."""


class Cutoff:
    """Barrier that does not wait for all: who has not come when a step ends begins anew.

    At the instant of the end, these go on first, by rank, then who ended the step, then those who
    waited, in the order in which they came.
    """

    def __init__(self, clock: Clock, workers: Sequence[Worker], failures: Failures) -> None:
        self._clock, self._workers, self._failures = clock, workers, failures
        self._come: set[int] = set()
        self._over = Event(clock)

    def begins(self, worker: Worker) -> None:
        """A worker begins, or begins again after its death."""
        self._come.discard(worker.rank)

    def comes(self, rank: int) -> None:
        """A worker has done its part of this step."""
        self._come.add(rank)

    def more_may_come(self) -> bool:
        """Whether somebody else may still come at this very moment."""
        now, waits = self._clock.time, self._clock.more_now
        return any(
            (worker.ready_at == now or (waits and worker.ready_at < now))
            and worker.rank not in self._come
            and self._failures.running(worker.rank)
            for worker in self._workers
        )

    def end_step(self) -> None:
        """The step is over: who has come goes on, all others give up what they are at."""
        come, self._come = self._come, set()
        over, self._over = self._over, Event(self._clock)
        for worker in self._workers:
            if worker.rank not in come and self._failures.running(worker.rank):
                self._failures.call_off(worker, StepOverError())
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
