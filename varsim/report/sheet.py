"""The page of a report: the answer, a table with bars, notes; the timeline; curves; details."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from varsim.report.charts.looks import DARK, PARTS, PHASES, looks
from varsim.report.notes import line
from varsim.report.page import PAGES, PROVENANCE, json_text, rendered, scripts
from varsim.report.report import background
from varsim.report.told import Cell, Chart, Number, Report, Shares
from varsim.report.wording import shown

if TYPE_CHECKING:
    from markupsafe import Markup

_MARKS: Final = "¹²³"
# Colours of what workers do, in parts of their time.
ACTIVITIES: Final = {name: f"light-dark({one.light},{one.dark})" for name, one in PARTS.items()}
_ABOUT: Final = {
    "loss": "Means over the replications, bands their 95 % intervals. A rising curve means that "
    "the learning rate is too large there.",
}
_WHOLE: Final = 3  # columns that narrow screens show, too


def page(report: Report, files: Mapping[str, str]) -> str:
    """The report as HTML; `files` lie beside the page."""
    columns, alike = report.table.brief()
    split = [one for one in report.table.columns if isinstance(one.cells[0], Shares)]
    at = 2 if len(columns) > 1 else 1
    columns = [*columns[:at], *split, *columns[at:]]
    seen = {name for one in split for cell in one.cells for name, _ in _parts(cell)}
    question = report.question.partition("\n")[0]
    content = {
        "report": report,
        "asked": question,
        "background": background(report.question),
        "sentences": [line(note) for note in report.headline],
        "columns": columns,
        "alike": alike,
        "whole": range(min(_WHOLE, len(columns))),
        "marks": {note.code: _MARKS[at] for at, note in enumerate(report.notes[:3])},
        "key": {name: one.said for name, one in PARTS.items() if name in seen},
        "activities": ACTIVITIES,
        "meanings": report.meanings,
        "charts": [_chart(report, one) for one in _grouped(report.charts)],
        "played": None if report.played is None else json_text(_opened(report)),
        "files": files,
        "provenance_names": PROVENANCE,
        "scripts": scripts(),
        "colors": _colors(report),
        "dark_colors": DARK,
        "phases": PHASES,
    }
    filters: dict[str, Callable[..., Any]] = {
        "text": shown,
        "line": line,
        "width": _width,
        "sorted_by": _value,
    }
    return rendered("sheet.html.j2", content, filters=filters)


def write(report: Report, directory: Path) -> None:
    """Write the page of a report into an existing directory."""
    there = {name: about for name, about in report.files.items() if (directory / name).exists()}
    text = page(report, there)
    (directory / PAGES[report.kind]).write_text(text, encoding="utf-8", newline="\n")


def _opened(report: Report) -> dict[str, Any]:
    """The data of the timeline, at first with the winner and the baseline only."""
    assert report.played is not None
    return report.played() | {"open": [report.table.rows[0], next(iter(report.families))]}


def _colors(report: Report) -> dict[str, str]:
    look = looks(report.families)
    return {name: f"var(--c{one.color[1:]},{one.color})" for name, one in look.items()}


def _grouped(charts: Sequence[Chart]) -> list[list[Chart]]:
    """Charts of the same name are views of one."""
    found: dict[str, list[Chart]] = {}
    for one in charts:
        found.setdefault(one.name, []).append(one)
    return list(found.values())


def _chart(report: Report, views: Sequence[Chart]) -> tuple[str, str, str, "Markup"]:
    """Its name, its heading, how to read it, and the data of the script (see chart.js)."""
    first, colors = views[0], _colors(report)
    names = list(dict.fromkeys(name for one in views for name in one.data[one.by]))
    series = [
        {"name": name, "color": colors[name], "views": [_series(one, name) for one in views]}
        for name in names
    ]
    axes = [{"x": one.x.partition(" (")[0], "unit": "s" if "(s)" in one.x else ""} for one in views]
    content = {"y": first.y, "views": axes, "series": series, "target": first.target}
    return first.name, first.y.capitalize(), _ABOUT.get(first.name, ""), json_text(content)


def _series(chart: Chart, name: str) -> dict[str, Any]:
    rows = [at for at, own in enumerate(chart.data[chart.by]) if own == name]
    picked = {
        key: [float(f"{chart.data[key][at]:.5g}") for at in rows]
        for key in ("x", "mean", "low", "high")
    }
    spread = any(low < high for low, high in zip(picked["low"], picked["high"], strict=True))
    if not spread or not all(map(math.isfinite, picked["low"])):
        picked = {"x": picked["x"], "mean": picked["mean"]}
    return picked


def _parts(cell: Cell) -> Sequence[tuple[str, float]]:
    return cell.parts if isinstance(cell, Shares) else ()


def _value(cell: Cell) -> str:
    """What a column is sorted by."""
    if isinstance(cell, Shares):
        return f"{dict(cell.parts).get('compute', 0.0):.6g}"
    return f"{cell.mean:.6g}" if isinstance(cell, Number) and math.isfinite(cell.mean) else ""


def _width(cell: Cell, among: Sequence[Cell]) -> int:
    """Percent of the longest bar."""
    known = [one.mean for one in among if isinstance(one, Number) and math.isfinite(one.mean)]
    most = max(known, default=0.0)
    if not isinstance(cell, Number) or not math.isfinite(cell.mean) or most <= 0:
        return 0
    return max(0, min(100, round(100 * cell.mean / most)))
