"""Parser errors of YAML, reworded for the author of a scenario."""

import re
import unicodedata
from typing import Final

from varsim.scenario.fault import Fault, Mark, Source, quoted, unseen_message

_NO_SPACE: Final = re.compile(r"\s*(?:- )*['\"{]?(\w[\w.-]*):(\S.*)")
_EQUALS: Final = re.compile(r"\s*(?:- )*(\w[\w.-]*)\s*=\s*(\S.*)")
_KEY: Final = re.compile(r"\s*(?:- +)*[\w.-]+\s*$")


def explained(problem: str, context: str, here: Mark, start: Mark) -> Fault:
    """The fault behind a parser's `problem` at `here`, in the `context` that began at `start`."""
    unseen = _unseen_space(start) or _unseen_space(here)
    if unseen:
        return unseen
    if "quoted scalar" in context and "unexpected" in problem:
        return Fault.at(start, "this quotation mark is never closed")
    if "escape" in problem:
        return Fault.at(here, "no such escape: a backslash is only text in 'single quotes'")
    if "tag" in context or "tag handle" in problem:
        return Fault.at(start, "tags are not allowed; text that begins with '!' needs quotes")
    if "alias" in context or "anchor" in context:
        return Fault.at(start, "text that begins with '*' or '&' needs quotes")
    if "directive" in context or "directive" in problem or "YAML document" in problem:
        return Fault.at(here, "lines that begin with '%' are not allowed")
    if "node content" in problem:
        return _no_value(problem, here, start)
    if "flow" in context:
        return _unclosed(problem, context, here, start)
    if "cannot start any token" in problem:
        return _bad_start(here)
    if "could not find expected ':'" in problem:
        return _no_key(start)
    if "mapping values are not allowed" in problem:
        return _second_colon(here)
    if "sequence entries are not allowed" in problem:
        return Fault.at(here, "a list begins on the line below its key")
    if "block scalar" in context:
        return Fault.at(
            here, "the text of a '|' or '>' block begins on the line below it, indented"
        )
    if "block end" in problem:
        return _not_aligned(problem, context, here, start)
    if "document start" in problem or "document end" in problem:
        return Fault.at(here, "this does not belong to the lines above: check the indentation")
    return Fault.at(here, f"this is not YAML: {problem}")


def _line(mark: Mark) -> str:
    lines = mark.source.lines
    return lines[mark.line - 1] if mark.line <= len(lines) else ""


def _text(source: Source, line: int) -> str:
    return _line(Mark(source, line, 1)).partition("#")[0].strip()


def _unseen_space(mark: Mark) -> Fault | None:
    line = _line(mark).partition(" #")[0]
    for column, letter in enumerate(line, 1):
        if letter != " " and unicodedata.category(letter) in ("Zs", "Cf"):
            return Fault.at(Mark(mark.source, mark.line, column), unseen_message(letter))
    return None


def _unclosed(problem: str, context: str, here: Mark, start: Mark) -> Fault:
    bracket, end = ("[", "]") if "sequence" in context else ("{", "}")
    if "stream end" in problem:
        return Fault.at(start, f"this '{bracket}' is never closed")
    return Fault.at(
        here, f"',' or '{end}' is missing before this (the '{bracket}' is on line {start.line})"
    )


def _no_value(problem: str, here: Mark, start: Mark) -> Fault:
    if "stream end" in problem:
        return Fault.at(here, "the text ends here, with a '[' or '{' still open")
    letter = _line(here)[here.column - 1 : here.column]
    return Fault.at(
        here, f"a value is expected here; text that begins with '{letter}' needs quotes"
    )


def _bad_start(here: Mark) -> Fault:
    letter = _line(here)[here.column - 1 : here.column]
    if letter == "\t":
        return Fault.at(here, "a tab: indent with spaces")
    return Fault.at(here, f"text that begins with {quoted(letter)} needs quotes")


def _no_key(start: Mark) -> Fault:
    unseen = _unseen_space(start)
    if unseen:
        return unseen
    line = _line(start)
    match = _NO_SPACE.match(line)
    if match:
        meant = quoted(f"{match[1]}: {match[2].strip()}")
        return Fault.at(start, f"a space is missing after the colon: write {meant}")
    match = _EQUALS.match(line)
    if match:
        meant = quoted(f"{match[1]}: {match[2].strip()}")
        return Fault.at(start, f"a colon is expected: write {meant}")
    return Fault.at(start, "this line is neither 'key: value' nor '- entry'")


def _second_colon(here: Mark) -> Fault:
    line = _line(here)
    if _KEY.fullmatch(line[: here.column - 1]):
        first = len(line) - len(line.lstrip()) + 1
        above = here.line - 1
        while above > 1 and not _text(here.source, above):
            above -= 1
        text = _line(Mark(here.source, above, 1))
        if len(text) - len(text.lstrip()) + 1 >= first:
            # The parser took the line above for text that goes on here.
            return _no_key(Mark(here.source, above, len(text) - len(text.lstrip()) + 1))
        return Fault.at(
            Mark(here.source, here.line, first),
            "indented deeper than the line above, which already has its value",
        )
    return Fault.at(here, "a second ': ' on one line: text that contains ': ' needs quotes")


def _not_aligned(problem: str, context: str, here: Mark, start: Mark) -> Fault:
    if "'<scalar>'" in problem:
        before = _line(here)[: here.column - 1].rstrip()[-1:]
        if before and before in "'\"":
            return Fault.at(here, "there is text after the closing quotation mark")
        return Fault.at(here, "this cannot follow what stands before it")
    if any(f"'{bracket}'" in problem for bracket in "]},"):
        return Fault.at(here, "nothing was opened that this could close")
    if "'-'" in problem or "block sequence start" in problem:
        return Fault.at(here, "a '-' among keys: check the indentation of this line")
    if "block collection" in context and here.column == start.column:
        return Fault.at(
            here, f"a '- ' is missing here, or there is one too many on line {start.line}"
        )
    return Fault.at(here, "check the indentation: it matches that of no line above")
