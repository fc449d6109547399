"""Virtual time in integer nanoseconds, and the events that processes wait for."""

import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from types import MethodType
from typing import Any, Final, TypeAlias, TypeVar

import simpy
from simpy.events import NORMAL, PENDING, URGENT, Event, EventPriority

T = TypeVar("T")

# A function that waits. Call it as `x = yield from f()`; without `yield from` it does nothing.
# What it yields is an event that it waits for, or the moment (ns) until which it sleeps.
Activity: TypeAlias = Generator[Event | int, Any, T]

# Events of one instant are served in the order (priority, sequence number): what follows from all
# arrivals of the instant comes after the others, and the end of a run last.
_FIRST = EventPriority(-1)
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


@contextmanager
def uncollected() -> Iterator[None]:
    """Run without looking for cycles of garbage.

    What is alive grows with the workers, and is looked through whenever it has grown by a quarter;
    but a run makes no cycles as it goes, and is one when it has ended.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Clock(simpy.Environment):
    """The simulated clock and its heap of events.

    Ties at one instant are served in the order in which they were scheduled; processes started
    together were scheduled in the order of their rank.
    """

    def __init__(self) -> None:
        super().__init__()
        self.time = 0  # now, in ns
        self.stopped = False  # no further event is served
        # When something happens (ns), its priority and sequence number, and what then happens.
        self.heap: list[tuple[int, int, int, Callable[[], object]]] = []
        self.numbers: Iterator[int] = count()
        self._void: set[int] = set()  # numbers of what is on the heap and is not to happen

    @uncollected()
    def run_until_stopped(self) -> None:
        """Serve events until somebody calls `stop` or nothing is left to happen.

        The loop of simpy's `run` and `step` in one, which saves two calls an event; an error ends
        it at once.
        """
        heap, void = self.heap, self._void
        while True:  # Python 3.11 makes such a loop fast, and none with a condition here
            if self.stopped or not heap:
                break
            time, _, number, happen = heappop(heap)
            if void and number in void:
                void.remove(number)
                continue
            self.time = time
            happen()

    @property
    def idle(self) -> bool:
        """Whether nothing is left to happen."""
        return not self._next()

    @property
    def ahead(self) -> Iterator[tuple[int, Callable[[], object]]]:
        """All that is to happen, in no order: its priority, and what then happens."""
        void = self._void
        return ((what[1], what[3]) for what in self.heap if what[2] not in void)

    @property
    def more_now(self) -> bool:
        """Whether something else is to happen at this moment."""
        heap = self._next()
        return bool(heap) and heap[0][0] == self.time

    def stop(self) -> None:
        """End the run: no further event is served."""
        self.stopped = True

    def process(  # type: ignore[override]
        self, activity: Activity[Any], begin: int = 0
    ) -> "Process":
        """Start a process, at this moment or at a later one, to `begin` (ns)."""
        return Process(self, activity, max(begin, self.time))

    def schedule(
        self,
        event: Event,
        priority: EventPriority = NORMAL,
        delay: int = 0,  # type: ignore[override]
    ) -> None:
        """Let an event happen so long (ns) after now."""
        self.call_at(self.time + delay, MethodType(_happen, event), priority)

    def sleep_until(self, time: int) -> Activity[None]:
        """Wait until a moment (ns)."""
        if time > self.time:
            yield time

    def let_pass(self) -> Activity[None]:
        """Wait until all that arrives at this moment has arrived."""
        event = Event(self)
        event._ok, event._value = True, None
        self.schedule(event, _SETTLED)
        yield event

    def call_settled(self, function: Callable[[], None]) -> None:
        """Call a function when all that arrives at this moment has arrived."""
        self.call_at(self.time, function, _SETTLED)

    def call_at(
        self, time: int, function: Callable[[], object], priority: EventPriority = NORMAL
    ) -> None:
        """Call a function at a moment (ns)."""
        heappush(self.heap, (time, priority, next(self.numbers), function))

    def call_first(self, time: int, function: Callable[[], object]) -> None:
        """Call a function before what else happens at a moment (ns)."""
        self.call_at(time, function, _FIRST)

    def call_last(self, time: int, function: Callable[[], None]) -> None:
        """Call a function after all else that happens at a moment (ns)."""
        self.call_at(time, function, LAST)

    def call_after(self, events: int, function: Callable[[], None]) -> None:
        """Call a function as soon as so many more events have been put on the heap."""
        begun = next(self.numbers)

        def numbers() -> Iterator[int]:
            yield from range(begun, begun + events)
            function()
            yield from count(begun + events)

        self.numbers = numbers()

    def trigger(self, event: Event) -> None:
        """Let an event happen at this moment, after what is on the heap for it: at once if none."""
        if self.stopped or self.more_now:
            event.succeed()
        else:
            event._ok, event._value = True, None
            _happen(event)

    def trigger_at(self, time: int, event: Event) -> None:
        """Let an event happen at a moment (ns)."""
        event._ok, event._value = True, None
        self.call_at(time, MethodType(_happen, event))

    def end(self, process: "Process", how: Ended) -> None:
        """End a process wherever it waits; what it waited for happens without it."""
        self._leave(process)
        try:
            process.activity.throw(how)
        except (Ended, StopIteration):
            return
        raise AssertionError("a process that was ended waits on")

    def interrupt(self, process: "Process", reason: Exception) -> None:
        """Throw an exception into a process, which must catch it and goes on at this moment."""
        self._leave(process)
        event = Event(self)
        event._ok, event._value = False, reason
        process.go_on(event)

    def withdraw(self, event: Event) -> None:
        """Let an event that was triggered not happen after all: it can be used again."""
        self._void.update(entry[2] for entry in self.heap if _is_of(entry[3], event))
        event._value = PENDING

    def _leave(self, process: "Process") -> None:
        """A process no longer waits for what it waits for; if it sleeps, that is taken back."""
        awaited = process.awaited
        if isinstance(awaited, Event):
            assert awaited.callbacks is not None, "a process cannot be ended while it acts"
            awaited.callbacks.remove(process.resume)
        else:
            self._void.add(process.number)

    def _next(self) -> list[tuple[int, int, int, Callable[[], object]]]:
        """The heap, with something on top that is to happen."""
        heap, void = self.heap, self._void
        while heap and heap[0][2] in void:
            void.remove(heappop(heap)[2])
        return heap

    @property
    def heap_events(self) -> int:
        """How many events were put on the heap so far; ends the count."""
        return next(self.numbers)


class Process(Event):
    """Process: an activity that is carried out, and the event of its end.

    simpy's, but that to sleep until some moment takes no event of its own.
    """

    __slots__ = ("_clock", "activity", "awaited", "number", "resume")  # beside what is of simpy's

    def __init__(self, clock: Clock, activity: Activity[Any], begin: int) -> None:
        super().__init__(clock)
        self.activity = activity
        self.awaited: Event | int = begin  # what it waits for, or until when it sleeps
        self._clock = clock
        self.resume: Callable[..., None] = self.go_on  # the same object each time
        self.number = next(clock.numbers)  # on the heap, while it sleeps
        heappush(clock.heap, (begin, URGENT, self.number, self.resume))

    @property
    def is_alive(self) -> bool:
        """Whether it has not come to its own end."""
        return not self.triggered

    def go_on(self, event: Event | None = None) -> None:
        """It has slept, or what it waited for has happened: it goes on until it waits again."""
        try:
            if event is None:
                awaited = self.activity.send(None)
            elif event._ok:
                awaited = self.activity.send(event._value)
            else:
                awaited = self.activity.throw(event._value)
        except StopIteration:
            del self.resume  # which refers to itself
            self.succeed()
            return
        if isinstance(awaited, int):
            clock = self._clock
            self.number = number = next(clock.numbers)
            heappush(clock.heap, (awaited, NORMAL, number, self.resume))
        elif awaited.callbacks is None:  # it has happened already
            self.go_on(awaited)
            return
        else:
            awaited.callbacks.append(self.resume)
        self.awaited = awaited


def _is_of(function: Callable[[], object], event: Event) -> bool:
    return getattr(function, "__self__", None) is event


def _happen(event: Event) -> None:
    """An event happens: all that wait for it go on."""
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks:
        callback(event)
