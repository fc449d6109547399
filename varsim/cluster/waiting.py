"""What a process can wait for: a barrier, a countdown, a token, an accumulated gradient."""

from itertools import repeat

from simpy.events import Event

from varsim.cluster.clock import Activity, Clock
from varsim.cluster.worker import Worker
from varsim.trace import Phase

_TOKEN, _BARRIER = int(Phase.TOKEN), int(Phase.BARRIER)


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
        yield self._event
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


class TokenQueue:
    """A queue of tokens, each carrying a step number, handed out first in, first out.

    Whoever asks draws a number; the n-th to ask gets the n-th token ever put in. All who wait
    share one event, so that releasing any number of replicas costs one event on the heap.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[int, int] = {}  # by number
        self._asked = 0
        self._put = 0
        self._event = Event(clock)

    def enqueue(self, step: int, copies: int) -> None:
        """Put in `copies` tokens that carry `step`."""
        if copies <= 0:
            return
        waiting = self._asked > self._put
        self._tokens.update(zip(range(self._put, self._put + copies), repeat(step)))
        self._put += copies
        if waiting:
            event, self._event = self._event, Event(self._clock)
            event.succeed()

    def dequeue(self, worker: Worker) -> Activity[int]:
        """Take the oldest token; wait if there is none. Returns its step."""
        if worker.ready_at > self._clock.time:
            yield from worker.catch_up()
        number = self._asked
        self._asked += 1
        if number >= self._put:
            worker.waits(_TOKEN, self)
            while number >= self._put:
                yield self._event
            worker.goes_on()
        return self._tokens.pop(number)

    def __len__(self) -> int:
        return len(self._tokens)

    def __str__(self) -> str:
        return f"a token (queue empty, {self._asked - self._put} waiting)"
