"""A report on a terminal: tables as wide as it is, sentences line by line."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from varsim.inert import Drawn, visible
from varsim.report.report import Block, Media, Report, Table, Text

if TYPE_CHECKING:
    from rich import table as rich_table
    from rich.measure import Measurement

PIPE_WIDTH = 120


def terminal(report: Report) -> Drawn:
    """The report as lines; an empty one between blocks that do not stand close together."""
    blocks = report.on(Media.TERMINAL)
    parts = []
    for index, block in enumerate(blocks):
        if index and not (isinstance(block, Text) and block.close):
            parts.append("\n")
        parts += _lines(block)
    return Drawn("".join(parts))


def drawn(table: Table) -> Drawn:
    """A table with a rule under its head; on its side where it is too wide.

    A string, not printed: rich ends the process itself when the reader of a pipe has gone.
    """
    from rich.console import Console

    console = Console()
    columns = os.environ.get("COLUMNS", "")
    has_width = console.is_terminal or (columns.isdecimal() and int(columns) > 0)
    width = console.width if has_width else PIPE_WIDTH
    if _measured(table).maximum > width and len(table.columns) > len(table.rows):
        table = table.turned({}, holds=table.holds)
    if not has_width:
        # Nobody cuts the lines of a file: cells wrap between words, and no word is broken.
        console = Console(width=max(width, _measured(table).minimum))
    with console.capture() as capture:
        console.print(_ruled(table))
    return Drawn("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Text):
        yield from (f"{visible(line)}\n" for line in block.lines)
    elif isinstance(block, Table):
        if block.caption:
            yield visible(block.caption).replace("`", "'") + "\n"
        yield drawn(block)


def _ruled(table: Table) -> "rich_table.Table":
    from rich import box
    from rich import table as rich_table
    from rich.text import Text as RichText

    justify: Literal["left", "right"] = "left" if table.holds == "words" else "right"
    found = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    found.add_column("")
    for heading in table.columns:
        found.add_column(RichText(visible(heading)), justify=justify, overflow="fold")
    for row in table.rows:
        found.add_row(*(RichText(visible(cell)) for cell in (row.label, *row.cells)))
    return found


def _measured(table: Table) -> "Measurement":
    """Widths that the table needs: without breaking a word, and without breaking a cell."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=100_000)
    return Measurement.get(console, console.options, _ruled(table))
