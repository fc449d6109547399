"""Functions of the engine compiled by numba, where that is installed.

Every function is copied with globals in which the functions that it calls are compiled, too.
Machine code is kept in the user's cache, in a folder named after all sources.
"""

import hashlib
import inspect
import operator
import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import numpy as np

from varsim.cluster.fast import core, links, tables
from varsim.cluster.fast.start import NotCoveredError
from varsim.cluster.fast.tables import FastRun

_MODULES: Final = (links, core)


@cache
def compiled() -> Callable[[FastRun], None]:
    """The loop (`core.advance`) as machine code: compiled, or read from the cache.

    NotCoveredError where it can be neither made nor kept nor read.
    """
    numba = _imported()
    space = {**vars(links), **vars(core)}
    config: Any = numba.config
    before = config.CACHE_DIR
    try:
        config.CACHE_DIR = str(cache_directory())
        for module in _MODULES:
            for name, function in vars(module).items():
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    copy = FunctionType(function.__code__, space, name, function.__defaults__)
                    space[name] = _machine_code(numba, copy)
        inside = {**globals(), "advance": space["advance"], "run": _run_type(numba)}
        entry = _machine_code(numba, FunctionType(_enter.__code__, inside), kept=True)
        entry.compile((numba.int64[::1],))
    except (numba.core.errors.NumbaError, OSError, RuntimeError) as error:
        raise NotCoveredError(f"machine code cannot be made here: {error}") from error
    finally:
        config.CACHE_DIR = before

    def go_on(run: FastRun) -> None:
        entry(np.array([rows.ctypes.data for rows in run]))

    return go_on


def _machine_code(numba: Any, function: FunctionType, kept: bool = False) -> Any:
    # Nothing is allocated, so no references are counted.
    return numba.njit(cache=kept, no_cpython_wrapper=not kept, no_cfunc_wrapper=True, _nrt=False)(
        function
    )


def _enter(addresses: Any) -> None:
    advance(run(addresses))  # type: ignore[name-defined]  # noqa: F821


def _run_type(numba: Any) -> Any:
    """The function of machine code that makes a Run of an array of addresses."""
    from numba.core import cgutils
    from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
    from numba.extending import (
        infer_getattr,
        lower_builtin,
        lower_getattr_generic,
        models,
        register_model,
    )

    types = numba.types

    class RunType(types.Type):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__("varsim.Run")

    class RecordTable(types.Type):  # type: ignore[misc, name-defined]
        """Where the records of a table begin."""

        def __init__(self, name: str) -> None:
            self.record = numba.from_dtype(tables.RECORDS[name])
            super().__init__(f"varsim.{name}")

    register_model(RunType)(models.OpaqueModel)
    register_model(RecordTable)(models.OpaqueModel)
    kinds: dict[str, Any] = {}
    for name in FastRun._fields:
        kinds[name] = RecordTable(name) if name in tables.RECORDS else types.CPointer(types.int64)

    @infer_getattr
    class RunFields(AttributeTemplate):  # type: ignore[misc]
        key = RunType

        def generic_resolve(self, _: Any, name: str) -> Any:
            """The type of a table."""
            return kinds.get(name)

    @lower_getattr_generic(RunType)  # type: ignore[untyped-decorator]
    def field(context: Any, builder: Any, _: Any, value: Any, name: str) -> Any:
        pointer = context.get_value_type(kinds[name])
        addresses = builder.bitcast(value, pointer.as_pointer())
        place = cgutils.gep_inbounds(builder, addresses, FastRun._fields.index(name))
        return builder.load(place)

    @infer_global(operator.getitem)
    class RecordAt(AbstractTemplate):  # type: ignore[misc]
        def generic(self, found: Any, _: Any) -> Any:
            """The type of a record of a table."""
            if isinstance(found[0], RecordTable):
                return found[0].record(found[0], types.intp)
            return None

    @lower_builtin(operator.getitem, RecordTable, types.Integer)  # type: ignore[untyped-decorator]
    def record_at(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = context.get_value_type(signature.return_type)
        return builder.gep(builder.bitcast(values[0], pointer), [values[1]])

    @numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def run(_: Any, addresses: Any) -> Any:
        def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            data = context.make_array(addresses)(context, builder, values[0]).data
            return builder.bitcast(data, context.get_value_type(signature.return_type))

        return RunType()(addresses), made

    return run


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


@cache
def is_made() -> bool:
    """Whether the machine code of the loop is in the cache."""
    return any(cache_directory().rglob(f"*.{_enter.__name__}-*.nbi"))


@cache
def cache_directory() -> Path:
    """Where machine code of these sources is kept."""
    digest = hashlib.sha256()
    for module in (*_MODULES, tables, sys.modules[__name__]):
        digest.update(inspect.getsource(module).encode())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "varsim" / f"fast-{digest.hexdigest()[:16]}"
