"""A sweep as one page to explore: sliders, and all that was simulated at each of its points."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from varsim.report.charts.looks import looks
from varsim.report.charts.timeline import content
from varsim.report.markup import element
from varsim.report.notes import line
from varsim.report.page import document
from varsim.report.told import Chart, Column, Number, Report
from varsim.report.wording import shown
from varsim.scenario.space import Point, Sweep
from varsim.study.result import Result

MOST_AXES: Final = 4
MOST_POINTS: Final = 200
MOST_BYTES: Final = 3_000_000
_MOST_COLUMNS: Final = 5
_MOST_WORKERS: Final = 8  # whose timeline is kept for each point
_MOST_OF_A_CURVE: Final = 30  # places of it
_SPANS: Final = 3  # numbers of a span
_SENDS: Final = 4


# At the head of the file: by this it may be replaced.
MARK: Final = 'content="varsim explore '


class Explored(NamedTuple):
    """A point of a sweep, what came of it, and what is told of that."""

    point: Point
    result: Result[Any]
    report: Report


def explorable(sweep: Sweep) -> str:
    """Why a sweep cannot be explored by sliders; empty where it can."""
    axes, points = len(sweep.groups), len(sweep.points)
    if axes > MOST_AXES:
        return f"{axes} axes; a page has sliders for {MOST_AXES}"
    if points > MOST_POINTS:
        return f"{points:,} points; a page holds {MOST_POINTS}"
    return ""


def page(sweep: Sweep, explored: Sequence[Explored], question: str, *, bet: bool = False) -> str:
    """The page as HTML; `bet`: what came out is hidden until the reader has made a bet."""
    first = explored[0].report
    columns = _columns([one.report for one in explored])
    played = [content(one.result) for one in explored]
    axes = _axes(sweep)
    found = {
        "axes": axes,
        "bet": bet,
        "names": list(first.families),
        "colors": [
            f"var(--c{one.color[1:]},{one.color})" for one in looks(first.families).values()
        ],
        "columns": [
            {"head": head, "most": _most(key, explored) if bar else 0}
            for (key, head), bar in columns.items()
        ],
        "loss": _frame(explored),
        "played": _common(played),
        "points": {
            _place(sweep, axes, one.point): _told(one, list(columns), own)
            for one, own in zip(explored, played, strict=True)
        },
    }
    main = [
        element("div", id="explore", class_="explored"),
        element("script", _packed(found), type="text/plain", id="explore-data"),
        element("noscript", element("p", "The sliders need JavaScript.")),
    ]
    asked = bet and bool(question)
    said = question if asked else " · ".join(filter(None, (sweep.name, question)))
    heading = element("h1", said, class_="first" if asked else None)
    made = f"Made by varsim {first.provenance['varsim']}. This page is one file, without a network."
    body = [element("header", heading), element("main", *main), element("footer", made)]
    return document(first, "sheet", body, ["shared", "player", "explore"], by="varsim explore")


def _packed(found: Mapping[str, Any]) -> str:
    """Data of a page, compressed, as text: the same bytes for the same data."""
    text = json.dumps(found, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _axes(sweep: Sweep) -> list[dict[str, Any]]:
    """A slider for each quantity that is varied: its short name, its values as written."""
    firsts = [sweep.quantities[index] for index in sweep.groups]
    ends = [one.path.rpartition(".")[2] for one in firsts]
    found = []
    for index, one, end in zip(sweep.groups, firsts, ends, strict=True):
        name = end if ends.count(end) == 1 else one.path
        texts = dict.fromkeys(point.values[index].text for point in sweep.points)
        found.append({"name": name, "title": _title(one.path), "texts": list(texts), "at": 0})
    return found


def _title(path: str) -> str:
    """What a slider is of: `slow workers: factor` of `cluster.slow_workers.0.factor`."""
    _, *parts = [part for part in ("", *path.split(".")) if not part.isdigit()]
    return ": ".join(parts[1:][-2:] or parts).replace("_", " ")


def _place(sweep: Sweep, axes: Sequence[Mapping[str, Any]], point: Point) -> str:
    """Where a point is on each axis."""
    texts = (point.values[index].text for index in sweep.groups)
    places = (axis["texts"].index(text) for axis, text in zip(axes, texts, strict=True))
    return " ".join(map(str, places))


def _columns(reports: Sequence[Report]) -> dict[tuple[str, str], bool]:
    """The columns that are read first, anywhere, and whether each is a bar."""
    found: dict[tuple[str, str], bool] = {}
    for report in reports:
        for one in report.table.columns:
            if not one.detail and any(isinstance(cell, Number) for cell in one.cells):
                found[one.key, one.head] = found.get((one.key, one.head), False) or one.bar
    return dict(list(found.items())[:_MOST_COLUMNS])


def _column(report: Report, key: str) -> Column | None:
    return next((one for one in report.table.columns if one.key == key), None)


def _most(key: str, explored: Sequence[Explored]) -> float:
    """The longest bar of a column: bars of all points have one scale."""
    found = (_column(one.report, key) for one in explored)
    cells = (cell for column in found if column for cell in column.cells)
    known = (cell.mean for cell in cells if isinstance(cell, Number) and cell.mean > 0)
    return max(known, default=0)


def _common(played: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all timelines share: the words of rows, and the key of all that is in any of them."""
    phases = [
        one | {"seen": any(of["phases"][place]["seen"] for of in played)}
        for place, one in enumerate(played[0]["phases"])
    ]
    marks = list(dict.fromkeys(mark for of in played for mark in of["marks"]))
    words = {name: played[0][name] for name in ("outcomes", "gradient")}
    return {**words, "phases": phases, "marks": marks, "cut": ""}


def _told(
    one: Explored, columns: Sequence[tuple[str, str]], played: Mapping[str, Any]
) -> dict[str, Any]:
    """What the page shows of a point."""
    report, names = one.report, list(one.report.families)
    rows = {name: row for row, name in enumerate(report.table.rows)}
    told = []
    for name in names:
        row = rows.get(name)
        cells = [
            None if row is None or (column := _column(report, key)) is None else column.cells[row]
            for key, _ in columns
        ]
        told.append(
            {
                "texts": ["-" if cell is None else shown(cell) for cell in cells],
                "values": [
                    cell.mean if isinstance(cell, Number) and cell.mean == cell.mean else None
                    for cell in cells
                ],
                "best": row is not None and row < report.table.best,
            }
        )
    return {
        "headline": " ".join(map(line, report.headline)),
        "rows": told,
        "loss": _curves(report, names),
        "played": _played(played),
    }


def _loss(report: Report) -> Chart | None:
    return next((one for one in report.charts if one.name == "loss"), None)


def _curves(report: Report, names: Sequence[str]) -> list[list[list[float]]]:
    """The loss of each strategy over time, at a few places."""
    chart = _loss(report)
    if chart is None:
        return []
    found = []
    for name in names:
        own = [
            [float(f"{row['x']:.4g}"), float(f"{row['mean']:.4g}")]
            for row in chart.rows()
            if row[chart.by] == name and row["mean"] is not None and row["mean"] == row["mean"]
        ]
        step = max(1, -(-len(own) // _MOST_OF_A_CURVE))
        found.append(own[::step] + (own[-1:] if (len(own) - 1) % step else []))
    return found


def _frame(explored: Sequence[Explored]) -> dict[str, Any] | None:
    """The axes of all curves; None where there is no loss."""
    curves = [
        curve
        for one in explored
        for curve in _curves(one.report, list(one.report.families))
        if curve
    ]
    if not curves:
        return None
    ends = max(curve[-1][0] for curve in curves)
    # A loss that grows beyond all bounds would leave nothing to see of the others.
    high = 1.05 * max(curve[0][1] for curve in curves)
    return {"head": "Loss over simulated time", "x": ends, "y": high, "unit": "s"}


def _played(played: Mapping[str, Any]) -> dict[str, Any]:
    """The timeline of a point: its window, of a few workers."""
    end = min(played["window"], played["end"])
    strategies = []
    for one in played["strategies"]:
        workers = one["workers"][:_MOST_WORKERS]
        ranks = {worker["rank"] for worker in workers}
        strategies.append(
            one
            | {
                "workers": [
                    worker
                    | {
                        "spans": _until(worker["spans"], _SPANS, end),
                        "sends": _until(worker["sends"], _SENDS, end),
                    }
                    for worker in workers
                ],
                "gradients": [row for row in one["gradients"] if row[0] in ranks and row[2] < end],
                "updates": [moment for moment in one["updates"] if moment <= end],
                "loss": [],
            }
        )
    return {"end": end, "window": end, "strategies": strategies}


def _until(flat: Sequence[int], size: int, end: int) -> list[int]:
    """The spans that begin before a moment; each begins where the one before has ended."""
    kept: list[int] = []
    start = 0
    for at in range(0, len(flat), size):
        row = flat[at : at + size]
        if (row[1] if size == _SENDS else start) >= end:
            break
        start = row[-2]
        kept += row
    return kept
