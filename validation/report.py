"""What is told of the validation: a report with a block for each section, as pages and as CSV."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from validation.finding import (
    JUDGED,
    LEFT_OUT,
    Finding,
    Section,
    Verdict,
    count,
    error_of,
    half_of,
    number,
    sources,
)
from varsim.report import formats
from varsim.report.charts.marks import write_all
from varsim.report.files.directory import put
from varsim.report.page import page
from varsim.report.told import Chart, Column, Data, Note, Report, Table
from varsim.version import __version__

_ABOUT: Final = (
    "Every line is one number: what was expected, what varsim got, and whether that keeps the "
    "bound, which was written down before. Nothing is hidden: misses stand with each section, and "
    "what was not run is listed with the reason."
)
_NOTES: Final = "README.md"
_FILES: Final = {
    "lines.csv": "all lines as a table",
    "agreement.png": "what was simulated against what was expected",
    _NOTES: "notes on the measured runs: what was tried, and what explains misses",
}
_DATA: Final = (
    *("section", "group", "name", "quantity", "unit", "expected", "got", "half_width_99"),
    *("relative_error", "bound", "verdict", "source", "why"),
)
_EQUAL: Final = "equal"  # the line on which they would be


def write(sections: Sequence[Section], directory: Path, command: str) -> Path:
    """Write everything into a directory; the HTML page. Other files there are left alone."""
    whole = report(sections, command)

    def fill(path: Path) -> None:
        drawn = whole.drawn()
        forms: tuple[Literal["png", "svg"], ...] = ("png", "svg")
        for form in forms:
            write_all(drawn, whole.families, path, form)
        pictures = {f"{name}.png": _FILES[f"{name}.png"] for name in drawn}
        notes = [_NOTES] if (directory / _NOTES).exists() else []
        pages = {"index.md": _index(whole, command, sections, pictures, notes)}
        for one in sections:
            head = f"# {one.title}: all lines\n\n{_made_by(command)}"
            told = _told(one.title, (f"Bound. {one.bound}",), _lines(one), (_sources(one),))
            pages[f"{one.key}.md"] = f"{head}\n\n{formats.markdown(told)}"
        there = ["lines.csv", *pictures, *notes]
        pages["index.html"] = page(whole, {name: _FILES[name] for name in there})
        pages["lines.csv"] = formats.csv_text(whole.data)
        for name, text in pages.items():
            (path / name).write_text(text, encoding="utf-8", newline="\n")

    put(directory, "validation", fill)
    return directory / "index.html"


def report(sections: Sequence[Section], command: str) -> Report:
    """The whole: sections in sum, then of each its groups, its misses and what was not run."""
    tables = [table for one in sections for table in (_groups(one, _said(one)), *_apart(one))]
    shown = [table for table in tables if table.rows]
    return replace(
        _told("Validation", (_ABOUT,), _in_sum(sections), shown),
        question=_made_by(command),
        always=len(shown),
        appendix=tuple(table(one) for one in sections for table in (_lines, _sources)),
        families={one.title: "" for one in sections},
        pictures=lambda: tuple(_agreement(sections)),
        data=Data(_DATA, list(rows(sections))),
        provenance={"varsim": __version__},
    )


def block(section: Section) -> Report:
    """One section: what it is, its bound, what came out, its groups, its misses, what is left."""
    return _told(section.title, _said(section), _groups(section), _apart(section))


def rows(sections: Iterable[Section]) -> Iterator[Sequence[object]]:
    """All lines, as in lines.csv."""
    for section in sections:
        for one in section.findings:
            yield (
                *(section.key, one.group, one.name, one.quantity, one.unit, one.expected, one.got),
                *(one.half_width, one.error, one.bound, str(one.verdict), one.source, one.why),
            )


def _told(name: str, said: Iterable[str], table: Table, details: Iterable[Table]) -> Report:
    headline = tuple(Note("recorded", {"said": text}) for text in said)
    return Report("validation", name, headline, table, (), details=tuple(details))


def _said(section: Section) -> tuple[str, ...]:
    return section.about, f"Bound. {section.bound}", section.sentence()


def _made_by(command: str) -> str:
    """By this, near its head, the package knows a page that may be replaced."""
    return f"Made by `{command}`. Do not edit."


def _index(
    whole: Report,
    command: str,
    sections: Sequence[Section],
    pictures: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    """The whole as Markdown: what it is, in sum, then a block for each section."""
    parts = [
        f"# {whole.name}",
        _made_by(command),
        "With all lines on one page, as a table, and more: "
        f"{_links('index.html', 'lines.csv', *notes)}.",
        formats.markdown(replace(whole, details=())).rstrip(),
        *(f"![{about}]({name})" for name, about in pictures.items()),
    ]
    for one in sections:
        parts += [f"## {one.title}", f"All lines: {_links(f'{one.key}.md', one.link)}."]
        parts.append(formats.markdown(block(one)).rstrip())
    return "\n\n".join(parts) + "\n"


def _links(*names: str) -> str:
    return ", ".join(f"[{name}]({name})" for name in names if name)


# Tables: all cells are texts; columns of prose are words, from the left.


def _table(
    corner: str,
    rows: Iterable[str],
    columns: Mapping[str, Iterable[str]],
    prose: Sequence[str] = (),
    above: tuple[str, ...] = (),
) -> Table:
    made = (Column(head, head, tuple(of), prose=head in prose) for head, of in columns.items())
    return Table(tuple(rows), tuple(made), corner=corner, fold=False, above=above)


def _in_sum(sections: Sequence[Section]) -> Table:
    """A row for each section."""
    heads = {
        "lines": tuple(Verdict),
        "passed": (Verdict.PASS,),
        "missed": (Verdict.MISS,),
        "calibrated on": (Verdict.CALIBRATED,),
        "left out": LEFT_OUT,
    }
    columns = {head: [str(one.count(*of)) for one in sections] for head, of in heads.items()}
    return _table("section", (one.title for one in sections), columns)


def _groups(section: Section, above: tuple[str, ...] = ()) -> Table:
    """A row for each family or experiment that has lines with a bound."""
    judged = {
        name: [one for one in own if one.verdict in JUDGED]
        for name, own in section.groups().items()
        if count(own, *JUDGED)
    }
    lines = judged.values()
    bounds = [list(dict.fromkeys(one.bound for one in own)) for own in lines]
    columns = {
        "lines": [str(len(own)) for own in lines],
        "passed": [str(count(own, Verdict.PASS)) for own in lines],
        "missed": [str(count(own, Verdict.MISS)) for own in lines],
        "worst error": [error_of(max(own, key=lambda one: abs(one.error or 0.0))) for own in lines],
        "bound": ["; ".join(own[:2]) + "; ..." * (len(own) > 2) for own in bounds],
    }
    corner = f"{section.title}: family or experiment"
    return _table(corner, judged, columns, ("bound",), above)


def _apart(section: Section) -> list[Table]:
    """Misses, and what was not run; each where there is some."""
    wrong, left = section.missed(), section.left_out()
    misses = {
        "quantity": map(_quantity, wrong),
        **_compared(wrong),
        "bound": (one.bound for one in wrong),
        "why": (one.why for one in wrong),
    }
    reasons = {
        "lines": (str(len(own)) for own in left.values()),
        "verdict": (str(verdict) for verdict, _, _ in left),
        "why": (why for _, _, why in left),
    }
    named = (f"{one.group}: {one.name}" for one in wrong)
    prose = ("quantity", "bound", "verdict", "why")
    found = (
        _table(f"{section.title}, missed: line", named, misses, prose),
        _table(f"{section.title}, not run: group", (one[1] for one in left), reasons, prose),
    )
    return [table for table in found if table.rows]


def _lines(section: Section) -> Table:
    """All lines."""
    own = section.findings
    columns = {
        "line": (one.name for one in own),
        "quantity": map(_quantity, own),
        **_compared(own),
        "99 % interval": map(half_of, own),
        "verdict": (str(one.verdict) for one in own),
        "bound": (one.bound if one.bound != str(one.verdict) else "" for one in own),
        "why": ("" if one.verdict is Verdict.MISS else one.why for one in own),
    }
    prose = ("line", "quantity", "verdict", "bound", "why")
    return _table(f"{section.title}: group", (one.group for one in own), columns, prose)


def _sources(section: Section) -> Table:
    """Where the numbers of each group come from."""
    found = section.groups()
    columns = {"source": map(sources, found.values())}
    return _table(f"{section.title}: group", found, columns, ("source",))


def _compared(own: Sequence[Finding]) -> dict[str, Iterable[str]]:
    return {
        "expected": (number(one.expected) for one in own),
        "got": (number(one.got) for one in own),
        "error": map(error_of, own),
    }


def _quantity(one: Finding) -> str:
    """With its unit."""
    return f"{one.quantity} [{one.unit}]" if one.unit else one.quantity


def _agreement(sections: Sequence[Section]) -> Iterator[Chart]:
    """Got against expected, both logarithmic; on the line they are equal."""
    data: list[dict[str, Any]] = [
        {"who": section.title, "x": one.expected, "mean": one.got}
        for section in sections
        for one in section.findings
        if one.compares and one.expected > 0 and (one.got or 0) > 0
    ]
    if not data:
        return
    places = [one["x"] for one in data]
    data += [{"who": _EQUAL, "x": end, "mean": end} for end in (min(places), max(places))]
    x = "expected or measured (each in its own unit)"
    yield Chart.of("agreement", "points", data, x, "simulated", by="who", log="xy")
