"""Work done meanwhile by a copy of this process, where there is a core for it and it is safe."""

import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, Final, NoReturn, TypeVar

T = TypeVar("T")

_STOPS: Final = (signal.SIGINT, signal.SIGTERM)


def can_fork() -> bool:
    """Whether there is a core for a copy, and no thread that could hold a lock in it for ever."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) == 1:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


@contextmanager
def aside(work: Callable[[], T]) -> Iterator[Callable[[], T | None]]:
    """Have a copy of this process do the work; what is handed out waits for what comes of it.

    That is None if the copy failed: do the work again to know why. However this block ends, the
    copy is gone afterwards. It prints nothing and has no part in our clean-up.
    """
    source, target = os.pipe()
    with open(source, "rb") as pipe:
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            child = os.fork()
        except OSError:  # no more processes are to be had
            child = -1
        if child == 0:
            _work_and_exit(work, target, usual)
        try:
            os.close(target)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            yield partial(_received, pipe)
        finally:
            if child > 0:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _received(pipe: IO[bytes]) -> Any:
    try:
        return pickle.load(pipe)
    except (EOFError, pickle.UnpicklingError):
        return None


def _work_and_exit(work: Callable[[], object], target: int, usual: set[int]) -> NoReturn:
    """What the copy does. A signal ends it at once, unless it is one that we ignore."""
    try:
        for number in _STOPS:
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        with open(target, "wb") as pipe:
            pickle.dump(work(), pipe)
    finally:
        os._exit(0)
