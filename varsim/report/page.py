"""The page of a report: the answer, a table with bars, notes; the timeline; charts; details."""

import json
import math
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from varsim.core.inert import visible
from varsim.report.charts.looks import DARK, PARTS, PHASES, looks
from varsim.report.files.directory import KINDS
from varsim.report.notes import line
from varsim.report.screen import MOST_NOTES, folded, headed, held, marked
from varsim.report.told import Cell, Chart, Column, Note, Number, Report, Shares, Table
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
_TEMPLATES: Final = Path(__file__).parent / "templates"
_NARROW: Final = 50  # characters of a row that narrow screens show, too
_BAR: Final = 7  # so many characters a bar is long there
_MOST_NAME: Final = 12  # and a name, at most
_SHADES: Final = 10  # of the cells of a map


def page(report: Report, files: Mapping[str, str], pictures: Mapping[str, str] = {}) -> str:
    """The report as HTML; `files` lie beside the page; `pictures`: URIs by their headings."""
    table = report.table
    columns, alike = table.brief()
    split = [one for one in table.columns if isinstance(one.cells[0], Shares)]
    at = 2 if len(columns) > 1 else 1
    columns = [*columns[:at], *split, *columns[at:]]
    several = sum(one.bar for one in columns) > 1
    narrow = _narrow(table, columns, several)
    seen = {part for one in split for cell in one.cells for part, _ in _parts(cell)}

    def head(column: Column, main: bool) -> dict[str, str | None]:
        """The attributes of the head of a column."""
        hidden = "hide" if main and column not in narrow else ""
        about = report.meanings.get(column.about) if main else None
        return {"class": _classes("words" if column.prose else "", hidden), "title": about}

    def body(table: Table, column: Column, cell: Cell, main: bool) -> dict[str, str | None]:
        """The attributes of a cell; the main table is sorted by its values."""
        won = "won" if isinstance(cell, Number) and cell.verdict == "best" else ""
        own = _classes(_shade(cell, table), won, str(head(column, main)["class"] or ""))
        return {"class": own, "data-value": _value(cell) if main else None}

    content = {
        "report": report,
        "alone": False,
        "asked": report.question.partition("\n")[0],
        "background": list(background(report.question)),
        "columns": columns,
        "kind": _classes("main", "bars" if several else ""),
        "alike": folded(alike, table) if alike else "",
        # All numbers of a run are in a table of its own.
        "more": report.kind != "run" and len(columns) < len(table.columns),
        "marks": marked(columns, report.notes[:MOST_NOTES]),
        "key": {name: one.said for name, one in PARTS.items() if name in seen},
        "split_shown": any(one in narrow for one in split),
        "charts": drawn(report.charts, _colors(report)),
        "folded": _folded([*report.details[report.always :], *report.appendix]),
        # The timeline shows at first the winner and the baseline only.
        "played": report.played
        and report.played() | {"open": [table.rows[0], next(iter(report.families))]},
        "files": files,
        "pictures": pictures,
        "provenance": PROVENANCE,
        "head": head,
        "body": body,
        "bar": _bar,
        "headed": headed,
        "classes": _classes,
    }
    return _rendered(report, content)


def player(report: Report) -> str:
    """The timeline of a report as a page of its own."""
    assert report.played is not None, "a report with a timeline"
    return _rendered(report, {"alone": True, "played": report.played(), "charts": ()})


def write(report: Report, directory: Path, beside: Path | None = None) -> None:
    """Write the page of a report into an existing directory.

    `beside`: where files of the report are, too.
    """
    places = (directory, beside or directory)
    files = {
        name: about
        for name, about in report.files.items()
        if any((place / name).exists() for place in places)
    }
    text = page(report, files, dict(_pictures(report, directory)))
    (directory / KINDS[report.kind].page).write_text(text, encoding="utf-8", newline="\n")


def _pictures(report: Report, directory: Path) -> Iterator[tuple[str, str]]:
    """The pictures that stand in the page, as their files say: it loads none."""
    kinds = {".png": "image/png", ".svg": "image/svg+xml"}
    for name, heading in report.embedded.items():
        for end, kind in kinds.items():
            if (path := directory / f"{name}{end}").exists():
                yield heading, f"data:{kind};base64,{b64encode(path.read_bytes()).decode()}"


def _narrow(table: Table, columns: Sequence[Column], several: bool) -> list[Column]:
    """What narrow screens show, too: what has room, first what is never left out, then bars.

    Where several columns have bars, they are not drawn there.
    """
    names = max(map(len, table.rows), default=0)
    found = list[Column]()
    room = _NARROW - max(min(_MOST_NAME, names), _longest(table.corner.split()))
    for one in sorted(columns, key=lambda one: (not one.main, not one.bar)):
        split = isinstance(one.cells[0], Shares)
        # A margin in brackets stands below its number there.
        texts = () if split else (part for cell in one.cells for part in _said(cell).split(" ("))
        long = max(_longest(texts), _longest(one.head.split()), 4) + 2
        long += _BAR * (split or (one.bar and not several))
        if long <= room or one.main or not found:
            found.append(one)
            room -= long
    return found


def _longest(texts: Iterator[str] | Sequence[str]) -> int:
    return max(map(len, texts), default=0)


def _said(cell: Cell) -> str:
    """A cell as text that breaks before a margin in brackets."""
    return shown(cell).replace("\N{NO-BREAK SPACE}(", " (")


def _line(note: Note) -> str:
    """A sentence, its quantities whole."""
    return held(line(note))


def _colors(report: Report) -> dict[str, str]:
    look = looks(report.families)
    return {name: f"var(--c{one.color[1:]},{one.color})" for name, one in look.items()}


def _folded(tables: Sequence[Table]) -> dict[str, list[tuple[str, Table]]]:
    """Tables that are folded away, those of one strategy (`async PS: cause`) under its name."""
    found: dict[str, list[tuple[str, Table]]] = {}
    for one in tables:
        whose, _, what = one.corner.rpartition(": ")
        found.setdefault(whose or capital(what), []).append((what if whose else "", one))
    return found


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


def _classes(*names: str) -> str | None:
    return " ".join(filter(None, names)) or None


def _value(cell: Cell) -> str | None:
    """What a column is sorted by."""
    if isinstance(cell, Shares):
        return f"{dict(cell.parts).get('compute', 0.0):.6g}"
    return f"{cell.mean:.6g}" if _known([cell]) and isinstance(cell, Number) else None


def _known(cells: Sequence[Cell]) -> list[float]:
    return [one.mean for one in cells if isinstance(one, Number) and math.isfinite(one.mean)]


def _bar(table: Table, column: Column, cell: Cell) -> int:
    """Percent of the longest bar of the same metric, of any strategy."""
    metric = column.key.partition(" ")[0]
    same = (one for one in table.columns if one.bar and one.key.partition(" ")[0] == metric)
    most = max(_known([each for one in same for each in one.cells]), default=0.0)
    (value,) = _known([cell]) or [0.0]
    return max(0, min(100, round(100 * value / most))) if most > 0 else 0


def _shade(cell: Cell, table: Table) -> str:
    """The class of a cell of a map, or of one that is a part of something; else none."""
    (value,) = _known([cell]) or [math.nan]
    if not isinstance(cell, Number) or not (cell.unit == "part" or table.shaded):
        return ""
    known = _known([each for one in table.columns for each in one.cells])
    low, high = (0.0, 1.0) if cell.unit == "part" else (min(known), max(known))
    share = (value - low) / (high - low) if high > low else math.nan
    return f"s{round(_SHADES * max(0.0, min(1.0, share)))}" if math.isfinite(share) else ""


def _rendered(report: Report, content: Mapping[str, Any]) -> str:
    """A page as HTML, with its scripts and its colours."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # escapes whatever is put into the page
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"text": _said, "line": _line, "id": identity, "json": json_text}
    looks = {
        "colors": _colors(report),
        "dark_colors": DARK,
        "phases": PHASES,
        "activities": PARTS,
        "shades": _SHADES,
    }
    whole = {"report": report, "scripts": scripts(), **looks, **content}
    return _sealed(environment.get_template("page.html.j2").render(whole))


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

    bare = re.compile(r"^\s*(?://.*)?\n|^ +", re.MULTILINE)
    found = _TEMPLATES.glob("*.js")
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
_COLUMNS: Final = ("x", "mean", "low", "high", "ring", "between", "front", "hollow")
_NO_AXES: Final = (*_COLUMNS, "text")  # columns of points


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
    first = views[0]
    about = _ABOUT.get(first.name, _ABOUT[first.mark])
    across, up = _axis(first.x)["head"], _axis(first.y)["head"]
    if first.mark == "points":
        heading, about = f"{up} against {across}", about + _FRONT * any(first.data["front"])
    else:
        heading = up if len({one.y for one in views}) == 1 else f"along {across}"
        ends = (
            pair for one in views for pair in zip(one.data["low"], one.data["high"], strict=True)
        )
        about = _BANDS * any(low < high for low, high in ends) + about
    names = list(dict.fromkeys(name for one in views for name in one.data[one.by]))
    content = {
        "mark": first.mark,
        "names": names,
        "colors": [colors.get(name, "var(--faint)") for name in names],
        "views": [_view(one, names) for one in views],
        "said": {"hollow": first.hollow, "ring": first.ring},
        "table": f"table-{identity(first.name)}",
    }
    return Drawn(identity(first.name), capital(heading), about, content)


def _view(chart: Chart, names: Sequence[str]) -> dict[str, Any]:
    """A chart as data; what else is known of points are axes to choose."""
    data = {key: list(map(_plain, values)) for key, values in chart.data.items()}
    axes = [head for head in data if head not in (chart.by, *_NO_AXES)] * (chart.mark == "points")
    return {
        "across": _axis(chart.x),
        "up": _axis(chart.y),
        # A loss that grows beyond all bounds would leave nothing to see of the others.
        "clip": chart.name == "loss",
        "target": chart.target,
        "who": [names.index(name) for name in chart.data[chart.by]],
        "axes": [_axis(head) | {"values": data[head]} for head in axes],
        "at": [axes.index(head) for head in (chart.x, chart.y) if head in axes],
        **{key: data[key] for key in _COLUMNS if key in data},
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
