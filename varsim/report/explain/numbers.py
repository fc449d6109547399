"""Values, replicas and messages as people read them; what a dtype makes of a sum."""

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from varsim.cluster.execution import Sent
from varsim.distribute.program_run import MOST_COPIES, ValueSummary
from varsim.study.program.rows import Copies, Rounds
from varsim.units import format_bytes
from varsim.values.operation import Device

UNITS: Final = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))

# So many numbers stand one beside the other; of more the first and the last are shown.
_MOST_NUMBERS: Final = 8
_MOST_EQUAL: Final = 4
_MOST_ELEMENTS: Final = 4
_MOST_ROUTES: Final = 4


class Spelling(NamedTuple):
    """How the numbers of one variable are written, all over a page.

    `digits`: so many, `whole`: whole numbers below this in full, `single`: they are float32.
    """

    digits: int = 4
    whole: float = 1e7
    single: bool = False


PLAIN: Final = Spelling()


def number(value: float, spelling: Spelling = PLAIN) -> str:
    """A number with four digits, or with more; whole ones in full."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and (isinstance(value, int) or abs(value) < spelling.whole):
        return str(int(value))
    digits = spelling.digits
    if spelling.single and digits > PLAIN.digits:
        value = float(str(np.float32(value)))  # the shortest that is read as the same float32
    text = f"{value:.{digits}g}"
    return f"{value:#.{digits}g}".rstrip(".") if text.lstrip("-").isdigit() else text


def glance(value: ValueSummary, spelling: Spelling = PLAIN) -> str:
    """A value: a number, or the elements of a small array, or the first and the average of all."""
    if value.shape == ():
        return number(value.first[0], spelling)
    if value.whole and len(value.first) <= _MOST_ELEMENTS:
        return "[" + ", ".join(number(one, spelling) for one in value.first) + "]"
    first = ", ".join(number(one, spelling) for one in value.first[:2])
    return f"[{first}, ...], average {number(value.mean, spelling)}"


def beside(values: Sequence[ValueSummary], spelling: Spelling = PLAIN) -> str:
    """Values of several replicas, `3 | 1 | 2`; one value where all are the same."""
    texts = [glance(one, spelling) for one in values]
    if len(set(map(repr, values))) == 1:  # nan is like nan
        return texts[0]
    if values[0].whole and len(values[0].first) <= _MOST_ELEMENTS:
        return " | ".join(shortened(texts))
    averages = shortened([number(value.mean, spelling) for value in values])
    return f"arrays with averages {' | '.join(averages)}"


def side_by_side(copies: Copies, replicas: int, spelling: Spelling = PLAIN) -> list[str]:
    """All copies of a variable: one line with few numbers, or a line for each group of equals."""
    texts = [glance(one, spelling) for one in copies]
    equal = len(set(map(repr, copies))) == 1
    few = len(texts) <= (_MOST_EQUAL if equal else _MOST_NUMBERS)
    if len(texts) == 1 or (copies[0].shape == () and few):
        return [" | ".join(texts)]
    lines, rank = [], 0
    for _, some in groupby(copies, repr):
        count = len(list(some))
        lines.append(f"{ranks(range(rank, rank + count), replicas)}: {texts[rank]}")
        rank += count
    lines = shortened(lines)
    return lines if replicas <= MOST_COPIES else [*lines, f"(the first {MOST_COPIES})"]


def added_up(
    total: ValueSummary,
    parts: Sequence[ValueSummary],
    divided_by: int = 1,
    spelling: Spelling = PLAIN,
) -> str:
    """` = 3 + 1 + 2`, or ` = (3 + 1 + 2) / 3`, where that is true to the digit as it is printed."""
    if total.shape != () or not 1 < len(parts) <= _MOST_NUMBERS:
        return ""
    values = [one.first[0] for one in (total, *parts)]
    if not all(map(math.isfinite, values)):
        return ""
    printed = [Decimal(number(value, spelling)) for value in values]
    if printed[0] * divided_by != sum(printed[1:]):
        return ""
    texts = [number(value, spelling) for value in values[1:]]
    terms = " + ".join(f"({text})" if text.startswith("-") else text for text in texts)
    return f" = {terms}" if divided_by == 1 else f" = ({terms}) / {divided_by}"


def shared_out(
    total: ValueSummary, count: int, part: ValueSummary, spelling: Spelling = PLAIN
) -> str:
    """`6 / 3 = 2`; where the division does not come out even, that it was cut or rounded."""
    sum_ = f"{glance(total, spelling)} / {count}"
    if total.shape != ():
        return f"1/{count} of it"
    whole, share = number(total.first[0], spelling), number(part.first[0], spelling)
    if not (math.isfinite(total.first[0]) and math.isfinite(part.first[0])):
        return f"{sum_}, which is {share}"
    if Decimal(share) * count == Decimal(whole):
        return f"{sum_} = {share}"
    if isinstance(part.first[0], int):
        return f"{sum_} cut to a whole number, {share}"
    return f"{sum_}, about {share}"


def ranks(numbers: Sequence[int], of: int) -> str:
    """Ranks of replicas: `all`, `0`, `0, 1`, `0, 2 to 5`."""
    if len(numbers) == of > 1:
        return "all"
    return _ranges(sorted(numbers))


def several(noun: str, numbers: Sequence[int]) -> str:
    """`worker 1`, `workers 1 to 3`."""
    return f"{noun}{'s' if len(numbers) > 1 else ''} {_ranges(sorted(numbers))}"


def per_cent(momentum: float) -> str:
    """How far a moving average moves: `10 %` for a momentum of 0.9."""
    return f"{number(round(100 * (1 - momentum), 9))} %"


def listed(words: Sequence[object]) -> str:
    """One after the other, `3, 4, 6`; of many the first and the last."""
    return ", ".join(shortened(list(map(str, words))))


def shortened(texts: Sequence[str]) -> list[str]:
    """All of them; of many the first and the last."""
    if len(texts) <= _MOST_NUMBERS:
        return list(texts)
    return [*texts[: _MOST_NUMBERS - 3], "...", texts[-1]]


def time(nanoseconds: int) -> str:
    """A duration with at least three digits and one decimal: `50.1 us`, `300.4 us`, `30 ms`."""
    size, unit = next((pair for pair in UNITS if nanoseconds >= pair[0]), UNITS[-1])
    value = nanoseconds / size
    digits = f"{value:.{2 if value < 10 else 1}f}"
    return f"{digits.rstrip('0').rstrip('.')} {unit}"


def duration(nanoseconds: int) -> str:
    """A duration in all, with four digits: `1.002 ms`, `500.9 us`, `30 ms`."""
    size, unit = next((pair for pair in UNITS if nanoseconds >= pair[0]), UNITS[-1])
    value = nanoseconds / size
    decimals = max(1, 4 - len(str(int(value))))
    return f"{f'{value:.{decimals}f}'.rstrip('0').rstrip('.')} {unit}"


def sending(rounds: Rounds) -> str:
    """What is sent, from where to where, and how long that takes; empty for nothing."""
    if not rounds:
        return ""
    if rounds[0][0].what.startswith("ring"):
        return f"{rounds[0][0].what} in {len(rounds)} rounds: {total(rounds)}, {_took(rounds)}"
    return "; then ".join(_round(sent) for sent in rounds)


def total(rounds: Sequence[Sequence[Sent]]) -> str:
    """How much is sent in all."""
    sizes = [row.size for sent in rounds for row in sent]
    if not sizes:
        return ""
    messages = "1 message" if len(sizes) == 1 else f"{len(sizes):,} messages"
    return f"{messages}, {format_bytes(sum(sizes))} in all"


def place(device: Device) -> str:
    """The machine a device is in: `worker 0`, `ps 1`."""
    return f"{device.job} {device.task}"


def _round(sent: Sequence[Sent]) -> str:
    routes = _routes(sent)
    if len({row.size for row in sent}) > 1 or len(routes) > _MOST_ROUTES:
        return f"{total([sent])}, {_took([sent])}"
    each = f"{format_bytes(sent[0].size)}{' each' if len(sent) > 1 else ''}"
    return f"{', '.join(routes)}: {each}, {_took([sent])}"


def _routes(sent: Sequence[Sent]) -> list[str]:
    """Who sends to whom, with one sender or one receiver together."""
    for end in ("target", "source"):
        if len({getattr(row, end) for row in sent}) == 1:
            return [f"{_places([r.source for r in sent])} -> {_places([r.target for r in sent])}"]
    return [f"{place(row.source)} -> {place(row.target)}" for row in sent]


def _places(devices: Sequence[Device]) -> str:
    unique = sorted({(device.job, device.task) for device in devices})
    jobs = groupby(unique, lambda pair: pair[0])
    return ", ".join(several(job, [task for _, task in some]) for job, some in jobs)


def _took(rounds: Sequence[Sequence[Sent]]) -> str:
    """From the first to leave to the last to arrive."""
    rows = [row for sent in rounds for row in sent]
    return time(max(row.end for row in rows) - min(row.start for row in rows))


def _ranges(numbers: Sequence[int]) -> str:
    """`0, 2 to 5` from rising numbers."""
    parts: list[list[int]] = []
    for one in numbers:
        if parts and one == parts[-1][-1] + 1:
            parts[-1].append(one)
        else:
            parts.append([one])
    texts = [
        f"{some[0]} to {some[-1]}" if len(some) > 2 else ", ".join(map(str, some)) for some in parts
    ]
    return ", ".join(shortened(texts))


_Array: TypeAlias = npt.NDArray[Any]


def reduced(
    parts: Sequence[ValueSummary],
    divided_by: int,
    old: ValueSummary,
    new: ValueSummary,
    sign: int,
    dtype: str,
) -> ValueSummary:
    """The sum of what was handed over, computed in its dtype and divided, as it is written.

    A ring begins the sum at any of the replicas: taken is the order by which old becomes new.
    """
    first = tuple(
        _element([one.first[place] for one in parts], divided_by, before, after, sign, dtype)
        for place, (before, after) in enumerate(zip(old.first, new.first, strict=True))
    )
    mean = sum(one.mean for one in parts) / divided_by
    return ValueSummary(new.shape, first, mean if all(map(math.isfinite, first)) else first[0])


def _element(
    parts: Sequence[float], divided_by: int, old: float, new: float, sign: int, dtype: str
) -> float:
    """The first of the sums that makes new of old; if none does, the one in order of rank."""
    sums = list(_sums(parts, divided_by, dtype))
    right = [one for one in sums if _same(_changed(old, one, sign), new)]
    return _plain(right[0] if right else sums[0])


def _sums(parts: Sequence[float], divided_by: int, dtype: str) -> Iterator[_Array]:
    """What a dtype makes of a sum, begun at each of the parts in turn; arrays of one element."""
    values = np.array(parts, dtype)
    starts = len(values) if len(values) <= MOST_COPIES and values.dtype.kind == "f" else 1
    with np.errstate(all="ignore"):
        for start in range(starts):
            total = np.cumsum(np.roll(values, -start), dtype=dtype)[-1:]
            yield total if divided_by == 1 else (total / values.dtype.type(divided_by))


def _changed(old: float, change: _Array, sign: int) -> float:
    with np.errstate(all="ignore"):
        before = np.array([old], change.dtype)
        return _plain(before + change if sign > 0 else before - change)


def _plain(array: _Array) -> float:
    number: float = array[0].item()  # of whole numbers int
    return number


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
