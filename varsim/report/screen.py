"""A report for a terminal: a short answer, one table with a row each, three notes of a line."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final
from unicodedata import east_asian_width

from varsim.inert import visible
from varsim.report.notes import coded, line
from varsim.report.told import Column, Note, Report, Table
from varsim.report.wording import MARKED, listed, shown, unheld

WIDEST: Final = 100  # columns of a text to read on
MOST_NOTES: Final = 3
_GAP: Final = "   "
_NARROW: Final = 24  # columns of a cell of words, at least
_NARROWEST: Final = 12  # of one that is never left out
_HANGING: Final = "  "
_SECOND: Final = "\ue000"  # stands for the second column of a letter that takes two
# What is not torn apart at its spaces: `4 B`, `50.1 us`, `3 ± 1`, `ps 0`.
_QUANTITY: Final = re.compile(
    r"(?<=[0-9]) (?=(?:[kMGT]?B|[num]?s|[kMGT]bit/s)\b|[%±])|(?<=±) |(?<=± \?) "
    r"|(?<=\b(?:ps|to)) (?=[0-9])"
)
_MARKS: Final = "¹²³⁴⁵⁶⁷⁸⁹"


def terminal(report: Report, width: int | None = None, every: bool = False) -> str:
    """The report as text, at most so wide; `every`: all columns, notes and details."""
    room = width or columns()
    brief = [n for n in report.notes if every] or list(report.notes[:MOST_NOTES])
    first, alike = report.table.brief()
    if every:
        first, alike = list(report.table.columns), []
    elif room is not None:
        first = fitting(report.table, first, room)
    lines = [part for note in report.headline for part in flow(line(note), room)]
    if first:
        lines += ["", *grid(report.table, first, room, brief)]
    if alike:
        lines += flow(folded(alike, report.table), room)
    lines += [""] * bool(brief)
    for number, note in enumerate(brief):
        mark = f"{_MARKS[number]} " if any(one.note == note.code for one in first) else ""
        lines += flow(mark + coded(note), room)
    for detail in report.details if every else report.details[: report.always]:
        above = [part for text in detail.above for part in flow(text, room, "")]
        lines += ["", *above, *grid(detail, detail.columns, room)]
    more = _more(report, every, len(brief), len(first) + len(alike))
    lines += [""] * bool(more and ((report.details and (every or report.always)) or not brief))
    lines += flow(more, room)
    return "".join(f"{unheld(visible(one)).rstrip()}\n" for one in lines)


def folded(alike: Sequence[Column], table: Table) -> str:
    """Columns that say the same in every row, in a line; once what is so of several."""
    whose: dict[tuple[str, str], list[str]] = {}
    for one in alike:
        whose.setdefault((_what(one), shown(one.cells[0])), []).append(one.of)
    every = Counter(map(_what, table.columns))
    said = [
        f"{what} {value}" + f" ({listed(owners)})" * (any(owners) and len(owners) < every[what])
        for (what, value), owners in whose.items()
    ]
    return f"The same for all: {', '.join(said)}."


def _what(column: Column) -> str:
    """The head of a column without whose it is."""
    return column.head.removeprefix(f"{column.of}: ")


def _more(report: Report, every: bool, notes: int, columns: int) -> str:
    """What is not shown, and the command to type next."""
    left = [
        f"{count} more {what}{'s' * (count > 1)}"
        for count, what in (
            (len(report.table.columns) - columns, "column"),
            (len(report.notes) - notes, "note"),
        )
        if count > 0 and not every
    ]
    said = f"{' and '.join(left)}: --all. " if left else ""
    return said + (f"Next: {report.next}" if report.next else "")


def fitting(table: Table, chosen: Sequence[Column], room: int) -> list[Column]:
    """The first of these columns that stand side by side, and all main ones; one at least."""
    found: list[Column] = []
    used = max(map(len, table.rows), default=0)
    for one in chosen:
        used += len(_GAP) + max(map(len, [one.head, *map(shown, one.cells)]))
        if used <= room or one.main or not found:
            found.append(one)
    return found


def grid(
    table: Table, chosen: Sequence[Column], room: int | None, notes: Sequence[Note] = ()
) -> Iterator[str]:
    """The lines of a table with a rule under its head; in parts where it is too wide."""
    codes = [note.code for note in notes]
    heads = [
        one.head + (_MARKS[codes.index(one.note)] if one.note in codes else "") for one in chosen
    ]
    cells = [[head, *_aligned(one)] for head, one in zip(heads, chosen, strict=True)]
    first = max(map(len, ["", table.corner, *table.rows]))
    widths = [_width(column) for column in cells]
    for at in sorted((at for at, one in enumerate(chosen) if one.prose), key=widths.__getitem__):
        others = first + sum(len(_GAP) + one for one in widths) - widths[at]
        narrow = _NARROWEST if chosen[at].main else _NARROW
        least = max(narrow, (WIDEST if room is None else min(room, WIDEST)) - others)
        if at == max(range(len(widths)), key=widths.__getitem__) and widths[at] > least:
            cells[at] = ["\n".join(_torn(cell, least)) for cell in cells[at]]
            widths[at] = least
    ends = [0]
    for index, total in enumerate(accumulate(len(_GAP) + one for one in widths)):
        before = sum(len(_GAP) + one for one in widths[: ends[-1]])
        if room is not None and first + total - before > room and index > ends[-1]:
            ends.append(index)
    for start, end in zip(ends, [*ends[1:], len(widths)], strict=True):
        if start:
            yield ""
        part = list(range(start, end))
        for row, name in enumerate([table.corner, *table.rows]):
            lines = [cells[at][row].split("\n") for at in part]
            for texts in zip_longest([name], *lines, fillvalue=""):
                yield _GAP.join(
                    [texts[0].ljust(first)]
                    + [
                        one.ljust(widths[at]) if chosen[at].prose else one.rjust(widths[at])
                        for at, one in zip(part, texts[1:], strict=True)
                    ]
                )
            if row == 0:
                yield "─" * (first + sum(len(_GAP) + widths[at] for at in part))


def _width(cells: Sequence[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _torn(cell: str, room: int) -> list[str]:
    """The lines of a cell of words, none of them longer than that."""
    return [part for line in cell.split("\n") for part in flow(line, room) or [""]]


def _aligned(column: Column) -> list[str]:
    """Its cells; where some are marked, the others have room for a mark."""
    cells, marks = list(map(shown, column.cells)), tuple(MARKED.values())
    if not any(cell.endswith(marks) for cell in cells):
        return cells
    blank = "\N{NO-BREAK SPACE}" * len(marks[0])
    return [cell if cell.endswith(marks) else cell + blank for cell in cells]


def flow(text: str, room: int | None, hanging: str = _HANGING) -> list[str]:
    """A text as lines of a terminal; quantities stay whole, and letters of two columns count so."""
    if not text or room is None or len(text) <= room:
        return [text] * bool(text)
    held = _QUANTITY.sub("\N{NO-BREAK SPACE}", text)
    wide = "".join(one + _SECOND * (east_asian_width(one) in "WF") for one in held)
    fits = min(room, WIDEST)
    lines = wrap(wide, fits, subsequent_indent=hanging, break_on_hyphens=False)
    return [line.replace(_SECOND, "") for line in lines]


def columns() -> int | None:
    """How wide the terminal is, or a pipe by COLUMNS; None where nobody says."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return get_terminal_size().columns if sys.stdout.isatty() else None
