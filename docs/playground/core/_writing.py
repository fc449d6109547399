"""How values are written: by their schemas, or by what they are."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ._errors import PydanticSerializationError, PydanticUndefined


class SchemaSerializer:
    """How a value of a schema is written."""

    def __init__(
        self, schema: Mapping[str, Any], config: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> None:
        self._definitions: dict[str, Any] = {}
        self._write = self._made(schema)

    def to_python(self, value: Any, *, mode: str = "python", **how: Any) -> Any:
        return self._write(value, SimpleNamespace(mode=mode, **{**_HOW, **how}))

    def to_json(self, value: Any, *, indent: int | None = None, **how: Any) -> bytes:
        found = self.to_python(value, mode="json", **how)
        marks = (",", ":") if indent is None else (",", ": ")
        return json.dumps(found, indent=indent, separators=marks, ensure_ascii=False).encode()

    def _made(self, schema: Mapping[str, Any]) -> Any:
        write = self._plain(schema)
        own = schema.get("serialization")
        if own:
            write = _by_function(own, write)
        if "ref" in schema:
            self._definitions[schema["ref"]] = write
        return write

    def _plain(self, schema: Mapping[str, Any]) -> Any:
        kind = schema["type"]
        if kind in ("default", "function-after", "function-before", "function-wrap"):
            return self._made(schema["schema"])
        if kind == "nullable":
            there = self._made(schema["schema"])
            return lambda value, how: None if value is None else there(value, how)
        if kind == "definitions":
            for one in schema["definitions"]:
                self._made(one)
            return self._made(schema["schema"])
        if kind == "definition-ref":
            return lambda value, how: self._definitions[schema["schema_ref"]](value, how)
        if kind == "model":
            fields = self._made(schema["schema"])
            return lambda value, how: (
                fields(value, how) if isinstance(value, schema["cls"]) else _inferred(value, how)
            )
        if kind == "model-fields":
            written = {name: self._made(one["schema"]) for name, one in schema["fields"].items()}
            defaults = {
                name: one["schema"].get("default", PydanticUndefined)
                for name, one in schema["fields"].items()
            }
            return lambda value, how: _fields(value, how, written, defaults)
        if kind in ("list", "tuple"):
            items = schema.get("items_schema", {"type": "any"})
            fixed = items if isinstance(items, list) else [items]
            at = schema.get("variadic_item_index", 0 if not isinstance(items, list) else None)
            each = [self._made(one) for one in fixed]

            def several(value: Any, how: Any) -> Any:
                if not isinstance(value, list | tuple):
                    return _inferred(value, how)
                inner = _inner(how)
                by = (
                    each
                    if at is None
                    else [*each[:at], *[each[at]] * (len(value) - len(each) + 1), *each[at + 1 :]]
                )
                found = [one(item, inner) for one, item in zip(by, value, strict=False)]
                return tuple(found) if how.mode == "python" and isinstance(value, tuple) else found

            return several
        if kind == "tagged-union":
            of_tag = {tag: self._made(one) for tag, one in schema["choices"].items()}
            by = schema["discriminator"]

            def tagged(value: Any, how: Any) -> Any:
                tag = by(value) if callable(by) else getattr(value, by, None)
                return of_tag.get(tag, _inferred)(value, how)

            return tagged
        if kind == "union":
            pairs = [one[0] if isinstance(one, tuple) else one for one in schema["choices"]]
            either = [(one, self._made(one)) for one in pairs]

            def first(value: Any, how: Any) -> Any:
                fit = (write for one, write in either if _fits(one, value))
                return next(fit, _inferred)(value, how)

            return first
        if kind == "dict":
            values = self._made(schema.get("values_schema", {"type": "any"}))

            def mapping(value: Any, how: Any) -> Any:
                if not isinstance(value, dict):
                    return _inferred(value, how)
                return {_inferred(key, how): values(one, _inner(how)) for key, one in value.items()}

            return mapping
        return _inferred


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value is of the type that a schema has in the end."""
    while "schema" in schema and schema["type"] != "model":
        schema = schema["schema"]
    kind = schema["type"]
    if kind == "model":
        return isinstance(value, schema["cls"])
    if kind == "literal":
        return value in schema["expected"]
    types = {
        "float": (int, float),
        "int": int,
        "str": str,
        "bool": bool,
        "list": list,
        "tuple": tuple,
        "dict": dict,
    }
    return isinstance(value, types.get(kind, object))


_HOW = {
    "include": None,
    "exclude": None,
    "exclude_none": False,
    "exclude_defaults": False,
    "exclude_unset": False,
    "context": None,
}


def _inner(how: Any) -> Any:
    """How parts are written: what is included or not is said of the whole alone."""
    if how.include is None and how.exclude is None:
        return how
    return SimpleNamespace(**{**vars(how), "include": None, "exclude": None})


def _fields(
    value: Any, how: Any, written: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    found, inner = {}, _inner(how)
    for name, write in written.items():
        one = getattr(value, name) if not isinstance(value, dict) else value[name]
        if how.exclude is not None and name in how.exclude:
            continue
        if how.include is not None and name not in how.include:
            continue
        if how.exclude_none and one is None:
            continue
        if how.exclude_unset and name not in value.__pydantic_fields_set__:
            continue
        if (
            how.exclude_defaults
            and defaults[name] is not PydanticUndefined
            and one == defaults[name]
        ):
            continue
        found[name] = write(one, inner)
    return found


def _by_function(own: Mapping[str, Any], write: Any) -> Any:
    act, when = own["function"], own.get("when_used", "always")

    def by(value: Any, how: Any) -> Any:
        skipped = when.startswith("json") and how.mode != "json"
        if skipped or (when.endswith("unless-none") and value is None):
            return write(value, how)
        info = (SimpleNamespace(mode=how.mode, context=how.context),) if own.get("info_arg") else ()
        if own["type"] == "function-wrap":
            return _inferred(act(value, lambda one: write(one, how), *info), _inner(how))
        return _inferred(act(value, *info), _inner(how))

    return by


def _inferred(value: Any, how: Any) -> Any:
    """A value written by what it is."""
    if hasattr(type(value), "__pydantic_serializer__"):
        written = {k: v for k, v in vars(_inner(how)).items() if k in (*_HOW, "mode")}
        return type(value).__pydantic_serializer__.to_python(value, **written)
    if isinstance(value, dict):
        return {_inferred(key, how): _inferred(one, how) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        found = [_inferred(one, how) for one in value]
        return (
            found
            if how.mode == "json"
            else type(value)(found)
            if type(value) in (list, tuple, set, frozenset)
            else value
        )
    if how.mode == "json" and hasattr(value, "value") and not isinstance(value, int | float | str):
        return value.value
    if how.mode == "json" and isinstance(value, str) and type(value) is not str:
        return str.__str__(getattr(value, "value", value))
    if how.mode == "json" and not isinstance(value, str | int | float | bool | None):
        raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")
    return value


def to_jsonable_python(value: Any, **how: Any) -> Any:
    return _inferred(value, SimpleNamespace(mode="json", **_HOW))


def to_json(value: Any, **how: Any) -> bytes:
    return json.dumps(to_jsonable_python(value), separators=(",", ":")).encode()


def from_json(data: str | bytes, **how: Any) -> Any:
    return json.loads(data)
