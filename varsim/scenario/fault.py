"""Faults of a scenario with their places, shown as the line with a caret."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from varsim.core.units import span

_WIDTH: Final = 96  # characters of a source line that are shown
_MOST_SHOWN: Final = 50  # faults of one file; the rest is counted
_TEXT_SHOWN: Final = 40  # characters of a value that are repeated in a message


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Source of text: a file, or one `--set`, whose lines are not shown."""

    name: str
    lines: Sequence[str] = ()
    order: int = 0  # faults of the file come before those of the first --set, and so on


@dataclass(frozen=True, slots=True)
class Mark:
    """Place in a source; line and column count from 1."""

    source: Source
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault at a place; `line` and `column` are 0 for the whole file."""

    source: Source
    line: int
    column: int
    message: str

    @classmethod
    def at(cls, mark: Mark, message: str) -> "Fault":
        """The fault at this place."""
        return cls(mark.source, mark.line, mark.column, message)

    def __str__(self) -> str:
        """`file:line:column: error: message`, then the line, then a caret under the place."""
        name = printable(self.source.name)
        if not self.source.lines or self.line == 0:
            return f"{name}: error: {self.message}"
        head = f"{name}:{self.line}:{self.column}: error: {self.message}"
        if self.line > len(self.source.lines):
            return head
        line, caret = _excerpt(self.source.lines[self.line - 1], self.column - 1)
        return f"{head}\n  {line}\n  {' ' * caret}^"


class ScenarioError(Exception):
    """Error of a scenario: everything that is wrong with it, each fault at its line and column.

    `problems` holds the faults; `str()` is what to show the user. At most fifty are shown;
    `left_out` counts those that were not even looked at.

    Examples
    --------
    >>> import varsim
    >>> try:
    ...     varsim.load("slow_worker", {"cluster.wrkers": 8})
    ... except varsim.ScenarioError as error:
    ...     print(error)
    cluster.wrkers=8: error: cluster: unknown key 'wrkers'; did you mean 'workers'?

    """

    def __init__(self, faults: Iterable[Fault], left_out: int = 0) -> None:
        self.problems: tuple[Fault, ...] = tuple(
            sorted(
                dict.fromkeys(faults),
                key=lambda fault: (fault.source.order, fault.line, fault.column, fault.message),
            )
        )
        self.left_out = left_out
        super().__init__(self.problems, left_out)

    @classmethod
    def of_file(cls, name: str, message: str) -> "ScenarioError":
        """What is wrong with what was asked of a file, and stands nowhere in it."""
        return cls([Fault(Source(name), 0, 0, message)])

    def __str__(self) -> str:
        """All problems, one after the other."""
        shown = [str(fault) for fault in self.problems[:_MOST_SHOWN]]
        more = len(self.problems) - len(shown) + self.left_out
        return "\n".join([*shown, *([f"... and {more:,} more problems"] if more else [])])

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it: it is the scenario's, so no lines of the program."""
        return [f"ScenarioError: {self}"]


class UnknownNameError(ValueError):
    """A name that is none of those there are; a notebook shows it without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"ValueError: {self}"]


def quoted(text: str) -> str:
    """User's text as shown in a message: shortened, on one line, in quotes."""
    shown = text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 3] + "..."
    return f"'{printable(shown)}'"


def printable(text: str) -> str:
    """Text with unprintable characters escaped, safe for a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Known name nearest to a misspelt one: of similar letters, or of these initials."""
    if not 0 < len(name) <= 60:
        return None
    exact = {other.lower().replace("-", "_"): other for other in known}
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    if plain in exact:
        return exact[plain]
    short = [long for long in exact if "".join(word[:1] for word in long.split("_")) == plain]
    if len(short) == 1 and len(plain) > 1:
        return exact[short[0]]
    close = get_close_matches(plain, exact, n=1, cutoff=0.6)
    return exact[close[0]] if close else None


def _excerpt(line: str, caret: int) -> tuple[str, int]:
    """The part of a line around the caret, and on which column of it the caret stands."""
    line = line.rstrip()
    caret = min(caret, len(line))
    first = 0 if len(line) <= _WIDTH else max(0, min(caret - _WIDTH // 2, len(line) - _WIDTH))
    last = first + _WIDTH
    before = ("..." if first else "") + "".join(map(_cell, line[first:caret]))
    after = "".join(map(_cell, line[caret:last])) + ("..." if last < len(line) else "")
    return before + after, sum(map(_cells, before))


def _cell(letter: str) -> str:
    return (
        " " if letter == "\t" else letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"
    )


def _cells(letter: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def known(what: str, name: str, names: Iterable[str]) -> None:
    """Raise UnknownNameError, with the nearest, where a name is none of those there are."""
    if name not in (names := list(names)):
        meant = nearest(name, names)
        said = f"did you mean {meant}?" if meant else f"there are: {', '.join(names)}"
        raise UnknownNameError(f"no {what} {name!r}; {said}")


def check_replication(number: int, count: int) -> None:
    """Raise ValueError where there is no replication of that number."""
    if not 0 <= number < count:
        there = f"there are {span(0, count - 1)}" if count > 1 else "there is 0 alone"
        raise ValueError(f"no replication {number}; {there}")


def unseen_message(letter: str) -> str:
    """What it is, and what to do: a space that is not an ordinary one is typed anew."""
    category = unicodedata.category(letter)
    kind = "invisible" if category in ("Cf", "Zs") else "control"
    remedy = "type an ordinary space" if category == "Zs" else "take it out"
    name = unicodedata.name(letter, "").lower()
    return f"{kind} character U+{ord(letter):04X}{name and f' ({name})'}: {remedy}"
