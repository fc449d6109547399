"""What a step costs in each mode: its time, and the bytes that it moves."""

from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from varsim.report.charts.looks import looks
from varsim.report.plots.bars import Bar, bars
from varsim.report.plots.figure import (
    drawable,
    named,
    row_heights,
    time_unit,
)
from varsim.report.words.phrases import headline, plus_minus, time
from varsim.report.words.program.answer import CHEAPEST
from varsim.report.words.program.table import ranking_of, size

if TYPE_CHECKING:
    from varsim.study.variables import VariablesResult

_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


def costs(result: "VariablesResult", metric: str) -> list[Bar]:
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
        found.append(Bar.of(mode, estimate, drawable(text)))
    return found


def draw(result: "VariablesResult", panels: list[Axes]) -> list[Axes]:
    """Times on the first of the Axes, bytes on the second."""
    times, sizes = costs(result, "time_per_step"), costs(result, "bytes_per_step")
    look = looks(result.families)
    unit = time_unit(max(bar.mean for bar in times))
    bars(panels[0], times, look, MaxNLocator(7, steps=[1, 2, 5, 10]), unit.seconds)
    panels[0].set_xlabel(f"time per step ({unit.name})")
    most = max(bar.mean for bar in sizes)
    scale, name = next((pair for pair in _SIZES if most >= pair[0]), _SIZES[-1])
    bars(panels[1], sizes, look, MaxNLocator(7, steps=[1, 2, 5, 10]), scale)
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
