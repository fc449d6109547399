"""The part of pydantic-core that varsim uses, in Python: for interpreters that load no extensions.

What schemas it knows is what `SchemaValidator` has methods for; any other is refused with its name.
`tests/test_playground.py` holds it against pydantic-core.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ._accepting import SchemaValidator
from ._errors import (
    ArgsKwargs,
    MultiHostUrl,
    PydanticCustomError,
    PydanticKnownError,
    PydanticOmit,
    PydanticSerializationError,
    PydanticSerializationUnexpectedValue,
    PydanticUndefined,
    PydanticUndefinedType,
    PydanticUseDefault,
    SchemaError,
    Some,
    TzInfo,
    Url,
    ValidationError,
)
from ._writing import SchemaSerializer, to_json, to_jsonable_python
from ._writing import from_json as from_json

__all__ = [
    "ArgsKwargs",
    "MultiHostUrl",
    "PydanticCustomError",
    "PydanticKnownError",
    "PydanticOmit",
    "PydanticSerializationError",
    "PydanticSerializationUnexpectedValue",
    "PydanticUndefined",
    "PydanticUndefinedType",
    "PydanticUseDefault",
    "SchemaError",
    "SchemaSerializer",
    "SchemaValidator",
    "Some",
    "TzInfo",
    "Url",
    "ValidationError",
    "to_json",
    "to_jsonable_python",
]
__version__ = "VERSION"  # of the pydantic-core in whose place it stands


class _MissingDefinition(LookupError):  # noqa: N818
    """A reference to a schema that is not there."""

    def __init__(self, schema_reference: str) -> None:
        self.schema_reference = schema_reference


def _gathered(schema: Any, definitions: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Which definitions a schema refers to, and how if only once; unions to be tagged later."""
    found: dict[str, Any] = {}
    deferred: list[Any] = []

    def walk(one: Any) -> None:
        if isinstance(one, list | tuple):
            for each in one:
                walk(each)
        if not isinstance(one, dict):
            return
        if one.get("type") == "definition-ref" and "schema_ref" in one:
            name = one["schema_ref"]
            if name in found:
                found[name] = None
                return
            if name not in definitions:
                raise _MissingDefinition(name)
            found[name] = one
            walk(definitions[name])
        for key, each in one.items():
            if key not in ("metadata", "default", "expected", "function", "cls", "config"):
                walk(each)
        if "pydantic_internal_union_discriminator" in (one.get("metadata") or {}):
            deferred.append(one)

    walk(schema)
    return found, deferred


_schema_gather = SimpleNamespace(
    MissingDefinitionError=_MissingDefinition, gather_schemas_for_cleaning=_gathered
)
