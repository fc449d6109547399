"""Synchronization primitives: barrier, countdown, lock, token queue."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock, Ended
from varsim.cluster.record.trace import Phase, RunRecorder
from varsim.cluster.workers.worker import Worker

_TOKEN, _BARRIER, _LOCK = int(Phase.TOKEN), int(Phase.BARRIER), int(Phase.LOCK)


class Barrier:
    """Barrier of all workers: a counter and one shared event."""

    def __init__(self, clock: Clock, parties: int) -> None:
        self._clock = clock
        self._parties = parties
        self._come = 0
        self._event = Event(clock)

    def wait(self, worker: Worker) -> Activity[None]:
        """Come, and go on when all have come."""
        self._come += 1
        if self._come == self._parties:
            event, self._come, self._event = self._event, 0, Event(self._clock)
            event.succeed()
            return
        worker.waits(_BARRIER, self)
        try:
            yield self._event
        except Ended:
            self._come -= 1
            raise
        worker.goes_on()

    def __str__(self) -> str:
        return f"a barrier where {self._come} of {self._parties} have come"


class Countdown:
    """Countdown: one process waits until a number of things have happened, or for that event."""

    def __init__(self, clock: Clock, number: int, event: Event | None = None) -> None:
        self._left = number
        self._event = Event(clock) if event is None else event

    def count(self) -> None:
        """One of the things has happened."""
        self._left -= 1
        if self._left == 0:
            self._event.succeed()

    def wait(self) -> Activity[None]:
        """Wait for all of them."""
        yield self._event


class Lock:
    """FIFO lock: one worker at a time has it, the others get it in the order they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line: dict[int, Event] = {}  # by rank: who has it, then who waits

    def acquire(self, worker: Worker) -> Activity[None]:
        """Take the lock; wait for those who came before."""
        turn = self._line[worker.rank] = Event(self._clock)
        if len(self._line) > 1:
            worker.waits(_LOCK, self)
            yield turn
            worker.goes_on()

    def release(self, worker: Worker) -> None:
        """Leave the lock to the next, or one's place among those who wait; else nothing."""
        had_it = next(iter(self._line), None) == worker.rank
        self._line.pop(worker.rank, None)
        if had_it and self._line:
            next(iter(self._line.values())).succeed()

    def __str__(self) -> str:
        if not self._line:
            return "a lock (free)"
        return f"a lock (worker {next(iter(self._line))} has it, {len(self._line) - 1} waiting)"


class QueueClosedError(Exception):
    """There is no token and there will be none: the queue was closed (OutOfRangeError)."""


class TokenQueue:
    """FIFO queue of tokens, each carrying a step number.

    Tokens go to those who wait, in the order in which they came, but for workers that ended as they
    waited. All who wait share one event, so that releasing any number of replicas costs one event
    on the heap. Tokens nobody waits for are counted, not kept one by one.
    """

    def __init__(self, clock: Clock, recorder: RunRecorder) -> None:
        self._clock = clock
        self._recorder = recorder
        self._inside: deque[tuple[int, int]] = deque()  # step, and how many tokens carry it
        self._given: dict[int, int] = {}  # tokens of those who waited, by rank, as they came
        self._line: deque[int] = deque()  # ranks without a token
        self._closed = False
        self._renew()

    def enqueue(self, step: int, copies: int) -> None:
        """Put in `copies` tokens that carry `step`."""
        assert not self._closed, "no tokens are put into a closed queue"
        if copies <= 0:
            return
        self._recorder.handed_over(self._clock.time, -1, -1, step, copies)
        self._inside.append((step, copies))
        if self._line:
            self._hand_out()
            self._wake()

    def dequeue(self, worker: Worker) -> Activity[int]:
        """Take the oldest token; wait if there is none. Returns its step.

        QueueClosedError where there is none and the queue was closed.
        """
        rank = worker.rank
        if self._inside:
            step = self._take()
            self._recorder.handed_over(self._clock.time, -1, rank, step, 1)
            return step
        self._line.append(rank)
        worker.waits(_TOKEN, self)
        try:
            while rank not in self._given:
                if self._closed:
                    raise QueueClosedError
                yield self._event
        except Ended:
            self._give_up(rank)
            raise
        worker.goes_on()
        step = self._given.pop(rank)
        self._recorder.handed_over(self._clock.time, -1, rank, step, 1)
        return step

    def close(self) -> None:
        """No more tokens come; those inside are still handed out."""
        self._closed = True
        self._wake()

    def __len__(self) -> int:
        return len(self._given) + sum(copies for _, copies in self._inside)

    def __str__(self) -> str:
        return f"a token (queue empty, {len(self._line)} waiting)"

    def _wake(self) -> None:
        if not self._event.triggered:
            self._event.succeed()

    def _renew(self, _: object = None) -> None:
        """The event happens: who still has to wait, or comes later, waits for another one."""
        self._event = Event(self._clock)
        self._event.callbacks.append(self._renew)

    def _take(self) -> int:
        """The oldest token."""
        step, copies = self._inside.popleft()
        if copies > 1:
            self._inside.appendleft((step, copies - 1))
        return step

    def _hand_out(self) -> None:
        """Give tokens to those who wait, in their order."""
        line, given = self._line, self._given
        while line and self._inside:
            step, copies = self._inside.popleft()
            served = min(copies, len(line))
            for _ in range(served):
                given[line.popleft()] = step
            if copies > served:
                self._inside.appendleft((step, copies - served))

    def _give_up(self, rank: int) -> None:
        """A worker waits no more; if there is a token for it, that and all later ones move up."""
        if rank not in self._given:
            self._line.remove(rank)
            return
        served = list(self._given)
        step = self._given.pop(rank)
        for other in served[served.index(rank) + 1 :]:
            self._given[other], step = step, self._given[other]
        self._inside.appendleft((step, 1))
        self._hand_out()
        self._wake()


class Instant:
    """All that comes at one moment, taken in at its end, in the order of the ranks it comes from.

    `in_turn`: each when the one before is through with what takes that no time.
    """

    def __init__(self, clock: Clock, *, in_turn: bool = False) -> None:
        self._clock, self._in_turn = clock, in_turn
        self._numbers = count()
        self._come: list[tuple[int, int, int, Callable[[], object]]] = []

    def add(self, rank: int, take_in: Callable[[], object], second: int = 0) -> None:
        """Something has come, which is taken in by `take_in()`; of one rank what is `second`."""
        if not self._come:
            self._clock.call_settled(self._settle)
        heappush(self._come, (rank, second, next(self._numbers), take_in))

    def wait(self, worker: Worker) -> Activity[None]:
        """Come, and go on when it is the worker's turn."""
        turn = Event(self._clock)
        self.add(worker.rank, turn.succeed)
        yield turn

    def wait_for_all(self) -> Activity[None]:
        """Go on when all who have come at this moment are through."""
        while self._come:
            yield from self._clock.let_pass()

    def _settle(self) -> None:
        while self._come:
            *_, take_in = heappop(self._come)
            take_in()
            if self._in_turn:
                break
        if self._come:
            self._clock.call_settled(self._settle)


class BoundedClocks:
    """Clocks of all workers, of which none may be ahead of the slowest by more than a bound.

    All who wait share one event: it happens when the slowest clock moves. Nobody goes on before
    all that arrives at the moment is taken in.
    """

    def __init__(self, clock: Clock, workers: int, bound: int) -> None:
        self._clock, self._bound = clock, bound
        self._clocks = [0] * workers
        self._event = Event(clock)
        self.slowest = 0

    def tick(self, rank: int) -> None:
        """A worker has done another iteration."""
        self._clocks[rank] += 1
        slowest = min(self._clocks) if self._clocks[rank] == self.slowest + 1 else self.slowest
        if slowest > self.slowest:
            self.slowest = slowest
            event, self._event = self._event, Event(self._clock)
            event.succeed()

    def suffices(self, worker: Worker, stamp: int) -> bool:
        """Whether what contains all iterations up to `stamp` is new enough for a worker."""
        return stamp >= self._clocks[worker.rank] - self._bound

    def wait(self, worker: Worker) -> Activity[None]:
        """Wait until the worker is at most as far ahead as it may be."""
        yield from self._clock.let_pass()
        if not self.suffices(worker, self.slowest):
            worker.waits(_BARRIER, self)
            while not self.suffices(worker, self.slowest):
                yield self._event
            worker.goes_on()

    def __str__(self) -> str:
        late = [str(rank) for rank, own in enumerate(self._clocks) if own == self.slowest]
        return (
            f"the slowest clock (at {self.slowest}: worker{'s' * (len(late) > 1)} "
            f"{', '.join(late)}; nobody may be more than {self._bound} ahead)"
        )
