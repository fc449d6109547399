"""A worker: a device that computes gradients, and the record of what its time goes into."""

from collections.abc import Iterator
from typing import NamedTuple

from varsim.cluster.clock import Activity, Clock, Pause
from varsim.cluster.link import Link
from varsim.cluster.pace import end_of
from varsim.trace import PHASE_BITS, Phase
from varsim.values.gradient import Gradient, Parameters
from varsim.values.task import Batches

# Phases as plain numbers: in Python 3.11 looking up a member costs more than what is done with it.
_READ, _QUEUE, _BARRIER = int(Phase.READ), int(Phase.QUEUE), int(Phase.BARRIER)


class Read(NamedTuple):
    """Parameters as somebody read them."""

    parameters: Parameters
    time: int  # ns
    global_step: int


class Worker:
    """One worker of a run.

    Its own time may be ahead of the clock (`ready_at`): the end of a first-come transfer is known
    when it starts, so nothing has to happen at that moment. Whatever makes a worker wait calls
    `catch_up` first.
    """

    __slots__ = (
        "_batches",
        "_clock",
        "_compute_times",
        "_in_flight",
        "_phase",
        "_since",
        "_spans",
        "_windows",
        "down",
        "iteration",
        "rank",
        "ready_at",
        "up",
        "waits_for",
    )

    def __init__(
        self,
        clock: Clock,
        rank: int,
        links: tuple[Link, Link],
        compute_times: Iterator[int],
        windows: list[tuple[int, float]],
        batches: Iterator[Batches],
        in_flight: dict[Gradient, None],
        spans: list[int],
    ) -> None:
        self.rank = rank
        self.up, self.down = links
        self.iteration = -1  # of its latest gradient
        self.ready_at = 0
        self.waits_for: object = None
        self._compute_times = compute_times
        self._windows = windows
        self._batches = batches
        self._clock = clock
        self._in_flight = in_flight
        self._spans = spans
        self._since = 0
        self._phase = _BARRIER

    def compute_gradient(self, read: Read) -> Activity[Gradient]:
        """Compute the gradient of the next batch at the parameters read; takes compute time."""
        clock = self._clock
        start = self.ready_at if self.ready_at > clock.time else clock.time
        work = next(self._compute_times)
        end = start + work if not self._windows else end_of(self._windows, start, work)
        self.iteration = iteration = self.iteration + 1
        gradient = Gradient(self.rank, iteration, read, next(self._batches), start, end)
        self._in_flight[gradient] = None
        self._since = self.ready_at = end
        self._spans += (end, iteration << PHASE_BITS)  # Phase.COMPUTE is 0
        yield Pause(clock, end)
        return gradient

    def catch_up(self) -> Activity[None]:
        """Wait until the clock has reached the worker's own time."""
        if self.ready_at > self._clock.time:
            yield Pause(self._clock, self.ready_at)

    def transferred(self, phase: int, end: int, alone: int) -> None:
        """Record a READ or WRITE that ends at `end`; beyond `alone` ns it was queueing."""
        # What is read is for the next gradient.
        number = self.iteration + (phase == _READ) << PHASE_BITS
        begin = end - alone
        if begin > self._since:
            self._spans += (begin, number | _QUEUE, end, number | phase)
        else:
            self._spans += (end, number | phase)
        self._since = self.ready_at = end

    def waits(self, phase: int, what: object) -> None:
        """The worker waits from now on, nobody knows how long; `what` says for what."""
        self._phase = phase
        self.waits_for = what

    def turns_to(self, phase: int) -> None:
        """The wait turns into something else."""
        self.goes_on()
        self._phase = phase

    def goes_on(self) -> None:
        """The wait is over."""
        self._since = self.ready_at = now = self._clock.time
        self._spans += (now, self.iteration << PHASE_BITS | self._phase)
        self.waits_for = None

    def close(self, end: int) -> None:
        """The run ends: record the wait that is still on."""
        self._spans += (max(end, self._since), self.iteration << PHASE_BITS | self._phase)
