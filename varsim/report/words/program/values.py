"""Values as people read them: those of one actor, and those of many side by side."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from varsim.distribute.program import VariableDescription
from varsim.distribute.program_run import ValueSummary

NEVER: Final = "-"
_MOST_IN_A_LINE: Final = 8  # numbers of different replicas
_MOST_LINES: Final = 4
_DIGITS: Final = 4  # of an element of an array


def number(value: float, digits: int = 6) -> str:
    """So many digits; all of them of a whole number that has at most fifteen."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.{digits}g}"


def shown(glance: ValueSummary | None) -> str:
    """One value: `3`, `[1, 2, 3]`, or of a large array its first elements and its mean."""
    if glance is None:
        return NEVER
    if not glance.shape:
        return number(glance.first[0])
    first = ", ".join(number(value, _DIGITS) for value in glance.first)
    if not glance.whole:
        return f"[{first}, ...] (mean {number(glance.mean, _DIGITS)})"
    return f"[{first}]"


def alike(one: ValueSummary | None, other: ValueSummary | None) -> bool:
    """Whether both look the same; nan is like nan."""
    return repr(one) == repr(other)


def side_by_side(glances: Sequence[ValueSummary | None]) -> str:
    """The values of all replicas: `3, 4, 6`, `6 each`, or a line for each of the first."""
    texts = list(map(shown, glances))
    runs = [(text, len(list(same))) for text, same in groupby(texts)]
    if len(runs) == 1:
        text, count = runs[0]
        return text if count == 1 or text == NEVER else f"{text} each"
    if all(glance is None or not glance.shape for glance in glances):
        if len(texts) <= _MOST_IN_A_LINE:
            return ", ".join(texts)
        if len(runs) > _MOST_IN_A_LINE // 2:
            return f"{', '.join(texts[:_MOST_IN_A_LINE])}, ... ({len(texts):,} in all)"
    return "\n".join(_lines(runs))


def described(variable: VariableDescription) -> str:
    """What a variable is: `float32, shape [262144], mean`."""
    parts: list[str] = [variable.dtype]
    if variable.shape:
        parts.append(f"shape [{', '.join(map(str, variable.shape))}]")
    parts.append("no aggregation" if variable.aggregation == "none" else variable.aggregation)
    if variable.synchronization is not None:
        parts.append(variable.synchronization)
    return ", ".join(parts)


def _lines(runs: Sequence[tuple[str, int]]) -> list[str]:
    """A line for each run of equal values: `0..6: 3`."""
    lines, rank = [], 0
    for text, count in runs[:_MOST_LINES]:
        last = rank + count - 1
        lines.append(f"{rank}: {text}" if count == 1 else f"{rank}..{last}: {text}")
        rank += count
    left = sum(count for _, count in runs[_MOST_LINES:])
    return [*lines, f"... {left:,} more"] if left else lines
