"""Results of nccl-tests: which collective, how many ranks, and what each row says.

Old versions do not print the name of the test, and builds without MPI do not see all ranks. What is
missing is inferred from bus / algorithm bandwidth, which is a function of both (doc/PERFORMANCE.md
of nccl-tests), or has to be told.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from varsim.calibration.measurement import (
    COLLECTIVES,
    TransferTable,
    UnreadableError,
    pattern,
    transfer,
)

_CLOSE: Final = 0.03  # relative: rates are printed with three digits or more
_MOST_RANKS: Final = 4096


class Row(NamedTuple):
    """One line of results: bytes, s, the operation, the root, bus / algorithm bandwidth if seen.

    `right`: the data were checked and found right, or not checked.
    """

    size: float
    seconds: float
    redop: str
    root: int | None
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
    ratios = [row.ratio for row in used if row.ratio is not None]
    ratio = median(ratios) if ratios else None
    name = _collective(table, used, ratio, collective, ranks or table.ranks)
    count = _ranks(table, name, ratio, ranks)
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


def _collective(
    table: Table,
    rows: Sequence[Row],
    ratio: float | None,
    given: str | None,
    ranks: int | None,
) -> str:
    """Which of COLLECTIVES it is."""
    if given is not None:
        return given
    named = table.program or _in_name(table.source)
    if named:
        if named in COLLECTIVES:
            return named
        known = ", ".join(f"{name}_perf" for name in COLLECTIVES)
        raise UnreadableError(
            [f"{table.source}: {named}_perf is not one of the tests that can be read: {known}"]
        )
    fitting = _fitting(rows, ratio, ranks)
    if len(fitting) == 1:
        return fitting[0]
    what = f"it may be {' or '.join(fitting)}" if fitting else "nothing in it says which"
    raise UnreadableError(
        [f"{table.source}: which collective was measured? {what}; say it with --collective"]
    )


def _fitting(rows: Sequence[Row], ratio: float | None, ranks: int | None) -> list[str]:
    """The collectives that rates and columns leave possible."""
    reduces = any(row.redop not in ("", "none") for row in rows)
    rooted = any(row.root is not None and row.root >= 0 for row in rows)
    if rooted:
        return ["reduce" if reduces else "broadcast"]
    if ratio is None:
        return []
    if ranks is None:
        return ["all_reduce"] if ratio > 1 + _CLOSE else []
    # sendrecv prints an operation, too, though it does nothing with it.
    names = ("all_reduce", "reduce_scatter", "sendrecv") if reduces else ("all_gather", "alltoall")
    close = [name for name in names if abs(ratio / pattern(name, ranks).bus - 1) <= _CLOSE]
    # An all-gather and an all-to-all are the same to the model: as many messages, as many bytes.
    return close[:1] if not reduces else close


def _in_name(source: str) -> str:
    """The collective that a file is named after."""
    lowered = source.lower().replace("-", "_")
    squeezed = lowered.replace("_", "")
    found = [name for name in COLLECTIVES if name in lowered or name.replace("_", "") in squeezed]
    # `reduce` stands in other names as well.
    return max(found, key=len) if found else ""


def _ranks(table: Table, name: str, ratio: float | None, given: int | None) -> int:
    """How many ranks took part, at least two."""
    if given is not None:
        return given
    if table.ranks is not None:
        if table.ranks < 2:
            raise UnreadableError(
                [
                    f"{table.source}: 1 rank, so nothing was sent (nccl-tests built without MPI=1 "
                    "do not see the others; if there were more, give --ranks)"
                ]
            )
        return table.ranks
    inferred = _inferred(name, ratio)
    if inferred is None:
        raise UnreadableError(
            [f"{table.source}: how many ranks took part? No line says it; give --ranks"]
        )
    return inferred


def _inferred(name: str, ratio: float | None) -> int | None:
    """The number of ranks from bus / algorithm bandwidth; None where it does not tell."""
    if ratio is None:
        return None
    if name == "sendrecv":
        return 2  # its time does not depend on them in the model
    part = ratio / 2 if name == "all_reduce" else ratio
    if name in ("broadcast", "reduce") or not 0.45 < part < 1:
        return None
    near = round(1 / (1 - part))
    # Rates of three digits tell 16 ranks from 15, not 200 from 199.
    apart = abs(pattern(name, near).bus - pattern(name, near + 1).bus) / ratio
    return near if 2 <= near <= _MOST_RANKS and apart > 2e-3 else None
