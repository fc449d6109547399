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
_MICROSECONDS: Final = 1e-6


class NcclRow(NamedTuple):
    """One line of results: bytes, s, bus / algorithm bandwidth if seen.

    `right`: the data were checked and found right, or not checked.
    """

    size: float
    seconds: float
    ratio: float | None
    right: bool
    in_place: bool


class NcclTable(NamedTuple):
    """The results of one test; `program` is empty and `ranks` None where the output is silent."""

    source: str
    program: str
    ranks: int | None
    rows: list[NcclRow]


def transfers_of(table: NcclTable, collective: str | None, ranks: int | None) -> TransferTable:
    """The times of a table as transfers; what is given goes before what the table says.

    Raises UnreadableError where collective or ranks cannot be told, or contradict the rates.
    """
    sized = [row for row in table.rows if row.size > 0]
    used = [row for row in sized if row.right]
    name, count = collective or table.program, ranks or table.ranks
    ratios = [row.ratio for row in used if row.ratio is not None]
    problem = _problem(sized, used, name, count, ratios)
    if problem:
        raise UnreadableError(f"{table.source}: {problem}")
    assert count is not None
    shape = pattern(name, count)
    transfers = tuple(transfer(name, count, row.size, row.seconds) for row in used)
    place = "in-place" if used[0].in_place else "out-of-place"
    what = f"{name} of {count} ranks, {place} times of nccl-tests"
    notes = tuple(_notes(table, used))
    return TransferTable(table.source, what, shape.formula, transfers, notes, (name, count))


def _problem(
    sized: Sequence[NcclRow],
    used: Sequence[NcclRow],
    name: str,
    ranks: int | None,
    ratios: Sequence[float],
) -> str:
    """Why the results cannot be used; nothing where they can."""
    if not used:
        return "every result is marked wrong" if sized else "the table has no sizes above 0"
    if not name:
        return "which collective was measured? No line says it; give --collective"
    if name not in COLLECTIVES:
        known = ", ".join(f"{one}_perf" for one in COLLECTIVES)
        return f"{name}_perf is not one of the tests that can be read: {known}"
    if ranks is None:
        return "how many ranks took part? No line says it; give --ranks"
    if ranks < 2:
        return (
            "1 rank, so nothing was sent (nccl-tests built without MPI=1 do not see the others; "
            "if there were more, give --ranks)"
        )
    expected = pattern(name, ranks).bus
    if ratios and abs(median(ratios) / expected - 1) > _CLOSE:
        return (
            f"busbw / algbw is {median(ratios):.3g}, but {name} of {ranks} ranks has "
            f"{expected:.3g}: set --collective or --ranks right"
        )
    return ""


def _notes(table: NcclTable, used: Sequence[NcclRow]) -> list[str]:
    notes = []
    if empty := sum(row.size == 0 for row in table.rows):
        notes.append(f"left out: {empty} rows of 0 bytes")
    if wrong := sum(row.size > 0 and not row.right for row in table.rows):
        notes.append(f"left out: {wrong} rows whose data were found wrong (#wrong)")
    repeated = [size for size, count in Counter(row.size for row in used).items() if count > 1]
    if repeated:
        notes.append(f"{len(repeated)} sizes occur more than once; every row counts")
    return notes


# JSON.


_JSON_PROGRAM: Final = re.compile(r"([a-z][a-z_0-9]*?)_perf(?:_mpi)?$")


def looks_like_nccl_json(data: object) -> bool:
    """Is it such an object?"""
    return isinstance(data, Mapping) and "results" in data and "config" in data


def read_nccl_json(data: Mapping[str, Any], source: str) -> list[NcclTable]:
    """The one table of a file; UnreadableError names every result that is wrong."""
    results = data.get("results")
    if not isinstance(results, list):
        raise UnreadableError(f"{source}: results is not a list")
    wrong: list[str] = []
    rows = []
    for number, result in enumerate(results, start=1):
        try:
            rows.append(_json_row(result))
        except ValueError as problem:
            wrong.append(f"{source}, result {number}: {problem}")
    if wrong:
        raise UnreadableError(*wrong)
    if not rows:
        raise UnreadableError(f"{source}: results is empty")
    arguments = data.get("args")
    first = str(arguments[0]) if isinstance(arguments, list) and arguments else ""
    found = _JSON_PROGRAM.search(first)
    program = found[1].rsplit("/", 1)[-1] if found else ""
    return [NcclTable(source, program, _json_ranks(data.get("config")), rows)]


def _json_row(result: object) -> NcclRow:
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
    return NcclRow(
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


def _json_ranks(config: object) -> int | None:
    """The ranks of the largest group; None where none are listed.

    Of a process with several ranks only the first is listed: then ranks go up in steps.
    """
    if not isinstance(config, Mapping):
        return None
    devices = config.get("devices")
    groups: dict[str, set[int]] = {}
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, Mapping) and isinstance(device.get("rank"), int):
            groups.setdefault(str(device.get("group", 0)), set()).add(device["rank"])
    if not groups:
        return None
    counts = (config.get(key) for key in ("nthreads", "ngpus"))
    step = math.prod(value for value in counts if isinstance(value, int) and value > 0)
    firsts = all(rank % step == 0 for group in groups.values() for rank in group)
    return max(len(group) for group in groups.values()) * (step if firsts else 1)


# Text.


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


def looks_like_nccl_text(text: str) -> bool:
    """Is there such a table, or the beginning of one?"""
    bare = (line.strip().lstrip("# \t") for line in text.splitlines())
    return any(_HEADER.match(line) or _START.match(line) for line in bare)


def read_nccl_text(text: str, source: str) -> list[NcclTable]:
    """The tables of a file; UnreadableError names every line that is wrong."""
    tables: list[NcclTable] = []
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
            tables.append(NcclTable(source, program, ranks, []))
            timestamps, inside = "timestamp" in bare, True
        elif inside and not line.strip().startswith("#") and _ROW.match(bare):
            try:
                tables[-1].rows.append(_text_row(list(re.finditer(r"\S+", line)), timestamps))
            except ValueError as torn:
                wrong.append(f"{source}, line {number}{torn}")
    if wrong:
        raise UnreadableError(*wrong)
    if not any(table.rows for table in tables):
        raise UnreadableError(f"{source}: a table of nccl-tests without any results")
    return [table for table in tables if table.rows]


def _text_row(words: list[re.Match[str]], timestamps: bool) -> NcclRow:
    """One line of a table; a ValueError says where something in it is wrong."""
    if timestamps and len(words) > _FIRST + _MEASURED and ":" in words[-1][0]:
        words = words[:-2]  # date and time
    for word in words[:2]:
        if not _COUNT.fullmatch(word[0]):
            raise _torn(word, f"{shortened(word[0])} is not a whole number from 0 up")
    middle = len(words) - _FIRST - 2 * _MEASURED
    if not 0 <= middle <= _MOST_MIDDLE:
        raise ValueError(f": {len(words)} columns; the line is torn, or not of nccl-tests")
    time, algorithm, bus, errors = words[_FIRST + middle : _FIRST + middle + _MEASURED]
    rate, bus_rate = _text_number(algorithm), _text_number(bus)
    seconds = math.nan
    if words[0][0].strip("0"):
        try:
            seconds = seconds_of(time[0], _MICROSECONDS)
        except ValueError as problem:
            raise _torn(time, f"time (us): {problem}") from None
    return NcclRow(
        size=float(words[0][0]),
        seconds=seconds,
        ratio=bus_rate / rate if rate >= _FEWEST_DIGITS else None,
        right=errors[0] == "N/A" or _text_number(errors) < _RIGHT,
        in_place=False,
    )


def _text_number(word: re.Match[str]) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(word[0])):
            return value
    raise _torn(word, f"{shortened(word[0])} is not a number")


def _torn(word: re.Match[str], why: str) -> ValueError:
    return ValueError(f", column {word.start() + 1}: {why}")
