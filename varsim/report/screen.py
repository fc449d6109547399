"""A report for a terminal: a short answer, one table with a row each, three notes of a line."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final
from unicodedata import east_asian_width

from varsim.core.inert import SIGNS, visible
from varsim.report.notes import coded, line
from varsim.report.told import Column, Note, Report, Table
from varsim.report.wording import MARKED, listed, shown, unheld

WIDEST: Final = 100  # columns of a text to read on
MOST_NOTES: Final = 3
_GAP: Final = "   "
_NARROW: Final = 24  # columns of a cell of words, at least
_NARROWEST: Final = 12  # of one that is never left out
_NARROW_NAMES: Final = 16  # of what heads the rows
_HANGING: Final = "  "
_SECOND: Final = "\ue000"  # stands for the second column of a letter that takes two
# What is not torn apart at its spaces: `4 B`, `50.1 us`, `3 ± 1`, `ps 0`.
_QUANTITY: Final = re.compile(
    r"(?<=[0-9]) (?=(?:[kMGT]?B|[num]?s|[kMGT]bit/s)\b|[%±])|(?<=±) |(?<=± \?) "
    r"|(?<=\b(?:ps|to)) (?=[0-9])"
)
_TYPED: Final = re.compile(r"--set '[^']*'")  # nor what is to be typed
_LETTERS: Final = "abcdefghi"  # of the notes on columns


def terminal(report: Report, width: int | None = None, every: bool = False) -> str:
    """The report as text, at most so wide; `every`: all columns, notes and details."""
    room = width or columns()
    brief = [n for n in report.notes if every] or list(report.notes[:MOST_NOTES])
    first, alike = report.table.brief()
    if every:
        first, alike = list(report.table.columns), []
    elif room is not None:
        first = fitting(report.table, first, room, marked(first, brief))
    marks = marked(first, brief)
    lines = [part for note in report.headline for part in flow(line(note), room)]
    if first:
        lines += ["", *grid(report.table, first, room, marks)]
    if alike:
        lines += flow(folded(alike, report.table), room)
    lines += [""] * bool(brief)
    for note in brief:
        mark = marks.get(note.code, "")
        lines += flow(f"{mark} {coded(note)}".lstrip(), room)
    for detail in report.details if every else report.details[: report.always]:
        above = [part for text in detail.above for part in flow(text, room, "")]
        lines += ["", *above, *grid(detail, detail.columns, room)]
    more = _more(report, every, len(brief), len(first) + len(alike))
    lines += [""] * bool(more and ((report.details and (every or report.always)) or not brief))
    lines += flow(more, room)
    return "".join(f"{unheld(visible(one)).rstrip()}\n" for one in lines)


def marked(columns: Sequence[Column], notes: Sequence[Note]) -> dict[str, str]:
    """The marks of the notes on these columns, `[a]`, by code: nobody reads them as a power."""
    about = {one.note for one in columns}
    codes = [note.code for note in notes if note.code in about]
    return {code: f"[{letter}]" for code, letter in zip(codes, _LETTERS, strict=False)}


def folded(alike: Sequence[Column], table: Table) -> str:
    """Columns that say the same in every row, in a line; once what is so of several."""
    whose: dict[tuple[str, str], list[str]] = {}
    for one in alike:
        whose.setdefault((_what(one), shown(one.cells[0])), []).append(one.of)
    every = Counter(map(_what, table.columns))
    said = [
        f"{_headed(what)} {value}"
        + f" ({listed(owners)})" * (any(owners) and len(owners) < every[what])
        for (what, value), owners in whose.items()
    ]
    return f"The same for all: {', '.join(said)}."


def _what(column: Column) -> str:
    """The head of a column without whose it is."""
    return column.head.removeprefix(f"{column.of}: ")


def _headed(what: str) -> str:
    """The head of a value in a line; a colon parts it from a number in the head."""
    return f"{what}:" if any(map(str.isdigit, what)) else what


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


def fitting(
    table: Table, chosen: Sequence[Column], room: int, marks: Mapping[str, str] = {}
) -> list[Column]:
    """Those of these columns that stand side by side: all main ones, others by rank, one at least.

    Where heads that are torn into lines make room for more, they are meant to be.
    """

    def kept(torn: bool) -> list[Column]:
        found: list[Column] = []
        used = _width(_names(table, torn=torn))
        for one in sorted(chosen, key=lambda one: (not one.main, one.rank)):
            wide = _width([*_head(one, marks, torn=torn), *_aligned(one)])
            used += len(_GAP) + (min(wide, _NARROW) if one.prose else wide)
            if used > room and not one.main and found:
                break
            found.append(one)
        return [one for one in chosen if one in found]

    return max(kept(torn=False), kept(torn=True), key=len)


def grid(
    table: Table, chosen: Sequence[Column], room: int | None, marks: Mapping[str, str] = {}
) -> Iterator[str]:
    """The lines of a table with a rule under its head; in parts where it is too wide."""
    if table.shaded:
        yield from flow(table.corner.rpartition(": ")[0], room)
    for torn in (False, True):
        names = _names(table, torn=torn)
        heads = [_head(one, marks, torn=torn) for one in chosen]
        cells = [_aligned(one) for one in chosen]
        widths = [_width([*head, *own]) for head, own in zip(heads, cells, strict=True)]
        first = _width(names)
        if room is None or first + sum(len(_GAP) + one for one in widths) <= room:
            break
    for at in sorted((at for at, one in enumerate(chosen) if one.prose), key=widths.__getitem__):
        others = first + sum(len(_GAP) + one for one in widths) - widths[at]
        narrow = _NARROWEST if chosen[at].main else _NARROW
        least = max(narrow, (WIDEST if room is None else min(room, WIDEST)) - others)
        if at == max(range(len(widths)), key=widths.__getitem__) and widths[at] > least:
            cells[at] = ["\n".join(_torn(cell, least)) for cell in cells[at]]
            widths[at] = least
    high = max(map(len, [names[0].split("\n"), *heads]))
    for number, part in enumerate(_parts(first, widths, table.keys, room)):
        if number:
            yield ""
        for row, name in enumerate(names):
            lines = [heads[at] if row == 0 else cells[at][row - 1].split("\n") for at in part]
            lines = [name.split("\n"), *lines]
            if row == 0:  # heads stand on the rule
                lines = [[""] * (high - len(one)) + one for one in lines]
            for texts in zip_longest(*lines, fillvalue=""):
                yield _GAP.join(
                    [texts[0].ljust(first)]
                    + [
                        one.ljust(widths[at]) if chosen[at].prose else one.rjust(widths[at])
                        for at, one in zip(part, texts[1:], strict=True)
                    ]
                )
            if row == 0:
                yield "─" * (first + sum(len(_GAP) + widths[at] for at in part))


def _parts(first: int, widths: Sequence[int], keys: int, room: int | None) -> list[list[int]]:
    """Which columns stand side by side, from left to right; the first `keys` in every part."""
    left = first + sum(len(_GAP) + one for one in widths[:keys])
    if room is not None and left + len(_GAP) + max(widths[keys:], default=0) > room:
        keys, left = 0, first
    parts, used = [list(range(keys))], left
    for at in range(keys, len(widths)):
        used += len(_GAP) + widths[at]
        if room is not None and used > room and len(parts[-1]) > keys:
            parts.append(list(range(keys)))
            used = left + len(_GAP) + widths[at]
        parts[-1].append(at)
    return parts


def _names(table: Table, *, torn: bool) -> list[str]:
    """What its rows are called, and first what heads them."""
    corner = table.corner.rpartition(": ")[2] if table.shaded else table.corner
    rows = [_signed(one) for one in table.rows]
    return ["\n".join(_lines(_signed(corner), [*rows, " " * _NARROW_NAMES], torn=torn)), *rows]


def _head(column: Column, marks: Mapping[str, str], *, torn: bool) -> list[str]:
    """The head of a column with the mark of its note, which stays with its last word."""
    head = column.head
    if column.note in marks:
        head += f"\N{NO-BREAK SPACE}{marks[column.note]}"
    return _lines(_signed(head), _aligned(column), torn=torn)


def _lines(head: str, cells: Sequence[str], *, torn: bool) -> list[str]:
    """A head in one line; or in several, no wider than its cells or its longest word."""
    if not torn:
        return [head]
    fits = max(_NARROWEST, _width(cells))
    return wrap(head, fits, break_long_words=False, break_on_hyphens=False) or [""]


def _width(cells: Sequence[str]) -> int:
    return max((len(line) for cell in cells for line in cell.split("\n")), default=0)


def _torn(cell: str, room: int) -> list[str]:
    """The lines of a cell of words, none of them longer than that."""
    return [part for line in cell.split("\n") for part in flow(line, room) or [""]]


def _aligned(column: Column) -> list[str]:
    """Its cells; where some are marked, the others have room for a mark."""
    cells, marks = [_signed(shown(one)) for one in column.cells], tuple(MARKED.values())
    if not any(cell.endswith(marks) for cell in cells):
        return cells
    blank = "\N{NO-BREAK SPACE}" * len(marks[0])
    return [cell if cell.endswith(marks) else cell + blank for cell in cells]


def flow(text: str, room: int | None, hanging: str = _HANGING) -> list[str]:
    """A text as lines of a terminal; quantities stay whole, and letters of two columns count so."""
    text = _signed(text)
    if not text or room is None or len(text) <= room:
        return [text] * bool(text)
    held = _TYPED.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    held = _QUANTITY.sub("\N{NO-BREAK SPACE}", held)
    wide = "".join(one + _SECOND * (east_asian_width(one) in "WF") for one in held)
    fits = min(room, WIDEST)
    lines = wrap(wide, fits, subsequent_indent=hanging, break_on_hyphens=False)
    return [line.replace(_SECOND, "") for line in lines]


def _signed(text: str) -> str:
    """A text with the signs that standard output has, before it is aligned."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text if encoding.lower() in ("utf-8", "utf8") else text.translate(_lacking(encoding))


@cache
def _lacking(encoding: str) -> dict[int, str]:
    """What stands for the signs that an encoding lacks."""
    return {ord(one): other for one, other in SIGNS.items() if not one.encode(encoding, "ignore")}


def columns() -> int | None:
    """How wide the terminal is, or a pipe by COLUMNS; None where nobody says."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return get_terminal_size().columns if sys.stdout.isatty() else None
