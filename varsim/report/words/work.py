"""How much work the runs of a result did: whether it is comparable, and enough to say anything."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from varsim.cluster.stop import Stop
from varsim.study.work import PERIODS, Done
from varsim.units import format_seconds

if TYPE_CHECKING:
    pass

# A run that took so much of the time it may take was ended by that.
_ALL: Final = 1 - 1e-9
_COUNTED: Final = ("global_steps", "examples")
_FEW_TELL_LITTLE: Final = "Rates from so few may be tens of percent off those of a long run"
# With fewer of them, what they take is not known.
_FEW_READS: Final = 2


def short_rows(rows: Mapping[str, Done], what: str, stop: Stop | None) -> list[str]:
    """That some of many rows, by where they lie, are short; with `stop`, what makes them longer."""
    short = {where: one for where, one in rows.items() if one.gradients < one.needed}
    if not short:
        return []
    fewest = min(short, key=lambda where: short[where].gradients)
    text = (
        f"Short runs: in {len(short):,} of {len(rows):,} {what} a worker computed few gradients, "
        f"{done_told(short[fewest])} on average in the shortest, {fewest}. "
        f"{_FEW_TELL_LITTLE}"
    )
    if stop is not None:
        timed = {stop.time is not None and one.time >= stop.time * _ALL for one in short.values()}
        rules = {rule for by_time in timed for rule in (["time"] if by_time else _COUNTED)}
        text += longer(stop, rules, list(short.values()))
    if dropped := sum(one.too_short for one in short.values()):
        are = "is" if dropped == 1 else "are"
        text += f". {dropped:,} of them, too short even for that, {are} left out of the answer"
    return [f"{text}."]


def longer(stop: Stop, rules: Collection[str], short: Sequence[Done]) -> str:
    """What makes short runs long enough: the limits that ended them, in proportion."""
    more = 1.2 * max(one.needed / one.gradients if one.gradients else math.inf for one in short)
    if math.isinf(more):
        return "; raise the limits in stop"
    typed = []
    if "time" in rules and stop.time is not None:
        typed.append(f"'stop.time={format_seconds(stop.time * more)}'")
    if {"global_steps", "examples"} & set(rules) and stop.global_steps is not None:
        typed.append(f"stop.global_steps={math.ceil(stop.global_steps * more)}")
    elif "examples" in rules and stop.examples is not None:
        typed.append(f"stop.examples={math.ceil(stop.examples * more)}")
    said = f"; for longer runs: {' '.join(f'--set {each}' for each in typed)}" if typed else ""
    few = any(one.gradients < _FEW_READS * one.period for one in short if one.period > 1)
    return f"{said}, or more: reads take time, and there were hardly any" if said and few else said


def done_told(done: Done) -> str:
    """The gradients per worker, and how many there should be where replicas go on alone."""
    many = f" ({PERIODS} periods between reads take {done.least})" if done.period > 1 else ""
    return f"{done.gradients:,.3g}" + (many if done.gradients < done.least else "")
