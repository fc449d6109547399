"""What users add to what scenarios can name, and what a scenario needs of it."""

import hashlib
import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

from pydantic import BaseModel

from varsim.cluster.collectives.choice import COLLECTIVES
from varsim.cluster.network.topologies import NETWORKS
from varsim.core.distributions import ALL_DISTRIBUTIONS
from varsim.core.table import Functions, Models, Registry, title
from varsim.learning.problem import ALL_PROBLEMS
from varsim.strategies import ALL_STRATEGIES

T = TypeVar("T")

_TABLES: Final[tuple[Registry[Any], ...]] = (
    ALL_STRATEGIES,
    ALL_PROBLEMS,
    ALL_DISTRIBUTIONS,
    NETWORKS,
    COLLECTIVES,
)
# Files of varsim, and of what imports modules.
_NOT_THEIRS: Final = (
    "<frozen ",
    str(Path(__file__).parents[1]),
    str(Path(importlib.__file__).parent),
)


def register(thing: T) -> T:
    """Make a class or function of your own usable in scenarios.

    It is known in this process and in those that it starts.

    Parameters
    ----------
    thing : class or callable
        A class of strategies (`varsim.strategies.Strategy`), problems, distributions of step times
        or networks, which is named by its `kind`; or a function `(ranks, size) -> Schedule`, which
        is a collective of its name.

    Returns
    -------
    class or callable
        `thing`, so that it can stand as a decorator.

    Raises
    ------
    ValueError
        If its name is taken, or it is incomplete.
    TypeError
        If it is none of these.

    Examples
    --------
    >>> import varsim
    >>> from varsim.cluster.collectives.algorithms import ring_all_reduce
    >>> @varsim.register
    ... def my_ring(ranks, size):
    ...     return ring_all_reduce(ranks)
    >>> mine = {"strategies.on_write.collective": "my_ring"}
    >>> scenario = varsim.load("slow_worker", mine)
    >>> scenario.strategy("on_write").collective
    'my_ring'

    """
    for table in _TABLES:
        if table.takes(thing):
            table.register(thing)
            return thing
    raise TypeError(
        "register takes a class of strategies (varsim.strategies.Strategy), problems, "
        "distributions or networks, or a function that gives a collective's schedule"
    )


def registered() -> tuple[object, ...]:
    """Everything that was registered in this process."""
    return tuple(thing for table in _TABLES for thing in table.registered.values())


def import_extension(given: str) -> None:
    """Import a module, or a file that ends with `.py`, which registers what scenarios can name.

    ValueError where it cannot be imported, or registers nothing. What it prints goes to stderr. The
    folder of a file is searched for modules from then on, here and in processes that are started.
    """
    name, before = given, registered()
    if given.endswith(".py"):
        file = Path(given).resolve()
        if not file.is_file():
            raise ValueError(f"there is no file {given}")
        name = file.stem
        other = find_spec(name)
        if other is not None and Path(other.origin or "").resolve() != file:
            raise ValueError(f"{given} has the name of another module: give it one of its own")
        sys.path.insert(0, str(file.parent))
    try:
        with redirect_stdout(sys.stderr):
            import_module(name)
    except (Exception, SystemExit) as error:  # whatever somebody's code raises
        raise ValueError(f"{given} cannot be imported: {_what_happened(error)}") from error
    if registered() == before:
        raise ValueError(f"{given} registers nothing: write @varsim.register above each class")


def _what_happened(error: BaseException) -> str:
    """An error in a line, with the last place of somebody's own code that led to it."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THEIRS)
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {said}" if frames else said


def packed(content: object) -> bytes:
    """Something that refers to what is registered, and that, for another process."""
    import cloudpickle

    return bytes(cloudpickle.dumps((registered(), content)))


def unpacked(content: bytes) -> Any:
    """What was packed, in a process that from now on knows what was registered."""
    import pickle

    with redirect_stdout(sys.stderr):  # what is imported there may print
        things, inside = pickle.loads(content)
    for thing in things:
        register(thing)
    return inside


class Need(NamedTuple):
    """Something that a scenario names and that is not varsim's own.

    `said`: what it is, and where it was defined. `identity`: with the content of that file.
    """

    said: str
    identity: str


def needs(scenario: BaseModel) -> list[Need]:
    """What a scenario needs besides varsim, once each."""
    return list(dict.fromkeys(_needs(scenario)))


def _needs(value: BaseModel) -> Iterator[Need]:
    kind = type(value)
    foreign, fields = _looked_at(kind)
    for table in foreign:
        yield _need(table, table.name_of(kind), kind)
    for key, marks in fields:
        inside = getattr(value, key)
        for mark in marks:
            if inside in mark.registered:
                yield _need(mark, inside, mark[inside])
        if isinstance(inside, BaseModel):
            yield from _needs(inside)
        elif isinstance(inside, tuple) and inside and isinstance(inside[0], BaseModel):
            for one in inside:
                yield from _needs(one)


@cache
def _looked_at(
    kind: type[BaseModel],
) -> tuple[list[Registry[Any]], list[tuple[str, list[Functions]]]]:
    """Tables a model is in and not of, and its fields with the tables that name functions there."""
    models = [table for table in _TABLES if isinstance(table, Models)]
    foreign: list[Registry[Any]] = [
        table for table in models if issubclass(kind, table.base) and kind not in table.own.values()
    ]
    return foreign, [
        (key, [mark for mark in info.metadata if isinstance(mark, Functions)])
        for key, info in kind.model_fields.items()
    ]


def _need(table: Registry[Any], name: str, thing: Any) -> Need:
    module = str(thing.__module__)
    file = _file(module)
    said = f"{table.noun} {name!r}: {title(thing).replace(f'{module}.', '', 1)}"
    said += f", defined in {module}" + (f" ({file.name})" if file else "")
    return Need(said, f"{said} {_digest(file) if file else _number(thing)}")


def _file(module: str) -> Path | None:
    """The file that defines a module; None of what is typed in, as in a notebook."""
    file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    typed = module == "__main__" and hasattr(sys, "ps1")
    return file if file.is_file() and not typed else None


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@cache
def _number(_: object) -> str:
    """Of a definition in no file: of its own, as nobody can tell later whether it is the same."""
    return uuid4().hex
