"""What is told of the validation: a report with a block for each section, as pages and as CSV."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from validation.finding import Finding, Verdict
from validation.section import (
    JUDGED,
    LEFT_OUT,
    Section,
    compares,
    count,
    error_of,
    left_out,
    missed,
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
        for section in sections:
            head = f"# {section.title}: all lines\n\n{_made_by(command)}"
            pages[f"{section.key}.md"] = f"{head}\n\n{formats.markdown(_lines_of(section))}"
        there = ["lines.csv", *pictures, *notes]
        pages["index.html"] = page(whole, {name: _FILES[name] for name in there})
        pages["lines.csv"] = formats.csv_text(whole.data)
        for name, text in pages.items():
            (path / name).write_text(text, encoding="utf-8", newline="\n")

    put(directory, "validation", fill)
    return directory / "index.html"


def report(sections: Sequence[Section], command: str) -> Report:
    """The whole: sections in sum, then of each its groups, its misses and what was not run."""
    parts = [[_groups(one), *_apart(one)] for one in sections]
    open_tables = [table for part in parts for table in part if table.rows]
    return Report(
        "validation",
        "Validation",
        (_said(_ABOUT),),
        _in_sum(sections),
        (),
        question=_made_by(command),
        details=tuple(open_tables),
        always=len(open_tables),
        appendix=tuple(table(one) for one in sections for table in (_lines, _sources)),
        families={one.title: "" for one in sections},
        pictures=lambda: tuple(_agreement(sections)),
        data=Data(_DATA, list(_rows(sections))),
        provenance={"varsim": __version__},
    )


def block(section: Section) -> Report:
    """One section: what it is, its bound, what came out, its groups, its misses, what is left."""
    return Report(
        "validation",
        section.title,
        (_said(section.about), _said(f"Bound. {section.bound}"), _said(section.sentence())),
        _groups(section, above=False),
        (),
        details=tuple(table for table in _apart(section) if table.rows),
    )


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
    pages = ["index.html", "lines.csv", *notes]
    parts = [
        f"# {whole.name}",
        _made_by(command),
        f"With all lines on one page, as a table, and more: {', '.join(map(_linked, pages))}.",
        formats.markdown(replace(whole, details=())).rstrip(),
        *(f"![{about}]({name})" for name, about in pictures.items()),
    ]
    for one in sections:
        more = filter(None, [f"{one.key}.md", one.link])
        parts += [f"## {one.title}", f"All lines: {', '.join(map(_linked, more))}."]
        parts.append(formats.markdown(block(one)).rstrip())
    return "\n\n".join(parts) + "\n"


def _linked(name: str) -> str:
    return f"[{name}]({name})"


def _lines_of(section: Section) -> Report:
    bound = _said(f"Bound. {section.bound}")
    told = (_sources(section),)
    return Report("validation", section.title, (bound,), _lines(section), (), details=told)


def _said(text: str) -> Note:
    return Note("validated", {"said": text})


def _in_sum(sections: Sequence[Section]) -> Table:
    """A row for each section."""
    heads = {
        "lines": tuple(Verdict),
        "passed": (Verdict.PASS,),
        "missed": (Verdict.MISS,),
        "calibrated on": (Verdict.CALIBRATED,),
        "left out": LEFT_OUT,
    }
    columns = (
        _numbers(head, (str(count(one.findings, *of)) for one in sections))
        for head, of in heads.items()
    )
    rows = tuple(one.title for one in sections)
    return Table(rows, tuple(columns), corner="section", fold=False)


def _groups(section: Section, *, above: bool = True) -> Table:
    """A row for each family or experiment that has lines with a bound."""
    found = {name: own for name, own in section.groups().items() if count(own, *JUDGED)}
    judged = [[one for one in own if one.verdict in JUDGED] for own in found.values()]
    worst = [max(own, key=lambda one: abs(one.error or 0.0)) for own in judged]
    columns = (
        _numbers("lines", (str(len(own)) for own in judged)),
        _numbers("passed", (str(count(own, Verdict.PASS)) for own in judged)),
        _numbers("missed", (str(count(own, Verdict.MISS)) for own in judged)),
        _numbers("worst error", map(error_of, worst)),
        _words("bound", map(_bounds, judged)),
    )
    said = (section.about, f"Bound. {section.bound}", section.sentence())
    corner = f"{section.title}: family or experiment"
    return Table(tuple(found), columns, corner=corner, fold=False, above=said if above else ())


def _bounds(own: Iterable[Finding]) -> str:
    """The bounds of a group, shortened where there are many."""
    bounds = list(dict.fromkeys(one.bound for one in own))
    return "; ".join(bounds[:2]) + "; ..." * (len(bounds) > 2)


def _apart(section: Section) -> Iterator[Table]:
    """Misses, and what was not run."""
    wrong = missed(section.findings)
    columns = (
        _words("quantity", map(_quantity, wrong)),
        *_compared(wrong),
        _words("bound", (one.bound for one in wrong)),
        _words("why", (one.why for one in wrong)),
    )
    rows = tuple(f"{one.group}: {one.name}" for one in wrong)
    yield Table(rows, columns, corner=f"{section.title}, missed: line", fold=False)
    left = left_out(section.findings)
    reasons = (
        _numbers("lines", (str(len(own)) for own in left.values())),
        _words("verdict", (str(verdict) for verdict, _, _ in left)),
        _words("why", (why for _, _, why in left)),
    )
    rows = tuple(group for _, group, _ in left)
    yield Table(rows, reasons, corner=f"{section.title}, not run: group", fold=False)


def _lines(section: Section) -> Table:
    """All lines."""
    own = section.findings
    kept = [one.bound if one.bound != str(one.verdict) else "" for one in own]
    columns = (
        _words("line", (one.name for one in own)),
        _words("quantity", map(_quantity, own)),
        *_compared(own),
        _numbers("99 % interval", map(_half, own)),
        _words("verdict", (str(one.verdict) for one in own)),
        _words("bound", kept),
        _words("why", ("" if one.verdict is Verdict.MISS else one.why for one in own)),
    )
    rows = tuple(one.group for one in own)
    return Table(rows, columns, corner=f"{section.title}: group", fold=False)


def _sources(section: Section) -> Table:
    """Where the numbers of each group come from."""
    found = section.groups()
    columns = (_words("source", map(sources, found.values())),)
    return Table(tuple(found), columns, corner=f"{section.title}: group", fold=False)


def _compared(own: Sequence[Finding]) -> tuple[Column, ...]:
    return (
        _numbers("expected", (number(one.expected) for one in own)),
        _numbers("got", (number(one.got) for one in own)),
        _numbers("error", map(error_of, own)),
    )


def _quantity(one: Finding) -> str:
    """With its unit."""
    return f"{one.quantity} [{one.unit}]" if one.unit else one.quantity


def _half(one: Finding) -> str:
    """Half the 99 % interval."""
    return "" if one.half_width is None else f"± {one.half_width:.2g}"


def _numbers(head: str, cells: Iterable[str]) -> Column:
    return Column(head, head, tuple(cells))


def _words(head: str, cells: Iterable[str]) -> Column:
    return Column(head, head, tuple(cells), prose=True)


def _agreement(sections: Sequence[Section]) -> Iterator[Chart]:
    """Got against expected, both logarithmic; on the line they are equal."""
    rows: list[dict[str, Any]] = [
        {"who": section.title, "x": one.expected, "mean": one.got}
        for section in sections
        for one in section.findings
        if compares(one) and one.expected > 0 and (one.got or 0) > 0
    ]
    if not rows:
        return
    places = [one["x"] for one in rows]
    rows += [{"who": _EQUAL, "x": end, "mean": end} for end in (min(places), max(places))]
    x = "expected or measured (each in its own unit)"
    yield Chart.of("agreement", "points", rows, x, "simulated", by="who", log="xy")


def _rows(sections: Sequence[Section]) -> Iterator[Sequence[object]]:
    for section in sections:
        for one in section.findings:
            yield (
                *(section.key, one.group, one.name, one.quantity, one.unit, one.expected, one.got),
                *(one.half_width, one.error, one.bound, str(one.verdict), one.source, one.why),
            )
