"""Functions of the engine compiled by numba, where that is installed.

Every function is copied with globals in which the functions that it calls are compiled, too.
Machine code is kept in the user's cache, in a folder named after all of their sources.
"""

import hashlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeAlias

from varsim.cluster.flat import (
    accumulators,
    asynchronous,
    books,
    bounded,
    core,
    cutoff,
    decoding,
    hub,
    layout,
    links,
    mesh,
    replicas,
    sharing,
    walk,
    worker,
)

Code: TypeAlias = Mapping[Callable[..., Any], Callable[..., Any]]

_APPLYING: Final = (asynchronous, bounded, accumulators, cutoff)
_REDUCING: Final = (walk, replicas)
_MODULES: Final = (books, links, hub, mesh, sharing, worker, *_APPLYING, core, *_REDUCING, decoding)
# What is called from outside, and so kept in the cache.
_KEPT: Final[tuple[Callable[..., Any], ...]] = (
    core.advance,
    replicas.reduce_on,
    replicas.let_end,
    decoding.decode,
)
INTERPRETED: Final[Code] = {function: function for function in _KEPT}


@cache
def compiled() -> Code:
    """The functions, each compiled at its first call, or read from the cache."""
    numba = _imported()
    spaces = {module: dict(vars(module)) for module in _MODULES}
    made: dict[Any, Any] = {}
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_directory())
    try:
        for module, space in spaces.items():
            for name, function in vars(module).items():
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    copy = FunctionType(function.__code__, space, name, function.__defaults__)
                    # Nothing is allocated; counting references to arrays at every call would
                    # take three times as long as all the rest.
                    kept = function in _KEPT
                    made[function] = numba.njit(
                        cache=kept, no_cpython_wrapper=not kept, no_cfunc_wrapper=True, _nrt=False
                    )(copy)
    finally:
        config.CACHE_DIR = before
    for space in spaces.values():
        for name, value in space.items():
            if isinstance(value, FunctionType) and value in made:
                space[name] = made[value]
    return made


def _imported() -> Any:
    """The package numba, imported whole: Ctrl-C and SIGTERM wait for that.

    An import that is broken off leaves halves of modules behind, and some of numba's swallow what
    is raised meanwhile.
    """
    late = getattr(signal, "pthread_sigmask", None)  # not on Windows
    before = late and late(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        import numba
    finally:
        if late:
            late(signal.SIG_SETMASK, before)
    return numba


def unmade() -> tuple[type[Exception], ...]:
    """What is raised where machine code cannot be made, kept or read."""
    from numba.core.errors import NumbaError

    return NumbaError, OSError, RuntimeError


@cache
def is_made(name: str) -> bool:
    """Whether the machine code of a function is in the cache."""
    return any(cache_directory().rglob(f"*.{name}-*.nbi"))


@cache
def cache_directory() -> Path:
    """Where machine code of these sources is kept."""
    digest = hashlib.sha256()
    for module in (*_MODULES, layout, sys.modules[__name__]):
        digest.update(inspect.getsource(module).encode())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "varsim" / f"flat-{digest.hexdigest()[:16]}"
