"""Where runs are made: in this process, in several here, or on a cluster that dask drives."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, Final, Protocol, Self

from varsim.scenario.training import Scenario
from varsim.study.amount import gradients
from varsim.study.engine import machine_code_saves
from varsim.study.pool import Pool, cores
from varsim.study.sweep.case import Case, Finished, Task, run_tasks
from varsim.version import ENGINE_VERSION

PATIENCE: Final = 15.0  # seconds to wait for a dask scheduler and its first worker
# Work that this process does about as soon as others could, in gradients.
_SMALL: Final = 200_000
_LOOKED_AT: Final = 16  # cases whose size is estimated
_GOLDEN: Final = (5**0.5 - 1) / 2


class Backend(Protocol):
    """Something that makes runs; a context. `jobs` is how many it makes at a time."""

    jobs: int
    window: int  # how many submissions may be under way, so that nobody waits for the next
    # What a future fails with if its process died.
    deaths: tuple[type[BaseException], ...]

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Have some runs made, one after the other."""
        ...

    def replace(self, jobs: int) -> None:
        """Begin anew with so many jobs, after a process died."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Here:
    """In this process, when they are submitted."""

    jobs = window = 1
    deaths: tuple[type[BaseException], ...] = ()

    def __init__(self, among: float = 0.0) -> None:
        self._among = among

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Make the runs at once."""
        future: Future[list[Finished]] = Future()
        future.set_result(run_tasks(tasks, ENGINE_VERSION, self._among))
        return future

    def replace(self, jobs: int) -> None:
        """There is no process to replace."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Processes:
    """In processes of this machine; they end with this one.

    `among`: gradients of all runs that one of them makes.
    """

    deaths: tuple[type[BaseException], ...] = (BrokenProcessPool,)

    def __init__(self, jobs: int, among: float = 0.0) -> None:
        self.jobs, self.window, self._among = jobs, 2 * jobs, among
        self.pool = Pool(jobs)

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Have the runs made by one of the processes."""
        return self.pool.submit(run_tasks, list(tasks), ENGINE_VERSION, self._among)

    def replace(self, jobs: int) -> None:
        """Other processes, so many."""
        self.__exit__()
        self.jobs, self.window = jobs, 2 * jobs
        self.pool = Pool(jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.__exit__()


class Dask:
    """On a cluster of dask, by the address of its scheduler.

    The workers need the same varsim. A task whose worker dies goes to another, until dask gives it
    up.
    """

    def __init__(self, address: str) -> None:
        import logging

        from distributed import Client, KilledWorker

        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self.deaths: tuple[type[BaseException], ...] = (KilledWorker,)
        try:
            self._client: Any = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise OSError(f"no dask scheduler answers at {address}") from error
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            self._client.close(timeout=1)
            raise OSError(f"the dask scheduler at {address} has no workers") from None
        self._executor: Any = self._client.get_executor(pure=False)
        self.jobs = max(1, sum(self._client.ncores().values()))
        self.window = 2 * self.jobs

    def submit(self, tasks: Sequence[Task]) -> "Future[list[Finished]]":
        """Have the runs made by one of the cluster's workers."""
        future: Future[list[Finished]] = self._executor.submit(
            run_tasks, list(tasks), ENGINE_VERSION
        )
        return future

    def replace(self, jobs: int) -> None:
        """Dask replaces its workers itself."""
        self.jobs, self.window = jobs, 2 * jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)
        self._client.close(timeout=1)


def backend(runs: Sequence[Case], jobs: int | None, scheduler: str | None) -> Backend:
    """Where runs of these cases are made, one each; `jobs` None: as is best for so much work."""
    if scheduler is not None:
        return Dask(scheduler)
    jobs = processes(runs, jobs)
    each = among(runs, jobs)
    return Processes(jobs, each) if jobs > 1 else Here(each)


def processes(runs: Sequence[Case], jobs: int | None) -> int:
    """In how many processes of this machine such runs are made; `jobs` as in `backend`."""
    if jobs is None:
        jobs = 1 if _gradients(runs) < _SMALL else cores()
    return min(jobs, len(runs))


def among(runs: Sequence[Case], jobs: int) -> float:
    """Roughly how many gradients each of so many processes makes that machine code can make.

    Each counts as many times as it takes SimPy longer than the simplest one.
    """
    return _gradients(runs, lambda one: machine_code_saves(one, one.strategies[0])) / max(1, jobs)


def _gradients(runs: Sequence[Case], weighs: Callable[[Scenario], float] = bool) -> float:
    """Roughly how many gradients the runs compute, each by its weight, from a few of them."""
    number = min(len(runs), _LOOKED_AT)
    # From all over, in no rhythm that strategies may have, too.
    some = [runs[int(len(runs) * (turn * _GOLDEN % 1))].scenario for turn in range(number)]
    sizes = [weight * gradients(one) for one in some if (weight := weighs(one))]
    return sum(sizes) * len(runs) / len(some) if some else 0.0
