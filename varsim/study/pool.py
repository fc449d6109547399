"""Processes of this machine that compute for this one, and end with it."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from math import ceil
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import ModuleType
from typing import Final, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOST_ON_WINDOWS: Final = 61


class Pool:
    """So many processes, each started when it is first needed; a context.

    They import no script: what is defined in one comes pickled by value (see `extensions.packed`),
    and a script needs no `if __name__ == "__main__"`. One that is killed breaks the pool: all
    that is under way raises BrokenProcessPool.
    """

    def __init__(self, jobs: int) -> None:
        jobs = min(jobs, _MOST_ON_WINDOWS) if sys.platform == "win32" else jobs
        self._executor = ProcessPoolExecutor(jobs, get_context("spawn"), _begin)

    def submit(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        """Have one of the processes call a function."""
        with _undisturbed(), _without_main():
            return self._executor.submit(function, *given, **named)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _undisturbed():
            for process in list(self._executor._processes.values()):
                process.kill()
            self._executor.shutdown()


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
