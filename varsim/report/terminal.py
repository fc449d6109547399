"""A report on a terminal: tables as wide as it is, sentences line by line."""

import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Literal, cast
from unicodedata import east_asian_width

from varsim.inert import Drawn, visible
from varsim.report.report import Block, Media, Report, Row, Table, Text

if TYPE_CHECKING:
    from rich import table as rich_table

PIPE_WIDTH: Final = 120
WIDEST: Final = 100  # of prose: longer lines are hard to read
_BETWEEN: Final = 3  # columns of a table
_NUMBER: Final = 24  # a longer cell is no number, and may break
_LONG: Final = 16  # a longer word of a heading may
_HEAD: Final = 8  # columns that a heading gets, if it needs them
_HANGING: Final = "  "
_GAP: Final = "  "
_LEAST_STORY: Final = 30
_TERM: Final = 11  # columns of what an entry is about
# What is not torn apart at its spaces: `6 = 3 + 1 + 2`, `3 | 1 | 2`; `4 B`, `50.1 us`, `ps 0`.
_FORMULA: Final = re.compile(r"\S+(?: [|+/=] \S+)+")
_QUANTITY: Final = re.compile(
    r"(?<=[0-9]) (?=(?:[kMGT]?B|[num]?s|[kMGT]bit/s)\b|[%±])|(?<=±) |(?<=± \?) "
    r"|(?<=\b(?:ps|to)) (?=[0-9])"
)
_FIXED: Final = "\N{NO-BREAK SPACE}"
_SECOND: Final = "\ue000"


def terminal(report: Report, width: int | None = None) -> Drawn:
    """The report as lines, with an empty one between blocks that do not stand close together.

    With a width it is a text to read on: lines are torn there, and tables are plain where all of
    them fit. Without, sentences are torn where a terminal ends, and stay whole in a pipe.
    """
    parts: list[str] = []
    room = columns()
    plain = width is None or all(_fits(block, width) for block in report.on(Media.TERMINAL))
    before: Block | None = None
    for block in report.on(Media.TERMINAL):
        if before is not None and not _close(block, before):
            parts.append("")
        parts += _ruled_off(block, room) if width is None else _flowing(block, width, plain)
        before = block
    return Drawn("".join(f"{line}\n" for line in parts))


def flow(text: str, width: int, indent: str = "") -> list[str]:
    """The lines, all but the first indented; what is longer than a line is torn after all."""
    fixed = _held(text, width - len(indent))
    if not text.isascii():  # what takes two columns counts as two letters
        fixed = "".join(one + _SECOND * _wide(one) for one in fixed)
    lines = wrap(fixed, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(_FIXED, " ").replace(_SECOND, "") for line in lines]


def _wide(text: str) -> int:
    """How many of its letters take two columns."""
    return sum(east_asian_width(one) in "WF" for one in text)


def _held(text: str, longest: int) -> str:
    """Text whose quantities, and formulas up to `longest`, have no space at which to break."""

    def whole(match: re.Match[str]) -> str:
        return match[0].replace(" ", _FIXED) if len(match[0]) <= longest else match[0]

    return _QUANTITY.sub(_FIXED, _FORMULA.sub(whole, text))


def drawn(table: Table, *, turn: bool = True) -> Drawn:
    """A table with a rule under its head; on its side, or in parts, where it is too wide.

    `turn`: whether it may be on its side, a row per column, where it has fewer rows than columns.
    A string, not printed: rich ends the process itself when the reader of a pipe has gone.
    """
    from rich.console import Console

    table, width = _shown(table), columns()
    whole = _widths(table, most=True)
    wide = sum(whole) + _BETWEEN * len(table.columns) > (width or PIPE_WIDTH)
    if turn and wide and len(table.columns) > len(table.rows):
        table = table.turned({}, holds=table.holds)
    # Nobody cuts the lines of a file: cells wrap between words, and no word is broken.
    least = sum(_widths(table)) + _BETWEEN * len(table.columns)
    console = Console(
        file=StringIO(),  # its `capture` writes to stdout all the same, if only nothing
        width=width or max(PIPE_WIDTH, least),
        # Where it takes the terminal for a dumb one, rich has 80 columns whatever is said.
        force_terminal=(sys.stdout.isatty() and os.environ.get("TERM") != "dumb") or None,
        force_jupyter=False,
    )
    for index, part in enumerate(_parts(table, console.width)):
        console.print(*[""] * min(index, 1), _ruled(part, console.width), sep="\n")
    lines = cast(StringIO, console.file).getvalue().splitlines()
    return Drawn("".join(f"{line.rstrip()}\n" for line in lines))


def columns() -> int | None:
    """How wide the terminal is, or a pipe by COLUMNS; None where nobody says."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _close(block: Block, before: Block) -> bool:
    """Whether a block stands right under the one before."""
    if not isinstance(block, Text) or block.close:
        return isinstance(block, Text)
    heads = isinstance(before, Text) and before.sort in ("title", "heading", "label")
    return heads and block.sort not in ("heading", "label", "entries")


def _ruled_off(block: Block, room: int | None) -> Iterator[str]:
    """The lines of a block, torn where there is no more room; tables have a rule under the head."""
    if isinstance(block, Text):
        for line in map(visible, block.lines):
            yield from [line] if room is None else flow(line, min(room, WIDEST), _HANGING)
    elif isinstance(block, Table):
        if block.caption:
            caption = visible(block.caption).replace("`", "'")
            yield from [caption] if room is None else flow(caption, min(room, WIDEST), _HANGING)
        yield from drawn(replace(block, corner="")).splitlines()


def _fits(block: Block, width: int) -> bool:
    """Whether a block can be a plain table; what is no table has no say."""
    if not isinstance(block, Table) or block.holds == "story" or columns() is None:
        return True
    return max(map(len, map(visible, _plain(block)))) <= width


def _flowing(block: Block, width: int, plain: bool) -> Iterator[str]:
    """The lines of a block, none of them longer than `width`; tables `plain` or with one rule."""
    if isinstance(block, Table) and block.holds == "story":
        yield from map(visible, _story(block, width))
    elif isinstance(block, Table):
        yield from map(visible, _plain(block)) if plain else drawn(block).splitlines()
    elif isinstance(block, Text) and block.sort in ("heading", "label"):
        for line in map(visible, block.lines):
            yield f"== {line} ".ljust(width - _wide(line), "=")
    elif isinstance(block, Text) and block.sort == "entries":
        for term, line in zip(block.terms, block.lines, strict=True):
            first, *rest = flow(visible(line), width - _TERM)
            yield from (f"{term:<{_TERM}}{first}", *(" " * _TERM + more for more in rest))
    elif isinstance(block, Text):
        for line in map(visible, block.lines):
            if block.sort == "paragraphs":
                yield from flow(line, width)
            else:
                yield from flow(line, width, _HANGING)


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


def _shown(table: Table) -> Table:
    """The table with nothing in it that acts unseen."""
    rows = (Row(visible(row.label), tuple(map(visible, row.cells))) for row in table.rows)
    return replace(table, columns=tuple(map(visible, table.columns)), rows=tuple(rows))


def _widths(table: Table, *, most: bool = False) -> list[int]:
    """The widths of its columns, that of the labels first: the least in which no quantity breaks.

    `most`: in which nothing does.
    """
    texts = [[row.label for row in table.rows]]
    texts += [[row.cells[index] for row in table.rows] for index in range(len(table.columns))]
    numbers = table.holds != "words"

    def width(heading: str, cells: Sequence[str], *, whole: bool) -> int:
        heads = [heading] if most else [*_pieces(heading), heading[:_HEAD]]
        lines = [line for cell in cells for line in cell.split("\n")]
        words = (
            lines
            if most or whole
            else [word for line in lines for word in _held(line, _NUMBER).split(" ")]
        )
        return max((cell_len(text.rstrip()) for text in (*heads, *words)), default=0)

    from rich.cells import cell_len

    headings = [table.corner, *table.columns]
    return [
        width(
            heading,
            cells,
            whole=numbers and index > 0 and max(map(len, cells), default=0) <= _NUMBER,
        )
        for index, (heading, cells) in enumerate(zip(headings, texts, strict=True))
    ]


def _parts(table: Table, width: int) -> Iterator[Table]:
    """The columns that fit beside one another, evenly; those that say which row it is in each."""
    first, *rest = _widths(table)
    others = rest[table.keys :]
    room = width - first - sum(each + _BETWEEN for each in rest[: table.keys])
    ends = [0]
    used = 0
    for index, each in enumerate(others):
        if used + each + _BETWEEN > room and index > ends[-1]:
            ends.append(index)
            used = 0
        used += each + _BETWEEN
    count = math.ceil(len(others) / len(ends))
    even = range(0, len(others), count)
    if all(sum(others[at : at + count]) + count * _BETWEEN <= room for at in even):
        ends = list(even)
    for start, end in zip(ends, [*ends[1:], len(others)], strict=True):
        chosen = [*range(table.keys), *range(table.keys + start, table.keys + end)]
        rows = (Row(row.label, tuple(row.cells[at] for at in chosen)) for row in table.rows)
        yield replace(table, columns=tuple(table.columns[at] for at in chosen), rows=tuple(rows))


def _ruled(table: Table, width: int) -> "rich_table.Table":
    from rich import box
    from rich import table as rich_table
    from rich.text import Text as RichText

    justify: Literal["left", "right"] = "left" if table.holds == "words" else "right"
    found = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    least, most = _widths(table), _widths(table, most=True)
    # What room is left is for the labels, then for whichever column is the narrowest.
    for _ in range(width - sum(least) - _BETWEEN * len(table.columns)):
        narrow = [index for index, each in enumerate(least) if each < most[index]]
        if not narrow:
            break
        least[min(narrow, key=lambda one: (one > 0, least[one]))] += 1
    for heading, most_wide in zip([table.corner, *table.columns], least, strict=True):
        head = RichText("\n".join(_lines_of(heading, most_wide)))
        side: Literal["left", "right"] = justify if found.columns else "left"
        found.add_column(head, justify=side, overflow="fold", max_width=most_wide)
    for row in table.rows:
        # Rich would break at the spaces of a quantity, too.
        cells = [
            "\n".join(line for part in cell.split("\n") for line in flow(part, wide) or [""])
            for cell, wide in zip(row.cells, least[1:], strict=True)
        ]
        found.add_row(*map(RichText, (row.label, *cells)))
    return found


def _pieces(heading: str) -> list[str]:
    """Words of a heading, and parts of long names such as `strategies.0.replicas_to_aggregate`."""
    words = re.findall(r"[^ ]+ *", heading)
    return [
        piece
        for word in words
        for piece in ([word] if len(word) <= _LONG else re.findall(r"[^_.]+[_.]*", word) or [word])
    ]


def _lines_of(heading: str, width: int) -> list[str]:
    """A heading on as many lines as it needs."""
    lines = [""]
    for piece in _pieces(heading):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
