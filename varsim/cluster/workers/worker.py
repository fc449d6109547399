"""Workers and their processes: which run on which, how they ended; the report of a deadlock."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from varsim.cluster.clock import AT_ONCE, END_OF_TIME, Activity, Clock, Process
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
        "_again",
        "_before",
        "_clock",
        "_code",
        "_drawn",
        "_draws",
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
        self._draws = zip(compute_times, batches, strict=False)  # neither ends
        self._drawn: tuple[int, Batches]  # the latest of them
        self._again: tuple[int, Batches] | None = None  # what comes before the others
        self._windows = self._usual = windows
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
        work, batch = self._draw()
        end = end_of(self._windows, start, work) if self._windows else start + work
        self.iteration = iteration = self.iteration + 1
        self._code = code = self._code + _NEXT
        gradient = Gradient(self.rank, iteration, read, batch, start, end)
        self._in_flight[gradient] = None
        self._before, self.latest = self.latest, gradient
        self._since = end
        self._spans += (end, code)  # Phase.COMPUTE is 0
        yield end
        return gradient

    def pass_over(self, batches: int) -> None:
        """So many of the next batches, and their compute times, are for nobody."""
        for _ in range(batches):
            self._draw()

    def begin_gradient(
        self, read: WorkerRead, shares: Sequence[float]
    ) -> tuple[Gradient, list[int]]:
        """Begin to compute a gradient; and when these shares of the computation will be done (ns).

        It computes in the background, until `finish_computing`.
        """
        start = self._clock.time
        (work, batch), windows = self._draw(), self._windows or [(0, 1.0)]
        end = end_of(windows, start, work)
        moments = [min(end, end_of(windows, start, round(work * share))) for share in shares]
        self.iteration += 1
        self._code += _NEXT
        gradient = Gradient(self.rank, self.iteration, read, batch, start, end)
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
        work, batch = self._draw()
        gradient = Gradient(self.rank, self.iteration, None, batch, start, END_OF_TIME)
        self._in_flight[gradient] = None
        self._before, self.latest = self.latest, gradient
        return gradient, work

    def _draw(self) -> tuple[int, Batches]:
        """The compute time (ns) and the batch of the next gradient."""
        self._drawn, self._again = self._again or next(self._draws), None
        return self._drawn

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

    def take_back(self, gradient: Gradient) -> None:
        """The latest gradient was not begun after all: its number and draws are for the next."""
        assert self._again is None
        self._again = self._drawn
        del self._in_flight[gradient]
        self.latest = self._before
        gradient.open = 0
        self.iteration -= 1
        self._code -= _NEXT

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


class Exit(NamedTuple):
    """How the processes of a worker ended."""

    time: int  # ns
    killed: bool  # or stopped in good order
    doing: str
    roles: tuple[str, ...]  # what it was besides a replica
    for_token: bool  # it waited for one, which others get now


class WorkerProcess:
    """Process of a worker; `begin` makes it anew."""

    def __init__(self, begin: Callable[[], Activity[None]], role: str, waits_for: object) -> None:
        self.begin = begin
        self.role = role
        self.waits_for = waits_for
        self.process: Process


class Processes:
    """Processes of all workers; whoever ends them, and begins them again, says so here.

    `detection`: so long (ns) after a death those who go on without a worker know of it.
    `without_model`: asked whether nobody has the model, though nobody may know.
    `model_lost`: called when that is known.
    """

    detection: int = 0

    def __init__(self, clock: Clock, workers: int) -> None:
        self._clock = clock
        self._workers = workers
        self.of: dict[int, list[WorkerProcess]] = {}  # by rank
        self.exits: dict[int, Exit] = {}  # by rank
        self.died = False  # somebody has
        self.without_model: list[Callable[[], bool]] = []
        self.model_lost: list[Callable[[], None]] = []
        self._told: list[Callable[[Sequence[int]], None]] = []
        self._may_end = self._may_return = self._calm = False
        self.counted_on = False  # that nobody dies

    def expect(self, *, returns: bool, calm: bool) -> None:
        """Somebody may die, and come back. `calm`: collectives may count on it that nobody does."""
        self._may_end, self._calm = True, calm
        self._may_return |= returns

    def disturb(self, *, may_fail: bool) -> bool:
        """Whether a collective has to reckon with deaths and returns; see Collective."""
        found = self._may_return or (may_fail and self._may_end)
        self.counted_on |= found and self._calm
        return found and not self._calm

    def start(
        self, worker: Worker, begin: Callable[[], Activity[None]], role: str, waits_for: object
    ) -> None:
        """Start a process on a worker; it ends with it and begins again with it.

        On one that is down, it begins when that does.
        """
        one = WorkerProcess(begin, role, waits_for)
        self.of.setdefault(worker.rank, []).append(one)
        if self.running(worker.rank):
            self._set_off(worker, one)

    def start_again(self, worker: Worker) -> None:
        """All processes of a worker begin again, in the order of their start."""
        for one in self.of[worker.rank]:
            self._set_off(worker, one)

    def running(self, rank: int) -> bool:
        """Whether a worker's processes run."""
        return rank not in self.exits

    def on_deaths(self, function: Callable[[Sequence[int]], None]) -> None:
        """Call a function with the ranks of workers that end at once, when all of them have."""
        self._told.append(function)

    def tell(self, ranks: Sequence[int]) -> None:
        """Nobody else dies at this instant: now it is known who has."""
        for function in self._told if ranks else ():
            function(ranks)

    def nobody_has_the_model(self) -> bool:
        """Whether that is so, as those say who keep copies of it."""
        return any(gone() for gone in self.without_model)

    def lose_model(self) -> None:
        """It is known that nobody has the model any more."""
        for function in self.model_lost:
            function()

    def forget(self) -> None:
        """What all workers did is begun anew, none of which runs."""
        assert len(self.exits) == self._workers, "somebody still works"
        self.of.clear()
        self._told.clear()
        self.without_model.clear()

    def roles(self) -> list[tuple[str, object]]:
        """What runs besides replicas: its name and what it waits for."""
        return [
            (one.role, one.waits_for)
            for rank, processes in self.of.items()
            for one in processes
            if one.role and self.running(rank)
        ]

    def note_exit(
        self, rank: int, *, killed: bool, doing: str = "", for_token: bool = False
    ) -> None:
        """The processes of a worker have ended."""
        roles = tuple(one.role for one in self.of[rank] if one.role)
        self.exits[rank] = Exit(self._clock.time, killed, doing, roles, for_token)

    def _set_off(self, worker: Worker, one: WorkerProcess) -> None:
        """Begin a process; if it comes to its own end, it has ended in good order.

        A replica begins when its worker is set up.
        """
        one.process = self._clock.process(one.begin(), 0 if one.role else worker.up_at)
        one.process.callbacks.append(lambda _: self._left(worker))

    def _left(self, worker: Worker) -> None:
        if self.running(worker.rank):
            worker.goes_down()
            self.note_exit(worker.rank, killed=False, doing="at the end of its work")


# What would free a run, in words, given the ranks of the workers that are dead.
Remedy: TypeAlias = Callable[[Sequence[int]], str]


def restart_all(dead: Sequence[int]) -> str:
    """The remedy where nothing goes on without everybody."""
    return f"restart {named(dead)}" if dead else ""


def restart_any(dead: Sequence[int]) -> str:
    """The remedy where any worker can go on alone."""
    return f"restart {'any of ' if len(dead) > 1 else ''}{named(dead)}" if dead else ""


def restart_enough(needed: int, workers: int, key: str) -> Remedy:
    """The remedy where so many of the workers are needed; `key` is the setting that says so."""

    def remedy(dead: Sequence[int]) -> str:
        alive = workers - len(dead)
        missing = needed - alive
        whom = named(dead) if missing >= len(dead) else f"{missing} of {named(dead)}"
        spare = f"; with {key}: {alive} it would have gone on" if alive else ""
        return f"restart {whom}{spare}"

    return remedy


def named(ranks: Iterable[int]) -> str:
    """`worker 3`, `workers 0, 1, 2`."""
    numbers = [str(rank) for rank in ranks]
    return f"worker{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def report(
    run: str,
    updates: int,
    time: int,
    workers: Sequence[Worker],
    processes: Processes,
    remedy: Remedy,
    fails: bool,
) -> str:
    """The whole report of a run in which nothing is left to happen since `time` (ns).

    `fails`: but for failures at random.
    """
    still = "nothing can happen any more."
    if fails:  # who is down comes back: then there was more to happen
        still = "no worker is down, and nothing but a failure can happen any more."
    count = f"{updates} update{'s' * (updates != 1)}"
    lines = [f"{run}: the run deadlocked at {time / 1e9:.9g} s, after {count}: {still}"]
    waits: dict[str, list[int]] = {}
    for worker in workers:
        if processes.running(worker.rank):
            what = "nothing" if worker.waits_for is None else str(worker.waits_for)
            waits.setdefault(what, []).append(worker.rank)
    lines += [f"  {named(ranks)}: waiting for {what}" for what, ranks in waits.items()]
    lines += [f"  {role}: waiting for {what}" for role, what in processes.roles()]
    lines += _causes(processes)
    dead = [rank for rank, end in processes.exits.items() if end.killed]
    if freed := remedy(sorted(dead)):
        lines.append(f"  to free it: {freed}")
    return "\n".join(lines)


def _causes(processes: Processes) -> list[str]:
    """The deaths behind it; one that left its token to others only where there is no other."""
    deaths: dict[tuple[int, str, bool], list[int]] = {}
    for rank, end in sorted(processes.exits.items()):
        if end.killed:
            at_peace = end.for_token and not end.roles
            deaths.setdefault((end.time, end.doing, at_peace), []).append(rank)
    lines = {}
    for (time, doing, at_peace), ranks in sorted(deaths.items()):
        roles = [f"the {role}" for rank in ranks for role in processes.exits[rank].roles]
        were = "were" if len(ranks) + len(roles) > 1 else "was"
        who = " and ".join([named(ranks), *roles])
        line = f"  because {who} {were} killed at {time / 1e9:.9g} s while {doing}"
        lines[line] = at_peace
    if all(lines.values()):
        return list(lines)
    return [line for line, at_peace in lines.items() if not at_peace]
