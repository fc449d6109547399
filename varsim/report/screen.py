"""A report for a terminal: a short answer, one table with a row each, three notes of a line."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final, NamedTuple
from unicodedata import east_asian_width

from varsim.core.inert import SIGNS, visible
from varsim.report.notes import coded, line
from varsim.report.told import Column, Note, Number, Report, Table
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


def terminal(
    report: Report,
    width: int | None = None,
    every: bool = False,
    put: Callable[[str], str] = str,
) -> str:
    """The report as text, at most so wide; `every`: all columns, notes and details.

    Numbers that have no room are left out and counted; words stand under their row. `put`: how
    sentences say what is to be typed.
    """
    room, table = width or columns(), report.table
    notes = report.notes if every else report.notes[:MOST_NOTES]
    chosen, alike = (list(table.columns), []) if every else table.brief()
    beside, under = chosen, list[Column]()
    if room is not None and not every:
        beside = fitting(table, chosen, room, marked(chosen, notes))
        under = [one for one in chosen if one not in beside and _words(one)]
    marks = marked(beside, notes)
    lines = [part for note in report.headline for part in flow(put(line(note)), room)]
    if beside:
        lines += ["", *grid(table, beside, room, marks, under)]
    if alike:
        lines += flow(folded(alike, table), room)
    if notes:
        lines += ["", *(part for note in notes for part in flow(put(noted(note, marks)), room))]
    details = report.details if every else report.details[: report.always]
    for one in details:
        above = (part for text in one.above for part in flow(text, room, ""))
        lines += ["", *above, *grid(one, one.columns, room)]
    more = "" if every else _left(report, len(beside) + len(under) + len(alike), len(notes))
    more += f"Next: {report.next}" * bool(report.next)
    lines += [""] * bool(more and (details or (every and report.details) or not notes))
    lines += flow(more.strip(), room)
    return "".join(f"{unheld(visible(one)).rstrip()}\n" for one in lines)


def marked(columns: Sequence[Column], notes: Sequence[Note]) -> dict[str, str]:
    """The marks of the notes on these columns, `[a]`, by code: nobody reads them as a power."""
    about = {one.note for one in columns}
    codes = [note.code for note in notes if note.code in about]
    return {code: f"[{letter}]" for code, letter in zip(codes, _LETTERS, strict=False)}


def headed(column: Column, marks: Mapping[str, str]) -> str:
    """The head of a column with the mark of its note, which stays with its last word."""
    mark = marks.get(column.note)
    return f"{column.head}\N{NO-BREAK SPACE}{mark}" if mark else column.head


def noted(note: Note, marks: Mapping[str, str]) -> str:
    """A note with its mark before it and its code behind it."""
    return f"{marks.get(note.code, '')} {coded(note)}".lstrip()


def folded(alike: Sequence[Column], table: Table) -> str:
    """Columns that say the same in every row, in a line; once what is so of several."""
    whose: dict[tuple[str, str], list[str]] = {}
    for one in alike:
        whose.setdefault((_what(one), shown(one.cells[0])), []).append(one.of)
    every = Counter(map(_what, table.columns))
    said = [
        _said(what, value) + f" ({listed(owners)})" * (any(owners) and len(owners) < every[what])
        for (what, value), owners in whose.items()
    ]
    return f"The same for all: {', '.join(said)}."


def _what(column: Column) -> str:
    """The head of a column without whose it is."""
    return column.head.removeprefix(f"{column.of}: ")


def _said(head: str, value: str) -> str:
    """A value in a line; a colon parts it from a number in its head."""
    return f"{head}{':' * any(map(str.isdigit, head))} {value}"


def _left(report: Report, columns: int, notes: int) -> str:
    """How much is not shown."""
    counts = {"column": len(report.table.columns) - columns, "note": len(report.notes) - notes}
    left = [f"{count} more {what}{'s' * (count > 1)}" for what, count in counts.items() if count]
    return f"{' and '.join(left)}: --all. " if left else ""


class _Strip(NamedTuple):
    """A column as lines: of its head, and of each cell; so wide; of words, from the left."""

    head: list[str]
    cells: list[list[str]]
    wide: int
    words: bool

    @classmethod
    def of(cls, head: str, texts: Sequence[str], words: bool, torn: int) -> "_Strip":
        """A head in one line; or torn into several, no wider than that, cells, or a word."""
        cells = [text.split("\n") for text in texts]
        wide = max((len(one) for cell in cells for one in cell), default=0)
        lines = [head]
        if torn:
            lines = wrap(head, max(torn, wide), break_long_words=False, break_on_hyphens=False)
        return cls(lines or [""], cells, max(wide, *map(len, lines or [""])), words)

    def narrowed(self, wide: int) -> "_Strip":
        """The same in cells of that many columns."""
        lines = [[part for one in cell for part in flow(one, wide) or [""]] for cell in self.cells]
        return self._replace(cells=lines, wide=wide)


def _strips(
    table: Table, chosen: Sequence[Column], marks: Mapping[str, str], torn: bool
) -> list[_Strip]:
    """What its rows are called, and these columns."""
    corner = table.corner.rpartition(": ")[2] if table.shaded else table.corner
    names = [_signed(one) for one in table.rows]
    return [
        _Strip.of(_signed(corner), names, True, torn * _NARROW_NAMES),
        *(
            _Strip.of(_signed(headed(one, marks)), _aligned(one), one.prose, torn * _NARROWEST)
            for one in chosen
        ),
    ]


def fitting(
    table: Table, chosen: Sequence[Column], room: int, marks: Mapping[str, str] = {}
) -> list[Column]:
    """Those of these columns that stand side by side: all main ones, others by rank, one at least.

    Where heads that are torn into lines make room for more, they are meant to be.
    """

    def kept(torn: bool) -> list[Column]:
        names, *strips = _strips(table, chosen, marks, torn)
        used, found = names.wide, set[int]()
        for at in sorted(range(len(chosen)), key=lambda at: (not chosen[at].main, chosen[at].rank)):
            wide = strips[at].wide
            used += len(_GAP) + (min(wide, _NARROW) if strips[at].words else wide)
            if used > room and not chosen[at].main and found:
                break
            found.add(at)
        return [chosen[at] for at in sorted(found)]

    return max(kept(torn=False), kept(torn=True), key=len)


def grid(
    table: Table,
    chosen: Sequence[Column],
    room: int | None,
    marks: Mapping[str, str] = {},
    under: Sequence[Column] = (),
) -> Iterator[str]:
    """The lines of a table with a rule under its head; in parts where it is too wide.

    `under`: columns that stand in a line under each row.
    """
    if table.shaded:
        yield from flow(table.corner.rpartition(": ")[0], room)
    names, *strips = _strips(table, chosen, marks, torn=False)
    if room is not None and names.wide + sum(len(_GAP) + one.wide for one in strips) > room:
        names, *strips = _strips(table, chosen, marks, torn=True)
    words = [at for at, one in enumerate(strips) if one.words]
    words.sort(key=lambda at: strips[at].wide)
    fixed = sum(len(_GAP) + one.wide * (not one.words) for one in strips)
    spare = min(room or WIDEST, WIDEST) - names.wide - fixed
    for place, at in enumerate(words):  # each as wide as it is, or as an equal part of the rest
        least = _NARROWEST if chosen[at].main else _NARROW
        wide = max(least, spare // (len(words) - place))
        if strips[at].wide > wide:
            strips[at] = strips[at].narrowed(wide)
        spare -= strips[at].wide
    high = max(len(one.head) for one in (names, *strips))
    for number, part in enumerate(_parts(names.wide, strips, table.keys, room)):
        if number:
            yield ""
        every = [names, *(strips[at] for at in part)]
        yield from _row(every, [[""] * (high - len(one.head)) + one.head for one in every])
        yield "─" * sum(one.wide for one in every) + "─" * len(_GAP) * len(part)
        for row in range(len(table.rows)):
            yield from _row(every, [one.cells[row] for one in every])
            if not number and (said := _under(under, row)):
                yield from (_HANGING + one for one in flow(said, room and room - len(_HANGING)))


def _row(strips: Sequence[_Strip], cells: Sequence[list[str]]) -> Iterator[str]:
    """Cells side by side."""
    for texts in zip_longest(*cells, fillvalue=""):
        pairs = zip(strips, texts, strict=True)
        yield _GAP.join(
            text.ljust(one.wide) if one.words else text.rjust(one.wide) for one, text in pairs
        )


def _under(columns: Sequence[Column], row: int) -> str:
    """What stands under a row: all cells that say something."""
    cells = ((one.head, shown(one.cells[row])) for one in columns)
    return ", ".join(f"{head}: {cell}" for head, cell in cells if cell not in ("", "-"))


def _words(column: Column) -> bool:
    """Whether there is no number in it."""
    return not any(isinstance(cell, Number) for cell in column.cells)


def _parts(first: int, strips: Sequence[_Strip], keys: int, room: int | None) -> list[list[int]]:
    """Which columns stand side by side, from left to right; the first `keys` in every part."""
    wide = [len(_GAP) + one.wide for one in strips]
    if room is not None and first + sum(wide[:keys]) + max(wide[keys:], default=0) > room:
        keys = 0
    parts = [list(range(keys))]
    for at in range(keys, len(wide)):
        used = first + sum(wide[one] for one in parts[-1]) + wide[at]
        if room is not None and used > room and len(parts[-1]) > keys:
            parts.append(list(range(keys)))
        parts[-1].append(at)
    return parts


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
    wide = "".join(one + _SECOND * (east_asian_width(one) in "WF") for one in held(text))
    fits = min(room, WIDEST)
    lines = wrap(wide, fits, subsequent_indent=hanging, break_on_hyphens=False)
    return [line.replace(_SECOND, "") for line in lines]


def held(text: str) -> str:
    """A text whose quantities, and what is to be typed, stay whole where its lines are torn."""
    text = _TYPED.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return _QUANTITY.sub("\N{NO-BREAK SPACE}", text)


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
