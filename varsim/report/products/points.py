"""Tables as charts: every row a point, or the columns of strategies as lines along the rows."""

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from varsim import units
from varsim.report.told import Cell, Chart, Number, Table

# Of quantities as text: what its values are told in, and how many of that are one in SI.
_UNITS: Final = {
    "time": ("s", 1.0),
    "bytes": ("B", 1.0),
    "rate": ("bit/s", 8.0),
    "flops": ("FLOP/s", 1.0),
}


def scatter(
    table: Table,
    x: str,
    y: str,
    front: Collection[int] = (),
    hollow: Collection[int] = (),
    best: Collection[int] = (),
    target: float | None = None,
) -> Chart | None:
    """A point per row of a table, `x` and `y` keys of its columns; None where one is missing.

    `front`: rows that a line joins; `hollow`: rows that miss something; `best`: the answer.
    """
    data: dict[str, Sequence[Any]] = {"who": table.rows}
    heads = {}
    for column in table.columns:
        values, unit = numbers(column.cells)
        if all(value is None for value in values):
            continue
        heads[column.key] = head = titled(column.head, unit)
        data[head] = values
    if x not in heads or y not in heads:
        return None
    whole = range(len(table.rows))
    marks = {"front": front, "hollow": hollow, "ring": best}
    data |= {name: [row in rows for row in whole] for name, rows in marks.items()}
    data |= {"x": data[heads[x]], "mean": data[heads[y]]}
    at = Chart(table.corner, "points", data, heads[x], heads[y], "who", target)
    return at._replace(ring="the answer", hollow="may miss a target")


def along(table: Table, metrics: Mapping[str, str], named: Mapping[str, str]) -> list[Chart]:
    """Lines of strategies along the rows, a view per metric (by its key, how it is called).

    A column's key is its metric and the label of its strategy; the best of a line is marked.
    """
    places, unit = numbers(table.rows)
    across = titled(table.corner.rpartition(" by ")[2], unit)
    found = []
    for metric, head in metrics.items():
        rows = []
        for column in table.columns:
            own, _, label = column.key.partition(" ")
            if own != metric:
                continue
            for x, cell in zip(places, column.cells, strict=True):
                if isinstance(cell, Number) and math.isfinite(cell.mean):
                    rows.append((named[label], x, *_bounds(cell), cell.verdict == "best"))
        if any(row[2] for row in rows):
            names = ("who", "x", "mean", "low", "high", "ring")
            data = dict(zip(names, zip(*rows, strict=True), strict=True))
            found.append(Chart("along", "lines", data, across, head, "who", ring="its best"))
    return found


def titled(head: str, unit: str) -> str:
    """What an axis is called, with its unit."""
    return f"{head} ({unit})" if unit and unit not in head else head


def numbers(cells: Sequence[Cell]) -> tuple[list[float | str | None], str]:
    """Cells as values of an axis, and their unit; texts that are no quantities stay texts."""
    if any(isinstance(cell, Number) for cell in cells):
        known = [cell for cell in cells if isinstance(cell, Number)]
        (unit, *_) = [cell.unit for cell in known]
        values = [_mean(cell) for cell in cells]
        finite = [value if math.isfinite(value) else None for value in values]
        return [*finite], "share" if unit == "part" else unit
    texts = [cell if isinstance(cell, str) and cell not in ("", "-") else None for cell in cells]
    there = [text for text in texts if text is not None]
    for dimension, (unit, often) in {"": ("", 1.0), **_UNITS}.items():
        with suppress(ValueError):
            read = {text: often * _read(text, dimension) for text in there}
            return [None if text is None else read[text] for text in texts], unit
    return list(texts), ""


def _read(text: str, dimension: str) -> float:
    return units.parse(text, dimension) if dimension else float(text)


def _mean(cell: Cell) -> float:
    return cell.mean if isinstance(cell, Number) else math.nan


def _bounds(cell: Number) -> tuple[float, float, float]:
    """Its mean and the ends of its interval."""
    half = cell.half if math.isfinite(cell.half) else 0.0
    return cell.mean, cell.mean - half, cell.mean + half
