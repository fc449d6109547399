"""What a step costs in each mode: its time, and the bytes that it moves."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from varsim.report.plots.figure import (
    INK,
    PAPER,
    drawable,
    label_rows,
    looks,
    named,
    plain_numbers,
    row_heights,
    time_unit,
)
from varsim.report.words.phrases import plus_minus, time
from varsim.report.words.program.answer import CHEAPEST
from varsim.report.words.program.comparison import ranking_of
from varsim.report.words.program.table import size
from varsim.report.words.winner import headline

if TYPE_CHECKING:
    from varsim.study.variables import VariablesResult

APART: Final = 0.03  # of the axis: replications that differ by less are no dots of their own

_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


class Bar(NamedTuple):
    """One mode's bar: mean with its interval (nan where there is none), and what is said of it."""

    mode: str
    mean: float
    low: float
    high: float
    values: list[float]
    text: str


def bars(result: "VariablesResult", metric: str) -> list[Bar]:
    """One bar per mode, in s or bytes."""
    found = []
    for mode in result.modes:
        estimate = result.estimate(mode, metric)
        if metric == "time_per_step":
            text = time(estimate)
        elif estimate.mean:
            messages = result.estimate(mode, "messages_per_step")
            many = "message" if messages.mean == 1 else "messages"
            text = f"{size(estimate)} in {plus_minus(messages)} {many}"
        else:
            text = "nothing"
        values = result.values(mode, metric)
        found.append(Bar(mode, estimate.mean, estimate.low, estimate.high, values, text))
    return found


def draw(result: "VariablesResult", panels: list[Axes]) -> list[Axes]:
    """Times on the first of the Axes, bytes on the second."""
    times, sizes = bars(result, "time_per_step"), bars(result, "bytes_per_step")
    unit = time_unit(max(max(bar.values) for bar in times))
    _draw(result.modes, panels[0], times, unit.seconds)
    panels[0].set_xlabel(f"time per step ({unit.name})")
    most = max(bar.mean for bar in sizes)
    scale, name = next((pair for pair in _SIZES if most >= pair[0]), _SIZES[-1])
    _draw(result.modes, panels[1], sizes, scale)
    panels[1].set_xlabel(f"sent per step ({name})")
    return panels


def heights(result: "VariablesResult") -> list[float]:
    """Inches of both panels."""
    (rows,) = row_heights(result.modes)
    return [rows + 0.25, rows + 0.25]


def title(result: "VariablesResult") -> str:
    """Which mode is the cheapest, as far as the intervals tell."""
    ranking = ranking_of(result)

    def least(mode: str) -> str:
        return time(result.estimate(mode, "time_per_step"))

    if not ranking.rivals:
        return f"A step takes {least(ranking.best)}"
    return headline(ranking, CHEAPEST, named, lambda mode: f"{least(mode)} per step")


def _draw(modes: Sequence[str], axes: Axes, found: Sequence[Bar], scale: float) -> None:
    look = looks(modes)
    limit = 0.0
    dots = []
    for y, bar in enumerate(found):
        mean = bar.mean / scale
        axes.barh(y, mean, height=0.62, color=look[bar.mode].color)
        right = max([mean, *(value / scale for value in bar.values)])
        if math.isfinite(bar.low) and bar.high > bar.low:
            half = (bar.high - bar.low) / 2 / scale
            axes.errorbar(mean, y, xerr=half, color=INK, capsize=4, linewidth=1.4)
            right = max(right, bar.high / scale)
        dots.append([value / scale for value in bar.values])
        text = drawable(bar.text)
        axes.annotate(text, (right, y), (7, 0), textcoords="offset points", va="center")
        # Room for the text, whose letters are about 1.2 % of the axis wide.
        limit = max(limit, right / (1 - min(0.03 + 0.012 * len(text), 0.7)))
    for y, values in enumerate(dots):
        if max(values) - min(values) > APART * limit:
            row = [y + 0.2] * len(values)
            axes.plot(values, row, "o", color=PAPER, markeredgecolor=INK, markersize=4)
    axes.set_xlim(0, limit or 1)
    label_rows(axes, modes)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.grid(visible=False, axis="y")
