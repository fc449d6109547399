"""CSV files of measurements: (bytes, seconds), and step times per worker.

The header says what a column is and its unit: `bytes,time_us`, `worker,step,seconds`,
`worker_0_ms,worker_1_ms`. Separators are commas, semicolons or tabs; empty lines and lines that
begin with # are skipped.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from varsim.calibration.measurement import (
    TIME_UNITS,
    StepTable,
    Transfer,
    TransferTable,
    UnreadableError,
    bytes_of,
    positive,
    seconds_of,
    shortened,
)

ACCEPTED: Final = (
    "bytes,seconds (with other units: size_kB,time_us), or worker,step,seconds, or one column of "
    "times per worker (worker_0_ms,worker_1_ms)"
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


class _Line(NamedTuple):
    number: int
    fields: list[str]


class _Column(NamedTuple):
    """What a column holds: size, time, worker, step or other; its unit in SI, if it has one."""

    holds: str
    unit: float | None
    worker: int | None = None


def looks_like_table(text: str, source: str) -> str:
    """`csv`, `steps`, or nothing: by the header."""
    header = next(_lines(text, source), None)
    if header is None:
        return ""
    columns = [_column(name) for name in header.fields]
    holds = [column.holds for column in columns]
    if "size" in holds and "time" in holds:
        return "csv"
    times = any(column.holds == "time" or column.worker is not None for column in columns)
    return "steps" if times or (len(columns) == 1 and _is_number(header.fields[0])) else ""


def lacks_unit(text: str, source: str) -> bool:
    """Is there a column of times whose unit the header does not say?"""
    header = next(_lines(text, source), None)
    columns = [] if header is None else [_column(name) for name in header.fields]
    return any(
        one.unit is None and (one.worker is not None or one.holds == "time") for one in columns
    ) or (header is not None and _is_number(header.fields[0]))


def read_transfers(text: str, source: str, unit: str | None) -> TransferTable:
    """A table of (bytes, seconds): single messages from host to host.

    `unit` is that of times whose column has none. Raises UnreadableError.
    """
    header, *lines = _all_lines(text, source)
    columns = [_column(name) for name in header.fields]
    where = {
        name: [i for i, c in enumerate(columns) if c.holds == name] for name in ("size", "time")
    }
    for name, found in where.items():
        if len(found) != 1:
            names = ", ".join(header.fields[i].strip() for i in found)
            what = f"which of {names} is the {name}" if found else f"where is the {name}"
            raise UnreadableError([f"{source}, line {header.number}: {what}? {_want()}"])
    size, time = where["size"][0], where["time"][0]
    time_unit = _unit(header, time, columns[time], unit, source)
    size_unit = columns[size].unit or 1.0
    wrong: list[str] = []
    transfers = []
    for line in lines:
        fields = _fields(line, header, source, wrong)
        if fields is None:
            continue
        count = _value(line, size, header, source, wrong, size_unit, is_time=False)
        seconds = _value(line, time, header, source, wrong, time_unit, is_time=True)
        if count is not None and seconds is not None:
            transfers.append(Transfer(count, seconds, 1, count))
    _refuse(wrong, source, len(transfers))
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
    first, *rest = _all_lines(text, source)
    if len(first.fields) == 1 and _is_number(first.fields[0]):
        first, rest = _Line(first.number, ["time"]), [first, *rest]
        if unit is None:
            raise UnreadableError(
                [
                    f"{source}, line {first.number}: no header says the unit; give --unit ms, "
                    f"or {_want()}"
                ]
            )
    columns = [_column(name) for name in first.fields]
    wide = [i for i, column in enumerate(columns) if column.worker is not None]
    if wide:
        return _wide(first, rest, columns, wide, source, unit)
    return _long(first, rest, columns, source, unit)


def _long(
    header: _Line, lines: Sequence[_Line], columns: list[_Column], source: str, unit: str | None
) -> StepTable:
    times = [i for i, column in enumerate(columns) if column.holds == "time"]
    if len(times) != 1:
        names = ", ".join(header.fields[i].strip() for i in times)
        what = f"which of {names} is the step's time" if times else "where is the time"
        raise UnreadableError([f"{source}, line {header.number}: {what}? {_want()}"])
    time = times[0]
    time_unit = _unit(header, time, columns[time], unit, source)
    worker = next((i for i, column in enumerate(columns) if column.holds == "worker"), None)
    step = next((i for i, column in enumerate(columns) if column.holds == "step"), None)
    wrong: list[str] = []
    seen: dict[tuple[int, int], int] = {}
    found: dict[int, list[tuple[int, float]]] = {}
    for line in lines:
        if _fields(line, header, source, wrong) is None:
            continue
        seconds = _value(line, time, header, source, wrong, time_unit, is_time=True)
        who = 0 if worker is None else _index(line, worker, header, source, wrong)
        when = line.number if step is None else _index(line, step, header, source, wrong)
        if seconds is None or who is None or when is None:
            continue
        if (who, when) in seen:
            wrong.append(
                f"{source}, line {line.number}: step {when} of worker {who} again (line "
                f"{seen[who, when]} has it)"
            )
        seen[who, when] = line.number
        found.setdefault(who, []).append((when, seconds))
    _refuse(wrong, source, len(found))
    in_order = {who: sorted(found[who]) for who in sorted(found)}
    rows = {who: tuple(time for _, time in row) for who, row in in_order.items()}
    if step is None:
        numbers = {who: tuple(range(len(row))) for who, row in rows.items()}
    else:
        numbers = {who: tuple(when for when, _ in row) for who, row in in_order.items()}
    return StepTable(source, rows, numbers)


def _wide(
    header: _Line,
    lines: Sequence[_Line],
    columns: list[_Column],
    wide: list[int],
    source: str,
    unit: str | None,
) -> StepTable:
    """One column per worker; columns may end early."""
    wrong: list[str] = []
    units = {i: _unit(header, i, columns[i], unit, source) for i in wide}
    found: dict[int, list[tuple[int, float]]] = {}
    for index in wide:
        worker = columns[index].worker
        assert worker is not None
        if worker in found:
            raise UnreadableError(
                [f"{source}, line {header.number}, column {index + 1}: worker {worker} twice"]
            )
        found[worker] = []
    for number, line in enumerate(lines):
        if _fields(line, header, source, wrong) is None:
            continue
        for index in wide:
            if not line.fields[index].strip():
                continue
            seconds = _value(line, index, header, source, wrong, units[index], is_time=True)
            worker = columns[index].worker
            if seconds is not None and worker is not None:
                found[worker].append((number, seconds))
    there = {worker: times for worker, times in sorted(found.items()) if times}
    _refuse(wrong, source, len(there))
    rows = {worker: tuple(time for _, time in times) for worker, times in there.items()}
    numbers = {worker: tuple(step for step, _ in times) for worker, times in there.items()}
    return StepTable(source, rows, numbers)


def _lines(text: str, source: str) -> Iterator[_Line]:
    """Lines with something in them, split at whatever the first of them is separated by."""
    separator = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        separator = separator or max(",;\t", key=line.count)
        if len(line) > _LONGEST_LINE:
            raise UnreadableError([f"{source}, line {number}: longer than {_LONGEST_LINE} letters"])
        yield _Line(number, next(csv.reader([line], delimiter=separator, skipinitialspace=True)))


def _all_lines(text: str, source: str) -> list[_Line]:
    lines = list(_lines(text, source))
    if not lines:
        raise UnreadableError([f"{source}: the file is empty; {_want()}"])
    return lines


def _column(name: str) -> _Column:
    bare = name.strip().lower()
    words = [word for word in re.split(r"[^a-z\u00b5\u03bc]+", bare) if word]
    last = words[-1] if words else ""
    time_unit = TIME_UNITS.get(last)
    if numbered := _WORKER_COLUMN.fullmatch(bare):
        return _Column("other", time_unit, int(numbered[2]))
    if (words and words[0] in _SIZE_WORDS) or (len(words) == 1 and last in _SIZE_UNITS):
        return _Column("size", _SIZE_UNITS.get(last))
    if any(word in _SIZE_WORDS for word in words) and last in _SIZE_UNITS:
        return _Column("size", _SIZE_UNITS[last])
    if len(words) <= 2 and words and words[0] in _WORKERS and last in {*_WORKERS, "id", "index"}:
        return _Column("worker", None)
    if words and words[0] in _STEPS and (len(words) == 1 or last in {"id", "index", "number"}):
        return _Column("step", None)
    if time_unit is not None or any(word in _TIME_WORDS for word in words):
        return _Column("time", time_unit)
    return _Column("other", None)


def _unit(header: _Line, index: int, column: _Column, given: str | None, source: str) -> float:
    """Seconds per unit of a column of times."""
    if column.unit is not None:
        return column.unit
    if given is not None:
        return TIME_UNITS[given]
    name = header.fields[index].strip()
    raise UnreadableError(
        [
            f"{source}, line {header.number}, column {index + 1}: {shortened(name)} has no unit: "
            f"name it {name}_ms, {name}_us or {name}_s, or give --unit"
        ]
    )


def _fields(line: _Line, header: _Line, source: str, wrong: list[str]) -> list[str] | None:
    if len(line.fields) == len(header.fields):
        return line.fields
    wrong.append(
        f"{source}, line {line.number}: {len(line.fields)} values where the header has "
        f"{len(header.fields)}"
    )
    return None


def _value(
    line: _Line,
    index: int,
    header: _Line,
    source: str,
    wrong: list[str],
    unit: float,
    *,
    is_time: bool,
) -> float | None:
    text = line.fields[index]
    try:
        return seconds_of(text, unit) if is_time else bytes_of(text, unit)
    except ValueError as problem:
        name = header.fields[index].strip()
        wrong.append(f"{source}, line {line.number}, column {index + 1} ({name}): {problem}")
        return None


def _index(line: _Line, index: int, header: _Line, source: str, wrong: list[str]) -> int | None:
    text = line.fields[index].strip()
    if text.isascii() and text.isdecimal() and len(text) <= 9:
        return int(text)
    name = header.fields[index].strip()
    wrong.append(
        f"{source}, line {line.number}, column {index + 1} ({name}): {shortened(text)} is not a "
        "number from 0 up"
    )
    return None


def _refuse(wrong: list[str], source: str, found: int) -> None:
    if wrong:
        raise UnreadableError(wrong)
    if not found:
        raise UnreadableError([f"{source}: nothing after the header"])


def _is_number(text: str) -> bool:
    try:
        positive(text)
    except ValueError:
        return False
    return True


def _want() -> str:
    return f"columns may be {ACCEPTED}"
