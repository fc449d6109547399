"""Functions of the engine compiled by numba, where that is installed.

Every function is copied with globals in which the functions that it calls are compiled, too. What
they are handed is one address: where the addresses of all tables are. Arrays would be asked of
every index whether it counts from their end, and their references counted at every call, which
takes as long as all the rest. Machine code is kept in the user's cache, in a folder named after all
sources.
"""

import hashlib
import inspect
import operator
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeAlias

from varsim.cluster.fast import (
    core,
    events,
    fair,
    gates,
    hub,
    links,
    mesh,
    spans,
    tables,
    workers,
)

Code: TypeAlias = Mapping[Callable[..., None], Callable[..., None]]

_MODULES: Final = (events, links, mesh, hub, fair, spans, workers, gates, core)
# What is called from outside, and so kept in the cache.
_KEPT: Final = (core.advance, spans.note_waits, spans.write_spans)
INTERPRETED: Final = {function: function for function in _KEPT}


@cache
def compiled() -> Code:
    """The functions, of an array of the tables' addresses: compiled, or read from the cache."""
    numba = _imported()
    run = _run_type(numba)
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
        for kept in _KEPT:
            space = {**globals(), "function": made[kept], "run": run}
            copy = FunctionType(_enter.__code__, space, kept.__name__)
            copy.__qualname__ = kept.__name__  # after which its file in the cache is named
            entries[kept] = _machine_code(numba, copy, kept=True)
    finally:
        config.CACHE_DIR = before
    for space in spaces.values():
        for name, value in space.items():
            if isinstance(value, FunctionType) and value in made:
                space[name] = made[value]
    return entries


def _machine_code(numba: Any, function: FunctionType, kept: bool = False) -> Any:
    # Nothing is allocated, so no references are counted.
    return numba.njit(cache=kept, no_cpython_wrapper=not kept, no_cfunc_wrapper=True, _nrt=False)(
        function
    )


def _enter(addresses: Any) -> None:
    """A function as it is called from outside; `compiled` gives it these two names."""
    function(run(addresses))  # type: ignore[name-defined, call-arg]  # noqa: F821


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
    for name in tables.Run._fields:
        number = types.float64 if name in tables.FLOATS else types.int64
        kinds[name] = RecordTable(name) if name in tables.RECORDS else types.CPointer(number)
    kinds["state"] = kinds["state"].record

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
        place = cgutils.gep_inbounds(builder, addresses, tables.Run._fields.index(name))
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


def address(rows: Any) -> int:
    """Where a table of a run is."""
    found: int = rows.ctypes.data
    return found


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
    for module in (*_MODULES, tables, sys.modules[__name__]):
        digest.update(inspect.getsource(module).encode())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "varsim" / f"fast-{digest.hexdigest()[:16]}"
