"""The parameters of closed forms: types of the signatures of measures, and where formulas hold.

A file is checked against the signatures by pydantic; where a formula does not hold a measure says.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, get_type_hints

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
)
from pydantic_core import PydanticCustomError

from validation.finding import NotRunError, Verdict

_MOST_STEPS: Final = 2_000_000
_TOGETHER: Final = "together"
_NUMBERS: Final = "must be a list of numbers"
# What pydantic finds, in words: of types, before those of numbers, before those of several.
_TYPES: Final = {
    "missing": "is missing",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "int_type": "must be a whole number",
    "string_type": "must be a text",
    "literal_error": "must be a text",
    "list_type": _NUMBERS,
    "too_short": _NUMBERS,
}
_RANGES: Final = {
    "greater_than": "must be above 0, not {:g}",
    "greater_than_equal": "must be 0 or more, not {:g}",
}


def _whole(value: Any) -> Any:
    """8.0 is 8; None, which is of no type that is wanted, for what is no whole number from 0 up."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return int(value) if known and math.isfinite(value) and value == int(value) else None


def together(holds: Callable[[Any, Mapping[str, Any]], bool], otherwise: str) -> AfterValidator:
    """What must hold of a parameter and of those before it in the signature."""

    def check(value: Any, info: ValidationInfo) -> Any:
        with suppress(KeyError):  # one of them is wrong by itself
            if not holds(value, info.data):
                raise PydanticCustomError(_TOGETHER, "{otherwise}", {"otherwise": otherwise})
        return value

    return AfterValidator(check)


Number: TypeAlias = Annotated[float, AllowInfNan(False)]
Positive: TypeAlias = Annotated[Number, Field(gt=0)]
NotNegative: TypeAlias = Annotated[Number, Field(ge=0)]
Whole: TypeAlias = Annotated[int, BeforeValidator(_whole)]
Count: TypeAlias = Annotated[Whole, Field(gt=0)]
Positives: TypeAlias = Annotated[list[Positive], Field(min_length=1)]
NotNegatives: TypeAlias = Annotated[list[NotNegative], Field(min_length=1)]
Law: TypeAlias = Literal[
    "exponential", "shifted_exponential", "uniform", "lognormal1", "deterministic"
]
_AT_MOST: Final = "parameters.{} must be at most parameters.{}"
OfN: TypeAlias = Annotated[
    Count, together(lambda k, given: k <= given["n"], _AT_MOST.format("k", "n"))
]
OfP: TypeAlias = Annotated[
    Count, together(lambda k, given: k <= given["P"], _AT_MOST.format("K", "P"))
]


class WrongParametersError(ValueError):
    """Parameters that describe nothing: a line for each problem."""


def checked(measure: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a measure by its signature. Raises WrongParametersError."""
    try:
        made = _model(measure).model_validate(parameters)
    except ValidationError as error:
        raise WrongParametersError("\n".join(_problems(error))) from None
    return {name: getattr(made, name) for name in parameters}


@cache
def _model(measure: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(measure, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if one.default is inspect.Parameter.empty else one.default)
        for name, one in inspect.signature(measure).parameters.items()
    }
    return create_model("Parameters", __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _problems(error: ValidationError) -> list[str]:
    """A line for each parameter, of those problems that come first."""
    unknown, types, ranges, others = list[str](), dict[str, str](), dict[str, str](), list[str]()
    for one in error.errors():
        name, kind, given = f"parameters.{one['loc'][0]}", one["type"], one["input"]
        if kind == "extra_forbidden":
            unknown.append(f"{name}: the family has no such parameter")
        elif kind == _TOGETHER:
            others.append(one["msg"])
        elif kind in _RANGES:
            ranges.setdefault(name, f"{name} {_RANGES[kind].format(given)}")
        elif kind == "literal_error" and isinstance(given, str):
            words = one["ctx"]["expected"].replace(" or ", ", ").replace("'", "")
            others.append(f"{name} must be one of {words}")
        else:
            types[name] = f"{name} {_NUMBERS if len(one['loc']) > 1 else _TYPES[kind]}"
    return [*unknown, *types.values()] or [*ranges.values()] or others


def only_if(holds: bool, otherwise: str) -> None:
    """The formula of a point is for this alone: else it is not run, and says why."""
    if not holds:
        raise NotRunError(Verdict.NOT_RUN, otherwise)


def of_minutes(steps: float) -> None:
    """A point of so many steps of workers, or messages, must be one of minutes, not of hours."""
    only_if(
        steps <= _MOST_STEPS,
        f"more than {_MOST_STEPS:,} steps or messages to simulate, which takes too long",
    )


def for_powers_of_two(p: int, formula: str) -> None:
    """The formula is for such numbers of ranks."""
    only_if(p & (p - 1) == 0, f"{formula} is for p a power of two")


def long_enough(given: Mapping[str, Any]) -> None:
    """Random times that parameters name must be many ns: they do not go in slow motion."""
    times = [given[name] for name in ("xm", "median", "base", "mean") if name in given]
    times += [1 / given[name] for name in ("mu", "rate") if name in given]
    times += [1 / max(given["rates"])] if "rates" in given else []
    times += given.get("times", [])
    shortest = min(times, default=math.inf)
    only_if(shortest >= 1e-6, "times so short that rounding them to whole ns counts")
