"""The page of a report: the answer, a table with bars, notes; the timeline; charts; details."""

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from varsim.core.inert import visible
from varsim.report.charts.looks import DARK, PARTS, PHASES, looks
from varsim.report.files.directory import KINDS
from varsim.report.notes import line
from varsim.report.screen import MOST_NOTES, folded, marked
from varsim.report.told import Cell, Chart, Column, Number, Report, Shares, Table
from varsim.report.wording import shown

if TYPE_CHECKING:
    from markupsafe import Markup


PROVENANCE: Final = {
    "scenario_sha256": "SHA-256 of the scenario",
    "seed": "seed",
    "varsim": "varsim",
    "schema": "version of the scenario schema",
    "engine": "version of the engine's semantics",
    "needs": "needed besides varsim",
    "result_sha256": "SHA-256 of what was simulated",
}
# Colours of what workers do, in parts of their time.
ACTIVITIES: Final = {name: f"light-dark({one.light},{one.dark})" for name, one in PARTS.items()}
_NARROW: Final = 44  # characters of a row that narrow screens show, too
_BAR: Final = 7  # so many characters a bar is long there
_SHADES: Final = 10  # of the cells of a map


def page(report: Report, files: Mapping[str, str], pictures: Mapping[str, str] = {}) -> str:
    """The report as HTML; `files` lie beside the page; `pictures`: URIs by their headings."""
    columns, alike = report.table.brief()
    split = [one for one in report.table.columns if isinstance(one.cells[0], Shares)]
    at = 2 if len(columns) > 1 else 1
    columns = [*columns[:at], *split, *columns[at:]]
    seen = {name for one in split for cell in one.cells for name, _ in _parts(cell)}
    open_tables, closed = report.details[: report.always], report.details[report.always :]
    content = {
        "report": report,
        "asked": report.question.partition("\n")[0],
        "background": list(background(report.question)),
        "sentences": [line(note) for note in report.headline],
        "columns": columns,
        "alike": folded(alike, report.table) if alike else "",
        "whole": _whole(report.table, columns),
        # All numbers of a run are in a table of its own.
        "more": report.kind != "run" and len(columns) < len(report.table.columns),
        "marks": marked(columns, report.notes[:MOST_NOTES]),
        "key": {name: one.said for name, one in PARTS.items() if name in seen},
        "cut": [at for at, one in enumerate(columns) if one in split],
        "charts": drawn(report.charts, _colors(report)),
        "maps": open_tables,
        "folded": _folded([*closed, *report.appendix]),
        "played": None if report.played is None else json_text(_opened(report)),
        "files": files,
        "pictures": pictures,
        "provenance_names": PROVENANCE,
        **_looks(report),
    }
    return rendered("page.html.j2", content, filters=_filters(report.table))


def player(report: Report) -> str:
    """The timeline of a report as a page of its own."""
    assert report.played is not None, "a report with a timeline"
    content = {"title": report.name, "played": json_text(report.played()), **_looks(report)}
    return rendered("player.html.j2", content)


def write(report: Report, directory: Path, beside: Path | None = None) -> None:
    """Write the page of a report into an existing directory.

    `beside`: where files of the report are, too.
    """
    places = (directory, beside or directory)
    there = {
        name: about
        for name, about in report.files.items()
        if any((place / name).exists() for place in places)
    }
    text = page(report, there, dict(_pictures(report, directory)))
    (directory / KINDS[report.kind].page).write_text(text, encoding="utf-8", newline="\n")


def _pictures(report: Report, directory: Path) -> Iterator[tuple[str, str]]:
    """The pictures that stand in the page, as their files say: it loads none."""
    kinds = {".png": "image/png", ".svg": "image/svg+xml"}
    for name, heading in report.embedded.items():
        for end, kind in kinds.items():
            if (path := directory / f"{name}{end}").exists():
                yield heading, f"data:{kind};base64,{b64encode(path.read_bytes()).decode()}"


def _looks(report: Report) -> dict[str, Any]:
    """What every page needs: its scripts and its colours."""
    return {
        "scripts": scripts(),
        "colors": _colors(report),
        "dark_colors": DARK,
        "phases": PHASES,
        "activities": ACTIVITIES,
        "shades": _SHADES,
    }


def _filters(table: Table) -> dict[str, Callable[..., Any]]:
    return {
        "text": shown,
        "line": line,
        "width": lambda cell, column: _width(cell, _beside(table, column)),
        "shade": _shade,
        "won": lambda cell: isinstance(cell, Number) and cell.verdict == "best",
        "sorted_by": _value,
        "id": identity,
        "json": json_text,
    }


def _whole(table: Table, columns: Sequence[Column]) -> list[int]:
    """Which columns a narrow screen shows: as many as have room there, first those with bars."""
    room, found = _NARROW - min(12, max(map(len, table.rows), default=0)), list[int]()
    for at, one in sorted(enumerate(columns), key=lambda pair: not pair[1].bar):
        drawn = isinstance(one.cells[0], Shares)
        # A margin in brackets stands below its number there.
        texts = [
            0 if drawn else max(map(len, re.split(r"\s\(", shown(cell)))) for cell in one.cells
        ]
        words = [len(word) for word in one.head.split()]
        needed = max(*texts, *words, 4) + _BAR * (one.bar or drawn) + 2
        if needed <= room or not found:
            found.append(at)
            room -= needed
    return found


def _opened(report: Report) -> dict[str, Any]:
    """The data of the timeline, at first with the winner and the baseline only."""
    assert report.played is not None
    return report.played() | {"open": [report.table.rows[0], next(iter(report.families))]}


def _colors(report: Report) -> dict[str, str]:
    look = looks(report.families)
    return {name: f"var(--c{one.color[1:]},{one.color})" for name, one in look.items()}


def _folded(tables: Sequence[Table]) -> list[tuple[str, list[tuple[str, Table]]]]:
    """Tables that are folded away, those of one strategy (`async PS: cause`) under its name."""
    found: dict[str, list[tuple[str, Table]]] = {}
    for one in tables:
        whose, _, what = one.corner.rpartition(": ")
        found.setdefault(whose or capital(what), []).append((what if whose else "", one))
    return list(found.items())


def background(question: str) -> Iterator[tuple[str, list[str]]]:
    """What follows its first line: paragraphs, items (each after a dash), commands."""
    for part in question.partition("\n")[2].split("\n\n"):
        text = part.strip("\n")
        if text.startswith("  "):
            yield "pre", [dedent(text)]
            continue
        said, *items = re.split(r"(?:^|\n)- ", text)
        if said.strip():
            yield "p", [" ".join(said.split())]
        if items:
            yield "ul", [" ".join(item.split()) for item in items]


def _parts(cell: Cell) -> Sequence[tuple[str, float]]:
    return cell.parts if isinstance(cell, Shares) else ()


def _value(cell: Cell) -> str:
    """What a column is sorted by."""
    if isinstance(cell, Shares):
        return f"{dict(cell.parts).get('compute', 0.0):.6g}"
    return f"{cell.mean:.6g}" if isinstance(cell, Number) and math.isfinite(cell.mean) else ""


def _known(cells: Sequence[Cell]) -> list[float]:
    return [one.mean for one in cells if isinstance(one, Number) and math.isfinite(one.mean)]


def _beside(table: Table, column: Column) -> list[Cell]:
    """The cells whose bars have the scale of a column: of the same metric of any strategy."""
    metric = column.key.partition(" ")[0]
    same = (one for one in table.columns if one.bar and one.key.partition(" ")[0] == metric)
    return [cell for one in same for cell in one.cells]


def _width(cell: Cell, among: Sequence[Cell]) -> int:
    """Percent of the longest bar."""
    most = max(_known(among), default=0.0)
    if not isinstance(cell, Number) or not math.isfinite(cell.mean) or most <= 0:
        return 0
    return max(0, min(100, round(100 * cell.mean / most)))


def _shade(cell: Cell, table: Table) -> str:
    """The class of a cell of a map, or of one that is a part of something; else none."""
    if not isinstance(cell, Number) or not math.isfinite(cell.mean):
        return ""
    if cell.unit == "part":
        return f"s{max(0, min(_SHADES, round(_SHADES * cell.mean)))}"
    if not table.shaded:
        return ""
    known = _known([one for column in table.columns for one in column.cells])
    low, high = min(known), max(known)
    return f"s{round(_SHADES * (cell.mean - low) / (high - low))}" if high > low else ""


def rendered(
    template: str,
    content: Mapping[str, Any],
    folder: Path | None = None,
    filters: Mapping[str, Callable[..., Any]] = {},
) -> str:
    """A page as HTML, from one of the templates, or from one in a folder that uses them."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [Path(__file__).parent / "templates", *([folder] if folder else [])]
    environment = Environment(  # escapes whatever is put into the page
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return _sealed(environment.get_template(template).render(content))


def _sealed(page: str) -> str:
    """A page whose policy admits its own style and script, each by its hash, and no others."""

    def own(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashes = (b64encode(sha256(one.encode()).digest()).decode() for one in found)
        return " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"

    return page.replace("SCRIPTS", own("script"), 1).replace("STYLES", own("style"), 1)


def scripts() -> dict[str, "Markup"]:
    """The scripts of pages, without indentation and lines of comment."""
    from markupsafe import Markup

    found = Path(__file__).parent.glob("templates/*.js")
    bare = re.compile(r"^\s*(?://.*)?\n|^ +", re.MULTILINE)
    return {path.stem: Markup(bare.sub("", path.read_text(encoding="utf-8"))) for path in found}


def json_text(content: object) -> "Markup":
    """Data within a page: nothing in it can end its element."""
    from markupsafe import Markup

    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _inert(value: object) -> object:
    """What is put into a page, before it is escaped: nothing in a text acts unseen."""
    return visible(value) if type(value) is str else value


# How to read a chart, by its name or else its mark.
_ABOUT: Final = {
    "loss": "A rising curve means that the learning rate is too large there.",
    "lines": "Rings: the best of each.",
    "points": "Click a point to open its row.",
}
_BANDS: Final = "Means over the replications, bands their 95 % intervals. "
_FRONT: Final = " The line joins the points that beat everything cheaper."
_FLAGS: Final = ("front", "hollow", "ring")  # of points
_NO_AXES: Final = (*_FLAGS, "x", "mean", "text")  # columns of points


class Drawn(NamedTuple):
    """A chart as the page shows it; `content`: the data of its script."""

    name: str
    heading: str
    about: str
    content: dict[str, Any]


def drawn(charts: Sequence[Chart], colors: Mapping[str, str]) -> list[Drawn]:
    """The charts of a page in their order; `colors`: of what is compared, by name."""
    views: dict[str, list[Chart]] = {}
    for one in charts:
        views.setdefault(one.name, []).append(one)
    return [_chart(one, colors) for one in views.values()]


def identity(name: str) -> str:
    """A name as that of an element."""
    return re.sub(r"\W+", "-", name)


def capital(heading: str) -> str:
    """A heading begins with a capital."""
    return heading[:1].upper() + heading[1:]


def _chart(views: Sequence[Chart], colors: Mapping[str, str]) -> Drawn:
    first, name = views[0], identity(views[0].name)
    about = _ABOUT.get(first.name, _ABOUT[first.mark])
    if first.mark == "points":
        front = any(first.data["front"])
        heading = f"{capital(_axis(first.y)['head'])} against {_axis(first.x)['head']}"
        return Drawn(name, heading, about + _FRONT * front, _points(first, colors))
    heads = {one.y for one in views}
    heading = _axis(first.y if len(heads) == 1 else first.x)["head"]
    if len(heads) > 1:
        heading = f"along {heading}"
    content = _lines(views, colors)
    banded = any("low" in view for one in content["series"] for view in one["views"])
    return Drawn(name, capital(heading), _BANDS * banded + about, content)


def _lines(views: Sequence[Chart], colors: Mapping[str, str]) -> dict[str, Any]:
    """Lines of strategies: what chart.js draws."""
    names = list(dict.fromkeys(name for one in views for name in one.data[one.by]))
    axes = [
        {
            "x": _axis(one.x),
            "y": _axis(one.y),
            # A loss that grows beyond all bounds would leave nothing to see of the others.
            "clip": one.name == "loss",
            "target": one.target,
        }
        for one in views
    ]
    series = [
        {"name": name, "color": colors[name], "views": [_series(one, name) for one in views]}
        for name in names
    ]
    return {"mark": "lines", "views": axes, "series": series}


def _series(chart: Chart, name: str) -> dict[str, list[Any]]:
    """A line: its columns, without those that say nothing."""
    rows = [row for row in chart.rows() if row[chart.by] == name]
    columns = ("x", "mean", "low", "high", "ring", "between")
    found = {key: [_plain(row[key]) for row in rows] for key in columns if key in chart.data}
    if None in found["low"] or found["low"] == found["high"]:
        del found["low"], found["high"]
    return {key: one for key, one in found.items() if key not in columns[4:] or any(one)}


def _points(chart: Chart, colors: Mapping[str, str]) -> dict[str, Any]:
    """Rows as points: what chart.js draws, with the table that they open."""
    names = list(dict.fromkeys(chart.data[chart.by]))
    heads = [head for head in chart.data if head not in (chart.by, *_NO_AXES)]
    return {
        "mark": "points",
        "x": heads.index(chart.x),
        "y": heads.index(chart.y),
        "axes": [
            _axis(head) | {"values": [_plain(value) for value in chart.data[head]]}
            for head in heads
        ],
        "names": names,
        "colors": [colors.get(name, "var(--faint)") for name in names],
        "series": [names.index(name) for name in chart.data[chart.by]],
        **{name: [int(one) for one in chart.data[name]] for name in _FLAGS},
        "said": {"hollow": chart.hollow, "ring": chart.ring},
        "target": chart.target,
        "table": f"table-{identity(chart.name)}",
    }


def _axis(head: str) -> dict[str, str]:
    """What an axis is called, and the unit in brackets at its end."""
    found = re.fullmatch(r"(.*) \(([^()]+)\)", head)
    return {"head": found[1], "unit": found[2]} if found else {"head": head, "unit": ""}


def _plain(value: Any) -> Any:
    """A value as JSON has it, five digits of a number."""
    if isinstance(value, str | bool) or value is None:
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None
