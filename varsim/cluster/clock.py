"""Virtual time in integer nanoseconds, and the events that processes wait for."""

import gc
from collections.abc import Callable, Generator, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

import simpy
from simpy.events import NORMAL, PENDING, Event, EventPriority, Process

T = TypeVar("T")

# A function that waits. Call it as `x = yield from f()`; without `yield from` it does nothing.
Activity: TypeAlias = Generator[Event, Any, T]

# Events of one instant are served in the order (priority, sequence number): what follows from all
# arrivals of the instant comes after the others, and the end of a run last.
_SETTLED = EventPriority(2)
LAST = EventPriority(3)

# As far as a run may go, in ns (146 years): rows keep times in 64 bits, a sign and some room left.
END_OF_TIME: Final = 1 << 62


class Ended(BaseException):
    """Thrown into a process that is ended from outside; it may tidy up, but waits no more."""


class Killed(Ended):
    """The process disappears."""


class Stopped(Ended):
    """The process ends in good order."""


def _ended() -> Activity[None]:
    yield from ()


# What takes no time: it has ended, and whoever waits for it goes on.
AT_ONCE: Final = _ended()
AT_ONCE.close()


class Pause(Event):
    """An event that happens at a given time: simpy's Timeout without its two calls."""

    def __init__(self, clock: "Clock", time: int) -> None:
        self.env = clock
        self.callbacks = []
        self._value = None
        self._ok = True
        heappush(clock._queue, (time, NORMAL, next(clock._eid), self))


class Clock(simpy.Environment):
    """The simulated clock and its heap of events.

    Ties at one instant are served in the order in which they were scheduled; processes started
    together were scheduled in the order of their rank.
    """

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        self.time = 0  # now, in ns
        self.stopped = False  # no further event is served

    def run_until_stopped(self) -> None:
        """Serve events until somebody calls `stop` or nothing is left to happen.

        The loop of simpy's `run` and `step` in one, which saves two calls an event. A run leaves
        no cycles behind as it goes, so looking for them would only cost time (10 to 15 %).
        """
        queue = self._queue
        collecting = gc.isenabled()
        gc.disable()
        try:
            while queue and not self.stopped:
                time, _, _, event = heappop(queue)
                self._now = self.time = time  # type: ignore[assignment]
                callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
                for callback in callbacks:
                    callback(event)
                if not event._ok:
                    raise event._value
        finally:
            if collecting:
                gc.enable()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to happen."""
        return not self._queue

    def stop(self) -> None:
        """End the run: no further event is served."""
        self.stopped = True

    def sleep_until(self, time: int) -> Activity[None]:
        """Wait until a moment (ns)."""
        if time > self.time:
            yield Pause(self, time)

    def let_pass(self) -> Activity[None]:
        """Wait until all that arrives at this moment has arrived."""
        yield self._settled()

    def call_settled(self, function: Callable[[], None]) -> None:
        """Call a function when all that arrives at this moment has arrived."""
        self._settled().callbacks.append(lambda _: function())

    def call_at(self, time: int, function: Callable[[], None]) -> None:
        """Call a function at a moment (ns); one event on the heap."""
        Pause(self, time).callbacks.append(lambda _: function())

    def call_last(self, time: int, function: Callable[[], None]) -> None:
        """Call a function after all else that happens at a moment (ns)."""
        event = Event(self)
        event._ok, event._value = True, None
        event.callbacks.append(lambda _: function())
        self.schedule(event, LAST, time - self.time)

    def _settled(self) -> Event:
        event = Event(self)
        event._ok, event._value = True, None
        self.schedule(event, _SETTLED)
        return event

    def call_after(self, events: int, function: Callable[[], None]) -> None:
        """Call a function as soon as so many more events have been put on the heap."""
        begun = next(self._eid)

        def numbers() -> Iterator[int]:
            yield from range(begun, begun + events)
            function()
            yield from count(begun + events)

        self._eid = numbers()  # type: ignore[assignment]

    def trigger_at(self, time: int, event: Event) -> None:
        """Let an event of `event()` happen at a moment (ns)."""
        event._ok, event._value = True, None
        self.schedule(event, NORMAL, time - self.time)

    def end(self, process: Process, how: Ended) -> None:
        """End a process wherever it waits; what it waited for happens without it."""
        self._leave(process)
        try:
            process._generator.throw(how)
        except (Ended, StopIteration):
            return
        raise AssertionError("a process that was ended waits on")

    def interrupt(self, process: Process, reason: Exception) -> None:
        """Throw an exception into a process, which must catch it and goes on at this moment."""
        self._leave(process)
        event = Event(self)
        event._ok, event._value = False, reason
        process._resume(event)

    def withdraw(self, event: Event) -> None:
        """Let an event of `trigger_at` or `succeed` not happen after all: it can be used again."""
        self._unschedule(event)
        event._value = PENDING

    def _leave(self, process: Process) -> None:
        """A process no longer waits for what it waits for; if nobody does, that is taken back."""
        target = process._target
        assert target.callbacks is not None, "a process cannot be ended while it acts"
        target.callbacks.remove(process._resume)
        if isinstance(target, Pause) and not target.callbacks:
            self._unschedule(target)

    def _unschedule(self, event: Event) -> None:
        """Take an event off the heap; the order of all others stays. Costs a look at all."""
        queue = self._queue
        queue[:] = [entry for entry in queue if entry[3] is not event]
        heapify(queue)

    @property
    def heap_events(self) -> int:
        """How many events were put on the heap so far; ends the count."""
        return next(self._eid)
