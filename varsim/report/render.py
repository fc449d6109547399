"""A report as text: for a terminal, for people elsewhere, or for other programs."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from varsim import inert
from varsim.report.markdown import markdown
from varsim.report.report import Data, Report
from varsim.report.terminal import terminal
from varsim.scenario.provenance import to_json

# How deep JSON is indented that has every number on a line of its own.
_INDENT: Final = {"sweep": 1, "plan": 1, "tune": 1, "why": 2, "stragglers": 2}
Format: TypeAlias = Literal["table", "md", "csv", "json"]


def render(
    report: Report, format: Format, *, pictures: bool = False, width: int | None = None
) -> str:
    """The report for a terminal, as Markdown, all of it as JSON, or its main table as CSV.

    `pictures`: Markdown shows those that lie beside it. `width`: of a text for a terminal.
    """
    if format == "table":
        return terminal(report, width)
    if format == "md":
        return markdown(report, pictures)
    return csv_text(report.data) if format == "csv" else json_text(report)


def json_text(report: Report) -> str:
    """All of a report as plain data."""
    if report.kind not in _INDENT:
        return to_json(report.facts())
    indent = _INDENT[report.kind]
    return json.dumps(report.facts(), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(data: Data) -> str:
    """The rows, with all digits of numbers; empty where there is none."""
    rows = (inert.row(map(_cell, row)) for row in data.rows)
    return "".join(csv_lines(inert.row(data.columns), rows))


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines of CSV, one by one; the cells as they are."""
    writer = csv.writer(_Echo(), lineterminator="\n")
    yield writer.writerow(columns)
    yield from map(writer.writerow, rows)


class _Echo:
    """What a writer writes to that is to return what it would write."""

    def write(self, text: str) -> str:
        return text


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or value != value else value
