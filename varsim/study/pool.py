"""Where functions are called: here, in processes of this machine, or on a cluster of dask."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from math import ceil
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import ModuleType
from typing import Any, Final, ParamSpec, Protocol, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOST_ON_WINDOWS: Final = 61
PATIENCE: Final = 15.0  # seconds to wait for a dask scheduler and its first worker


class Backend(Protocol):
    """Something that calls functions, `jobs` at a time; a context.

    `deaths`: what a call fails with if its process died.
    """

    jobs: int
    deaths: tuple[type[BaseException], ...]

    @property
    def window(self) -> int:
        """How many calls may be under way, so that no process waits for the next."""
        ...

    def submit(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        """Have a function called."""
        ...

    def replace(self, jobs: int) -> None:
        """Begin anew with so many jobs, after a process died."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Here:
    """Calls in this process, when they are submitted."""

    jobs = window = 1
    deaths: tuple[type[BaseException], ...] = ()

    def submit(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        """Call the function at once."""
        future: Future[T] = Future()
        future.set_result(function(*given, **named))
        return future

    def replace(self, jobs: int) -> None:
        """There is no process to replace."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Pool:
    """So many processes, each started when it is first needed; a context.

    They import no script: what is defined in one comes pickled by value (see `extensions.packed`),
    and a script needs no `if __name__ == "__main__"`. One that is killed breaks the pool: all
    that is under way raises BrokenProcessPool.
    """

    deaths: tuple[type[BaseException], ...] = (BrokenProcessPool,)

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        most = min(jobs, _MOST_ON_WINDOWS) if sys.platform == "win32" else jobs
        self._executor = ProcessPoolExecutor(most, get_context("spawn"), _begin)

    @property
    def window(self) -> int:
        """Two calls for each process."""
        return 2 * self.jobs

    def submit(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        """Have one of the processes call a function."""
        with _undisturbed(), _without_main():
            return self._executor.submit(function, *given, **named)

    def replace(self, jobs: int) -> None:
        """Other processes, so many."""
        self.__exit__()
        self.__init__(jobs)  # type: ignore[misc]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _undisturbed():
            for process in list(self._executor._processes.values()):
                process.kill()
            self._executor.shutdown()


class Dask:
    """A cluster of dask, by the address of its scheduler; the workers need the same varsim.

    A task whose worker dies goes to another, until dask gives it up.
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
        self.jobs: int = max(1, sum(self._client.ncores().values()))

    @property
    def window(self) -> int:
        """Two calls for each core."""
        return 2 * self.jobs

    def submit(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        """Have one of the workers call a function."""
        future: Future[T] = self._executor.submit(function, *given, **named)
        return future

    def replace(self, jobs: int) -> None:
        """Dask replaces its workers itself."""
        self.jobs = jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # the scheduler may be gone
            self._executor.shutdown(wait=False)
        self._client.close(timeout=1)


def cores() -> int:
    """How many processors this process may use, by its affinity and the limit of its container."""
    if hasattr(os, "process_cpu_count"):  # from Python 3.13
        count = os.process_cpu_count() or 1
    elif hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such limit, or "max"
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        count = min(count, max(1, ceil(quota / period)))
    return count


def _begin() -> None:
    """In a process of the pool: leave Ctrl-C to the one it works for, and end when that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back signals that would leave processes behind, half started or half ended.

    A process that starts meanwhile holds them back as well, until it is ready for them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which, when it starts, lets all signals in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the script that runs: a process that is spawned would run it again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
