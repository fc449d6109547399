"""A report on a terminal: tables as wide as it is, sentences line by line."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Literal

from varsim.inert import Drawn, visible
from varsim.report.report import Block, Media, Report, Table, Text

if TYPE_CHECKING:
    from rich import table as rich_table
    from rich.measure import Measurement

PIPE_WIDTH: Final = 120
_HANGING: Final = "  "
_GAP: Final = "  "
_LEAST_STORY: Final = 30
_TERM: Final = 11  # columns of what an entry is about
# What is not torn apart at its spaces: `6 = 3 + 1 + 2`, `3 | 1 | 2`; `4 B`, `50.1 us`, `ps 0`.
_FORMULA: Final = re.compile(r"\S+(?: [|+/=] \S+)+")
_QUANTITY: Final = re.compile(r"(?<=[0-9]) (?=(?:[kMGT]?B|[num]?s|%)\b)|(?<=\b(?:ps|to)) (?=[0-9])")
_FIXED: Final = "\N{NO-BREAK SPACE}"


def terminal(report: Report, width: int | None = None) -> Drawn:
    """The report as lines, with an empty one between blocks that do not stand close together.

    With a width it is a text to read on: lines are torn there, and tables are plain.
    """
    parts: list[str] = []
    before: Block | None = None
    for block in report.on(Media.TERMINAL):
        if before is not None and not _close(block, before):
            parts.append("")
        parts += _ruled_off(block) if width is None else _flowing(block, width)
        before = block
    return Drawn("".join(f"{line}\n" for line in parts))


def flow(text: str, width: int, indent: str = "") -> list[str]:
    """The lines, all but the first indented; what is longer than a line is torn after all."""

    def whole(match: re.Match[str]) -> str:
        fits = len(match[0]) <= width - len(indent)
        return match[0].replace(" ", _FIXED) if fits else match[0]

    fixed = _QUANTITY.sub(_FIXED, _FORMULA.sub(whole, text))
    lines = wrap(fixed, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_FIXED, " ") for line in lines]


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


def _close(block: Block, before: Block) -> bool:
    """Whether a block stands right under the one before."""
    if not isinstance(block, Text) or block.close:
        return isinstance(block, Text)
    heads = isinstance(before, Text) and before.sort in ("title", "heading", "label")
    return heads and block.sort not in ("heading", "label", "entries")


def _ruled_off(block: Block) -> Iterator[str]:
    """The lines of a block as they are; a table with a rule under its head."""
    if isinstance(block, Text):
        yield from map(visible, block.lines)
    elif isinstance(block, Table):
        if block.caption:
            yield visible(block.caption).replace("`", "'")
        yield from drawn(block).splitlines()


def _flowing(block: Block, width: int) -> Iterator[str]:
    """The lines of a block, none of them longer than `width`."""
    if isinstance(block, Table):
        story = block.holds == "story"
        yield from map(visible, _story(block, width) if story else _plain(block))
    elif isinstance(block, Text) and block.sort in ("heading", "label"):
        yield from (f"== {visible(line)} ".ljust(width, "=") for line in block.lines)
    elif isinstance(block, Text) and block.sort == "entries":
        for term, line in zip(block.terms, block.lines, strict=True):
            first, *rest = flow(visible(line), width - _TERM)
            yield from (f"{term:<{_TERM}}{first}", *(" " * _TERM + more for more in rest))
    elif isinstance(block, Text):
        for line in map(visible, block.lines):
            if block.sort == "paragraphs":
                yield from flow(line, width)
            else:
                yield from flow(line.replace(" %", f"{_FIXED}%"), width, _HANGING)


def _plain(table: Table) -> Iterator[str]:
    """Columns of text, the first of words and all others of numbers."""
    rows = [(table.corner, *table.columns), *((row.label, *row.cells) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in (rows[0], ["-" * width for width in widths], *rows[1:]):
        cells = [row[0].ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        yield _GAP.join(cells).rstrip()


def _story(table: Table, width: int) -> Iterator[str]:
    """What happened, line by line; the copies have a column where that leaves enough room."""
    rows = [row for row in table.rows if row.cells]
    when = max(len(row.label) for row in rows)
    name = max(len(row.cells[0]) for row in rows)
    left = width - when - name - 2 * len(_GAP)
    parts = [part for row in rows for part in row.cells[-1].split("\n")]
    copies = max(map(len, [table.columns[-1], *parts]))
    aside = left - len(_GAP) - copies >= max(_LEAST_STORY, copies)
    widths = [when, name, *([left - len(_GAP) - copies, copies] if aside else [left])]
    heads = (table.corner, *table.columns[:2], table.columns[-1])[: len(widths)]
    yield from _side_by_side([[head] for head in heads], widths)
    yield _GAP.join("-" * width for width in widths)
    for row in table.rows:
        if not row.cells:
            yield row.label
            continue
        who, what, sent, held = row.cells
        lines = flow(what, widths[2])
        if sent:
            lines += flow(f"sent: {sent}", widths[2], "      ")
        if held and not aside:
            found = [line for part in held.split("\n") for line in flow(part, left - 8)]
            lines += [f"copies: {found[0]}", *(f"{'':8}{line}" for line in found[1:])]
        cells = [[row.label.rjust(when)], [who], lines, held.split("\n")]
        yield from _side_by_side(cells[: len(widths)], widths)


def _side_by_side(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row of cells, each of several lines."""
    for texts in zip_longest(*cells, fillvalue=""):
        padded = [f"{text:<{width}}" for text, width in zip(texts, widths, strict=True)]
        yield _GAP.join(padded).rstrip()


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
