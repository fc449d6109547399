"""Numbers as people read them, and the table that is read first."""

import math
from typing import TYPE_CHECKING

from varsim.result.measure import ACTIVITIES, METRICS, NANOSECONDS
from varsim.result.statistics import Estimate
from varsim.result.verdict import CLOSE, EQUAL

if TYPE_CHECKING:
    from pandas import DataFrame

    from varsim.result.result import Result

# The heading over what came to stand still.
STANDS_STILL = "stands still"
LEARNING_RATE = "learning rate"

_UNITS_OF_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def table(result: "Result") -> "DataFrame":
    """The main numbers as text, with the half width of their intervals; a row per strategy."""
    from pandas import DataFrame

    rows = [_row(result, strategy) for strategy in result.strategies]
    return DataFrame(rows, index=list(result.strategies)).rename_axis("strategy")


def plus_minus(found: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """A mean and half its interval, `1.23 ± 0.04 unit`, both multiplied by `scale`."""
    if math.isnan(found.mean):
        return found.note or "-"
    mean, half = found.mean * scale, found.half_width * scale
    decimals = _decimals(mean, half)
    margin = "" if math.isnan(half) else f"{half:,.{decimals}f}"
    width = f" ± {margin}" if margin.strip("0.") else ""
    return f"{mean:,.{decimals}f}{width}{unit and ' '}{unit}"


def time(found: Estimate | float) -> str:
    """Seconds in the unit that suits them, `12.3 ± 0.4 ms`."""
    estimate = Estimate(found, math.nan, math.nan, 1) if isinstance(found, float) else found
    size = abs(estimate.mean)
    scale, unit = next((pair for pair in _UNITS_OF_TIME if size >= pair[0]), _UNITS_OF_TIME[-1])
    return plus_minus(estimate, 1 / scale, unit) if size else "0 s"


def largest(result: "Result", strategy: str, metric: str) -> float:
    """The largest of all replications; nan where the number exists in none."""
    values = [value for value in result.values(strategy, metric) if not math.isnan(value)]
    return max(values, default=math.nan)


def digits(value: float) -> str:
    """Three digits, or all of them before the point."""
    return f"{value:,.{max(0, 2 - _magnitude(value))}f}"


def factor(value: float) -> str:
    """A ratio in three digits; in more where it would look like 1 and is not."""
    text = digits(value)
    beyond = abs(value - 1)
    if text not in ("1.00", "1.000") or not 1e-6 < beyond < math.inf:
        return text
    return f"{value:.{1 - _magnitude(beyond)}f}"


def _row(result: "Result", strategy: str) -> dict[str, str]:
    from varsim.result import cost

    of = {metric: result.estimate(strategy, metric) for metric in METRICS}
    cells = {
        **_standstill(result, strategy),
        "updates/s": plus_minus(of["updates_per_s"]),
        "examples/s": plus_minus(of["examples_per_s"]),
        "examples/s vs. first": _compared(result, strategy),
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
    return cells | {"where the time went": _most_time(of)}


def _rate(result: "Result", strategy: str) -> dict[str, str]:
    """At which learning rate the losses below are, where something is learnt."""
    from varsim.result.rates import rate

    if not result.scenario.workload.has_values:
        return {}
    return {LEARNING_RATE: rate(result.scenario, strategy).removeprefix(f"{LEARNING_RATE} ")}


def _standstill(result: "Result", strategy: str) -> dict[str, str]:
    """Since when and how often a strategy stood still, if some strategy did."""
    if not result.standstills:
        return {}
    runs = result.standstills.get(strategy, [])
    times = [run.standstill.time / NANOSECONDS for run in runs if run.standstill is not None]
    if not times:
        return {STANDS_STILL: "-"}
    share = f", in {len(runs)} of {result.replications}" if len(runs) < result.replications else ""
    return {STANDS_STILL: f"from {time(min(times))}{share}"}


def _copies(result: "Result", strategy: str) -> dict[str, str]:
    """How old and how far apart the copies were, if some strategy has copies of their own."""
    if not any(_drifts(result, name) for name in result.strategies):
        return {}
    cells = [
        plus_minus(result.estimate(strategy, "copy_staleness_mean")),
        plus_minus(result.estimate(strategy, "divergence_mean")),
        digits(largest(result, strategy, "divergence_max")),
    ]
    names = ("copy staleness mean", "copy divergence mean", "copy divergence max")
    return dict(zip(names, cells if _drifts(result, strategy) else ["-"] * 3, strict=True))


def _drifts(result: "Result", strategy: str) -> bool:
    metrics = ("copy_staleness_max", "divergence_max")
    return any(largest(result, strategy, metric) > 0 for metric in metrics)


def _whole(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.0f}"


def _most_time(of: dict[str, Estimate]) -> str:
    shares = sorted(((of[f"share_{name}"].mean, name) for name in ACTIVITIES), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f} %" for share, name in shares[:3] if share >= 0.005)


def _compared(result: "Result", strategy: str) -> str:
    note = result.estimate(strategy, "throughput_ratio").note
    cell = ratio_cell(result.against_first(strategy, "throughput_ratio"))
    return cell + (f", {note}" if note in (CLOSE, EQUAL) else "")


def ratio_cell(found: Estimate) -> str:
    """A ratio, `1.45x (1.40 to 1.50)`."""
    if math.isnan(found.mean):
        return found.note or "-"
    return f"{factor(found.mean)}x{_between(found)}"


def _between(found: Estimate) -> str:
    low, high = factor(found.low), factor(found.high)
    return "" if math.isnan(found.low) or low == high else f" ({low} to {high})"


def _decimals(mean: float, half: float) -> int:
    """So many that half the interval shows two digits, the mean at most five."""
    if half > 0:
        return max(0, min(1 - _magnitude(half), 4 - _magnitude(mean)))
    exact = mean == round(mean) and abs(mean) < 1e6
    return 0 if exact else max(0, 3 - _magnitude(mean))


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
