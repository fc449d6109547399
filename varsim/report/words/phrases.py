"""How numbers are said: means with their intervals, times, ratios."""

import math

from varsim.study.statistics import Estimate

_UNITS_OF_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def margin(count: int, runs: str = "replications") -> str:
    """What `±` says, over so many runs; without the full stop."""
    return f"± is the half-width of a 95 % confidence interval over {count} {runs}"


def plus_minus(found: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """A mean and half its interval, `1.23 ± 0.04 unit`, both multiplied by `scale`."""
    if math.isnan(found.mean):
        return found.note or "-"
    mean, half = found.mean * scale, found.half_width * scale
    decimals = _decimals(mean, half)
    shown = "" if math.isnan(half) else f"{half:,.{decimals}f}"
    width = f" ± {shown}" if shown.strip("0.") else ""
    return f"{mean:,.{decimals}f}{width}{unit and ' '}{unit}"


def time(found: Estimate | float) -> str:
    """Seconds in the unit that suits them, `12.3 ± 0.4 ms`."""
    estimate = Estimate(found, math.nan, math.nan, 1) if isinstance(found, float) else found
    size = abs(estimate.mean)
    scale, unit = next((pair for pair in _UNITS_OF_TIME if size >= pair[0]), _UNITS_OF_TIME[-1])
    return plus_minus(estimate, 1 / scale, unit) if size else "0 s"


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
