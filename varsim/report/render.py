"""A report as text: for a terminal, for people elsewhere, or for other programs."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, Literal, TypeAlias

from varsim import inert
from varsim.report.report import Block, Figure, Media, Report, Row, Table, Text
from varsim.report.terminal import terminal
from varsim.report.told import Data
from varsim.scenario.provenance import to_json

# How deep JSON is indented that has every number on a line of its own.
_INDENT: Final = {"sweep": 1, "why": 2}
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


_BEGINS = {"title": "# ", "heading": "## ", "label": "## ", "items": "- ", "entries": "- "}


def markdown(report: Report, pictures: bool = False) -> str:
    """The report as Markdown; with pictures, if their files lie beside it."""
    blocks = [one for one in report.on(Media.MARKDOWN) if pictures or not isinstance(one, Figure)]
    return "\n\n".join(part for block in blocks for part in _parts(block)) + "\n"


def grid(table: Table) -> Iterator[str]:
    """The lines of a table."""
    story, rule = table.holds == "story", "---:" if table.holds == "numbers" else "---"
    yield grid_row((table.corner, *table.columns))
    yield f"| {' | '.join(['---:' if story else '---', *[rule] * len(table.columns)])} |"
    for row in table.rows:
        yield _told(row, len(table.columns)) if story else grid_row((row.label, *row.cells))


def _parts(block: Block) -> Iterator[str]:
    """What stands between empty lines."""
    if isinstance(block, Table):
        if block.caption:
            yield block.caption
        yield "\n".join(grid(block))
    elif isinstance(block, Figure):
        yield f"![{block.alternative}]({block.plot.name}.png)"
    elif block.lines:
        apart = "\n\n" if block.sort == "paragraphs" else "\n"
        yield apart.join(_lines(block))


def _lines(text: Text) -> Iterator[str]:
    for line, term in zip_longest(text.lines, text.terms, fillvalue=""):
        about = f"{term}: " if term else ""
        shown = line if text.plain else inert.markdown(line)
        yield f"{_BEGINS.get(text.sort, '')}{about}{shown}"


def grid_row(texts: Sequence[str]) -> str:
    """A row of a table."""
    cells = ("<br>".join(map(inert.markdown, text.split("\n"))) for text in texts)
    return f"| {' | '.join(cells)} |"


def _told(row: Row, columns: int) -> str:
    """A row of a story; one without cells is the heading of what follows."""
    cells = [row.label, *row.cells] if row.cells else [f"**{row.label}**", *[""] * columns]
    shown = (cell.replace("\n", "; ").replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(shown)} |"
