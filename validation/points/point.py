"""Test points of closed forms, as files hold them: read and checked."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from validation.points import (
    collectives,
    descent,
    goodput,
    order_statistics,
    overlap,
    servers,
    staleness,
)
from validation.points.estimate import FAMILIES
from validation.points.parameters import WrongParametersError, checked
from validation.references import REFERENCES

# Those that enter the families that are simulated.
MEASURES: Final = (collectives, descent, goodput, order_statistics, overlap, servers, staleness)

_TEXTS: Final = ("id", "family", "quantity", "unit", "tolerance_kind", "citation")
_KINDS: Final = ("sim", "det", "num", "asy")
_LARGEST_FILE: Final = 2**24
_MOST_PROBLEMS: Final = 20


class PointFileError(ValueError):
    """A file that holds no points, or points that make no sense; a line for each problem."""


class Point(NamedTuple):
    """One test point. `expected`: by name, "" where it is a single number; `also`: more of them."""

    id: str
    family: str
    quantity: str
    unit: str
    kind: str
    source: str
    parameters: Mapping[str, Any]
    expected: Mapping[str, float]
    also: Mapping[str, float]


def bundled_points() -> tuple[Path, ...]:
    """The points that varsim is held against: closed forms, and goodput among failures."""
    return REFERENCES / "closed_forms.json", REFERENCES / "goodput.json"


def read_points(path: Path) -> list[Point]:
    """All points of a file. Raises PointFileError, a line for each problem."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise PointFileError(f"{path}: larger than {_LARGEST_FILE:,} bytes")
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PointFileError(f"{path}: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PointFileError(f"{path}: no JSON: {error}") from None
    if isinstance(entries, dict) and entries.get("schema") == 1:
        entries = entries.get("points")
    if not isinstance(entries, list) or not entries:
        raise PointFileError(f"{path}: must be a list of points, one at least")
    points, problems = [], []
    names: set[str] = set()
    for number, entry in enumerate(entries, 1):
        wrong = list(_problems(entry))
        where = f"{path}: point {number}"
        if not wrong:
            where += f" ({entry['id']})"
            if entry["id"] in names:
                wrong = ["its id is that of another point"]
        if wrong:
            problems += [f"{where}: {problem}" for problem in wrong]
        else:
            names.add(entry["id"])
            points.append(_point(entry))
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        rest = [f"{path}: and {more} problems more"] if more > 0 else []
        raise PointFileError("\n".join([*problems[:_MOST_PROBLEMS], *rest]))
    return points


def _problems(entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield "is no object"
        return
    for key in _TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            yield f"{key} must be a text"
    if isinstance(entry.get("tolerance_kind"), str) and entry["tolerance_kind"] not in _KINDS:
        yield f"tolerance_kind must be one of {', '.join(_KINDS)}"
    expected = entry.get("expected")
    numbers = expected if isinstance(expected, list) else [expected]
    if not numbers or not all(map(_is_number, numbers)):
        yield "expected must be a number, or a list of numbers"
    elif isinstance(expected, list) and len(_names(str(entry.get("quantity")))) != len(expected):
        yield f"expected has {len(expected)} numbers, quantity names another number of them"
    if not isinstance(entry.get("also", {}), dict):
        yield "also must be an object"
    parameters = entry.get("parameters")
    if not isinstance(parameters, dict):
        yield "parameters must be an object"
    elif measure := FAMILIES.get(str(entry.get("family"))):
        try:
            checked(measure, parameters)
        except WrongParametersError as error:
            yield from str(error).splitlines()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _point(entry: Mapping[str, Any]) -> Point:
    expected = entry["expected"]
    if isinstance(expected, list):
        main = dict(zip(_names(entry["quantity"]), map(float, expected), strict=True))
    else:
        main = {"": float(expected)}
    measure, parameters = FAMILIES.get(entry["family"]), entry["parameters"]
    if measure is not None:
        parameters = checked(measure, parameters)
    return Point(
        entry["id"],
        entry["family"],
        entry["quantity"],
        entry["unit"],
        entry["tolerance_kind"],
        entry["citation"],
        parameters,
        main,
        dict(_also(entry.get("also", {}))),
    )


def _names(quantity: str) -> list[str]:
    """Of `[a, b]`."""
    return [name.strip() for name in quantity.strip("[] ").split(",")]


def _also(also: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in also.items():
        if _is_number(value):
            yield name, float(value)
        elif isinstance(value, dict):
            yield from _also({f"{name}.{key}": one for key, one in value.items()})
        elif isinstance(value, list):
            for index, one in enumerate(value):
                if _is_number(one):
                    yield f"{name}[{index}]", float(one)
