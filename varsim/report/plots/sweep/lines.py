"""A metric against the swept quantity: one line per strategy, with its interval."""

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from varsim.report.charts.looks import looks
from varsim.report.plots.figure import INK, panel_title, plain_numbers, strategy_line, time_unit
from varsim.report.plots.sweep.axis import main_axis, panels_beside, speed, whisker

if TYPE_CHECKING:
    from varsim.study.sweep.table import Row, Table

HEIGHT: Final = 3.0  # inches of one panel


class Measured(NamedTuple):
    """A metric as it is drawn: what the axis says, and what its values are divided by."""

    metric: str
    label: str
    scale: float = 1.0
    best: bool = False  # whether the highest point of each strategy is marked


class Line(NamedTuple):
    """One strategy in one panel: places on the x axis, means, and halves of their intervals.

    What gets no whisker has no half-width.
    """

    strategy: str
    x: list[float]
    mean: list[float]
    half_width: list[float]
    flat: bool  # nothing along this axis makes a difference to the strategy

    @property
    def has_best(self) -> bool:
        """Whether there is a highest point to speak of."""
        return not self.flat and len(self.x) > 1


STALENESS: Final = Measured("staleness_mean", "staleness (updates)")
WASTED: Final = Measured("wasted_compute", "wasted compute time (%)", 0.01)


def throughput(table: "Table") -> Measured:
    """Examples per second, those that are kept."""
    return Measured(*speed(table), best=True)


def time_to_target(table: "Table") -> Measured:
    """The time to the target loss, in a unit that suits it."""
    times = [row.mean("time_to_target") for row in table.rows]
    longest = max((time for time in times if math.isfinite(time)), default=1.0)
    seconds, name = time_unit(longest)
    return Measured("time_to_target", f"time to target loss ({name})", seconds)


def lines(table: "Table", rows: "list[Row]", measured: Measured) -> list[Line]:
    """The lines of one panel; a point where the metric does not exist is left out."""
    axis = main_axis(table)
    found = []
    for strategy in table.strategies:
        own = [row for row in rows if row.strategy == strategy and row.estimates]
        known = [row for row in own if math.isfinite(row.mean(measured.metric))]
        known.sort(key=lambda row: axis.x(table, row))
        if not known:
            continue
        estimates = [row.estimates[measured.metric] for row in known]
        found.append(
            Line(
                strategy,
                [axis.x(table, row) for row in known],
                [one.mean / measured.scale for one in estimates],
                [whisker(one) / measured.scale for one in estimates],
                len({row.case for row in own}) == 1 < len(own),
            )
        )
    return found


def draw(table: "Table", panels: list[Axes], measured: Measured) -> list[Axes]:
    """One panel for each value of what else is swept; all with the same y axis."""
    axis = main_axis(table)
    look = looks(table.families)
    beside = panels_beside(table, axis)
    highest = 0.0
    for axes, (heading, rows) in zip(panels, beside, strict=True):
        for line in lines(table, rows, measured):
            color, marker, dashes = look[line.strategy]
            style = {"linewidth": 1.0} if line.flat else {"marker": marker, "linestyle": dashes}
            axes.errorbar(
                line.x,
                line.mean,
                yerr=line.half_width,
                color=color,
                capsize=2.5,
                markersize=5,
                **style,
            )
            highest = max(highest, *np.add(line.mean, np.nan_to_num(line.half_width)))
            if measured.best and line.has_best:
                top = int(np.argmax(line.mean))
                axes.plot(line.x[top], line.mean[top], "o", markersize=10, mfc="none", color=INK)
        axis.dress(axes, labelled=axes is panels[-1])
        axes.set_ylabel(measured.label)
        axes.yaxis.set_major_formatter(plain_numbers())
        panel_title(axes, heading, "", 4)
    for axes in panels:
        axes.set_ylim(0, 1.06 * highest or 1)
    return panels


def heights(table: "Table") -> list[float]:
    """Inches of the panels."""
    return [HEIGHT if index == 0 else 0.8 * HEIGHT for index in range(len(_beside(table)))]


def legend(table: "Table", *, rings: bool = False) -> list[Artist]:
    """What stands for each strategy; and the ring, where there is one."""
    look = looks(table.families)
    handles: list[Artist] = [
        strategy_line(table.strategy(name).title, look[name]) for name in table.strategies
    ]
    drawn = (line for _, rows in _beside(table) for line in lines(table, rows, throughput(table)))
    if rings and any(line.has_best for line in drawn):
        ring = Line2D([], [], marker="o", linestyle="none", markersize=10, mfc="none", color=INK)
        ring.set_label("its highest mean")
        handles.append(ring)
    return handles


def _beside(table: "Table") -> "list[tuple[str, list[Row]]]":
    return panels_beside(table, main_axis(table))
