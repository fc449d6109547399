"""What is refused, and why, in pydantic-core's words, and what stands for no value."""

from collections.abc import Mapping
from typing import Any


class PydanticUndefinedType:
    """The type of the one thing that stands for no value."""

    def __new__(cls) -> "PydanticUndefinedType":
        return _UNDEFINED

    def __repr__(self) -> str:
        return "PydanticUndefined"

    def __copy__(self) -> "PydanticUndefinedType":
        return self

    def __deepcopy__(self, memo: object) -> "PydanticUndefinedType":
        return self

    def __reduce__(self) -> str:
        return "PydanticUndefined"


_UNDEFINED = object.__new__(PydanticUndefinedType)
PydanticUndefined = _UNDEFINED


class SchemaError(Exception):
    """A schema that is not known."""


class PydanticOmit(Exception):  # noqa: N818
    """Leave this out."""


class PydanticUseDefault(Exception):  # noqa: N818
    """Take the default."""


class PydanticSerializationError(ValueError):
    """Something that cannot be written."""


class PydanticSerializationUnexpectedValue(ValueError):  # noqa: N818
    """Something that is not written as its schema says."""


class PydanticCustomError(ValueError):
    """An error with a type and a message of one's own."""

    def __init__(self, type: str, message: str, context: dict[str, Any] | None = None) -> None:
        self.type, self.message_template, self.context = type, message, context

    def message(self) -> str:
        return self.message_template.format(**(self.context or {}))

    def __str__(self) -> str:
        return self.message()


class PydanticKnownError(PydanticCustomError):
    """An error of a type that is known."""

    def __init__(self, type: str, context: dict[str, Any] | None = None) -> None:
        super().__init__(type, _MESSAGES[type], context)


class Some:
    """A value that is there, even if it is None."""

    __match_args__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class ArgsKwargs:
    """Arguments of a call; not used here."""


class MultiHostUrl:
    """Not used here."""


class Url:
    """Not used here."""


class TzInfo:
    """Not used here."""


_MESSAGES = {
    "missing": "Field required",
    "extra_forbidden": "Extra inputs are not permitted",
    "model_type": "Input should be a valid dictionary or instance of {class_name}",
    "int_type": "Input should be a valid integer",
    "int_from_float": "Input should be a valid integer, got a number with a fractional part",
    "float_type": "Input should be a valid number",
    "finite_number": "Input should be a finite number",
    "bool_type": "Input should be a valid boolean",
    "string_type": "Input should be a valid string",
    "string_pattern_mismatch": "String should match pattern '{pattern}'",
    "string_too_short": "String should have at least {min_length} {characters}",
    "string_too_long": "String should have at most {max_length} {characters}",
    "literal_error": "Input should be {expected}",
    "none_required": "Input should be None",
    "dict_type": "Input should be a valid dictionary",
    "tuple_type": "Input should be a valid tuple",
    "list_type": "Input should be a valid list",
    "is_instance_of": "Input should be an instance of {class}",
    "too_short": (
        "{field_type} should have at least {min_length} {items} after validatio"
        "n, not {actual_length}"
    ),
    "too_long": (
        "{field_type} should have at most {max_length} {items} after validation"
        ", not {actual_length}"
    ),
    "greater_than": "Input should be greater than {gt}",
    "greater_than_equal": "Input should be greater than or equal to {ge}",
    "less_than": "Input should be less than {lt}",
    "less_than_equal": "Input should be less than or equal to {le}",
    "union_tag_invalid": (
        "Input tag '{tag}' found using {discriminator} does not match any of th"
        "e expected tags: {expected_tags}"
    ),
    "union_tag_not_found": "Unable to extract tag using discriminator {discriminator}",
    "model_attributes_type": "Input should be a valid dictionary or object to extract fields from",
    "frozen_instance": "Instance is frozen",
    "frozen_field": "Field is frozen",
    "value_error": "Value error, {error}",
    "assertion_error": "Assertion failed, {error}",
    "json_invalid": "Invalid JSON: {error}",
}


class _Bad(Exception):  # noqa: N818
    """What was refused: error after error, each with its place, innermost last."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        self.errors = errors

    def inside(self, *place: Any) -> "_Bad":
        return _Bad([{**one, "loc": (*place, *one["loc"])} for one in self.errors])


def _bad(type: str, value: Any, message: str = "", **context: Any) -> _Bad:
    text = message or _MESSAGES[type].format(**context)
    found = {"type": type, "loc": (), "msg": text, "input": value}
    return _Bad([{**found, "ctx": context} if context else found])


class ValidationError(ValueError):
    """Why a value is refused, error by error."""

    def __init__(self, title: str, errors: list[dict[str, Any]]) -> None:
        super().__init__(title)
        self.title, self._errors = title, errors

    @classmethod
    def from_exception_data(
        cls, title: str, line_errors: list[Any], *_: Any, **__: Any
    ) -> "ValidationError":
        return cls(title, [_of_line(one) for one in line_errors])

    def error_count(self) -> int:
        return len(self._errors)

    def errors(
        self, *, include_url: bool = True, include_context: bool = True, include_input: bool = True
    ) -> list[dict[str, Any]]:
        left = ({"ctx"} if not include_context else set()) | (
            {"input"} if not include_input else set()
        )
        return [{k: v for k, v in one.items() if k not in left} for one in self._errors]

    def __str__(self) -> str:
        count = len(self._errors)
        lines = [f"{count} validation error{'s' * (count != 1)} for {self.title}"]
        for one in self._errors:
            place = ".".join(map(str, one["loc"]))
            told = f"  {one['msg']} [type={one['type']}, input_value={one.get('input')!r}, "
            lines += [place] * bool(place)
            lines.append(f"{told}input_type={type(one.get('input')).__name__}]")
        return "\n".join(lines)

    __repr__ = __str__


def _of_line(one: Mapping[str, Any]) -> dict[str, Any]:
    kind, context = one["type"], one.get("ctx") or {}
    if isinstance(kind, PydanticCustomError):
        found = {"type": kind.type, "msg": kind.message()}
        context = kind.context or {}
    else:
        found = {"type": kind, "msg": _MESSAGES[kind].format(**context)}
    found |= {"loc": tuple(one.get("loc", ())), "input": one.get("input")}
    return {**found, "ctx": context} if context else found
