"""Processes of workers: which run on which, how they ended; the report of a deadlock."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from varsim.cluster.clock import Activity, Clock, Process
from varsim.cluster.workers.worker import Worker


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
