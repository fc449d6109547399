"""Functions of the engine compiled by numba, where that is installed.

Every function is copied with globals in which the functions that it calls are compiled, too. They
are handed pointers instead of arrays: to ask of every index whether it counts from the end of an
array, and to pass on what an array is described by, would take half as long as all the rest.
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
    sharing,
    worker,
)

Code: TypeAlias = Mapping[Callable[..., Any], Callable[..., Any]]

_APPLYING: Final = (asynchronous, bounded, accumulators, cutoff)
_MODULES: Final = (books, links, hub, mesh, sharing, worker, *_APPLYING, core, decoding)
# What is called from outside, and so kept in the cache.
_KEPT: Final[tuple[Callable[..., Any], ...]] = (
    core.advance,
    decoding.by_worker,
    decoding.decode,
)
INTERPRETED: Final[Code] = {function: function for function in _KEPT}


@cache
def compiled() -> Code:
    """The functions, each compiled at its first call, or read from the cache."""
    numba = _imported()
    spaces = {module: dict(vars(module)) for module in _MODULES}
    made: dict[Any, Any] = {}
    entries: dict[Any, Any] = {}
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_directory())
    try:
        for module, space in spaces.items():
            for name, function in vars(module).items():
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    copy = FunctionType(function.__code__, space, name, function.__defaults__)
                    made[function] = _machine_code(numba, copy)
        pointers = _pointers(numba)
        for function in _KEPT:
            space = {**globals(), "function": made[function], "pointers": pointers}
            copy = FunctionType(_enter.__code__, space, function.__name__)
            copy.__qualname__ = function.__name__  # after which its file in the cache is named
            entries[function] = _machine_code(numba, copy, kept=True)
    finally:
        config.CACHE_DIR = before
    for space in spaces.values():
        for name, value in space.items():
            if isinstance(value, FunctionType) and value in made:
                space[name] = made[value]
    return entries


def _machine_code(numba: Any, function: FunctionType, kept: bool = False) -> Any:
    # Nothing is allocated; counting references to arrays at every call would take three times as
    # long as all the rest.
    return numba.njit(cache=kept, no_cpython_wrapper=not kept, no_cfunc_wrapper=True, _nrt=False)(
        function
    )


def _enter(*arguments: Any) -> Any:
    """A function as it is called from outside, with arrays; `compiled` gives it these two names."""
    return function(*pointers(arguments))  # type: ignore[name-defined]  # noqa: F821


def _pointers(numba: Any) -> Any:
    """The function of machine code that has pointers to what is in arrays instead of these."""
    types = numba.types

    def pointers(_typing: Any, given: Any) -> Any:
        found = [
            types.CPointer(one.dtype) if isinstance(one, types.Array) else one for one in given
        ]

        def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            parts = []
            for place, one in enumerate(given):
                part = builder.extract_value(values[0], place)
                if isinstance(one, types.Array):
                    part = context.make_array(one)(context, builder, part).data
                parts.append(part)
            return context.make_tuple(builder, signature.return_type, parts)

        return types.Tuple(found)(given), made

    return numba.extending.intrinsic(pointers)


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
def is_made() -> bool:
    """Whether the machine code of the loop is in the cache."""
    return any(cache_directory().rglob(f"*.{core.advance.__name__}-*.nbi"))


@cache
def cache_directory() -> Path:
    """Where machine code of these sources is kept."""
    digest = hashlib.sha256()
    for module in (*_MODULES, layout, sys.modules[__name__]):
        digest.update(inspect.getsource(module).encode())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "varsim" / f"flat-{digest.hexdigest()[:16]}"
