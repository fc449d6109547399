"""Golden tables: rows and columns are compared by name, so that a new metric changes none."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def golden_rows(name: str) -> list[list[str]]:
    """The rows of a golden file."""
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return list(csv.reader(file))


def agree(a: str, b: str) -> bool:
    """Equal as text, or as numbers but for the last digits, which depend on the CPU's kernels."""
    if a == b:
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


def check_rows(found: Sequence[Sequence[str]], name: str) -> None:
    """Every golden row stands in what was found; the key of a row is in its first two columns."""
    by_key: dict[tuple[str, ...], list[Sequence[str]]] = {}
    for row in found:
        by_key.setdefault(tuple(row[:2]), []).append(row)
    expected: dict[tuple[str, ...], list[Sequence[str]]] = {}
    for row in golden_rows(name):
        expected.setdefault(tuple(row[:2]), []).append(row)
    assert expected
    for key, rows in expected.items():
        assert len(by_key.get(key, [])) == len(rows), f"{key} is gone"
        for row, other in zip(by_key[key], rows, strict=True):
            same = all(map(agree, row, other)) and len(row) == len(other)
            assert same, f"{row} is not {other}"


def check_columns(found: Sequence[Sequence[str]], name: str) -> None:
    """Every golden column, by its heading, stands in what was found, row by row."""
    heading, *expected = golden_rows(name)
    there, *rows = found
    assert len(rows) == len(expected) > 4
    for column, title in enumerate(heading):
        assert title in there, f"the column {title!r} is gone"
        own = there.index(title)
        for number, (row, other) in enumerate(zip(rows, expected, strict=True)):
            said = f"{title} of row {number} is {row[own]}, not the golden {other[column]}"
            assert agree(row[own], other[column]), said
