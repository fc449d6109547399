"""The tables of a result of variables that are read first: values, and how modes compare."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from varsim.distribute.program import VariableDescription
from varsim.distribute.program_run import ValueSummary
from varsim.report.report import Table
from varsim.report.words.phrases import plus_minus, ratio_cell, time, times
from varsim.scenario.targets import EQUAL_WITHIN
from varsim.study.statistics import Estimate, interval
from varsim.study.verdict import CLOSE, EQUAL, Ranking, Rival, lead_of, ranked, verdict
from varsim.units import format_bytes

if TYPE_CHECKING:
    from varsim.study.variables import VariablesResult


MOST_RATIOS: Final = 12  # rows of the table over reads per write


def table(result: "VariablesResult") -> Table:
    """What a step costs in each mode, a row per mode."""
    rows = []
    for mode in result.modes:
        row = {"time per step": time(result.estimate(mode, "time_per_step"))}
        if mode != result.modes[0]:
            row[f"vs. {result.modes[0]}"] = _times(result, mode)
        elif len(result.modes) > 1:
            row[f"vs. {mode}"] = "1.00x"
        row["bytes per step"] = size(result.estimate(mode, "bytes_per_step"))
        row["messages per step"] = plus_minus(result.estimate(mode, "messages_per_step"))
        rows.append(row)
    return Table.of(zip(result.modes, rows, strict=True), "mode")


def seen(result: "VariablesResult", variable: str) -> Table:
    """What replicas and the outside read last of a variable, in replication 0; a row per mode."""
    views = [result.view(mode, variable) for mode in result.modes]
    rows = [
        {
            "replicas": side_by_side(view.replicas),
            "outside": shown(view.outside),
            "copies at the end": copies(result, mode, variable),
        }
        for mode, view in zip(result.modes, views, strict=True)
    ]
    return Table.of(zip(result.modes, rows, strict=True), "mode", holds="words")


def copies(result: "VariablesResult", mode: str, variable: str) -> str:
    """What the copies of a variable held when a run had ended."""
    trace = result.trace(mode)
    kept = result.view(mode, variable).copies
    there = 1 if trace.mode == "none" else result.scenario.cluster.workers
    more = f"\n({len(kept)} of {there:,} copies)" if len(kept) < there else ""
    return side_by_side(kept) + more


def by_ratio(result: "VariablesResult", most: int = MOST_RATIOS) -> Table:
    """The time per step over reads per write, a row per ratio and a column per mode.

    Of very many ratios some, the first and the last among them.
    """
    count = len(result.ratios)
    most = min(count, most)
    chosen = [result.ratios[round(place * (count - 1) / (most - 1))] for place in range(most)]
    rows = (
        (
            f"{ratio:g}",
            {mode: time(result.estimate(mode, "time_per_step", ratio)) for mode in result.modes},
        )
        for ratio in chosen
    )
    return Table.of(rows, "reads per write", marked="columns")


def size(found: Estimate) -> str:
    """Bytes in the unit that suits them; an interval only where it has a width."""
    if found.high > found.low:
        return plus_minus(found, unit="B")
    return format_bytes(found.mean)


def _times(result: "VariablesResult", mode: str) -> str:
    """How many times the time of the first mode."""
    found, said = against_first(result, mode)
    if found.note or not any(result.values(mode, "time_per_step")):
        return "-"  # one of them takes no time
    return ratio_cell(found) + (f", {said}" if said in (CLOSE, EQUAL) else "")


def ranking_of(result: "VariablesResult") -> Ranking[str]:
    """The modes by their time per step.

    By differences, as crossovers are where they are 0: what both modes spend alike counts in
    neither.
    """
    found = ranked(
        {mode: result.values(mode, "time_per_step") for mode in result.modes},
        equal_within=EQUAL_WITHIN,
        exact=lambda mode: not result.scenario.times_are_random,
        additive=True,
    )
    assert found is not None, "every step takes a time"
    return found


def against_first(result: "VariablesResult", mode: str) -> tuple[Estimate, str]:
    """How many times as long as in the first mode a step takes, and the verdict on that."""
    lead = lead_of(
        *(result.values(one, "time_per_step") for one in (mode, result.modes[0])),
        comparisons=len(result.modes) - 1,
        exact=not result.scenario.times_are_random,
        additive=True,
    )
    return lead, verdict(lead, "longer", "shorter", EQUAL_WITHIN)


def longer(result: "VariablesResult", ranking: Ranking[str], rival: Rival[str]) -> str:
    """`takes 2.20 times as long`; where the best takes no time, how long it takes."""
    if rival.lead.note:
        return f"takes {step_time(result.values(rival.key, 'time_per_step'))}"
    return f"takes {times(rival.lead, ranking.comparisons)} as long"


def step_time(values: Sequence[float]) -> str:
    """The mean time of a step with its interval."""
    from varsim.report.words.phrases import time

    found = interval(values)
    return time(found) if found.mean else "no time"


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
