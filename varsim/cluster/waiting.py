"""What a process can wait for: a barrier, a countdown, a lock, a token, an accumulated gradient."""

from itertools import count, islice, repeat
from typing import ClassVar

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock, Ended
from varsim.cluster.worker import Worker
from varsim.trace import Phase

_TOKEN, _BARRIER, _LOCK = int(Phase.TOKEN), int(Phase.BARRIER), int(Phase.LOCK)


class Barrier:
    """Everybody waits until all have come: a counter and one shared event."""

    def __init__(self, clock: Clock, parties: int) -> None:
        self._clock = clock
        self._parties = parties
        self._come = 0
        self._event = Event(clock)

    def wait(self, worker: Worker) -> Activity[None]:
        """Come, and go on when all have come."""
        yield from worker.catch_up()
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
    """One process waits until a number of things have happened."""

    def __init__(self, clock: Clock, number: int) -> None:
        self._left = number
        self._event = Event(clock)

    def count(self) -> None:
        """One of the things has happened."""
        self._left -= 1
        if self._left == 0:
            self._event.succeed()

    def wait(self) -> Activity[None]:
        """Wait for all of them."""
        yield self._event


class Lock:
    """One worker at a time has it; the others get it in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line: dict[int, Event] = {}  # by rank: who has it, then who waits

    def acquire(self, worker: Worker) -> Activity[None]:
        """Take the lock; wait for those who came before."""
        yield from worker.catch_up()
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
    """A queue of tokens, each carrying a step number, handed out first in, first out.

    Whoever asks draws a number; the tokens go to the numbers in their order, but for those of
    workers that ended as they waited. All who wait share one event, so that releasing any number
    of replicas costs one event on the heap.
    """

    what: ClassVar[str] = "a token"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[int, int] = {}  # by number
        self._asked = 0
        self._put = 0  # the lowest number without a token
        self._gone: set[int] = set()  # from there on, numbers nobody waits with any more
        self._closed = False
        self._renew()

    def enqueue(self, step: int, copies: int) -> None:
        """Put in `copies` tokens that carry `step`."""
        assert not self._closed, "no tokens are put into a closed queue"
        if copies <= 0:
            return
        waiting = self._asked > self._put
        if self._gone:
            self._hand_out([step] * copies)
        else:
            self._tokens.update(zip(range(self._put, self._put + copies), repeat(step)))
            self._put += copies
        if waiting:
            self._wake()

    def dequeue(self, worker: Worker) -> Activity[int]:
        """Take the oldest token; wait if there is none. Returns its step.

        QueueClosedError where there is none and the queue was closed.
        """
        if worker.ready_at > self._clock.time:
            yield from worker.catch_up()
        number = self._asked
        self._asked += 1
        if number >= self._put:
            worker.waits(_TOKEN, self)
            try:
                while number >= self._put:
                    if self._closed:
                        raise QueueClosedError
                    yield self._event
            except Ended:
                self._give_up(number)
                raise
            worker.goes_on()
        return self._tokens.pop(number)

    def close(self) -> None:
        """No more tokens come; those inside are still handed out."""
        self._closed = True
        self._wake()

    def __len__(self) -> int:
        return len(self._tokens)

    def __str__(self) -> str:
        waiting = self._asked - self._put - len(self._gone)
        return f"{self.what} (queue empty, {waiting} waiting)"

    def _wake(self) -> None:
        if not self._event.triggered:
            self._event.succeed()

    def _renew(self, _: object = None) -> None:
        """The event happens: who still has to wait, or comes later, waits for another one."""
        self._event = Event(self._clock)
        self._event.callbacks.append(self._renew)

    def _hand_out(self, steps: list[int]) -> None:
        """Give tokens to the next numbers somebody waits, or will ask, with."""
        numbers = (number for number in count(self._put) if number not in self._gone)
        for number, step in zip(islice(numbers, len(steps)), steps, strict=True):
            self._tokens[number] = step
            self._put = number + 1
        self._gone = {number for number in self._gone if number >= self._put}

    def _give_up(self, number: int) -> None:
        """A worker waits no more; if there is a token for it, that and all later ones move up."""
        if number >= self._put:
            self._gone.add(number)
            return
        later = sorted(other for other in self._tokens if other >= number)
        steps = [self._tokens.pop(other) for other in later]
        for other, step in zip(later[1:], steps, strict=False):
            self._tokens[other] = step
        self._hand_out(steps[-1:])
        self._wake()
