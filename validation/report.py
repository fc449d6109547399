"""The report of the whole validation: index.md and index.html, a page per section, plots, CSV."""

import csv
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from validation.finding import Finding, Verdict
from validation.index import markdown
from validation.index.section import LEFT_OUT, Section, groups, missed
from validation.index.words import (
    bound_of,
    error_of,
    half_of,
    number,
    sentence,
    sources,
    verdict_counts,
)
from varsim import inert
from varsim.report.charts.looks import DARK
from varsim.report.files.directory import put
from varsim.report.page import rendered
from varsim.version import __version__

_NOTES: Final = "README.md"
_COLUMNS: Final = (
    *("section", "group", "name", "quantity", "unit", "expected", "got", "half_width_99"),
    *("relative_error", "bound", "verdict", "source", "why"),
)


class _Picture(NamedTuple):
    title: str
    data: str


def write(sections: Sequence[Section], directory: Path, command: str) -> Path:
    """Write everything into a directory; the HTML page. Other files there are left alone."""
    from validation.plots import draw_all

    notes = _NOTES if (directory / _NOTES).exists() else ""

    def fill(path: Path) -> None:
        figures = draw_all(sections, path)
        pages = {"index.md": markdown.index(sections, command, notes, figures)}
        for section in sections:
            pages[f"{section.key}.md"] = markdown.lines(section, command)
        pages["index.html"] = page(sections, _pictures(path, figures), command, notes)
        for name, text in pages.items():
            (path / name).write_text(text, encoding="utf-8", newline="\n")
        with (path / "lines.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            writer.writerows(map(inert.row, _csv_rows(sections)))

    put(directory, "validation", fill)
    return directory / "index.html"


def page(
    sections: Sequence[Section], pictures: Mapping[str, _Picture], command: str, notes: str
) -> str:
    """The whole report as HTML, one file that needs nothing else."""
    content: dict[str, Any] = {
        "version": __version__,
        "command": command,
        "notes": notes,
        "dark_colors": DARK,
        "pictures": pictures,
        "sections": [_section(section) for section in sections],
    }
    folder = Path(__file__).parent / "templates"
    return rendered("validation.html.j2", content, folder, {"unbroken": _unbroken})


def _pictures(directory: Path, figures: Mapping[str, str]) -> dict[str, _Picture]:
    """The pictures that were drawn there, as parts of a page; `figures`: what each shows."""
    found = {}
    for name, title in figures.items():
        raw = (directory / f"{name}.svg").read_bytes()
        found[name] = _Picture(title, f"data:image/svg+xml;base64,{b64encode(raw).decode()}")
    return found


def _section(section: Section) -> dict[str, Any]:
    counts = verdict_counts(section)
    by_group: dict[str, list[Finding]] = {}
    for one in section.findings:
        by_group.setdefault(one.group, []).append(one)
    return {
        "key": section.key,
        "title": section.title,
        "about": section.about,
        "bound": section.bound,
        "link": section.link,
        "sentence": sentence(section),
        "total": len(section.findings),
        "passed": counts[Verdict.PASS],
        "missed": counts[Verdict.MISS],
        "calibrated": counts[Verdict.CALIBRATED],
        "left_out": sum(counts[verdict] for verdict in LEFT_OUT),
        "groups": [
            {
                "name": group.name,
                "judged": group.passed + group.missed,
                "passed": group.passed,
                "missed": group.missed,
                "worst": "" if group.worst is None else error_of(group.worst),
                "bound": bound_of(group),
            }
            for group in groups(section)
            if group.passed + group.missed
        ],
        "misses": [_line(one) for one in missed(section.findings)],
        "left": [
            {"title": str(verdict).capitalize(), "entries": left}
            for verdict in LEFT_OUT
            if (left := _left(section.findings, verdict))
        ],
        "lines": [
            {
                "group": name,
                "source": sources(own),
                "lines": [_line(one) for one in own],
            }
            for name, own in by_group.items()
        ],
    }


def _left(findings: Sequence[Finding], verdict: Verdict) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], int] = {}
    for one in findings:
        if one.verdict is verdict:
            counts[one.group, one.why] = counts.get((one.group, one.why), 0) + 1
    return [{"group": group, "why": why, "count": n} for (group, why), n in counts.items()]


def _line(one: Finding) -> dict[str, str]:
    return {
        "group": one.group,
        "name": one.name,
        "quantity": one.quantity,
        "unit": one.unit,
        "expected": number(one.expected),
        "got": number(one.got),
        "error": error_of(one),
        "half": half_of(one),
        "verdict": str(one.verdict),
        "bound": one.bound,
        "why": one.why,
    }


def _csv_rows(sections: Sequence[Section]) -> Iterable[Sequence[object]]:
    for section in sections:
        for one in section.findings:
            yield (
                *(section.key, one.group, one.name, one.quantity, one.unit, one.expected, one.got),
                *(one.half_width, one.error, one.bound, str(one.verdict), one.source, one.why),
            )


def _unbroken(text: str) -> str:
    """A number stays on the line of its interval and its unit; an interval stays whole."""
    held = r" (?=[±%])|(?<=±) |(?<=\d) (?=to \d|[mun]?s\b|[A-Z]{3}\b)|(?<=\d to) "
    return re.sub(held, "\N{NO-BREAK SPACE}", text)
