"""The page of a report: the answer, a table with bars, notes; the timeline; charts; details."""

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from varsim.report.charts.looks import DARK, PARTS, PHASES, looks
from varsim.report.files.directory import KINDS
from varsim.report.markup import Html, data, element, joined
from varsim.report.notes import line
from varsim.report.screen import MOST_NOTES, folded, headed, held, marked
from varsim.report.told import Cell, Chart, Column, Note, Number, Report, Shares, Table
from varsim.report.wording import shown

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
_NO_PLAYER: Final = "Stepping through it needs JavaScript"
_NO_SCRIPT: Final = "walking through it takes a script, which this place does not run."
_NARROW: Final = 51  # characters of a row that narrow screens show, too
_BAR: Final = 7  # so many characters a bar is long there
_MOST_NAME: Final = 12  # and a name, at most
_SHADES: Final = 10  # of the cells of a map


def page(report: Report, files: Mapping[str, str], timeline: str = "") -> str:
    """The report as HTML; `files` lie beside the page, and the picture of its timeline."""
    asked = report.question.partition("\n")[0]
    first, *others = map(_line, report.headline)
    header = element("h1", " · ".join(filter(None, (report.name, asked))))
    main = [
        element("p", first, class_="first"),
        *([element("p", " ".join(others), class_="others")] if others else []),
        *_answer(report),
        *_background(report.question),
        *_played(report, timeline),
        *(_map(one) for one in report.details[: report.always]),
        *_charts(report),
        element("section", element("h2", "Details", id="details"), *_details(report, files)),
    ]
    version = report.provenance["varsim"]
    made = f"Made by varsim {version}. This page is one file without external resources."
    body = [element("header", header), element("main", *main), element("footer", made)]
    names = ["shared", *["chart"] * bool(report.charts), *["player"] * (report.played is not None)]
    return document(report, "sheet", body, names)


def player(report: Report) -> str:
    """The timeline of a report as a page of its own."""
    assert report.played is not None, "a report with a timeline"
    body = [element("noscript", f"{report.name}: {_NO_SCRIPT}"), *_timeline(report.played())]
    return document(report, "alone", body, ["shared", "player"])


def document(
    report: Report, kind: str, body: Sequence[str], names: Sequence[str], by: str = "varsim"
) -> str:
    """A page with its scripts, whose policy admits these and its style, each by its hash.

    `by`: what made it, as its head says.
    """
    every, style = scripts(), Html(_style(report))
    own = [every[name] for name in names]
    policy = (
        f"default-src 'none'; script-src {_hashes(own)}; style-src {_hashes([style])}; "
        "base-uri 'none'; form-action 'none'"
    )
    # The policy holds no text of others, and its quotes stand as they are.
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Html(policy)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"{by} {report.provenance['varsim']}"),
        element("title", f"{report.name} · varsim"),
        element("style", style),
    ]
    body = [*body, *(element("script", one) for one in own)]
    parts = element("head", joined(head, "\n")), element("body", joined(body, "\n"), class_=kind)
    return f"<!DOCTYPE html>\n{element('html', *parts, lang='en')}\n"


def _hashes(texts: Sequence[str]) -> str:
    every = (b64encode(sha256(one.encode()).digest()).decode() for one in texts)
    return " ".join(f"'sha256-{one}'" for one in every)


def scripts() -> dict[str, Html]:
    """The scripts of pages, without indentation and lines of comment."""
    bare = re.compile(r"^\s*(?://.*)?\n|^ +", re.MULTILINE)
    found = _TEMPLATES.glob("*.js")
    return {path.stem: Html(bare.sub("", path.read_text(encoding="utf-8"))) for path in found}


def _style(report: Report) -> str:
    """The style of pages, with the classes of colours, of lengths of bars, of shades of maps."""
    parts = {f"p-{name}": one for name, one in PHASES.items()}
    parts |= {f"a-{name}": one for name, one in PARTS.items()}
    grounds = {name: f"light-dark({one.light},{one.dark})" for name, one in parts.items()}
    grounds |= {f"c{at}": color for at, color in enumerate(_colors(report).values())}
    grounds |= {
        f"s{shade}": f"color-mix(in oklab,var(--win) {4 * shade}%,transparent)"
        for shade in range(_SHADES + 1)
    }
    rules = [f".{name}{{background:{ground}}}" for name, ground in grounds.items()]
    rules += [f".w{width}{{width:{width}%}}" for width in range(101)]
    dark = "".join(f"--c{light[1:]}:{other};" for light, other in DARK.items())
    rules.append(f"@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}")
    return (_TEMPLATES / "style.css").read_text(encoding="utf-8") + "\n".join(rules)


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
    drawn = next((path.name for path in directory.glob("timeline.*")), "")
    text = page(report, files, drawn)
    (directory / KINDS[report.kind].page).write_text(text, encoding="utf-8", newline="\n")


# --- its parts


def _answer(report: Report) -> Iterator[Html]:
    """The table with bars, what its colours mean, what is the same in every row; notes."""
    table = report.table
    columns, alike = table.brief()
    split = [one for one in table.columns if isinstance(one.cells[0], Shares)]
    at = 2 if len(columns) > 1 else 1
    columns = [*columns[:at], *split, *columns[at:]]
    hidden = _hidden(table, columns)
    brief, more = report.notes[:MOST_NOTES], report.notes[MOST_NOTES:]
    marks = marked(columns, brief)
    main = {"marks": marks, "hidden": hidden, "meanings": report.meanings}
    yield _scrolled("The main numbers", _grid(table, columns, table.corner or "strategy", main))
    seen = {part for one in split for cell in one.cells for part, _ in _parts(cell)}
    key = (
        element("span", element("i", class_=f"a-{name}"), one.said)
        for name, one in PARTS.items()
        if name in seen
    )
    if split:
        yield element("p", *key, class_=_classes("key", "hide" * (split[0] in hidden)))
    if alike:
        yield element("p", folded(alike, table), class_="alike")
    if brief:
        yield _notes(brief, marks)
    if more:
        yield _fold(f"{len(more)} more note{'s' * (len(more) > 1)}", _notes(more, {}))


def _grid(
    table: Table, columns: Sequence[Column], corner: str, main: Mapping[str, Any] = {}
) -> Html:
    """A table; `main`: what only the first of a page has."""
    hidden, meanings = main.get("hidden", ()), main.get("meanings", {})
    heads = [
        element(
            "th",
            headed(one, main.get("marks", {})),
            scope="col",
            class_=_classes("words" * one.prose, "hide" * (one in hidden)),
            title=meanings.get(one.about),
        )
        for one in columns
    ]
    rows = []
    for row, name in enumerate(table.rows):
        kind = table.kinds[row] if table.kinds else None
        small = [element("small", kind)] if kind and not main else []
        cells = [element("th", name, *small, scope="row", title=kind if main else None)]
        for one in columns:
            cell = one.cells[row]
            won = isinstance(cell, Number) and cell.verdict == "best"
            own = (_shade(cell, table), "won" * won, "words" * one.prose)
            cells.append(
                element(
                    "td",
                    _cell(table, one, cell, bool(main)),
                    class_=_classes(*own, "hide" * (one in hidden)),
                    data_value=_value(cell) if main else None,
                )
            )
        rows.append(element("tr", *cells, class_="best" if main and row < table.best else None))
    head = element("thead", element("tr", element("th", corner, scope="col"), *heads))
    kinds = _classes("main", "bars" * _several(columns)) if main else None
    return element("table", head, element("tbody", joined(rows, "\n")), class_=kinds)


def _cell(table: Table, column: Column, cell: Cell, main: bool) -> str:
    """A bar that is cut, a bar with its number, or text."""
    text = _said(cell)
    if isinstance(cell, Shares):
        parts = (
            element("i", class_=f"a-{name} w{round(100 * share)}")
            for name, share in cell.parts
            if share >= 0.005
        )
        return element("div", *parts, class_="split", role="img", aria_label=text, title=text)
    if not (main and column.bar and isinstance(cell, Number)):
        return text
    bar = element("span", element("i", class_=f"w{_width(table, column, cell)}"))
    return element("div", bar, text, class_="bar")


def _scrolled(label: str, *inside: str, kind: str = "", id: str | None = None) -> Html:
    """What is scrolled where it is too wide."""
    css = _classes("scroll", kind)
    region = {"tabindex": "0", "role": "region", "aria_label": label}
    return element("div", *inside, class_=css, id=id, **region)


def _fold(summary: str, *inside: str) -> Html:
    return element("details", element("summary", summary), *inside)


def _section(heading: str, *inside: str, id: str | None = None) -> Html:
    return element("section", element("h2", heading, id=id), *inside)


def _code(text: str, label: str, css: str | None = None) -> Html:
    return element("pre", element("code", text), class_=css, tabindex="0", aria_label=label)


def _list(pairs: Iterable[tuple[str, str]]) -> Html:
    """Terms and what they mean."""
    rows = (joined((element("dt", term), element("dd", meaning))) for term, meaning in pairs)
    return element("dl", *rows)


def _notes(notes: Sequence[Note], marks: Mapping[str, str]) -> Html:
    lines = (
        (f"{marks.get(one.code, '')} {_line(one)} ".lstrip(), f"[{one.code}]") for one in notes
    )
    items = (element("li", said, element("b", code)) for said, code in lines)
    return element("ul", joined(items, "\n"), class_="notes")


def _background(question: str) -> Iterator[Html]:
    """The rest of what a scenario says of itself."""
    parts = []
    for kind, lines in background(question):
        if kind == "pre":
            parts.append(_code(lines[0], "A command", "background"))
        else:
            items = (element("li", one) for one in lines) if kind == "ul" else lines
            parts.append(element(kind, joined(items, "\n"), class_="background"))
    if parts:
        yield _fold("Comments in the scenario file", *parts)


def _played(report: Report, drawn: str) -> Iterator[Html]:
    """The timeline, at first with the winner and the baseline only; else with the next.

    `drawn`: the picture of it.
    """
    if report.played is not None:
        names = dict.fromkeys((report.table.rows[0], *report.families))
        opened = {"open": list(names)[:2]}
        instead = f"; {drawn} beside this page shows its first steps" if drawn else ""
        without = element("noscript", element("p", f"{_NO_PLAYER}{instead}."))
        yield _section("Timeline", *_timeline(report.played() | opened), without, id="timeline")


def _timeline(played: Mapping[str, Any]) -> list[Html]:
    content = element("script", data(played), type="application/json", id="player-data")
    return [element("div", id="player", class_="player"), content]


def _map(table: Table) -> Html:
    """A table that is read at once."""
    heading, _, corner = table.corner.rpartition(": ")
    above = (element("p", text) for text in table.above)
    whole = _grid(table, table.columns, corner)
    return _section(heading, *above, _scrolled(table.corner, whole, kind="map" * table.shaded))


def _details(report: Report, files: Mapping[str, str]) -> Iterator[Html]:
    """What is folded away: tables, the scenario, how to run it again, files."""
    table = report.table
    left = [one for one in table.columns if one not in table.brief()[0]]
    # All numbers of a run are in a table of its own.
    if report.kind != "run" and not all(isinstance(one.cells[0], Shares) for one in left):
        whole = _grid(table, table.columns, table.corner)
        yield _fold("All columns", _scrolled("All columns", whole))
    for whose, tables in _folded([*report.details[report.always :], *report.appendix]).items():
        grids = (
            _scrolled(one.corner, _grid(one, one.columns, what), id=f"table-{identity(one.corner)}")
            for what, one in tables
        )
        yield _fold(whose, *grids)
    if report.source:
        yield _fold("Scenario", _code(report.source.text, "The scenario"))
        facts = report.provenance.items()
        terms = {PROVENANCE[term]: element("code", str(value)) for term, value in facts}
        yield _fold(
            "Run it again", _code(report.source.command, "The command"), _list(terms.items())
        )
    if files:
        links = {element("a", name, href=name): meaning for name, meaning in files.items()}
        yield _fold("Files beside this page", _list(links.items()))


def _hidden(table: Table, columns: Sequence[Column]) -> list[Column]:
    """What narrow screens do not show; what is never left out has room first, then bars.

    Where several columns have bars, they are not drawn there.
    """
    names = max(map(len, table.rows), default=0)
    several, hidden = _several(columns), list[Column]()
    room = _NARROW - max(min(_MOST_NAME, names), _longest(table.corner.split()))
    for one in sorted(columns, key=lambda one: (not one.main, not one.bar)):
        split = isinstance(one.cells[0], Shares)
        # A margin in brackets stands below its number there.
        texts = () if split else (part for cell in one.cells for part in _said(cell).split(" ("))
        long = max(_longest(texts), _longest(one.head.split()), 4) + 2
        long += _BAR * (split or (one.bar and not several))
        if long > room and not one.main and len(hidden) + 1 < len(columns):
            hidden.append(one)
        else:
            room -= long
    return hidden


def _several(columns: Sequence[Column]) -> bool:
    """Whether more than one of them has bars."""
    return sum(one.bar for one in columns) > 1


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


def _width(table: Table, column: Column, cell: Cell) -> int:
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


# How to read a chart, by its name or else its mark.
_ABOUT: Final = {
    "loss": "A rising curve means that the learning rate is too large there.",
    "lines": "Rings: the best of each.",
    "points": "Click a point to open its row.",
}
_BANDS: Final = "Means over the replications, bands their 95 % intervals. "
_FRONT: Final = " The line joins the points that beat everything cheaper."
_COLUMNS: Final = ("x", "mean", "low", "high", "ring", "front", "hollow")
_NO_AXES: Final = (*_COLUMNS, "text")  # columns of points


def _charts(report: Report) -> Iterator[Html]:
    """The charts of a page in their order, those of one name as views of one."""
    views: dict[str, list[Chart]] = {}
    for one in report.charts:
        views.setdefault(one.name, []).append(one)
    for every in views.values():
        yield _chart(every, _colors(report))


def identity(name: str) -> str:
    """A name as that of an element."""
    return re.sub(r"\W+", "-", name)


def capital(heading: str) -> str:
    """A heading begins with a capital."""
    return heading[:1].upper() + heading[1:]


def _chart(views: Sequence[Chart], colors: Mapping[str, str]) -> Html:
    first, name = views[0], identity(views[0].name)
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
        "table": f"table-{name}",
    }
    box = element("div", class_="chart", id=f"chart-{name}")
    told = element("script", data(content), type="application/json")
    caption = element("p", about, class_="caption")
    return _section(capital(heading), box, told, caption, id=name)


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
