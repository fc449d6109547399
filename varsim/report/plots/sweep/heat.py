"""Throughput over two swept quantities: a map for each strategy to which both matter."""

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from varsim.report.plots.figure import drawable, panel_title, plain_numbers
from varsim.report.plots.sweep.axis import SweptAxis, main_axis, speed, swept_axis

if TYPE_CHECKING:
    from varsim.study.sweep.table import Table

_MOST_WRITTEN: Final = 12  # columns in whose cells there is room for a number
_COLORS: Final = "cividis"
# Of numbers on them; on a dark page neither changes, as the colours below them do not.
_DARK: Final = "#101214"
_LIGHT: Final = "#fefefe"


def is_drawn(table: "Table") -> bool:
    """Whether exactly two quantities, or groups of them, are swept."""
    return len(table.sweep.groups) == 2 and bool(mapped(table))


def mapped(table: "Table") -> list[str]:
    """The strategies to which both quantities matter."""
    both = [table.sweep.quantities[index].group for index in table.sweep.groups]
    return [
        strategy
        for strategy in table.strategies
        if {table.sweep.quantities[i].group for i in table.mattering(strategy)} == set(both)
    ]


def grid(table: "Table", strategy: str) -> NDArray[np.float64]:
    """Examples/s, shape (values of the second quantity, of the first); nan where no point is."""
    across, up = _axes(table)
    metric, _ = speed(table)
    columns, rows = list(across.positions), list(up.positions)
    found = np.full((len(rows), len(columns)), math.nan)
    for row in table.rows:
        if row.strategy == strategy:
            values = table.sweep.points[row.point].values
            place = rows.index(values[up.index].text), columns.index(values[across.index].text)
            found[place] = row.mean(metric)
    return found


def draw(table: "Table", panels: list[Axes]) -> list[Axes]:
    """One map below the other, with one scale of colours."""
    across, up = _axes(table)
    maps = {strategy: grid(table, strategy) for strategy in mapped(table)}
    highest = max(float(np.nanmax(one)) for one in maps.values())
    scale = Normalize(0, highest)
    for axes, (strategy, values) in zip(panels, maps.items(), strict=True):
        image = axes.imshow(values, _COLORS, scale, aspect="auto", origin="lower")
        axes.set_xticks(range(values.shape[1]), _texts(across, 12))
        axes.set_yticks(range(values.shape[0]), _texts(up, 24))
        axes.set_ylabel(drawable(_last_word(table, up)))
        axes.grid(visible=False)
        axes.figure.colorbar(
            image,
            cax=axes.inset_axes((1.02, 0, 0.03, 1)),
            label=speed(table)[1],
            format=plain_numbers(),
        )
        panel_title(axes, table.strategy(strategy).title, "", 4)
        if values.shape[1] <= _MOST_WRITTEN:
            _write(axes, values, highest)
    panels[-1].set_xlabel(drawable(table.sweep.quantities[across.index].path))
    return panels


def heights(table: "Table") -> list[float]:
    """Inches of the panels."""
    _, up = _axes(table)
    return [max(1.6, min(4.0, 0.5 + 0.32 * len(up.positions)))] * len(mapped(table))


def title(table: "Table") -> str:
    """What is drawn."""
    across, up = (table.sweep.quantities[axis.index].path for axis in _axes(table))
    return f"Throughput over {across} and {up}"


def legend(_: "Table") -> list[Artist]:
    """Numbers and colours say it all."""
    return []


def _axes(table: "Table") -> tuple[SweptAxis, SweptAxis]:
    across = main_axis(table)
    (other,) = (index for index in table.sweep.groups if index != across.index)
    return across, swept_axis(table, other)


def _last_word(table: "Table", axis: SweptAxis) -> str:
    return table.sweep.quantities[axis.index].path.rpartition(".")[2]


def _texts(axis: SweptAxis, longest: int) -> list[str]:
    every = -(-len(axis.positions) // 16)
    return [text if place % every == 0 else "" for place, text in enumerate(axis.texts(longest))]


def _write(axes: Axes, values: NDArray[np.float64], highest: float) -> None:
    best = float(np.nanmax(values))
    for (y, x), value in np.ndenumerate(values):
        if not math.isnan(value):
            color = _DARK if value > 0.55 * highest else _LIGHT
            weight = "bold" if value == best else "normal"
            text = f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"
            axes.text(
                x, y, text, ha="center", va="center", fontsize=8.5, color=color, weight=weight
            )
