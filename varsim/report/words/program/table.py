"""The tables of a result of variables that are read first, as text."""

from typing import TYPE_CHECKING, Final

from varsim.report.report import Table
from varsim.report.words.phrases import plus_minus, ratio_cell, time
from varsim.report.words.program.comparison import against_first
from varsim.report.words.program.values import shown, side_by_side
from varsim.study.statistics import Estimate
from varsim.study.verdict import CLOSE, EQUAL
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
