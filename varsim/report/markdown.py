"""A report in Markdown: for slides, issues and reviews."""

from collections.abc import Iterator

from varsim import inert
from varsim.report.report import Block, Figure, Media, Report, Row, Table

_BEGINS = {"title": "# ", "heading": "## ", "label": "## ", "items": "- "}


def markdown(report: Report, pictures: bool = False) -> str:
    """The report as Markdown; with pictures, if their files lie beside it."""
    blocks = [one for one in report.on(Media.MARKDOWN) if pictures or not isinstance(one, Figure)]
    parts = [part for block in blocks for part in _parts(block)]
    return "\n\n".join(parts) + "\n"


def _parts(block: Block) -> Iterator[str]:
    """What stands between empty lines."""
    if isinstance(block, Table):
        if block.caption:
            yield block.caption
        yield "\n".join(grid(block))
    elif isinstance(block, Figure):
        yield f"![{block.alternative}]({block.plot.name}.png)"
    elif block.sort == "paragraphs":
        yield from map(inert.markdown, block.lines)
    elif block.lines:
        begin = _BEGINS.get(block.sort, "")
        yield "\n".join(f"{begin}{inert.markdown(line)}" for line in block.lines)


def grid(table: Table) -> Iterator[str]:
    """The lines of a table."""
    yield _row(Row(table.corner, table.columns))
    rule = "---:" if table.holds == "numbers" else "---"
    yield f"| {' | '.join(['---', *[rule] * len(table.columns)])} |"
    yield from map(_row, table.rows)


def _row(row: Row) -> str:
    cells = ("<br>".join(map(inert.markdown, cell.split("\n"))) for cell in (row.label, *row.cells))
    return f"| {' | '.join(cells)} |"
