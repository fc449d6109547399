"""Strategies of other packages: entry points of the group `varsim.strategies`, named by kind.

Nothing of such a package runs before its kind is named: in a scenario, or by who lists all kinds.
"""

import contextlib
import sys
from abc import ABC
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Literal, get_args

from pydantic import (
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SerializationInfo,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from varsim.strategies.base import Strategy


class Plugin(Strategy, ABC):
    """Stands in the table for a strategy of another package; validating it gives that strategy."""

    model_config = ConfigDict(extra="allow")

    entry: ClassVar[EntryPoint]
    loaded: ClassVar[type[Strategy] | str | None] = None  # or the reason why it cannot be

    @classmethod
    def real(cls) -> type[Strategy]:
        """The strategy itself; ValueError with the reason if there is none to be had."""
        if cls.loaded is None:
            cls.loaded = _load(cls.entry)
        if isinstance(cls.loaded, str):
            raise ValueError(
                f"the strategy {cls.entry.name!r} of another package cannot be imported from "
                f"{cls.entry.value}: {cls.loaded}"
            )
        return cls.loaded

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_own(cls, data: Any, _: ModelWrapValidatorHandler["Plugin"]) -> Any:
        return cls.real().model_validate(data)

    @model_serializer(mode="plain")
    def _as_its_own(self, info: SerializationInfo) -> dict[str, Any]:
        # What is written is never the stand-in, but what validating it gave.
        dumped: dict[str, Any] = self.model_dump(
            mode=info.mode,
            exclude_none=info.exclude_none,
            exclude_defaults=info.exclude_defaults,
            exclude_unset=info.exclude_unset,
        )
        return dumped

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        try:
            return handler(cls.real().__pydantic_core_schema__)
        except ValueError as error:
            return {
                "type": "object",
                "properties": {"kind": {"const": cls.entry.name}},
                "description": str(error),
                "not": {},
            }


def plugins(taken: Mapping[str, object]) -> dict[str, type[Strategy]]:
    """A stand-in for each strategy of another package, by kind; not for kinds that are taken."""
    return {
        entry.name: stand_in(entry)
        for entry in entry_points(group="varsim.strategies")
        if entry.name not in taken
    }


def stand_in(entry: EntryPoint) -> type[Plugin]:
    """A strategy of another package, not loaded."""
    kind: Any = Literal[entry.name]
    made = create_model(f"Plugin_{entry.name}", __base__=Plugin, kind=(kind, ...))
    made.entry = entry
    return made


def real(strategy: type[Strategy]) -> type[Strategy]:
    """The strategy that a line of the table stands for; ValueError if it cannot be imported."""
    return strategy.real() if issubclass(strategy, Plugin) else strategy


def _load(entry: EntryPoint) -> type[Strategy] | str:
    """The strategy behind an entry point, or why there is none. What it prints goes to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = entry.load()
    except (Exception, SystemExit) as error:  # whatever another package raises
        return " ".join(f"{type(error).__name__}: {error}".split())
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        return "it is not a class of strategies (varsim.strategies.Strategy)"
    kinds = get_args(found.model_fields["kind"].annotation)
    if entry.name not in kinds:
        named = " or ".join(map(repr, kinds)) or "not one text"
        return f"its kind is {named}, not {entry.name!r}, the name of the entry point"
    if found.__abstractmethods__:
        return f"it does not define {', '.join(sorted(found.__abstractmethods__))}"
    return found
