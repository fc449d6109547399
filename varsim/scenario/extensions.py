"""What users add to what scenarios can name, and what a scenario needs of it."""

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

from pydantic import BaseModel

from varsim.cluster.collectives.choice import COLLECTIVES
from varsim.cluster.topology import NETWORKS
from varsim.strategies import ALL_STRATEGIES
from varsim.values.distributions import LAWS
from varsim.values.problem import ALL_PROBLEMS
from varsim.values.table import Functions, Models, Table, title

T = TypeVar("T")

_TABLES: Final[tuple[Table[Any], ...]] = (
    ALL_STRATEGIES,
    ALL_PROBLEMS,
    LAWS,
    NETWORKS,
    COLLECTIVES,
)


def register(thing: T) -> T:
    """Make a class or function usable in scenarios, in this process and those it starts.

    A class of strategies, problems, distributions of step times or networks is named by its `kind`;
    a function `(ranks, size) -> Schedule` is a collective of its name. Returns it, so that it can
    stand as a decorator. ValueError where the name is taken, or the thing is incomplete; TypeError
    if it is none of these.
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


def packed(content: object) -> bytes:
    """Something that refers to what is registered, and that, for another process."""
    import cloudpickle

    return bytes(cloudpickle.dumps((registered(), content)))


def unpacked(content: bytes) -> Any:
    """What was packed, in a process that from now on knows what was registered."""
    import pickle

    things, inside = pickle.loads(content)
    for thing in things:
        register(thing)
    return inside


class Need(NamedTuple):
    """Something that a scenario names and that is not varsim's own.

    `said`: what it is, and of what. `identity`: the same wherever it does the same.
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
            if inside in mark.foreign:
                yield _need(mark, inside, mark[inside])
        if isinstance(inside, BaseModel):
            yield from _needs(inside)
        elif isinstance(inside, tuple) and inside and isinstance(inside[0], BaseModel):
            for one in inside:
                yield from _needs(one)


@cache
def _looked_at(
    kind: type[BaseModel],
) -> tuple[list[Table[Any]], list[tuple[str, list[Functions]]]]:
    """Tables a model is in and not of, and its fields with the tables that name functions there."""
    models = [table for table in _TABLES if isinstance(table, Models)]
    foreign: list[Table[Any]] = [
        table for table in models if issubclass(kind, table.base) and kind not in table.own.values()
    ]
    return foreign, [
        (key, [mark for mark in info.metadata if isinstance(mark, Functions)])
        for key, info in kind.model_fields.items()
    ]


def _need(table: Table[Any], name: str, thing: Any) -> Need:
    module, said = str(thing.__module__), f"{table.noun} {name!r}: {title(thing)}"
    if package := _package(module):
        said += f" of package {package}"
        return Need(said, said)
    file = _file(module)
    said = said.replace(f"{module}.", "", 1) + f", defined in {module}"
    said += f" ({file.name})" if file else ""
    return Need(said, f"{said} {_digest(file) if file else _number(thing)}")


def _package(module: str) -> str:
    """The installed package that a module is of, with its version; empty for none."""
    for entries in (entry for table in _TABLES for entry in table.entries.values()):
        for entry in entries:
            if entry.dist and entry.module.partition(".")[0] == module.partition(".")[0]:
                return f"{entry.dist.name} {entry.dist.version}"
    found = packages_distributions().get(module.partition(".")[0], ())
    return f"{found[0]} {version(found[0])}" if found else ""


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
