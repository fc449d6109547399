"""A report in Markdown: for slides, issues and reviews."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from varsim import inert
from varsim.report.report import Block, Figure, Media, Report, Row, Table, Text

_BEGINS = {"title": "# ", "heading": "## ", "label": "## ", "items": "- ", "entries": "- "}


def markdown(report: Report, pictures: bool = False) -> str:
    """The report as Markdown; with pictures, if their files lie beside it."""
    blocks = [one for one in report.on(Media.MARKDOWN) if pictures or not isinstance(one, Figure)]
    return "\n\n".join(part for block in blocks for part in _parts(block)) + "\n"


def grid(table: Table) -> Iterator[str]:
    """The lines of a table."""
    story, rule = table.holds == "story", "---:" if table.holds == "numbers" else "---"
    yield _row((table.corner, *table.columns))
    yield f"| {' | '.join(['---:' if story else '---', *[rule] * len(table.columns)])} |"
    for row in table.rows:
        yield _told(row, len(table.columns)) if story else _row((row.label, *row.cells))


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


def _row(texts: Sequence[str]) -> str:
    cells = ("<br>".join(map(inert.markdown, text.split("\n"))) for text in texts)
    return f"| {' | '.join(cells)} |"


def _told(row: Row, columns: int) -> str:
    """A row of a story; one without cells is the heading of what follows."""
    cells = [row.label, *row.cells] if row.cells else [f"**{row.label}**", *[""] * columns]
    shown = (cell.replace("\n", "; ").replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(shown)} |"
