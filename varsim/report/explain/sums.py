"""What a dtype makes of a sum: the number that is written, and what exact numbers would say."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from varsim.distribute.program_run import MOST_COPIES, ValueSummary
from varsim.report.explain.numbers import PLAIN, Spelling, number

_Array: TypeAlias = npt.NDArray[Any]

# An error of a smaller share than this is not seen in four digits.
_SEEN: Final = Fraction(1, 1000)


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


def remark(
    parts: Sequence[ValueSummary],
    divided_by: int,
    old: ValueSummary | None,
    new: ValueSummary,
    sign: int,
    dtype: str,
    spelling: Spelling = PLAIN,
) -> str:
    """What exact numbers do not say of old + sign x sum of parts / divided_by = new; often nothing.

    `old` None: the sum itself is the new value. Only the elements that were kept are looked at.
    """
    for place, after in enumerate(new.first):
        before = None if old is None else old.first[place]
        values = [one.first[place] for one in parts]
        said = _off(values, divided_by, before, after, sign, dtype)
        if said is None or not _explained(values, divided_by, before, after, sign, dtype):
            continue  # exact, or somebody else wrote in between
        if isinstance(said, str):
            return f"; {said}"
        if before is None:
            return f"; {dtype} rounds the sum"
        if after == before:
            return f"; it is lost in rounding to {dtype}"
        return f"; rounding to {dtype} makes it {number(float(said), spelling)}"
    return ""


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


def _explained(
    parts: Sequence[float], divided_by: int, old: float | None, new: float, sign: int, dtype: str
) -> bool:
    """Whether the arithmetic of the dtype makes new of it: of the sum, or of part after part."""
    if old is None:
        return any(_same(_plain(one), new) for one in _sums(parts, divided_by, dtype))
    if any(_same(_changed(old, one, sign), new) for one in _sums(parts, divided_by, dtype)):
        return True
    return divided_by == 1 and _same(
        _plain(next(_sums([old, *(sign * one for one in parts)], 1, dtype))), new
    )


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _off(
    parts: Sequence[float],
    divided_by: int,
    old: float | None,
    new: float,
    sign: int,
    dtype: str,
) -> Fraction | str | None:
    """None: as exact numbers say; an overflow in words; else by how much it changed."""
    if not all(map(math.isfinite, parts)):
        return None
    total = sum(map(Fraction, parts), Fraction(0)) / divided_by
    if np.dtype(dtype).kind == "i":
        exact = sign * total + int(old or 0)
        return None if exact == new else f"{dtype} overflows"
    largest = float(np.finfo(dtype).max)
    if not math.isfinite(new):
        overflows = old is None or math.isfinite(old) or abs(total) * divided_by > largest
        return f"{dtype} overflows to {number(new)}" if overflows else None
    if old is not None and not math.isfinite(old):
        return None
    change = sign * (Fraction(new) - Fraction(old or 0))
    size = abs(total) or max(map(abs, map(Fraction, parts)), default=Fraction(0))
    return change if abs(change - total) > _SEEN * size else None
