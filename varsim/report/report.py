"""A report: what any product has to tell, before anybody shows it.

Every product (a run, a sweep, a plan, ...) builds one; `terminal`, `markdown`, `page` and `data`
show it. A block is a table, a text or a figure, and says on which media it stands.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from varsim.report.told import NO_DATA, Data

if TYPE_CHECKING:
    from pandas import DataFrame

    from varsim.report.files.directory import Kind
    from varsim.report.plots.plot import Plot


class Media(Flag):
    """What a report is read on."""

    TERMINAL = auto()
    MARKDOWN = auto()
    PAGE = auto()
    TEXT = TERMINAL | MARKDOWN
    ALL = TEXT | PAGE


class Row(NamedTuple):
    """A row of a table: what it is called, its cells, and what it means, if that is told."""

    label: str
    cells: tuple[str, ...]
    meaning: str = ""


@dataclass(frozen=True)
class Table:
    """Text in rows and columns; `corner` heads the labels of the rows.

    `caption`: what it is; names in backticks are quoted where code has no look of its own; `label`:
    that in short, for those who hear a page. `marked`: whether rows or columns are the alternatives
    of the report, which have colours. `holds`: what its cells are. Numbers keep to the right. A
    story is in the second column, what it takes and leaves in the last two, and a row without cells
    begins a part of it. `keys`: so many columns say which row it is, and stand in every part of a
    table that is cut. `folded`: under which words a page folds it away. `more`: the same in detail,
    for a page to fold away under it. `meanings`: of columns. `axes`: the columns against which a
    page shows its rows as points, to begin with; `front`: the rows that it joins there; `hollow`:
    those whose points are, as they miss a target.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    corner: str = ""
    caption: str = ""
    marked: Literal["rows", "columns", ""] = "columns"
    holds: Literal["words", "numbers", "both", "story"] = "both"
    keys: int = 0
    folded: str = ""
    more: "Table | None" = None
    label: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    axes: tuple[str, ...] = ()
    front: Collection[int] = ()
    hollow: Collection[int] = ()
    on: Media = Media.ALL

    @classmethod
    def of(cls, rows: Iterable[tuple[str, Mapping[str, str]]], corner: str, **more: Any) -> Self:
        """A row for each label, from its cells by column; all have the same columns."""
        pairs = list(rows)
        columns = tuple(pairs[0][1]) if pairs else ()
        cells = [Row(label, tuple(own[name] for name in columns)) for label, own in pairs]
        return cls(columns, tuple(cells), corner, **{"marked": "rows", **more})

    def column(self, name: str) -> tuple[str, ...]:
        """The cells under a heading."""
        place = self.columns.index(name)
        return tuple(row.cells[place] for row in self.rows)

    def turned(self, meanings: Mapping[str, str], **more: Any) -> "Table":
        """The same on its side: a row per column, with what that means."""
        rows = [Row(name, self.column(name), meanings.get(name, "")) for name in self.columns]
        return Table(tuple(row.label for row in self.rows), tuple(rows), **more)

    def frame(self) -> "DataFrame":
        """The same as a DataFrame."""
        from pandas import DataFrame

        cells, index = [row.cells for row in self.rows], [row.label for row in self.rows]
        frame = DataFrame(cells, index=index, columns=list(self.columns))
        return frame.rename_axis(self.corner)


# A heading begins a part of the report; a label names one of its alternatives there.
Sort: TypeAlias = Literal["title", "heading", "label", "lines", "paragraphs", "items", "entries"]


@dataclass(frozen=True)
class Text:
    """Lines of words, one sentence or paragraph each.

    `close`: it stands right under what is before it. `name`: by which a page refers to a heading.
    `terms`: of entries, what each line is about. `folded`: as of a table. `plain`: nothing in it
    could be markup.
    """

    lines: tuple[str, ...]
    sort: Sort = "lines"
    close: bool = False
    name: str = ""
    terms: tuple[str, ...] = ()
    folded: str = ""
    plain: bool = False
    on: Media = Media.ALL


@dataclass(frozen=True)
class Figure:
    """A picture of something, drawn when the report is written; `table`: its data, folded away.

    `alternative`: what it shows, for those who do not see it. `played`: makes of what is drawn the
    data of a timeline that a page with scripts shows in its place.
    """

    plot: "Plot[Any]"
    subject: Any
    table: Table | None = None
    alternative: str = ""
    on: Media = Media.PAGE
    played: Callable[[Any], dict[str, Any]] | None = None


Block: TypeAlias = Table | Text | Figure


class Source(NamedTuple):
    """What was asked for: the scenario as text, what that is, and how to run it again."""

    text: str
    about: str
    how: str
    command: str


@dataclass(frozen=True)
class Report:
    """All that is told of something; `blocks` are in the order of reading.

    `question`: what the scenario is to answer, on its first line, and what else it says of itself.
    `setting`: its size in a few words; `alternatives`: what is compared, in their order, as marked
    tables and labels call it, each with its family, by which it gets its hue; `files`: what may lie
    beside its page, and what that is; `facts`: makes all of it as plain data.
    """

    kind: "Kind"
    title: str
    answer: tuple[str, ...]
    notes: tuple[str, ...]
    blocks: tuple[Block, ...]
    provenance: Mapping[str, str | int]
    question: str = ""
    setting: str = ""
    alternatives: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    facts: Callable[[], dict[str, Any]] = dict
    data: Data = NO_DATA

    played = None  # it has no timeline

    def plots(self) -> "list[tuple[Plot[Any], Any]]":
        """Those of its figures."""
        return [(one.plot, one.subject) for one in self.figures]

    @property
    def asked(self) -> str:
        """What the scenario is to answer."""
        return self.question.partition("\n")[0]

    @property
    def background(self) -> list[Text]:
        """What it says besides."""
        return background(self.question)

    @property
    def figures(self) -> list[Figure]:
        """Those among its blocks."""
        return [block for block in self.blocks if isinstance(block, Figure)]

    def on(self, media: Media) -> list[Block]:
        """The blocks that stand on it."""
        return [block for block in self.blocks if block.on & media]


def background(question: str) -> list[Text]:
    """What follows the first line: paragraphs, items (each after a dash), commands (indented)."""
    more = question.partition("\n")[2]
    return [text for part in more.split("\n\n") for text in _written(part.strip("\n"))]


def _written(part: str) -> Iterator[Text]:
    """Lines without an empty one among them, as they are meant."""
    if part.startswith("  "):
        yield Text(tuple(dedent(part).splitlines()))
        return
    said, *items = re.split(r"(?:^|\n)- ", part)
    if said.strip():
        yield Text((" ".join(said.split()),), "paragraphs")
    if items:
        yield Text(tuple(" ".join(item.split()) for item in items), "items")
