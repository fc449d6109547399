"""What schemas accept, and what becomes of it."""

import json
import math
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

from ._errors import (
    _MESSAGES,
    PydanticCustomError,
    PydanticUseDefault,
    SchemaError,
    Some,
    ValidationError,
    _Bad,
    _bad,
)


class _Run(SimpleNamespace):
    """One validation: its mode, whether strict, context, and what of the model is known so far."""


Check = Callable[[Any, _Run], Any]


class SchemaValidator:
    """What a schema accepts, and what becomes of it."""

    def __init__(
        self, schema: Mapping[str, Any], config: Mapping[str, Any] | None = None, *_: Any, **__: Any
    ) -> None:
        self._definitions: dict[str, Check] = {}
        self._check = self._made(schema, dict(config or {}))
        self.title = _title(schema, config or {})

    def validate_python(
        self,
        value: Any,
        *,
        strict: bool | None = None,
        context: Any = None,
        self_instance: Any = None,
        **_: Any,
    ) -> Any:
        return self._validated(value, "python", strict, context, self_instance)

    def validate_json(
        self,
        text: str | bytes,
        *,
        strict: bool | None = None,
        context: Any = None,
        self_instance: Any = None,
        **_: Any,
    ) -> Any:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ValidationError(
                self.title, _bad("json_invalid", text, error=str(error)).errors
            ) from None
        return self._validated(value, "json", strict, context, self_instance)

    def isinstance_python(self, value: Any, **more: Any) -> bool:
        try:
            self.validate_python(value, **more)
        except ValidationError:
            return False
        return True

    def get_default_value(self, *, strict: bool | None = None, context: Any = None) -> Some | None:
        return None

    def _validated(self, value: Any, mode: str, strict: bool | None, context: Any, own: Any) -> Any:
        run = _Run(
            mode=mode, strict=strict, context=context, own=own, data={}, field=None, config=None
        )
        try:
            return self._check(value, run)
        except _Bad as bad:
            raise ValidationError(self.title, bad.errors) from None

    def _made(self, schema: Mapping[str, Any], config: dict[str, Any]) -> Check:
        maker = getattr(self, "of_" + schema["type"].replace("-", "_"), None)
        if maker is None:
            raise SchemaError(f"no schema of type {schema['type']!r} here")
        check: Check = maker(schema, config)
        if "ref" in schema:
            self._definitions[schema["ref"]] = check
        return check

    def _strict(
        self, schema: Mapping[str, Any], config: Mapping[str, Any]
    ) -> Callable[[_Run], bool]:
        own = schema.get("strict", config.get("strict", False))
        return lambda run: own if run.strict is None else run.strict

    # --- kinds of schemas

    def of_any(self, schema: Any, config: Any) -> Check:
        return lambda value, run: value

    def of_none(self, schema: Any, config: Any) -> Check:
        def check(value: Any, run: _Run) -> None:
            if value is not None:
                raise _bad("none_required", value)

        return check

    def of_bool(self, schema: Any, config: Any) -> Check:
        strict = self._strict(schema, config)

        def check(value: Any, run: _Run) -> bool:
            if isinstance(value, bool):
                return value
            if not strict(run) and value in (0, 1):
                return bool(value)
            raise _bad("bool_type", value)

        return check

    def of_int(self, schema: Any, config: Any) -> Check:
        strict = self._strict(schema, config)
        bounds = _bounds(schema)

        def check(value: Any, run: _Run) -> int:
            if isinstance(value, bool) or not isinstance(value, int):
                if strict(run) or not (isinstance(value, float) and value.is_integer()):
                    raise _bad("int_type", value)
                value = int(value)
            bounds(value, value)
            return value if type(value) is int else int(value)

        return check

    def of_float(self, schema: Any, config: Any) -> Check:
        strict = self._strict(schema, config)
        bounds = _bounds(schema)
        infinite = schema.get("allow_inf_nan", config.get("allow_inf_nan", True))

        def check(value: Any, run: _Run) -> float:
            if isinstance(value, bool) or not isinstance(value, int | float):
                try:
                    if strict(run) or isinstance(value, bool):
                        raise ValueError
                    found = float(value)
                except (TypeError, ValueError):
                    raise _bad("float_type", value) from None
            else:
                found = float(value)
            if not infinite and not math.isfinite(found):
                raise _bad("finite_number", value)
            bounds(found, value)
            return found

        return check

    def of_str(self, schema: Any, config: Any) -> Check:
        pattern = schema.get("pattern")
        form = re.compile(pattern) if pattern else None
        least, most = schema.get("min_length"), schema.get("max_length")

        def check(value: Any, run: _Run) -> str:
            if not isinstance(value, str):
                raise _bad("string_type", value)
            text = str(value)
            if least is not None and len(text) < least:
                raise _bad(
                    "string_too_short",
                    value,
                    min_length=least,
                    message=f"String should have at least {least} character{'s' * (least != 1)}",
                )
            if most is not None and len(text) > most:
                raise _bad(
                    "string_too_long",
                    value,
                    max_length=most,
                    message=f"String should have at most {most} character{'s' * (most != 1)}",
                )
            if form and not form.search(text):
                raise _bad("string_pattern_mismatch", value, pattern=pattern)
            return text

        return check

    def of_literal(self, schema: Any, config: Any) -> Check:
        expected = schema["expected"]
        names = [repr(one.value if hasattr(one, "value") else one) for one in expected]
        told = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))

        def check(value: Any, run: _Run) -> Any:
            for one in expected:
                if type(one) is type(value) and one == value:
                    return one
                if run.mode == "json" and hasattr(one, "value") and one.value == value:
                    return one
            raise _bad("literal_error", value, expected=told)

        return check

    def of_nullable(self, schema: Any, config: Any) -> Check:
        inner = self._made(schema["schema"], config)
        return lambda value, run: None if value is None else inner(value, run)

    def of_default(self, schema: Any, config: Any) -> Check:
        return self._made(schema["schema"], config)

    def of_is_instance(self, schema: Any, config: Any) -> Check:
        cls = schema["cls"]

        def check(value: Any, run: _Run) -> Any:
            if not isinstance(value, cls):
                raise _bad(
                    "is_instance_of", value, **{"class": schema.get("cls_repr", cls.__name__)}
                )
            return value

        return check

    def of_definitions(self, schema: Any, config: Any) -> Check:
        for one in schema["definitions"]:
            self._made(one, config)
        return self._made(schema["schema"], config)

    def of_definition_ref(self, schema: Any, config: Any) -> Check:
        name = schema["schema_ref"]
        return lambda value, run: self._definitions[name](value, run)

    def of_list(self, schema: Any, config: Any) -> Check:
        return self._several(schema, config, list, "list_type", "List")

    def of_tuple(self, schema: Any, config: Any) -> Check:
        return self._several(schema, config, tuple, "tuple_type", "Tuple")

    def _several(self, schema: Any, config: Any, kind: type, error: str, name: str) -> Check:
        strict = self._strict(schema, config)
        items = schema.get("items_schema", {"type": "any"})
        fixed = isinstance(items, list)
        checks = [self._made(one, config) for one in (items if fixed else [items])]
        at = schema.get("variadic_item_index") if fixed else 0
        least, most = schema.get("min_length"), schema.get("max_length")

        def check(value: Any, run: _Run) -> Any:
            fits = isinstance(value, kind) or (
                isinstance(value, list | tuple) and (run.mode == "json" or not strict(run))
            )
            if not fits or (run.mode == "json" and not isinstance(value, list)):
                raise _bad(error, value)
            count, errors, found = len(value), [], []
            if at is None:
                each = checks
            else:
                each = [*checks[:at], *[checks[at]] * (count - len(checks) + 1), *checks[at + 1 :]]
            for place, one in enumerate(each):
                if place >= count:
                    errors += _bad("missing", value).inside(place).errors
                    continue
                try:
                    found.append(one(value[place], run))
                except _Bad as bad:
                    errors += bad.inside(place).errors
            if most is not None and count > most:
                raise _long("too_long", name, value, max_length=most, actual_length=count)
            if at is None and count > len(checks):
                raise _long("too_long", name, value, max_length=len(checks), actual_length=count)
            if errors:
                raise _Bad(errors)
            if least is not None and len(found) < least:
                raise _long("too_short", name, value, min_length=least, actual_length=len(found))
            return kind(found)

        return check

    def of_dict(self, schema: Any, config: Any) -> Check:
        keys = self._made(schema.get("keys_schema", {"type": "any"}), config)
        values = self._made(schema.get("values_schema", {"type": "any"}), config)
        least, most = schema.get("min_length"), schema.get("max_length")

        def check(value: Any, run: _Run) -> dict[Any, Any]:
            if not isinstance(value, dict):
                raise _bad("dict_type", value)
            errors, found = [], {}
            for key, one in value.items():
                try:
                    name = keys(key, run)
                except _Bad as bad:
                    errors += bad.inside(key, "[key]").errors
                    name = None
                try:
                    found[name] = values(one, run)
                except _Bad as bad:
                    errors += bad.inside(key).errors
            if errors:
                raise _Bad(errors)
            if least is not None and len(found) < least:
                raise _long(
                    "too_short", "Dictionary", value, min_length=least, actual_length=len(found)
                )
            if most is not None and len(found) > most:
                raise _long(
                    "too_long", "Dictionary", value, max_length=most, actual_length=len(found)
                )
            return found

        return check

    def of_union(self, schema: Any, config: Any) -> Check:
        choices = [one[0] if isinstance(one, tuple) else one for one in schema["choices"]]
        labels = [one[1] if isinstance(one, tuple) else _label(one) for one in schema["choices"]]
        checks = [self._made(one, config) for one in choices]

        def check(value: Any, run: _Run) -> Any:
            errors: list[dict[str, Any]] = []
            for strict in (True, run.strict):  # what fits exactly comes first
                errors = []
                for label, one in zip(labels, checks, strict=True):
                    try:
                        return one(value, _Run(**{**vars(run), "strict": strict}))
                    except _Bad as bad:
                        errors += bad.inside(label).errors
            raise _Bad(errors)

        return check

    def of_tagged_union(self, schema: Any, config: Any) -> Check:
        checks = {tag: self._made(one, config) for tag, one in schema["choices"].items()}
        by, said = schema["discriminator"], schema["discriminator"]
        told = f"{said!r}" if isinstance(said, str) else f"{getattr(said, '__name__', said)}()"

        def check(value: Any, run: _Run) -> Any:
            if callable(by):
                tag = by(value)
            elif isinstance(value, dict):
                tag = value.get(by)
            elif schema.get("from_attributes", True):
                tag = getattr(value, by, None)
                if tag is None and not hasattr(value, "__dict__"):
                    raise _bad("model_attributes_type", value)
            else:
                raise _bad("dict_type", value)
            if tag is None:
                raise _bad("union_tag_not_found", value, discriminator=told)
            if tag not in checks:
                raise _bad(
                    "union_tag_invalid",
                    value,
                    discriminator=told,
                    tag=str(tag),
                    expected_tags=", ".join(f"'{one}'" for one in checks),
                )
            try:
                return checks[tag](value, run)
            except _Bad as bad:
                raise bad.inside(tag) from None

        return check

    def of_function_plain(self, schema: Any, config: Any) -> Check:
        called = _called(schema["function"])
        return lambda value, run: _guarded(called, value, value, run)

    def of_function_after(self, schema: Any, config: Any) -> Check:
        inner, called = self._made(schema["schema"], config), _called(schema["function"])
        return lambda value, run: _guarded(called, value, inner(value, run), run)

    def of_function_before(self, schema: Any, config: Any) -> Check:
        inner, called = self._made(schema["schema"], config), _called(schema["function"])
        return lambda value, run: inner(_guarded(called, value, value, run), run)

    def of_function_wrap(self, schema: Any, config: Any) -> Check:
        inner, info = self._made(schema["schema"], config), schema["function"]

        def check(value: Any, run: _Run) -> Any:
            def handler(one: Any, outer_location: Any = None) -> Any:
                try:
                    return inner(one, run)
                except _Bad as bad:
                    raise ValidationError("wrap", bad.errors) from None

            more = (_info(run),) if info["type"] == "with-info" else ()
            return _guarded(lambda one, _: info["function"](one, handler, *more), value, value, run)

        return check

    def of_model_fields(self, schema: Any, config: Any) -> Check:
        fields = {
            name: (
                self._made(field["schema"], config),
                field["schema"] if field["schema"]["type"] == "default" else None,
            )
            for name, field in schema["fields"].items()
        }
        extra = schema.get("extra_behavior", config.get("extra_fields_behavior", "ignore"))
        name_of = schema.get("model_name", "Model")

        def check(value: Any, run: _Run) -> tuple[dict[str, Any], None, set[str]]:
            if not isinstance(value, Mapping):
                raise _bad("model_type", value, class_name=name_of)
            errors, found, given = [], {}, set()
            outer = run.data, run.field
            try:
                for name, (one, default) in fields.items():
                    run.data, run.field = found, name
                    if name in value:
                        given.add(name)
                        try:
                            found[name] = one(value[name], run)
                        except PydanticUseDefault:
                            found[name] = _default_of(default, found)
                        except _Bad as bad:
                            errors += bad.inside(name).errors
                    elif default is None:
                        errors += _bad("missing", value).inside(name).errors
                    else:
                        found[name] = _default_of(default, found)
                        if default.get("validate_default"):
                            found[name] = one(found[name], run)
            finally:
                run.data, run.field = outer
            if extra == "forbid":
                for name in value:
                    if name not in fields:
                        errors += _bad("extra_forbidden", value[name]).inside(name).errors
            if errors:
                raise _Bad(errors)
            return found, None, given

        return check

    def of_model(self, schema: Any, config: Any) -> Check:
        own = {**(schema.get("config") or {})}
        inner, cls = self._made(schema["schema"], own), schema["cls"]
        after = schema.get("post_init")

        def check(value: Any, run: _Run) -> Any:
            made, run.own = run.own, None
            if made is None and isinstance(value, cls):
                return value
            outer, run.config = run.config, own
            try:
                fields, more, given = inner(value, run)
            finally:
                run.config = outer
            made = cls.__new__(cls) if made is None else made
            object.__setattr__(made, "__dict__", fields)
            object.__setattr__(made, "__pydantic_extra__", more)
            object.__setattr__(made, "__pydantic_fields_set__", given)
            object.__setattr__(made, "__pydantic_private__", None)
            if after:
                _guarded(lambda _, __: getattr(made, after)(run.context), value, value, run)
            return made

        return check


def _title(schema: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    while schema["type"] in (
        "function-after",
        "function-before",
        "function-wrap",
        "definitions",
        "default",
        "nullable",
    ):
        schema = schema["schema"]
    if schema["type"] == "model":
        return str((schema.get("config") or {}).get("title") or schema["cls"].__name__)
    return str(config.get("title") or schema["type"])


def _label(schema: Mapping[str, Any]) -> str:
    return schema["cls"].__name__ if schema["type"] == "model" else str(schema["type"])


def _long(kind: str, name: str, value: Any, **context: int) -> _Bad:
    bound = next(iter(context.values()))
    items = "item" if bound == 1 else "items"
    text = _MESSAGES[kind].format(field_type=name, items=items, **context)
    return _bad(kind, value, text, field_type=name, **context)


def _bounds(schema: Mapping[str, Any]) -> Callable[[Any, Any], None]:
    known = {
        "le": ("less_than_equal", lambda a, b: a <= b),
        "lt": ("less_than", lambda a, b: a < b),
        "ge": ("greater_than_equal", lambda a, b: a >= b),
        "gt": ("greater_than", lambda a, b: a > b),
    }
    bounds = [(key, *known[key], schema[key]) for key in known if key in schema]

    def check(found: Any, value: Any) -> None:
        for key, kind, holds, bound in bounds:
            if not holds(found, bound):
                text = _MESSAGES[kind].format(**{key: int(bound) if bound == int(bound) else bound})
                raise _bad(kind, value, text, **{key: bound})

    return check


def _info(run: _Run) -> SimpleNamespace:
    return SimpleNamespace(
        mode=run.mode, context=run.context, data=run.data, field_name=run.field, config=run.config
    )


def _called(function: Mapping[str, Any]) -> Callable[[Any, _Run], Any]:
    act = function["function"]
    if function["type"] == "no-info":
        return lambda value, run: act(value)
    return lambda value, run: act(value, _info(run))


def _guarded(act: Callable[[Any, _Run], Any], value: Any, given: Any, run: _Run) -> Any:
    """What a function makes of it; what it raises is an error of the value."""
    try:
        return act(given, run)
    except ValidationError as error:
        raise _Bad(error._errors) from None
    except PydanticCustomError as error:
        raise _bad(error.type, value, error.message(), **(error.context or {})) from None
    except (ValueError, AssertionError) as error:
        kind = "assertion_error" if isinstance(error, AssertionError) else "value_error"
        raise _bad(kind, value, error=error) from None


def _default_of(schema: Mapping[str, Any], data: dict[str, Any]) -> Any:
    if "default_factory" in schema:
        takes = schema.get("default_factory_takes_data")
        return schema["default_factory"](data) if takes else schema["default_factory"]()
    value = schema["default"]
    return deepcopy(value) if isinstance(value, list | dict | set) else value
