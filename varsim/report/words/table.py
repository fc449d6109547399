"""The main numbers of a result as text, a row per strategy."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from varsim.report.report import Table
from varsim.report.words import cost, life
from varsim.report.words.phrases import digits, plus_minus, ratio_cell, time
from varsim.report.words.rates import rate
from varsim.study.measure import ACTIVITIES, METRICS, NANOSECONDS
from varsim.study.verdict import CLOSE, EQUAL

if TYPE_CHECKING:
    from varsim.study.result import Result


# The heading over what deadlocked.
DEADLOCKED = "deadlocked"
LEARNING_RATE = "learning rate"


def table(result: "Result") -> Table:
    """The main numbers as text, with the half width of their intervals; a row per strategy.

    What no strategy has, such as the accuracy of a problem without classes, is left out.
    """
    rows = {name: _row(result, name) for name in result.strategies}
    there = {column for row in rows.values() for column, cell in row.items() if cell != "-"}
    cells = (
        (name, {column: row[column] for column in row if column in there})
        for name, row in rows.items()
    )
    return Table.of(cells, "strategy")


def brief(result: "Result") -> Table:
    """The numbers that are read first; a row per strategy."""
    return Table.of(((name, _first(result, name)) for name in result.strategies), "strategy")


def _first(result: "Result", strategy: str) -> dict[str, str]:
    of = {metric: result.estimate(strategy, metric) for metric in METRICS}
    cells = _standstill(result, strategy) | {"examples/s": plus_minus(of["examples_per_s"])}
    if len(result.strategies) > 1:
        ratio = result.against_first(strategy, "throughput_ratio")
        note = of["throughput_ratio"].note
        cells["times the first"] = plus_minus(ratio) + (
            f",\n{note}" if note in (CLOSE, EQUAL) else ""
        )
    cells |= life.brief(result, strategy)
    cells["staleness"] = plus_minus(of["staleness_mean"])
    cells["wasted"] = plus_minus(of["wasted_compute"], 100, "%")
    if result.scenario.workload.has_values:
        cells["final loss"] = plus_minus(of["final_loss"])
    if result.target_loss is not None:
        cells[f"time to loss {result.target_loss:g}"] = time(of["time_to_target"])
    return cells


def largest(result: "Result", strategy: str, metric: str) -> float:
    """The largest of all replications; nan where the number exists in none."""
    values = [value for value in result.values(strategy, metric) if not math.isnan(value)]
    return max(values, default=math.nan)


def _row(result: "Result", strategy: str) -> dict[str, str]:
    of = {metric: result.estimate(strategy, metric) for metric in METRICS}
    cells = {
        **_standstill(result, strategy),
        "updates/s": plus_minus(of["updates_per_s"]),
        "examples/s": plus_minus(of["examples_per_s"]),
        "examples/s vs. first": _compared(result, strategy),
        **life.cells(result, strategy),
        "speed-up": ratio_cell(of["speedup"]),
        "step p50": time(of["step_time_p50"]),
        "step p99": time(of["step_time_p99"]),
        "staleness mean": plus_minus(of["staleness_mean"]),
        "staleness max": _whole(largest(result, strategy, "staleness_max")),
        **_copies(result, strategy),
        "wasted compute": plus_minus(of["wasted_compute"], 100, "%"),
        **_rate(result, strategy),
        "final loss": plus_minus(of["final_loss"]),
        "final accuracy": plus_minus(of["final_accuracy"], 100, "%"),
    }
    if result.target_loss is not None:
        cells[f"time to loss {result.target_loss:g}"] = time(of["time_to_target"])
    cells |= cost.cells(result, strategy)
    shares = {name: of[f"share_{name}"].mean for name in ACTIVITIES}
    return cells | {"where the time went": most_time(shares)}


def _rate(result: "Result", strategy: str) -> dict[str, str]:
    """At which learning rate the losses below are, where something is learnt."""
    if not result.scenario.workload.has_values:
        return {}
    return {LEARNING_RATE: rate(result.scenario, strategy).removeprefix(f"{LEARNING_RATE} ")}


def _standstill(result: "Result", strategy: str) -> dict[str, str]:
    """When and how often a strategy deadlocked, if some strategy did."""
    if not result.standstills:
        return {}
    runs = result.standstills.get(strategy, [])
    times = [run.standstill.time / NANOSECONDS for run in runs if run.standstill is not None]
    if not times:
        return {DEADLOCKED: "-"}
    share = f", in {len(runs)} of {result.replications}" if len(runs) < result.replications else ""
    return {DEADLOCKED: f"at {time(min(times))}{share}"}


def _copies(result: "Result", strategy: str) -> dict[str, str]:
    """How old and how far apart the copies were, if some strategy has copies of their own."""
    if not any(_drifts(result, name) for name in result.strategies):
        return {}
    cells = {"copy staleness mean": plus_minus(result.estimate(strategy, "copy_staleness_mean"))}
    if result.scenario.workload.has_values:
        cells |= {
            "copy divergence mean": plus_minus(result.estimate(strategy, "divergence_mean")),
            "copy divergence max": digits(largest(result, strategy, "divergence_max")),
        }
    return cells if _drifts(result, strategy) else dict.fromkeys(cells, "-")


def _drifts(result: "Result", strategy: str) -> bool:
    metrics = ("copy_staleness_max", "divergence_max")
    return any(largest(result, strategy, metric) > 0 for metric in metrics)


def _whole(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.0f}"


def most_time(shares: Mapping[str, float]) -> str:
    """The three largest shares of a worker's time, and the rest: `compute 63 %, read 37 %`."""
    rows = sorted(((share, name) for name, share in shares.items()), reverse=True)
    told, left = rows[:3], sum(share for share, _ in rows[3:])
    return ", ".join(
        f"{name} {100 * share:.0f} %" for share, name in (*told, (left, "rest")) if share >= 0.005
    )


def _compared(result: "Result", strategy: str) -> str:
    note = result.estimate(strategy, "throughput_ratio").note
    cell = ratio_cell(result.against_first(strategy, "throughput_ratio"))
    return cell + (f", {note}" if note in (CLOSE, EQUAL) else "")
