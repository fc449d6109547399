"""What nccl-tests print: tables of sizes and times, out of place and in place.

Format of NVIDIA/nccl-tests, src/common.cu and src/util.cu, versions 2.0 to 2.18: a header that
names the columns (size, count, type, in most versions redop and root, then twice time, algbw, busbw
and the number of wrong elements), lines `Rank 0 Group 0 Pid ...` for the ranks; times are in us,
rates in GB/s. The table is found in the middle of other output, such as that of a terminal.
"""

import math
import re
from typing import Final, NamedTuple

from varsim.calibration.measurement import UnreadableError, seconds_of, shortened
from varsim.calibration.nccl import Row, Table

_HEADER: Final = re.compile(r"size\s+count(\s|$)")
_RANK: Final = re.compile(r"Rank\s+(?P<rank>[0-9]+)(?:\s+Group\s+(?P<group>[0-9]+))?\s+Pid\s")
_START: Final = re.compile(r"nThread\s+[0-9]+\s+nGpus\s+[0-9]+")
_PROGRAM: Final = re.compile(r"\b([a-z][a-z_0-9]*?)_perf(?:_mpi)?\b")
_END: Final = re.compile(r"Out of bounds values|Avg bus bandwidth")
_ROW: Final = re.compile(r"-?[0-9][0-9.]*\s+-?[0-9]\S*\s+\S")
_COUNT: Final = re.compile(r"[0-9]{1,18}")
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_FIRST: Final = 3  # columns size, count, type
_MOST_MIDDLE: Final = 2  # redop, root
_MEASURED: Final = 4  # columns time, algbw, busbw, wrong
_MICROSECONDS: Final = 1e-6
_FEWEST_DIGITS: Final = 1.0  # GB/s; two decimals are printed, so that less has too few digits
_RIGHT: Final = 0.5  # wrong elements; old versions print the largest error instead


class _Word(NamedTuple):
    text: str
    column: int


class _TornError(Exception):
    """A line that is not as it should be: where, and why."""

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
                tables[-1].rows.append(_row(words, timestamps))
            except _TornError as torn:
                wrong.append(f"{source}, line {number}{torn}")
    if wrong:
        raise UnreadableError(wrong)
    if not any(table.rows for table in tables):
        raise UnreadableError([f"{source}: a table of nccl-tests without any results"])
    return [table for table in tables if table.rows]


def _row(words: list[_Word], timestamps: bool) -> Row:
    """One line of a table; _TornError where something in it is wrong."""
    if timestamps and len(words) > _FIRST + _MEASURED and ":" in words[-1].text:
        words = words[:-2]  # date and time
    for word in words[:2]:
        if not _COUNT.fullmatch(word.text):
            raise _TornError(word, f"{shortened(word.text)} is not a whole number from 0 up")
    middle = len(words) - _FIRST - 2 * _MEASURED
    if not 0 <= middle <= _MOST_MIDDLE:
        raise _TornError(None, f"{len(words)} columns; the line is torn, or not of nccl-tests")
    options = [word.text for word in words[_FIRST : _FIRST + middle]]
    time, algorithm, bus, errors = words[_FIRST + middle : _FIRST + middle + _MEASURED]
    roots = [int(text) for text in options if _WHOLE.fullmatch(text)]
    names = [text for text in options if not _WHOLE.fullmatch(text)]
    rate, bus_rate = _number(algorithm), _number(bus)
    return Row(
        size=float(words[0].text),
        seconds=_time(time) if words[0].text.strip("0") else math.nan,
        redop=names[0] if names else "",
        root=roots[0] if roots else None,
        ratio=bus_rate / rate if rate >= _FEWEST_DIGITS else None,
        right=errors.text == "N/A" or _number(errors) < _RIGHT,
        in_place=False,
    )


def _time(word: _Word) -> float:
    try:
        return seconds_of(word.text, _MICROSECONDS)
    except ValueError as problem:
        raise _TornError(word, f"time (us): {problem}") from None


def _number(word: _Word) -> float:
    try:
        value = float(word.text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _TornError(word, f"{shortened(word.text)} is not a number")
    return value
