"""What is told of a result, as data: numbers, columns, coded sentences, charts. No words.

`wording` makes text of a number, `notes` of a sentence; `screen`, `formats` and the page show all.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias, TypeVar

from varsim.report.files.directory import Kind
from varsim.study.verdict import Estimate

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_COLUMNS: Final = 6

# What a number is of: by this its unit is chosen when it is shown; any other text is the unit.
Unit: TypeAlias = str
# How a number compares: with the baseline of a ratio, or the best of its column (a tie: equal).
Verdict: TypeAlias = Literal["", "best", "equal", "tie", "baseline"]


class Number(NamedTuple):
    """A number until it is shown, in SI units; a share is of 1.

    `half`: half the width of its 95 % interval, nan without one. `missing`: what stands in its
    place where it is nan. `margin`: by which share of a bound it is surely better than that, of
    shares the difference; nan where it has no bound.
    """

    mean: float
    half: float = math.nan
    unit: Unit = ""
    verdict: Verdict = ""
    missing: str = ""
    margin: float = math.nan

    @classmethod
    def of(cls, found: Estimate, unit: Unit = "", verdict: Verdict = "") -> Self:
        """A mean over replications."""
        return cls(found.mean, found.half_width, unit, verdict, found.note)


class Shares(NamedTuple):
    """Parts of a whole, by name: what a page draws as a bar that is cut."""

    parts: tuple[tuple[str, float], ...]


Cell: TypeAlias = Number | Shares | str
# What a note is about: numbers and names; several names are a tuple.
Value: TypeAlias = Number | str | int | float | tuple[str, ...]


class Note(NamedTuple):
    """A sentence as data: a key of SENTENCES or NOTES, and what stands in it."""

    code: str
    values: Mapping[str, Value] = {}


class Column(NamedTuple):
    """A column of a table; `key`: the metric, or what it is in data.

    `bar`: a page draws it, from 0. `detail`: shown with --all only.
    `note`: code of the note that it carries. `about`: key of what it means.
    `prose`: words, from the left, in lines where there is no room for them in one.
    `of`: whose it is, where its head begins with that. `main`: never left out for want of room;
    of the others, those of a higher `rank` first.
    """

    key: str
    head: str
    cells: tuple[Cell, ...]
    bar: bool = False
    detail: bool = False
    note: str = ""
    about: str = ""
    prose: bool = False
    of: str = ""
    main: bool = False
    rank: int = 0


@dataclass(frozen=True)
class Table:
    """Rows by rank; `kinds`: what each row is, where its name does not tell; `corner`: heads them.

    `best`: so many of the first rows win; `shaded`: a page shades its cells by their numbers.
    `above`: paragraphs that stand above it. `keys`: so many of the first columns say which row it
    is: where it is shown in parts, they stand in each.
    """

    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    kinds: tuple[str, ...] = ()
    corner: str = ""
    best: int = 0
    fold: bool = True
    shaded: bool = False
    above: tuple[str, ...] = ()
    keys: int = 0

    def brief(self) -> tuple[list[Column], list[Column]]:
        """The columns that are read first, and those that say the same in every row."""
        first = [column for column in self.columns if not column.detail]
        alike = [one for one in first[1:] if self.fold and len(self.rows) > 1 and _same(one.cells)]
        rest = [one for one in first if one not in alike]
        return [one for at, one in enumerate(rest) if one.main or at < MOST_COLUMNS], alike


def _same(cells: Sequence[Cell]) -> bool:
    """Whether all cells are told alike, and none wins."""
    first = cells[0]
    if not isinstance(first, Number) or math.isnan(first.mean):
        return all(str(one) == str(first) for one in cells)
    return all(one == first or (_zero(one) and _zero(first)) for one in cells)


def _zero(cell: Cell) -> bool:
    return isinstance(cell, Number) and cell.mean == 0


Mark: TypeAlias = Literal["bars", "cut bars", "lines", "points", "heat", "spans"]


class Chart(NamedTuple):
    """Data to be drawn by a mark: columns of `data` by name, with a value for each row.

    `x` and `y` say what the axes are; "(s)" and "(share)" at the end are shown in a unit that reads
    well. `by`: the column of names that are told apart, which have hues by their family; a series
    of no family is a thin line. `panel`: the column of what is drawn below each other. Charts of
    one name are views of the same on other axes. What each mark draws:

    - bars: `mean`, `half`, `best` (it wins); with `x` upright, at each `x`
    - cut bars: `part` (in `looks`), `mean`
    - lines: `x`, `mean`, `low`, `high`; where `ticks` stand whiskers, and `flat`: it has no marks
    - points: `x`, `mean`, `hollow`, `text` beside it; a page joins those of the `front`, has all
      other columns as axes to choose, and a point opens its row of the table with the chart's name
    - heat: `x`, `row`, `mean`, `best`; `by`: of what the colours are; `target`: their middle
    - spans: see `charts.timeline`

    `target`: a line across. `log`: "x" or "xy" where axes are logarithmic. `ticks`: places on the x
    axis and what is written there. `remarks`: beside the name of a panel. `ring`, `hollow`: what it
    means that a point has a ring, or is hollow, where these columns are true.
    """

    name: str
    mark: Mark
    data: Mapping[str, Sequence[Any]]
    x: str
    y: str
    by: str = ""
    target: float | None = None
    panel: str = ""
    log: Literal["", "x", "xy"] = ""
    ticks: tuple[tuple[float, str], ...] = ()
    remarks: Mapping[str, str] = {}
    ring: str = ""
    hollow: str = ""
    front: str = "most for its cost"

    @classmethod
    def of(
        cls, name: str, mark: Mark, rows: Iterable[Mapping[str, Any]], x: str, y: str, **more: Any
    ) -> Self:
        """A chart from rows that all have the same columns; at least one."""
        every = list(rows)
        data = {key: tuple(row[key] for row in every) for key in every[0]}
        return cls(name, mark, data, x, y, **more)

    def rows(self) -> list[dict[str, Any]]:
        """Its rows."""
        each = zip(*self.data.values(), strict=True)
        return [dict(zip(self.data, one, strict=True)) for one in each]


class Reproduction(NamedTuple):
    """What was asked for: the scenario as text, and the command that runs it again."""

    text: str
    command: str


class Data(NamedTuple):
    """The numbers behind a report, with all their digits; nan and None: there is none."""

    columns: Sequence[str]
    rows: Iterable[Sequence[object]]

    @classmethod
    def of(cls, frame: "DataFrame") -> Self:
        """Those of a DataFrame."""
        return cls(list(frame.columns), list(frame.itertuples(index=False)))

    @classmethod
    def of_table(cls, table: Table, rows: Sequence[str] = ()) -> Self:
        """Those of a table, which has no others: means, half-widths and parts have columns.

        `rows`: what its rows are called in data.
        """
        found: dict[str, Sequence[object]] = {table.corner or "strategy": rows or table.rows}
        for one in table.columns:
            found |= _plain_columns(one)
        return cls(list(found), list(zip(*found.values(), strict=True)))


def _plain_columns(column: Column) -> dict[str, Sequence[object]]:
    """A column as data; beside numbers text is no number."""
    cells, key = column.cells, column.key
    if any(isinstance(cell, Shares) for cell in cells):
        parts = [dict(cell.parts) if isinstance(cell, Shares) else {} for cell in cells]
        return {
            name: [one.get(name, math.nan) for one in parts]
            for name in dict.fromkeys(name for one in parts for name in one)
        }
    if not any(isinstance(cell, Number) for cell in cells):
        return {key: cells}
    numbers = [cell if isinstance(cell, Number) else Number(math.nan) for cell in cells]
    found: dict[str, Sequence[object]] = {key: [one.mean for one in numbers]}
    if not all(math.isnan(one.half) for one in numbers):
        found[f"{key}_half_width"] = [one.half for one in numbers]
    return found


NO_DATA: Final = Data((), ())


@dataclass(frozen=True)
class Report:
    """All that is told of something, in the order of reading on every medium.

    `headline`: three sentences at most; `next`: the command to type next; `families`: of what is
    compared, by which hues are chosen; `played`: makes the data of a timeline; `meanings`: of
    columns, by what they are about; `facts`: makes all of it as plain data; `always`: so many
    details are shown without --all, too; `appendix`: tables that only a page has room for;
    `charts`: those of a page; `pictures`: makes those that are drawn as files.
    """

    kind: Kind
    name: str
    headline: tuple[Note, ...]
    table: Table
    notes: tuple[Note, ...]
    question: str = ""
    next: str = ""
    charts: tuple[Chart, ...] = ()
    pictures: Callable[[], tuple[Chart, ...]] = tuple
    details: tuple[Table, ...] = ()
    appendix: tuple[Table, ...] = ()
    always: int = 0
    source: Reproduction | None = None
    provenance: Mapping[str, str | int] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    data: Data = NO_DATA
    facts: Callable[[], dict[str, Any]] = dict
    played: Callable[[], dict[str, Any]] | None = None
    meanings: Mapping[str, str] = field(default_factory=dict)

    def drawn(self) -> dict[str, list[Chart]]:
        """What is drawn as files, by name: views of one below each other.

        Those on another x axis than the first have no place there.
        """
        found: dict[str, list[Chart]] = {}
        for one in self.pictures():
            views = found.setdefault(one.name, [])
            if not views or views[0].x == one.x:
                views.append(one)
        return found


T = TypeVar("T")


def plain_number(cell: T) -> T | None:
    """A cell of JSON: no number, or one without end, is none."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def plain_estimate(found: Estimate) -> dict[str, float | None]:
    """A mean and its interval for JSON."""
    return {name: plain_number(getattr(found, name)) for name in ("mean", "low", "high")}
