"""Output of nccl-tests, as text or JSON (-J).

Text (src/common.cu, src/util.cu, versions 2.0 to 2.18): a header that names the columns (size,
count, type, in most versions redop and root, then twice time, algbw, busbw and the number of wrong
elements), lines `Rank 0 Group 0 Pid ...` for the ranks; times in us, rates in GB/s; other output
may stand around it. JSON (file version 1): `config.devices` lists the ranks; each of `results` has
size, redop, root, and `out_of_place` and `in_place` with time (us), alg_bw and bus_bw (GB/s) and
nwrong (null: not checked); the name of the program is in `args`. Where the output does not say the
collective, or the number of ranks, it has to be given; bus / algorithm bandwidth, a function of
both (doc/PERFORMANCE.md of nccl-tests), has to agree.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, Final, NamedTuple

from varsim.calibration.measurement import (
    COLLECTIVES,
    LARGEST,
    LONGEST,
    SHORTEST,
    TransferTable,
    UnreadableError,
    pattern,
    seconds_of,
    shortened,
    transfer,
)

_CLOSE: Final = 0.03  # relative: rates are printed with three digits or more


class Row(NamedTuple):
    """One line of results: bytes, s, bus / algorithm bandwidth if seen.

    `right`: the data were checked and found right, or not checked.
    """

    size: float
    seconds: float
    ratio: float | None
    right: bool
    in_place: bool


class Table(NamedTuple):
    """The results of one test; `program` is empty and `ranks` None where the output is silent."""

    source: str
    program: str
    ranks: int | None
    rows: list[Row]


def transfers_of(table: Table, collective: str | None, ranks: int | None) -> TransferTable:
    """The times of a table as transfers; what is given goes before what the table says.

    Raises UnreadableError where collective or ranks cannot be told, or contradict the rates.
    """
    sized = [row for row in table.rows if row.size > 0]
    used = [row for row in sized if row.right]
    if not used:
        why = "every result is marked wrong" if sized else "the table has no sizes above 0"
        raise UnreadableError([f"{table.source}: {why}"])
    name, count = _collective(table, collective), _ranks(table, ranks)
    ratios = [row.ratio for row in used if row.ratio is not None]
    ratio = median(ratios) if ratios else None
    expected = pattern(name, count).bus
    if ratio is not None and abs(ratio / expected - 1) > _CLOSE:
        raise UnreadableError(
            [
                f"{table.source}: busbw / algbw is {ratio:.3g}, but {name} of {count} ranks has "
                f"{expected:.3g}: set --collective or --ranks right"
            ]
        )
    transfers = tuple(transfer(name, count, row.size, row.seconds) for row in used)
    place = "in-place" if used[0].in_place else "out-of-place"
    what = f"{name} of {count} ranks, {place} times of nccl-tests"
    formula = pattern(name, count).formula
    notes = _notes(table, used)
    return TransferTable(table.source, what, formula, transfers, tuple(notes), (name, count))


def _notes(table: Table, used: Sequence[Row]) -> list[str]:
    notes = []
    if empty := sum(row.size == 0 for row in table.rows):
        notes.append(f"left out: {empty} rows of 0 bytes")
    if wrong := sum(row.size > 0 and not row.right for row in table.rows):
        notes.append(f"left out: {wrong} rows whose data were found wrong (#wrong)")
    repeated = [size for size, count in Counter(row.size for row in used).items() if count > 1]
    if repeated:
        notes.append(f"{len(repeated)} sizes occur more than once; every row counts")
    return notes


def _collective(table: Table, given: str | None) -> str:
    """Which collective was measured."""
    name = given or table.program
    if not name:
        raise UnreadableError(
            [f"{table.source}: which collective was measured? No line says it; give --collective"]
        )
    if name not in COLLECTIVES:
        known = ", ".join(f"{one}_perf" for one in COLLECTIVES)
        raise UnreadableError(
            [f"{table.source}: {name}_perf is not one of the tests that can be read: {known}"]
        )
    return name


def _ranks(table: Table, given: int | None) -> int:
    """How many ranks took part, at least two."""
    ranks = given or table.ranks
    if ranks is None:
        raise UnreadableError(
            [f"{table.source}: how many ranks took part? No line says it; give --ranks"]
        )
    if ranks < 2:
        raise UnreadableError(
            [
                f"{table.source}: 1 rank, so nothing was sent (nccl-tests built without MPI=1 "
                "do not see the others; if there were more, give --ranks)"
            ]
        )
    return ranks


_JSON_PROGRAM: Final = re.compile(r"([a-z][a-z_0-9]*?)_perf(?:_mpi)?$")
_MICROSECONDS: Final = 1e-6


def looks_like_nccl_json(data: object) -> bool:
    """Is it such an object?"""
    return isinstance(data, Mapping) and "results" in data and "config" in data


def read_nccl_json(data: Mapping[str, Any], source: str) -> list[Table]:
    """The one table of a file; UnreadableError names every result that is wrong."""
    results = data.get("results")
    if not isinstance(results, list):
        raise UnreadableError([f"{source}: results is not a list"])
    wrong: list[str] = []
    rows = []
    for number, result in enumerate(results, start=1):
        try:
            rows.append(_json_row(result))
        except ValueError as problem:
            wrong.append(f"{source}, result {number}: {problem}")
    if wrong:
        raise UnreadableError(wrong)
    if not rows:
        raise UnreadableError([f"{source}: results is empty"])
    return [Table(source, _json_program(data), _json_ranks(data), rows)]


def _json_row(result: object) -> Row:
    if not isinstance(result, Mapping):
        raise ValueError("it is not an object")
    size = _json_number(result, "size")
    if size != int(size) or not 0 <= size <= LARGEST:
        raise ValueError(f"size {size:g} is not a whole number of bytes from 0 up")
    out = result.get("out_of_place")
    half = out if isinstance(out, Mapping) else result.get("in_place")
    if not isinstance(half, Mapping):
        raise ValueError("it has neither out_of_place nor in_place")
    if "time" not in half and "cpu_time" in half:
        raise ValueError("cpu_time is the time of the CPU (-C), not of the transfer")
    microseconds = _json_number(half, "time") if size else math.nan
    seconds = microseconds * _MICROSECONDS
    if microseconds <= 0:
        raise ValueError(f"time {microseconds:g} is not above 0")
    if size and not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"time {microseconds:g} us is {seconds:.3g} s: is the unit right?")
    rate, bus = _json_number(half, "alg_bw"), _json_number(half, "bus_bw")
    return Row(
        size=size,
        seconds=seconds,
        ratio=bus / rate if rate >= 1e-3 else None,  # six decimals are written
        right=half.get("nwrong") is None or _json_number(half, "nwrong") == 0,
        in_place=half is not out,
    )


def _json_number(values: Mapping[str, Any], key: str) -> float:
    value = values.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(value):
                return float(value)
    raise ValueError(f"{key} is not a number" if key in values else f"{key} is missing")


def _json_program(data: Mapping[str, Any]) -> str:
    arguments = data.get("args")
    first = str(arguments[0]) if isinstance(arguments, list) and arguments else ""
    found = _JSON_PROGRAM.search(first)
    return found[1].rsplit("/", 1)[-1] if found else ""


def _json_ranks(data: Mapping[str, Any]) -> int | None:
    """The ranks of the largest group; None where none are listed.

    Of a process with several ranks only the first is listed: then ranks go up in steps.
    """
    config = data.get("config")
    if not isinstance(config, Mapping):
        return None
    devices = config.get("devices")
    groups: dict[str, set[int]] = {}
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, Mapping) and isinstance(device.get("rank"), int):
            groups.setdefault(str(device.get("group", 0)), set()).add(device["rank"])
    if not groups:
        return None
    step = _json_count(config, "nthreads") * _json_count(config, "ngpus")
    firsts = all(rank % step == 0 for group in groups.values() for rank in group)
    return max(len(group) for group in groups.values()) * (step if firsts else 1)


def _json_count(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    return value if isinstance(value, int) and value > 0 else 1


_HEADER: Final = re.compile(r"size\s+count(\s|$)")
_RANK: Final = re.compile(r"Rank\s+(?P<rank>[0-9]+)(?:\s+Group\s+(?P<group>[0-9]+))?\s+Pid\s")
_START: Final = re.compile(r"nThread\s+[0-9]+\s+nGpus\s+[0-9]+")
_PROGRAM: Final = re.compile(r"\b([a-z][a-z_0-9]*?)_perf(?:_mpi)?\b")
_END: Final = re.compile(r"Out of bounds values|Avg bus bandwidth")
_ROW: Final = re.compile(r"-?[0-9][0-9.]*\s+-?[0-9]\S*\s+\S")
_COUNT: Final = re.compile(r"[0-9]{1,18}")
_FIRST: Final = 3  # columns size, count, type
_MOST_MIDDLE: Final = 2  # redop, root
_MEASURED: Final = 4  # columns time, algbw, busbw, wrong
_FEWEST_DIGITS: Final = 1.0  # GB/s; two decimals are printed, so that less has too few digits
_RIGHT: Final = 0.5  # wrong elements; old versions print the largest error instead


class _Word(NamedTuple):
    text: str
    column: int


class _TornError(Exception):
    def __init__(self, word: _Word | None, why: str) -> None:
        place = "" if word is None else f", column {word.column}"
        super().__init__(f"{place}: {why}")


def looks_like_nccl_text(text: str) -> bool:
    """Is there such a table, or the beginning of one?"""
    bare = (line.strip().lstrip("# \t") for line in text.splitlines())
    return any(_HEADER.match(line) or _START.match(line) for line in bare)


def read_nccl_text(text: str, source: str) -> list[Table]:
    """The tables of a file; UnreadableError names every line that is wrong."""
    tables: list[Table] = []
    wrong: list[str] = []
    groups: dict[str, set[str]] = {}
    program, timestamps, inside = "", False, False
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip().lstrip("# \t")
        if _END.match(bare):
            program, inside = "", False
        elif (found := _PROGRAM.search(line)) and "concluded" not in line:
            program = found[1]
        if _START.match(bare):
            groups, inside = {}, False
        elif rank := _RANK.match(bare):
            groups.setdefault(rank["group"] or "0", set()).add(rank["rank"])
        elif _HEADER.match(bare):
            if "cputime" in bare:
                wrong.append(f"{source}, line {number}: times of the CPU (-C), not of transfers")
            ranks = max((len(group) for group in groups.values()), default=None)
            tables.append(Table(source, program, ranks, []))
            timestamps, inside = "timestamp" in bare, True
        elif inside and not line.strip().startswith("#") and _ROW.match(bare):
            words = [_Word(m.group(), m.start() + 1) for m in re.finditer(r"\S+", line)]
            try:
                tables[-1].rows.append(_text_row(words, timestamps))
            except _TornError as torn:
                wrong.append(f"{source}, line {number}{torn}")
    if wrong:
        raise UnreadableError(wrong)
    if not any(table.rows for table in tables):
        raise UnreadableError([f"{source}: a table of nccl-tests without any results"])
    return [table for table in tables if table.rows]


def _text_row(words: list[_Word], timestamps: bool) -> Row:
    """One line of a table; _TornError where something in it is wrong."""
    if timestamps and len(words) > _FIRST + _MEASURED and ":" in words[-1].text:
        words = words[:-2]  # date and time
    for word in words[:2]:
        if not _COUNT.fullmatch(word.text):
            raise _TornError(word, f"{shortened(word.text)} is not a whole number from 0 up")
    middle = len(words) - _FIRST - 2 * _MEASURED
    if not 0 <= middle <= _MOST_MIDDLE:
        raise _TornError(None, f"{len(words)} columns; the line is torn, or not of nccl-tests")
    time, algorithm, bus, errors = words[_FIRST + middle : _FIRST + middle + _MEASURED]
    rate, bus_rate = _text_number(algorithm), _text_number(bus)
    return Row(
        size=float(words[0].text),
        seconds=_text_time(time) if words[0].text.strip("0") else math.nan,
        ratio=bus_rate / rate if rate >= _FEWEST_DIGITS else None,
        right=errors.text == "N/A" or _text_number(errors) < _RIGHT,
        in_place=False,
    )


def _text_time(word: _Word) -> float:
    try:
        return seconds_of(word.text, _MICROSECONDS)
    except ValueError as problem:
        raise _TornError(word, f"time (us): {problem}") from None


def _text_number(word: _Word) -> float:
    try:
        value = float(word.text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _TornError(word, f"{shortened(word.text)} is not a number")
    return value
