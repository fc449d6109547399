"""Speed-up and efficiency against the number of workers."""

import math
from typing import TYPE_CHECKING, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from varsim.report.charts.looks import looks
from varsim.report.plots.figure import FAINT, panel_title, plain_numbers, strategy_line
from varsim.report.plots.sweep.axis import SweptAxis, chosen, panels_beside, swept_axis, whisker
from varsim.study.statistics import NOTHING, Estimate
from varsim.study.sweep.scaling import COLUMNS, Yardstick

if TYPE_CHECKING:
    from varsim.study.sweep.table import Row, Table

_MOST_PAIRS: Final = 3  # of panels: one for each value of what else is swept


def is_drawn(table: "Table") -> bool:
    """Whether the number of workers is swept, with something to compare."""
    return Yardstick.of(table.sweep) is not None


def draw(table: "Table", panels: list[Axes]) -> list[Axes]:
    """A panel of the speed-up and one of the efficiency for each value of what else is swept."""
    axis = _axis(table)
    look = looks(table.families)
    for number, (heading, rows) in enumerate(_beside(table, axis)):
        upper, lower = panels[2 * number : 2 * number + 2]
        places = sorted(axis.positions.values())
        upper.plot(places, places, color=FAINT, linewidth=1, linestyle=":")
        lower.axhline(100, color=FAINT, linewidth=1, linestyle=":")
        for strategy in _scaled(table):
            color, marker, line = look[strategy]
            for axes, name, scale in (
                (upper, "speedup", 1.0),
                (lower, "efficiency_fraction", 0.01),
            ):
                x, found = curve(table, rows, strategy, name)
                axes.errorbar(
                    x,
                    [one.mean / scale for one in found],
                    yerr=[whisker(one) / scale for one in found],
                    color=color,
                    linestyle=line,
                    marker=marker,
                    markersize=5,
                    capsize=2.5,
                )
        axis.dress(upper, labelled=False)
        axis.dress(lower)
        if axis.logarithmic:
            upper.set_yscale("log")
            upper.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            upper.yaxis.set_minor_locator(NullLocator())
        else:
            upper.set_ylim(bottom=0)
        upper.set_ylabel("speed-up")
        lower.set_ylabel("efficiency (%)")
        upper.yaxis.set_major_formatter(plain_numbers())
        lower.set_ylim(bottom=0)
        panel_title(upper, heading, "", 4)
    return panels


def curve(
    table: "Table", rows: "list[Row]", strategy: str, name: str
) -> tuple[list[float], list[Estimate]]:
    """Numbers of workers, and speed-up or efficiency there, of one strategy."""
    axis = _axis(table)
    pairs = sorted(
        (axis.x(table, row), row.scaling[name])
        for row in rows
        if row.strategy == strategy and math.isfinite(row.scaling.get(name, NOTHING).mean)
    )
    return [x for x, _ in pairs], [found for _, found in pairs]


def heights(table: "Table") -> list[float]:
    """Inches of the panels."""
    return [2.6, 2.0] * len(_beside(table, _axis(table)))


def title(table: "Table") -> str:
    """What the most workers are worth."""
    axis = _axis(table)
    most = max(axis.positions.values())
    rows = [row for row in table.rows if axis.x(table, row) == most and row.scaling]
    known = [row for row in rows if math.isfinite(row.scaling["speedup"].mean)]
    if not known:
        return "Speed-up and efficiency against the number of workers"
    best = max(known, key=lambda row: row.scaling["speedup"].mean)
    fewest = 1.0
    if _scaled(table) == table.strategies:  # none is one worker alone
        fewest = min(axis.x(table, row) for row in table.rows if row.strategy == best.strategy)
    of_what = "one" if fewest == 1 else f"{fewest:,.0f}"
    speedup, efficiency = (best.scaling[name].mean for name in COLUMNS)
    return (
        f"{most:,.0f} workers are at most {speedup / fewest:,.3g} times as fast as {of_what}: "
        f"{table.strategy(best.strategy).mention}, an efficiency of {100 * efficiency:.0f} %"
    )


def legend(table: "Table") -> list[Artist]:
    """What stands for each strategy, and for the ideal."""
    look = looks(table.families)
    ideal = Line2D([], [], color=FAINT, linewidth=1, linestyle=":", label="ideal")
    return [
        *(strategy_line(table.strategy(name).title, look[name]) for name in _scaled(table)),
        ideal,
    ]


def _axis(table: "Table") -> SweptAxis:
    yardstick = Yardstick.of(table.sweep)
    assert yardstick is not None, "only drawn where the number of workers is swept"
    return swept_axis(table, yardstick.place)


def _beside(table: "Table", axis: SweptAxis) -> "list[tuple[str, list[Row]]]":
    return chosen(panels_beside(table, axis), _MOST_PAIRS)


def _scaled(table: "Table") -> list[str]:
    """The strategies but for one worker alone, which does not scale."""
    alone = {
        strategy.label
        for point in table.sweep.points
        for strategy in point.scenario.strategies
        if strategy.kind == "single"
    }
    return [label for label in table.strategies if label not in alone]
