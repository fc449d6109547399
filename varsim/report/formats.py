"""A report as Markdown, CSV, JSON, or HTML for a notebook."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from varsim.inert import markdown as inert
from varsim.report.notes import coded, line
from varsim.report.render import Format, csv_text, grid_row
from varsim.report.screen import folded, terminal
from varsim.report.told import Report, Table
from varsim.report.wording import shown, unheld
from varsim.scenario.provenance import to_json

if TYPE_CHECKING:
    from pandas import DataFrame


def render(report: Report, format: Format, *, every: bool = False) -> str:
    """The report for a terminal, as Markdown, all of it as JSON, or its numbers as CSV."""
    if format == "table":
        return terminal(report, every=every)
    if format == "md":
        return markdown(report)
    return csv_text(report.data) if format == "csv" else to_json(report.facts())


def markdown(report: Report) -> str:
    """The report as Markdown, with every column of its table and all details."""
    parts = [
        "\n".join(inert(line(note)) for note in report.headline),
        _grid(report.table),
        "\n".join(f"- {inert(coded(note))}" for note in report.notes),
        *map(_grid, report.details),
    ]
    return unheld("\n\n".join(part for part in parts if part) + "\n")


def _grid(table: Table) -> str:
    head = [grid_row((table.corner, *(one.head for one in table.columns)))]
    head.append(f"| --- |{' ---: |' * len(table.columns)}")
    cells = zip(*(map(shown, one.cells) for one in table.columns), strict=True)
    rows = [grid_row((name, *row)) for name, row in zip(table.rows, cells, strict=True)]
    return "\n".join(head + rows)


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
    return unheld("\n".join(map(line, report.headline)))


def lines(report: Report) -> tuple[str, ...]:
    """The notes, each with its code in brackets."""
    return tuple(unheld(coded(note)) for note in report.notes)


def frame(report: Report) -> "DataFrame":
    """The table as text, all its columns; a row each."""
    from pandas import DataFrame

    table = report.table
    cells = {one.head: [unheld(shown(cell)) for cell in one.cells] for one in table.columns}
    return DataFrame(cells, index=list(table.rows)).rename_axis(table.corner)


def html(report: Report) -> str:
    """What the command prints, as HTML."""
    from markupsafe import Markup, escape

    said = Markup("").join(Markup("<p>{}</p>").format(line(note)) for note in report.headline)
    notes = Markup("").join(Markup("<p>{}</p>").format(coded(note)) for note in report.notes)
    first, alike = report.table.brief()
    same = Markup("<p>{}</p>").format(folded(alike)) if alike else ""
    head = Markup("").join(Markup("<th>{}</th>").format(one.head) for one in first)
    every = zip(*(map(shown, one.cells) for one in first), strict=True)
    rows = Markup("").join(
        Markup("<tr><th>{}</th>{}</tr>").format(
            name, Markup("").join(Markup("<td>{}</td>").format(cell) for cell in cells)
        )
        for name, cells in zip(report.table.rows, every, strict=True)
    )
    table = Markup("<table><tr><th></th>{}</tr>{}</table>").format(head, rows)
    return str(Markup("<h4>{}</h4>").format(escape(report.name)) + said + table + same + notes)
