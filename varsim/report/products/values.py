"""Values of variables as text: one alone, and those of all replicas side by side."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from varsim.distribute.program_run import ValueSummary
from varsim.report.told import Note

_MOST: Final = 8  # side by side; of more the first and the last are shown
_FEW: Final = 4  # elements of an array whose elements are shown
_WHOLE: Final = 1e15  # whole numbers below this are written in full
_FLAT: Final = 1e-6


def number(value: float, digits: int = 6) -> str:
    """So many digits, of a large number two decimals; whole numbers below 1e15 in full."""
    if isinstance(value, int) or (value == value // 1 and abs(value) < _WHOLE):
        return str(int(value))
    if 1 < abs(value) < _WHOLE:
        digits = max(digits, len(str(int(abs(value)))) + 2)
    said = f"{value:.{digits}g}"
    return f"{value:#.{digits}g}" if said.lstrip("-").isdecimal() else said


def flat(value: ValueSummary) -> bool:
    """Whether all elements are the same, as far as is known; of a scalar always."""
    first = value.first[0]
    same = all(one == first for one in value.first)
    return value.shape == () or (same and math.isclose(value.mean, first, rel_tol=_FLAT))


def text(value: ValueSummary | None) -> str:
    """`3`, for an array of equal elements, too; `[1, 2]`, or of a large array `[mean 1.5]`."""
    if value is None:
        return "-"
    if flat(value):
        return number(value.first[0])
    if large(value):
        return f"[mean {number(value.mean, 4)}]"
    return f"[{', '.join(number(one, 4) for one in value.first)}]"


def large(value: ValueSummary) -> bool:
    """Whether it is shown by its mean."""
    return not flat(value) and (not value.whole or len(value.first) > _FEW)


def beside(values: Sequence[ValueSummary | None], of: int = 0) -> str:
    """`3 | 1 | 2` in the order of ranks, `6 each`, or of large arrays their means.

    `of`: how many there are in all.
    """
    texts = list(map(text, values))
    more = f" (the first {len(values)} of {of:,})" if len(values) < of else ""
    if len(set(texts)) == 1:
        return (texts[0] if len(texts) == 1 or texts[0] == "-" else f"{texts[0]} each") + more
    if any(one is not None and large(one) for one in values):
        means = ["-" if one is None else number(one.mean, 4) for one in values]
        return f"[means {' | '.join(shortened(means))}]{more}"
    return " | ".join(shortened(texts)) + more


def shortened(texts: Sequence[str]) -> list[str]:
    """All of them; of many the first and the last."""
    return list(texts) if len(texts) <= _MOST else [*texts[: _MOST - 3], "...", texts[-1]]


def of_arrays(values: Iterable[ValueSummary | None]) -> Iterator[Note]:
    """How arrays among these are written."""
    arrays = [one for one in values if one is not None and one.shape]
    if any(map(flat, arrays)):
        yield Note("equal-elements")
    if any(map(large, arrays)):
        yield Note("array-means")
