"""Throughput against cost: the points that no other beats in both, and all others."""

import math
from typing import TYPE_CHECKING, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from varsim.report.charts.looks import looks
from varsim.report.plots.figure import (
    INK,
    drawable,
    panel_title,
    plain_numbers,
    short,
    strategy_line,
)
from varsim.report.plots.sweep.axis import chosen, speed
from varsim.report.products import sweep_points
from varsim.study.sweep.table import short_names

if TYPE_CHECKING:
    from varsim.study.sweep.table import Row, Table

_MOST_NAMED: Final = 8  # points of the front that are named


def is_drawn(table: "Table") -> bool:
    """Whether the scenario states prices."""
    return any(math.isfinite(row.mean("cost_per_hour")) for row in table.rows)


def priced(table: "Table") -> "list[Row]":
    """The rows that have a cost and a throughput."""
    return [
        row
        for row in table.rows
        if math.isfinite(row.mean("cost_per_hour")) and math.isfinite(row.mean(speed(table)[0]))
    ]


def best_for_cost(table: "Table") -> list[int]:
    """The front among the `priced` rows: each is surely faster than all that cost less."""
    rows = priced(table)
    return [rows.index(row) for row in sweep_points.best_for_cost(table)]


def draw(table: "Table", panels: list[Axes]) -> list[Axes]:
    """Every row a mark; the front a line, its points named."""
    (axes,) = panels
    look = looks(table.families)
    rows = priced(table)
    metric, unit = speed(table)
    pairs = [(row.mean("cost_per_hour"), row.mean(metric)) for row in rows]
    best = best_for_cost(table)
    axes.step(
        [pairs[index][0] for index in best],
        [pairs[index][1] for index in best],
        where="post",
        color=INK,
        linewidth=1,
    )
    for row, (cost, rate) in zip(rows, pairs, strict=True):
        color, marker, _ = look[row.strategy]
        axes.plot(cost, rate, marker, color=color, markersize=6)
    for index in chosen(best, _MOST_NAMED):  # left of and above the front there are no marks
        axes.annotate(
            drawable(_values(table, rows[index])),
            pairs[index],
            (-6, 3),
            textcoords="offset points",
            fontsize=7.5,
            ha="right",
        )
    names = short_names([quantity.path for quantity in table.sweep.quantities])
    panel_title(axes, "", f"beside marks: {drawable(short(', '.join(names), 60))}", 4)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.yaxis.set_major_formatter(plain_numbers())
    axes.set_xlabel(f"cost per hour ({table.currency})")
    axes.set_ylabel(unit)
    return panels


def _values(table: "Table", row: "Row") -> str:
    """The values of the quantities at a row, those that matter to it."""
    values = table.sweep.points[row.point].values
    return ", ".join(values[index].text for index in table.mattering(row.strategy))


def heights(_: "Table") -> list[float]:
    """Inches of the one panel."""
    return [4.0]


def title(table: "Table") -> str:
    """What the cheapest and the fastest point cost."""
    rows = priced(table)
    best = best_for_cost(table)
    return f"{len(best)} of {len(rows)} rows surely do more than all that cost less"


def legend(table: "Table") -> list[Artist]:
    """What stands for each strategy, and for the front."""
    look = looks(table.families)
    line = Line2D([], [], color=INK, linewidth=1, label="most for its cost")
    marks = (
        strategy_line(table.strategy(name).title, look[name], "none") for name in table.strategies
    )
    return [*marks, line]
