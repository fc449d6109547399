"""CSV files of measurements: (bytes, seconds), and step times per worker.

The header says what a column is and its unit: `bytes,time_us`, `worker,step,seconds`,
`worker_0_ms,worker_1_ms`. Separators are commas, semicolons or tabs; empty lines and lines that
begin with # are skipped.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, TypeVar

from varsim.calibration.measurement import (
    TIME_UNITS,
    MeasuredTransfer,
    StepTable,
    TransferTable,
    UnreadableError,
    bytes_of,
    positive,
    seconds_of,
    shortened,
)

_WANT: Final = (
    "columns may be bytes,seconds (with other units: size_kB,time_us), or worker,step,seconds, or "
    "one column of times per worker (worker_0_ms,worker_1_ms)"
)
_SIZE_UNITS: Final = {
    **dict.fromkeys(("b", "byte", "bytes"), 1.0),
    **{f"{prefix}b": 1000.0**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024.0**power for power, prefix in enumerate("kmgt", start=1)},
}
_SIZE_WORDS: Final = {"size", "bytes", "byte", "nbytes", "message", "msg", "length", "payload"}
_TIME_WORDS: Final = {
    *("time", "seconds", "second", "latency", "duration", "elapsed", "t", "step", "iteration"),
    *("compute", "mean", "avg", "average", "median"),
}
_WORKERS: Final = {"worker", "rank", "node", "host", "gpu", "device", "replica", "w", "r"}
_STEPS: Final = {"step", "iteration", "iter", "batch", "index", "steps", "iterations"}
_WORKER_COLUMN: Final = re.compile(
    rf"({'|'.join(sorted(_WORKERS, key=len, reverse=True))})[ _#-]*([0-9]{{1,9}})(?:[^0-9].*)?"
)
_LONGEST_LINE: Final = 100_000

T = TypeVar("T")


class _CsvColumn(NamedTuple):
    """What a column holds: size, time, worker, step or other; its unit in SI, if it has one."""

    holds: str
    unit: float | None
    worker: int | None = None


class _CsvLine(NamedTuple):
    number: int
    fields: list[str]


class _Table:
    """Lines under a header, read value by value; `wrong`: a line for each that is none.

    `bare`: a single column of times needs no header.
    """

    def __init__(self, text: str, source: str, unit: str | None, *, bare: bool = False) -> None:
        self._source, self._unit = source, unit
        self.wrong: list[str] = []
        lines = list(_lines(text, source))
        if not lines:
            raise UnreadableError(f"{source}: the file is empty; {_WANT}")
        if bare and len(lines[0].fields) == 1 and _is_number(lines[0].fields[0]):
            if unit is None:
                number = lines[0].number
                raise UnreadableError(
                    f"{source}, line {number}: no header says the unit; give --unit ms, or {_WANT}"
                )
            lines.insert(0, _CsvLine(lines[0].number, ["time"]))
        self._header, *self._lines = lines
        self.columns = [_column(name) for name in self._header.fields]

    def lines(self) -> Iterator[_CsvLine]:
        """Those that have as many values as the header."""
        wanted = len(self._header.fields)
        for line in self._lines:
            if len(line.fields) == wanted:
                yield line
            else:
                values = f"{len(line.fields)} values where the header has {wanted}"
                self.wrong.append(f"{self._source}, line {line.number}: {values}")

    def refused(self, problem: str) -> UnreadableError:
        """The error of a header that is wrong."""
        return UnreadableError(f"{self._source}, line {self._header.number}{problem}")

    def only(self, holds: str, what: str) -> int:
        """The one column of a kind, which is called `what` in a complaint."""
        found = [index for index, column in enumerate(self.columns) if column.holds == holds]
        if len(found) == 1:
            return found[0]
        names = ", ".join(self._header.fields[index].strip() for index in found)
        asked = f"which of {names} is the {what}" if found else f"where is the {holds}"
        raise self.refused(f": {asked}? {_WANT}")

    def first(self, holds: str) -> int | None:
        """The first column of a kind."""
        found = (index for index, column in enumerate(self.columns) if column.holds == holds)
        return next(found, None)

    def time_unit(self, index: int) -> float:
        """Seconds per unit of a column of times."""
        unit = self.columns[index].unit
        if unit is None and self._unit is not None:
            unit = TIME_UNITS[self._unit]
        if unit is None:
            name = self._header.fields[index].strip()
            raise self.refused(
                f", column {index + 1}: {shortened(name)} has no unit: name it {name}_ms, "
                f"{name}_us or {name}_s, or give --unit"
            )
        return unit

    def read(self, line: _CsvLine, index: int, read: Callable[[str], T]) -> T | None:
        """A value; None where it is none."""
        try:
            return read(line.fields[index])
        except ValueError as problem:
            name = self._header.fields[index].strip()
            place = f"{self._source}, line {line.number}, column {index + 1} ({name})"
            self.wrong.append(f"{place}: {problem}")
            return None

    def again(self, line: _CsvLine, problem: str) -> None:
        """Something wrong with a whole line."""
        self.wrong.append(f"{self._source}, line {line.number}: {problem}")

    def steps(self, found: Mapping[int, Sequence[tuple[int, float]]]) -> StepTable:
        """Times of steps by worker, each with its number; raises what is wrong with the lines."""
        self.check(len(found))
        workers = sorted(found)
        rows = {worker: tuple(time for _, time in found[worker]) for worker in workers}
        numbers = {worker: tuple(number for number, _ in found[worker]) for worker in workers}
        return StepTable(self._source, rows, numbers)

    def check(self, found: int) -> None:
        """Raise UnreadableError where a line is wrong, or nothing was found."""
        if self.wrong:
            raise UnreadableError(*self.wrong)
        if not found:
            raise UnreadableError(f"{self._source}: nothing after the header")


def looks_like_table(text: str, source: str) -> Literal["csv", "steps"] | None:
    """Which of the two it is, by the header; None for neither."""
    fields = next((line.fields for line in _lines(text, source)), [])
    columns = [_column(name) for name in fields]
    holds = [column.holds for column in columns]
    if "size" in holds and "time" in holds:
        return "csv"
    times = any(column.holds == "time" or column.worker is not None for column in columns)
    return "steps" if times or (len(columns) == 1 and _is_number(fields[0])) else None


def lacks_unit(text: str, source: str) -> bool:
    """Is there a column of times whose unit the header does not say?"""
    fields = next((line.fields for line in _lines(text, source)), [])
    columns = [_column(name) for name in fields]
    return any(
        one.unit is None and (one.worker is not None or one.holds == "time") for one in columns
    ) or (bool(fields) and _is_number(fields[0]))


def read_transfers(text: str, source: str, unit: str | None) -> TransferTable:
    """A table of (bytes, seconds): single messages from host to host.

    `unit` is that of times whose column has none. Raises UnreadableError.
    """
    table = _Table(text, source, unit)
    size, time = table.only("size", "size"), table.only("time", "time")
    per_size, per_time = table.columns[size].unit or 1.0, table.time_unit(time)
    transfers = []
    for line in table.lines():
        count = table.read(line, size, lambda text: bytes_of(text, per_size))
        seconds = table.read(line, time, lambda text: seconds_of(text, per_time))
        if count is not None and seconds is not None:
            transfers.append(MeasuredTransfer(count, seconds, 1, count))
    table.check(len(transfers))
    sizes = len({one.size for one in transfers})
    notes = []
    if sizes < len(transfers):
        notes.append(f"{len(transfers)} times of {sizes} sizes; every time counts")
    formula = "latency + size / bandwidth"
    return TransferTable(source, "messages from host to host", formula, tuple(transfers), (*notes,))


def read_steps(text: str, source: str, unit: str | None) -> StepTable:
    """Step times: by worker and step, in a column per worker, or in one column.

    `unit` is that of times whose column has none. Raises UnreadableError.
    """
    table = _Table(text, source, unit, bare=True)
    if any(column.worker is not None for column in table.columns):
        return _wide(table)
    time = table.only("time", "step's time")
    per_time = table.time_unit(time)
    worker, step = table.first("worker"), table.first("step")
    seen: dict[tuple[int, int], int] = {}
    found: dict[int, list[tuple[int, float]]] = {}
    for line in table.lines():
        seconds = table.read(line, time, lambda text: seconds_of(text, per_time))
        who = 0 if worker is None else table.read(line, worker, _index)
        when = len(found.get(who or 0, ())) if step is None else table.read(line, step, _index)
        if seconds is None or who is None or when is None:
            continue
        if (who, when) in seen:
            before = f"line {seen[who, when]} has it"
            table.again(line, f"step {when} of worker {who} again ({before})")
        seen[who, when] = line.number
        found.setdefault(who, []).append((when, seconds))
    return table.steps({who: sorted(row) for who, row in found.items()})


def _wide(table: _Table) -> StepTable:
    """One column per worker; columns may end early."""
    found: dict[int, list[tuple[int, float]]] = {}
    readers: list[tuple[int, float, list[tuple[int, float]]]] = []
    for index, column in enumerate(table.columns):
        if column.worker is not None:
            if column.worker in found:
                raise table.refused(f", column {index + 1}: worker {column.worker} twice")
            row = found.setdefault(column.worker, [])
            readers.append((index, table.time_unit(index), row))
    for number, line in enumerate(table.lines()):
        for index, unit, row in readers:
            if line.fields[index].strip():
                seconds = table.read(line, index, partial(seconds_of, unit=unit))
                if seconds is not None:
                    row.append((number, seconds))
    return table.steps({worker: times for worker, times in found.items() if times})


def _lines(text: str, source: str) -> Iterator[_CsvLine]:
    """Lines with something in them, split at whatever the first of them is separated by."""
    separator = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        separator = separator or max(",;\t", key=line.count)
        if len(line) > _LONGEST_LINE:
            raise UnreadableError(f"{source}, line {number}: longer than {_LONGEST_LINE} letters")
        yield _CsvLine(number, next(csv.reader([line], delimiter=separator, skipinitialspace=True)))


def _column(name: str) -> _CsvColumn:
    bare = name.strip().lower()
    words = [word for word in re.split(r"[^a-z\u00b5\u03bc]+", bare) if word]
    last = words[-1] if words else ""
    time_unit = TIME_UNITS.get(last)
    if numbered := _WORKER_COLUMN.fullmatch(bare):
        return _CsvColumn("other", time_unit, int(numbered[2]))
    if (words and words[0] in _SIZE_WORDS) or (len(words) == 1 and last in _SIZE_UNITS):
        return _CsvColumn("size", _SIZE_UNITS.get(last))
    if any(word in _SIZE_WORDS for word in words) and last in _SIZE_UNITS:
        return _CsvColumn("size", _SIZE_UNITS[last])
    if len(words) <= 2 and words and words[0] in _WORKERS and last in {*_WORKERS, "id", "index"}:
        return _CsvColumn("worker", None)
    if words and words[0] in _STEPS and (len(words) == 1 or last in {"id", "index", "number"}):
        return _CsvColumn("step", None)
    if time_unit is not None or any(word in _TIME_WORDS for word in words):
        return _CsvColumn("time", time_unit)
    return _CsvColumn("other", None)


def _index(text: str) -> int:
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) <= 9:
        return int(text)
    raise ValueError(f"{shortened(text)} is not a number from 0 up")


def _is_number(text: str) -> bool:
    try:
        positive(text)
    except ValueError:
        return False
    return True
