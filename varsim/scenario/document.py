"""YAML 1.2 reader: a tree whose keys and values know their line and column.

Read as a stream of events, so that hostile text costs no more than its length. Only what a
scenario needs is accepted: no tags, anchors, aliases, repeated keys, empty values or second
document. Unquoted values follow YAML 1.2's core schema: `yes`, `no`, `on` and `12:30` are text.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from varsim.scenario.fault import Fault, Mark, Source, quoted, unseen_message

DEEPEST: Final = 32
MOST_NODES: Final = 20_000
NOTHING: Final = "nothing in it but blanks and comments"
LARGEST_TEXT: Final = 256 * 1024
_LONGEST_NUMBER: Final = 40


class Unreadable:
    """Placeholder of a value that was already reported as unreadable; no field accepts it."""


@dataclass(slots=True)
class ScalarNode:
    """Scalar: its text and its value."""

    mark: Mark
    text: str
    value: str | int | float | bool | Unreadable | None


@dataclass(slots=True)
class SequenceNode:
    """Sequence of nodes."""

    mark: Mark
    items: list["Node"] = field(default_factory=list)


@dataclass(slots=True)
class MappingNode:
    """Mapping, in the order of the file; `keys` holds the place of each."""

    mark: Mark
    keys: dict[str, Mark] = field(default_factory=dict)
    values: dict[str, "Node"] = field(default_factory=dict)


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def read_document(text: str, source: Source) -> tuple[Node | None, list[Fault]]:
    """Tree of a YAML text, for the caller to change, and its faults.

    The tree is None where the text cannot be read to its end, or holds nothing. The last text of a
    file is cached.
    """
    if source.order:
        return _read(text, source)
    root, faults = _of_file(text, source.name)
    return None if root is None else copied(root), list(faults)


def copied(node: Node) -> Node:
    """Copy of a tree, to be changed; scalars, which nobody changes, are shared."""
    if isinstance(node, MappingNode):
        values = {key: copied(value) for key, value in node.values.items()}
        return MappingNode(node.mark, dict(node.keys), values)
    if isinstance(node, SequenceNode):
        return SequenceNode(node.mark, list(map(copied, node.items)))
    return node


def lines_of(text: str) -> list[str]:
    """The lines of a text, whatever system wrote it."""
    return re.split("\r\n|\r|\n", text)


@lru_cache(maxsize=1)
def _of_file(text: str, name: str) -> tuple[Node | None, list[Fault]]:
    return _read(text, Source(name, lines_of(text)))


def _read(text: str, source: Source) -> tuple[Node | None, list[Fault]]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    unreadable = _unreadable(text, source)
    if unreadable:
        return None, [unreadable]
    from ruamel.yaml import YAML

    builder = _Builder(YAML(typ="safe", pure=True).parse(text), source)
    try:
        return builder.document(), builder.faults
    except _UnreadableError as stop:
        fault = stop.fault
    except Exception as error:  # whatever the parser raises
        fault = _worded(error, source)
    return None, [*builder.faults, fault]


def plain(node: Node) -> object:
    """The tree as dicts, tuples and scalars, for a model to validate."""
    if isinstance(node, MappingNode):
        return {key: plain(value) for key, value in node.values.items()}
    if isinstance(node, SequenceNode):
        return tuple(map(plain, node.items))
    return node.value


def resolve(text: str) -> str | int | float | bool | None:
    """Value of an unquoted scalar in YAML 1.2's core schema.

    ValueError for numbers that no scenario needs: infinities, nan, or very many digits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("infinity and nan are not possible here")
    if _WHOLE.fullmatch(text):
        if len(text) > _LONGEST_NUMBER:
            raise ValueError(f"a number of {len(text):,} digits")
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FRACTION.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ValueError(f"{quoted(text)} is larger than any number")
        if number == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
            raise ValueError(f"{quoted(text)} is closer to 0 than any number")
        return number
    return text


_WORDS: Final = {
    **dict.fromkeys(("~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WHOLE: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FRACTION: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# Line breaks of YAML 1.1 and earlier are among the controls: editors disagree about their lines.
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
)
# A directive of the parser; it would change how the text is read, or be passed over in silence.
_DIRECTIVE: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*%")


_OF_NODES: Final = ("ScalarEvent", "AliasEvent", "MappingStartEvent", "SequenceStartEvent")


class _UnreadableError(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class _Builder:
    """Builder of the tree from parser events; collects faults and goes on where possible."""

    def __init__(self, events: Iterator[Any], source: Source) -> None:
        self.faults: list[Fault] = []
        self._events = events
        self._source = source
        self._nodes = 0

    def document(self) -> Node | None:
        """The tree of the first document; None where there is none."""
        root = None
        for event in self._events:
            name = type(event).__name__
            if name == "DocumentStartEvent" and root is not None:
                self._fault(self._mark(event), "one scenario per file: a second one begins here")
                break
            if name in _OF_NODES:
                nothing = Mark(self._source, 0, 0), NOTHING
                root = self._node(event, 0, nothing)
        return root

    def _node(
        self, event: Any, depth: int, nothing: tuple[Mark, str] | None, *, key: bool = False
    ) -> Node:
        """The node that begins with an event; `nothing`: what is said of an empty one, and where.

        `key`: it is one.
        """
        mark, name = self._mark(event), type(event).__name__
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise _UnreadableError(
                Fault.at(mark, f"more than {MOST_NODES:,} keys and values in one file")
            )
        if name == "AliasEvent":
            self._fault(mark, f"aliases are not allowed: write out what *{event.anchor} stands for")
            return ScalarNode(mark, "", Unreadable())
        if event.anchor is not None:
            self._fault(mark, f"anchors are not allowed: leave out &{event.anchor}")
        if event.tag is not None:
            self._fault(mark, "tags are not allowed: leave out the word that begins with '!'")
        if name == "ScalarEvent":
            return self._scalar(event, mark, nothing, key=key)
        if depth >= DEEPEST:
            raise _UnreadableError(Fault.at(mark, f"nested more than {DEEPEST} levels deep"))
        read = self._mapping if name == "MappingStartEvent" else self._sequence
        node = read(mark, depth + 1)
        return ScalarNode(mark, "", Unreadable()) if event.tag is not None else node

    def _sequence(self, mark: Mark, depth: int) -> SequenceNode:
        node = SequenceNode(mark)
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            at = self._mark(event)
            dash = Mark(at.source, at.line, max(1, at.column - 1))
            node.items.append(self._node(event, depth, (dash, "nothing follows this '-'")))
        return node

    def _mapping(self, mark: Mark, depth: int) -> MappingNode:
        node = MappingNode(mark)
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            key = self._key(self._node(event, depth, None, key=True), node)
            nothing = None
            if key is not None:
                word, colon, rest = key.partition(":")
                nothing = (
                    node.keys[key],
                    f"a space is missing after the colon: write {quoted(f'{word}: {rest}')}"
                    if colon and rest
                    else f"{quoted(key)} has no value: write one, or leave the line out",
                )
            value = self._node(next(self._events), depth, nothing)
            if key is not None:
                node.values[key] = value
        return node

    def _scalar(
        self, event: Any, mark: Mark, nothing: tuple[Mark, str] | None, *, key: bool
    ) -> ScalarNode:
        text: str = event.value
        node = ScalarNode(mark, text, text)
        unseen = _unseen(text, quoted_text=event.style is not None)
        if unseen:
            self._fault(_find(unseen, mark), unseen_message(unseen))
            node.value = Unreadable()
        elif event.tag is not None:
            node.value = Unreadable()
        elif event.style is None and not key:
            try:
                node.value = resolve(text)
            except ValueError as error:
                self._fault(mark, str(error))
                node.value = Unreadable()
            if not text:  # which YAML reads as null
                node.value = Unreadable()
                if nothing is not None:
                    self._fault(*nothing)
        return node

    def _key(self, node: Node, mapping: MappingNode) -> str | None:
        """The text of a key; None where its value has no place."""
        if not isinstance(node, ScalarNode):
            self._fault(node.mark, "a key must be one word, not a list or a mapping")
            return None
        if isinstance(node.value, Unreadable):
            return None
        if not node.text:
            self._fault(node.mark, "a key is missing before this ':'")
            return None
        first = mapping.keys.get(node.text)
        if first is not None:
            self._fault(
                node.mark, f"{quoted(node.text)} is given twice, first on line {first.line}"
            )
            return None
        mapping.keys[node.text] = node.mark
        return node.text

    def _mark(self, event: Any) -> Mark:
        start = event.start_mark
        return Mark(self._source, start.line + 1, start.column + 1)

    def _fault(self, mark: Mark, message: str) -> None:
        self.faults.append(Fault.at(mark, message))


def _unreadable(text: str, source: Source) -> Fault | None:
    """What keeps the text from being read at all."""
    if len(text) > LARGEST_TEXT:
        return Fault(source, 0, 0, f"larger than {LARGEST_TEXT // 1024} KiB")
    match = _CONTROL.search(text)
    if match is None:
        directive = _DIRECTIVE.match(text)
        if directive is None:
            return None
        line = directive.group().count("\n") + 1
        return Fault(source, line, 1, "lines that begin with '%' are not allowed")
    before = text[: match.start()]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return Fault(source, line, column, unseen_message(match.group()))


def _unseen(text: str, *, quoted_text: bool) -> str | None:
    """First control or invisible character of a value."""
    if text.isascii() and text.isprintable():
        return None
    suspects = ("Cc", "Cs", "Zl", "Zp") if quoted_text else ("Cc", "Cs", "Zl", "Zp", "Cf", "Zs")
    for letter in text:
        if letter not in " \t\n" and unicodedata.category(letter) in suspects:
            return letter
    return None


def _find(letter: str, mark: Mark) -> Mark:
    """The place of a character of a value that begins at `mark`, as far as one line tells."""
    lines = mark.source.lines
    line = lines[mark.line - 1] if mark.line <= len(lines) else ""
    found = line.find(letter, mark.column - 1)
    return mark if found < 0 else Mark(mark.source, mark.line, found + 1)


def _worded(error: Exception, source: Source) -> Fault:
    """The parser's complaint in the words of someone who writes scenarios."""
    problem, context = getattr(error, "problem", None), getattr(error, "context_mark", None)
    mark = getattr(error, "problem_mark", None) or context
    if not isinstance(problem, str) or mark is None:
        return Fault(source, 0, 0, "this is not YAML that varsim can read")
    here = Mark(source, mark.line + 1, mark.column + 1)
    start = here if context is None else Mark(source, context.line + 1, context.column + 1)
    return _explained(problem, str(getattr(error, "context", "") or ""), here, start)


# What the parser complains of, reworded for the author of a scenario

_NO_SPACE: Final = re.compile(r"\s*(?:- )*['\"{]?(\w[\w.-]*):(\S.*)")
_EQUALS: Final = re.compile(r"\s*(?:- )*(\w[\w.-]*)\s*=\s*(\S.*)")
_KEY: Final = re.compile(r"\s*(?:- +)*[\w.-]+\s*$")


def _explained(problem: str, context: str, here: Mark, start: Mark) -> Fault:
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
