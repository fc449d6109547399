"""A report as Markdown, CSV, JSON, or HTML for a notebook."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Literal, TypeAlias

from varsim.core.inert import markdown as inert
from varsim.core.inert import row as inert_row
from varsim.report.notes import line
from varsim.report.screen import folded, headed, marked, noted, terminal
from varsim.report.told import Column, Data, Report, Table
from varsim.report.wording import shown, unheld
from varsim.scenario.change import in_python
from varsim.scenario.writing import to_json

Format: TypeAlias = Literal["table", "md", "csv", "json"]


def render(report: Report, format: Format, *, every: bool = False) -> str:
    """The report for a terminal, as Markdown, all of it as JSON, or its numbers as CSV."""
    if format == "table":
        return terminal(report, every=every)
    if format == "md":
        return markdown(report)
    return csv_text(report.data) if format == "csv" else to_json(report.facts())


def markdown(report: Report) -> str:
    """The report as Markdown, with every column of its table and all details."""
    marks = marked(report.table.columns, report.notes)
    parts = [
        "\n".join(inert(line(note)) for note in report.headline),
        _grid(report.table, marks),
        "\n".join(f"- {inert(noted(note, marks))}" for note in report.notes),
        *(_grid(one, {}) for one in report.details),
    ]
    return unheld("\n\n".join(part for part in parts if part) + "\n")


def _grid(table: Table, marks: Mapping[str, str]) -> str:
    head, *rows = map(_grid_row, _texts(table, table.columns, marks))
    rules = ("---" if one.prose else "---:" for one in table.columns)
    lines = [head, f"| --- | {' | '.join(rules)} |", *rows]
    return "\n\n".join([*map(inert, table.above), "\n".join(lines)])


def _grid_row(texts: Sequence[str]) -> str:
    """A row of a table."""
    cells = ("<br>".join(map(inert, text.split("\n"))) for text in texts)
    return f"| {' | '.join(cells)} |"


def _texts(
    table: Table, columns: Sequence[Column], marks: Mapping[str, str]
) -> Iterator[Sequence[str]]:
    """The rows of a table as text, its head first."""
    yield [table.corner, *(headed(one, marks) for one in columns)]
    yield from zip(table.rows, *(map(shown, one.cells) for one in columns), strict=True)


def in_file(report: Report, format: Format, pictures: Mapping[str, str]) -> str:
    """The same as a file; Markdown begins with a title, the question and the pictures beside it."""
    text = render(report, format)
    if format != "md":
        return text
    asked = report.question.partition("\n")[0]
    head = [f"# {inert(report.name)}", f"*{inert(asked)}*" if asked else ""]
    head += [f"![{inert(about)}]({name})" for name, about in pictures.items()]
    return "\n\n".join([part for part in head if part] + [text])


def answer(report: Report) -> str:
    """The headline, a sentence a line."""
    return unheld("\n".join(in_python(line(note)) for note in report.headline))


def html(report: Report) -> str:
    """What the command prints, as HTML."""
    first, alike = report.table.brief()
    marks = marked(first, report.notes)
    parts = [
        _element("h4", report.name),
        *(_element("p", in_python(line(note))) for note in report.headline),
        _rows(report.table, first, marks),
        *([_element("p", folded(alike, report.table))] if alike else []),
        *(_element("p", in_python(noted(note, marks))) for note in report.notes),
        *(_rows(one, one.columns) for one in report.details[: report.always]),
    ]
    return "".join(parts)


def _rows(table: Table, columns: Sequence[Column], marks: Mapping[str, str] = {}) -> str:
    """A table as HTML."""
    head, *rows = _texts(table, columns, marks)
    lines = ["".join(_element("th", text) for text in head)]
    for name, *cells in rows:
        lines.append(_element("th", name) + "".join(_element("td", text) for text in cells))
    above = "".join(_element("p", text) for text in table.above)
    return above + f"<table>{''.join(f'<tr>{one}</tr>' for one in lines)}</table>"


def _element(tag: str, text: str) -> str:
    lines = escape(text).replace("\n", "<br>")
    return f"<{tag}>{lines}</{tag}>"


def csv_text(data: Data) -> str:
    """The rows, with all digits of numbers; empty where there is none."""
    rows = (inert_row(map(_cell, row)) for row in data.rows)
    return "".join(csv_lines(inert_row(data.columns), rows))


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
