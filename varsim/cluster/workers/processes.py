"""Processes of workers: which run on which, how they ended, and who is told of it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

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
        """Begin a process; if it comes to its own end, it has ended in good order."""
        one.process = self._clock.process(one.begin())
        one.process.callbacks.append(lambda _: self._left(worker))

    def _left(self, worker: Worker) -> None:
        if self.running(worker.rank):
            worker.goes_down()
            self.note_exit(worker.rank, killed=False, doing="at the end of its work")
