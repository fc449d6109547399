"""Measurements as read from files: tables of transfers and of step times."""

import math
import re
from typing import Final, NamedTuple, Self

_MOST_LINES: Final = 20

# What people write behind a number or in the name of a column.
TIME_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds", "millis"), 1e-3),
    **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds", "micros"), 1e-6),
    **dict.fromkeys(("\u00b5s", "\u03bcs"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds", "nanos"), 1e-9),
}
# Seconds that a step or transfer may take, and bytes that may be sent; the rest are wrong units.
SHORTEST: Final = 1e-10
LONGEST: Final = 1e6
LARGEST: Final = 1e18


class UnreadableError(Exception):
    """Error of unusable files, one line per problem."""

    def __init__(self, *lines: str) -> None:
        shown = list(lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            shown.append(f"and {len(lines) - _MOST_LINES} more")
        super().__init__("\n".join(shown))


class MeasuredPart(NamedTuple):
    """Comments, YAML lines under `cluster`, and the CSV that these name."""

    comments: tuple[str, ...]
    yaml: tuple[str, ...]
    csv: str | None = None


class MeasuredTransfer(NamedTuple):
    """One measured time (s) of a collective, or of a message, that has `size` bytes.

    In varsim's model it takes `messages` latencies and `carried` bytes / bandwidth: so many
    messages follow each other on a link, and carry so many bytes in all.
    """

    size: float
    seconds: float
    messages: float
    carried: float


class TransferTable(NamedTuple):
    """Times of one collective over sizes; `what` says which, `formula` what varsim makes of it.

    `collective` has its name and the number of ranks; None for messages from host to host.
    """

    source: str
    what: str
    formula: str
    transfers: tuple[MeasuredTransfer, ...]
    notes: tuple[str, ...] = ()
    collective: tuple[str, int] | None = None


class StepTable(NamedTuple):
    """Times of steps (s), in order, by worker; numbered 0, 1, 2, ... or as the file has them.

    `numbers` are those of the steps. `file` is the file's name where varsim's law `trace` can read
    it as it is. `alone`: what collectives took is left out, and with it waiting for others.
    """

    source: str
    rows: dict[int, tuple[float, ...]]
    numbers: dict[int, tuple[int, ...]]
    notes: tuple[str, ...] = ()
    file: str | None = None
    alone: bool = False

    def of_worker(self, worker: int) -> Self:
        """A table of one worker, who is given another number."""
        (row,), (numbers,) = self.rows.values(), self.numbers.values()
        return self._replace(rows={worker: row}, numbers={worker: numbers})

    def common(self) -> tuple[tuple[float, ...], ...]:
        """A row of all workers' times (s) for each step that all of them have, in order."""
        shared = set.intersection(*map(set, self.numbers.values()))
        columns = [
            [time for number, time in zip(self.numbers[w], row, strict=True) if number in shared]
            for w, row in self.rows.items()
        ]
        return tuple(zip(*columns, strict=True))


class Pattern(NamedTuple):
    """Cost of a collective of p ranks in varsim's model, and its bus bandwidth factor.

    `messages` and `share` (of the size) are those of one link; the bus bandwidth of nccl-tests is
    `bus` * size / time (doc/PERFORMANCE.md there).
    """

    messages: int
    share: float
    bus: float
    formula: str


def pattern(collective: str, ranks: int) -> Pattern:
    """The pattern of a collective: a key of COLLECTIVES.

    All-reduce, reduce-scatter and all-gather go around a ring, all-to-all pairwise, broadcast and
    reduce along a chain, in pieces; sendrecv sends to the next rank while it receives.
    """
    others, part = ranks - 1, (ranks - 1) / ranks
    if collective == "all_reduce":
        formula = "2 (p - 1) (latency + size / p / bandwidth), a ring"
        return Pattern(2 * others, 2 * part, 2 * part, formula)
    if collective in ("all_gather", "reduce_scatter", "alltoall"):
        return Pattern(others, part, part, "(p - 1) (latency + size / p / bandwidth)")
    if collective in ("broadcast", "reduce"):
        return Pattern(others, 1.0, 1.0, "(p - 1) latency + size / bandwidth, a chain")
    assert collective == "sendrecv"
    return Pattern(1, 1.0, 1.0, "latency + size / bandwidth")


COLLECTIVES: Final = (
    *("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv"),
)


def transfer(collective: str, ranks: int, size: float, seconds: float) -> MeasuredTransfer:
    """A measured time of a collective, with what it costs in the model."""
    shape = pattern(collective, ranks)
    return MeasuredTransfer(size, seconds, shape.messages, shape.share * size)


def positive(text: str) -> float:
    """A number above 0; a ValueError says what it is instead."""
    try:
        value = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ValueError(f"{shortened(text)} is not a number")
    if not math.isfinite(value):
        raise ValueError(f"{shortened(text)} is beyond what a number can hold")
    if value < 0:
        raise ValueError(f"{text.strip()} is negative")
    if value == 0:
        raise ValueError("0 is not possible: it must be above 0")
    return value


def seconds_of(text: str, unit: float) -> float:
    """A time in seconds; a ValueError says what is wrong with it."""
    value = positive(text) * unit
    if not SHORTEST <= value <= LONGEST:
        raise ValueError(f"{text.strip()} are {value:.3g} s: is the unit right?")
    return value


def bytes_of(text: str, unit: float) -> float:
    """A size in bytes; a ValueError says what is wrong with it."""
    value = positive(text) * unit
    if not 1 <= value <= LARGEST:
        raise ValueError(f"{text.strip()} are {value:.3g} bytes: is the unit right?")
    return value


def with_unit(value: float, dimension: str) -> str:
    """Time or rate with its unit, six digits: `20.138 us`, `1.2022 GB/s`."""
    units, value = _WRITTEN[dimension], float(f"{value:.6g}")
    smallest = units[-1] if value else units[0]
    name, size = next((unit for unit in units if value >= unit[1]), smallest)
    return f"{value / size:.6g} {name}"


def shortened(text: str) -> str:
    """Text of a file, shortened to be shown in one line."""
    text = text.strip()
    return repr(text if len(text) <= 40 else text[:37] + "...")


_WRITTEN: Final = {
    "time": (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)),
    "rate": (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)),
}
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
