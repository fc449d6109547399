"""A worker: a device that computes gradients, and the record of what its time goes into."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from varsim.cluster.clock import AT_ONCE, END_OF_TIME, Activity, Clock
from varsim.cluster.description.cluster import Cluster
from varsim.cluster.description.stragglers import Straggler
from varsim.cluster.network.topology import Place
from varsim.cluster.record.trace import GOES_ON, PHASE_BITS, Phase, code_of
from varsim.learning.gradient import Gradient, Parameters
from varsim.learning.task import Batches


def slowness(stragglers: Iterable[Straggler]) -> dict[int, list[tuple[int, float]]]:
    """The factors of compute times by rank: (from ns, factor), in order, the first from 0."""
    by_rank = dict[int, list[Straggler]]()
    for one in stragglers:
        by_rank.setdefault(one.rank, []).append(one)
    return {rank: _windows(slow) for rank, slow in by_rank.items()}


def _windows(slow: Sequence[Straggler]) -> list[tuple[int, float]]:
    bounds = {0}
    for entry in slow:
        bounds.add(round(entry.after * 1e9))
        if entry.until is not None:
            bounds.add(round(entry.until * 1e9))
    found = []
    for bound in sorted(bounds):
        factor = 1.0
        for entry in slow:
            until = math.inf if entry.until is None else round(entry.until * 1e9)
            if round(entry.after * 1e9) <= bound < until:
                factor *= entry.factor
        found.append((bound, factor))
    return found


def end_of(windows: Sequence[tuple[int, float]], start: int, work: int) -> int:
    """When `work` ns of normal compute that start at `start` end; a factor holds until the next."""
    index = len(windows) - 1
    while windows[index][0] > start:
        index -= 1
    left, time = float(work), start
    while index + 1 < len(windows):
        until = windows[index + 1][0]
        possible = (until - time) / windows[index][1]
        if possible >= left:
            break
        left -= possible
        time = until
        index += 1
    return time + round(left * windows[index][1])


def slowed(
    windows: Sequence[tuple[int, float]], start: int, end: int, factor: float
) -> list[tuple[int, float]]:
    """Windows that are slower by a factor between two moments (ns)."""

    def at(time: int) -> float:
        return next(factor for since, factor in reversed(windows) if since <= time)

    bounds = sorted({*(since for since, _ in windows), start, end})
    return [(one, at(one) * (factor if start <= one < end else 1.0)) for one in bounds]


class Slowed(NamedTuple):
    """Slowdown to a `share` of the usual pace `until` a moment.

    Work is counted in time at the usual pace, such that both are equal from that moment on.
    """

    until: float
    share: float

    def work_at(self, time: float) -> float:
        """The work that is done at a time."""
        return time if time >= self.until else self.until - (self.until - time) * self.share

    def time_of(self, work: float) -> float:
        """When so much work is done."""
        return work if work >= self.until else self.until - (self.until - work) / self.share

    def done_at(self, begun: float, duration: float) -> float:
        """When something ends that would take so long at the usual pace."""
        return self.time_of(self.work_at(begun) + duration)


def shares_of_compute(cluster: Cluster, ready: Sequence[float]) -> list[float]:
    """Shares of the backward pass as shares of a whole compute time, of which it is the end."""
    backward = cluster.share_of_backward
    return [1.0 - backward * (1.0 - share) for share in ready]


# Phases as plain numbers: in Python 3.11 looking up a member costs more than what is done with it.
_READ, _QUEUE, _BARRIER = int(Phase.READ), int(Phase.QUEUE), int(Phase.BARRIER)
_DOWN = int(Phase.DOWN)
_NEXT = 1 << PHASE_BITS  # to be added to a code for the next iteration

T = TypeVar("T")


@dataclass(slots=True, eq=False)  # made for each gradient, in half of a NamedTuple's time
class WorkerRead:
    """Read of the parameters: their values, when (ns), and the global step then."""

    parameters: Parameters
    time: int  # ns
    global_step: int


class Worker:
    """One worker of a run.

    What it does is over when its process goes on, but for what it computes in the background
    (`begin_gradient`, for exchanges that overlap with it), which is waited for: `finish_computing`.
    """

    __slots__ = (
        "_batches",
        "_before",
        "_clock",
        "_code",
        "_compute_times",
        "_in_flight",
        "_phase",
        "_set_up",
        "_since",
        "_spans",
        "_up",
        "_update",
        "_usual",
        "_windows",
        "iteration",
        "latest",
        "place",
        "rank",
        "reads_ahead",
        "restarts",
        "waits_for",
    )

    def __init__(
        self,
        clock: Clock,
        rank: int,
        place: Place,
        compute_times: Iterator[int],
        windows: list[tuple[int, float]],
        batches: Iterator[Batches],
        in_flight: dict[Gradient, None],
        spans: list[int],
        update: int = 0,
    ) -> None:
        self.rank = rank
        self.place = place  # in the network
        self.iteration = -1  # of its latest gradient
        self.restarts = 0
        self.waits_for: object = None
        self.latest: Gradient | None = None  # that it has begun
        self._before: Gradient | None = None  # the one before it
        self.reads_ahead = True  # what is read is for the next gradient
        self._compute_times = compute_times
        self._windows = self._usual = windows
        self._batches = batches
        self._clock = clock
        self._in_flight = in_flight
        self._spans = spans
        self._code = code_of(rank, -1)  # of the spans of its latest gradient
        self._since = 0
        self._set_up = self._up = 0
        self._update = update
        self._phase = _BARRIER

    def compute_gradient(self, read: WorkerRead) -> Activity[Gradient]:
        """Compute the gradient of the next batch at the parameters read; takes compute time."""
        start = self._clock.time
        end = start + next(self._compute_times)
        if self._windows:
            end = end_of(self._windows, start, end - start)
        self.iteration = iteration = self.iteration + 1
        self._code = code = self._code + _NEXT
        gradient = Gradient(self.rank, iteration, read, next(self._batches), start, end)
        self._in_flight[gradient] = None
        self._before, self.latest = self.latest, gradient
        self._since = end
        self._spans += (end, code)  # Phase.COMPUTE is 0
        yield end
        return gradient

    def pass_over(self, batches: int) -> None:
        """So many of the next batches, and their compute times, are for nobody."""
        for _ in range(batches):
            next(self._compute_times)
            next(self._batches)

    def begin_gradient(
        self, read: WorkerRead, shares: Sequence[float]
    ) -> tuple[Gradient, list[int]]:
        """Begin to compute a gradient; and when these shares of the computation will be done (ns).

        It computes in the background, until `finish_computing`.
        """
        start = self._clock.time
        work, windows = next(self._compute_times), self._windows or [(0, 1.0)]
        end = end_of(windows, start, work)
        moments = [min(end, end_of(windows, start, round(work * share))) for share in shares]
        self.iteration += 1
        self._code += _NEXT
        gradient = Gradient(self.rank, self.iteration, read, next(self._batches), start, end)
        self._in_flight[gradient] = None
        self._before, self.latest = self.latest, gradient
        self._since = end
        self._spans += (end, self._code)
        return gradient, moments

    def begin_layers(self) -> tuple[Gradient, int]:
        """Begin a gradient, to be computed layer by layer; and the work that it is in all (ns).

        What it is read from, and when it is computed, is still to come.
        """
        start = self._clock.time
        self.iteration += 1
        self._code += _NEXT
        batch = next(self._batches)
        gradient = Gradient(self.rank, self.iteration, None, batch, start, END_OF_TIME)
        self._in_flight[gradient] = None
        self._before, self.latest = self.latest, gradient
        return gradient, next(self._compute_times)

    def update_copy(self, share: float = 1.0) -> Activity[None]:
        """Spend what it takes to update a share of the worker's own copy; it is computing."""
        return self.compute(round(self._update * share)) if self._update else AT_ONCE

    def compute(self, work: int, *, goes_on: bool = False) -> Activity[None]:
        """Compute for so many ns at its normal pace; if it `goes_on`, one span with that before."""
        start = self._clock.time
        end = end_of(self._windows or [(0, 1.0)], start, work)
        code = self._code
        if goes_on and self._since == start:
            code += GOES_ON
        self._spans += (end, code)
        self._since = end
        yield end

    def finish_computing(self) -> Activity[None]:
        """Wait until it has computed what it computes in the background."""
        return self._clock.sleep_until(self._since)

    def transferred(self, phase: int, end: int, alone: int) -> None:
        """Record a READ or WRITE that ends at `end`; beyond `alone` ns it was queueing."""
        code = self._code
        if phase == _READ and self.reads_ahead:
            code += _NEXT
        self._phase = phase
        begin = end - alone
        if begin > self._since:
            self._spans += (begin, code + _QUEUE, end, code + phase)
        else:
            self._spans += (end, code + phase)
        self._since = end

    def waits(self, phase: int, what: object) -> None:
        """The worker waits from now on, nobody knows how long; `what` says for what."""
        self._phase = phase
        self.waits_for = what

    def turns_to(self, phase: int) -> None:
        """The wait turns into something else."""
        self.goes_on()
        self._phase = phase

    @property
    def since(self) -> int:
        """When the latest thing that it did, or waited for, came to its end (ns)."""
        return self._since

    @property
    def phase(self) -> int:
        """What it waited for last, or waits for now."""
        return self._phase

    def goes_on(self) -> None:
        """The wait is over."""
        self._since = now = self._clock.time
        self._spans += (now, self._code + self._phase)
        self.waits_for = None

    def close(self, end: int) -> None:
        """All ends: record the wait that is still on."""
        ahead = _NEXT * (self._phase == _READ and self.reads_ahead)
        self._spans += (max(end, self._since), self._code + ahead + self._phase)

    def sets_up(self, duration: int) -> None:
        """Add a start-up delay (ns), also after each restart."""
        self._set_up = duration
        self._since = self._up = end = self._clock.time + duration
        self._spans += (end, self._code + _NEXT + _DOWN)

    @property
    def up_at(self) -> int:
        """When it is, or was, set up (ns): its replica begins."""
        return self._up

    @property
    def is_setting_up(self) -> bool:
        """Whether it runs, but is not set up yet."""
        return self._up > self._clock.time

    def slows_down(self, start: int, end: int, factor: float) -> None:
        """It computes more slowly by a factor between two moments (ns), unless it dies."""
        self._windows = slowed(self._usual or [(0, 1.0)], start, end, factor)

    def remember_draws(self) -> None:
        """From now on an iteration that was not begun after all can be taken back."""
        self._compute_times = _Draws(self._compute_times)
        self._batches = _Draws(self._batches)

    def take_back(self, gradient: Gradient) -> None:
        """The latest gradient was not begun after all: its number and draws are for the next."""
        assert isinstance(self._compute_times, _Draws)
        assert isinstance(self._batches, _Draws)
        del self._in_flight[gradient]
        self.latest = self._before
        gradient.open = 0
        self.iteration -= 1
        self._code -= _NEXT
        self._compute_times.put_back()
        self._batches.put_back()

    def breaks_off(self) -> None:
        """What the worker does ends now; nothing may be recorded of the time after it."""
        if self._since < self._clock.time:
            self.close(self._clock.time)
        self._since = self._clock.time
        self.waits_for = None

    def goes_down(self) -> None:
        """It is not running from now on."""
        self.breaks_off()
        self._phase = _DOWN

    def comes_back(self) -> None:
        """It is running again."""
        self.turns_to(_BARRIER)
        self.restarts += 1
        self._windows = self._usual
        if self._set_up:
            self.sets_up(self._set_up)


class _Draws(Iterator[T], Generic[T]):
    """Iterator of which the latest item can be put back."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._latest: list[T] = []
        self._next: list[T] = []

    def __next__(self) -> T:
        self._latest, self._next = self._next or [next(self._items)], []
        return self._latest[0]

    def put_back(self) -> None:
        """The latest item comes again."""
        assert self._latest
        self._latest, self._next = [], self._latest
