"""The axis of a swept quantity: its values in a unit that reads well, and the panels beside it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from varsim.report.plots.figure import drawable, short, time_unit
from varsim.report.words.phrases import says_nothing
from varsim.study.goodput import KEPT
from varsim.study.statistics import Estimate
from varsim.study.sweep.campaign import STEERING

if TYPE_CHECKING:
    from varsim.study.sweep.table import Row, Table

T = TypeVar("T")

MOST_PANELS: Final = 6
_MOST_TICKS: Final = 12
_WIDE: Final = 16  # times the smallest value is the largest where the axis is logarithmic
_ROOM: Final = 100  # characters along the axis
_KIND: Final = re.compile(r"\{kind: (\w+)[,}]")
_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_RATES: Final = ((1.25e11, "Tbit/s"), (1.25e8, "Gbit/s"), (1.25e5, "Mbit/s"), (125.0, "kbit/s"))
_FLOPS: Final = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s"))


@dataclass(frozen=True)
class SweptAxis:
    """One quantity along an axis: where a value stands, and what is written there."""

    index: int  # among the quantities of the sweep
    label: str
    positions: dict[str, float]  # by the value's text
    logarithmic: bool
    numeric: bool

    def x(self, table: "Table", row: "Row") -> float:
        """Where a row stands."""
        return self.positions[table.sweep.points[row.point].values[self.index].text]

    def texts(self, longest: int) -> list[str]:
        """What is written at the values: all of it, or the kind where that tells them apart."""
        kinds = [_KIND.match(text) for text in self.positions]
        names = [found[1] for found in kinds if found]
        if len(set(names)) == len(kinds) and max(map(len, self.positions)) > longest:
            return [drawable(short(name, longest)) for name in names]
        return [drawable(short(text, longest)) for text in self.positions]

    def dress(self, axes: Axes, *, labelled: bool = True) -> None:
        """Give the x axis its scale, ticks and label."""
        if self.logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        places = list(self.positions.values())
        # All values that were swept, also those at which there is nothing to draw.
        axes.update_datalim([(place, 0.0) for place in places], updatey=False)
        axes.autoscale_view(scaley=False)
        if not self.numeric:
            axes.set_xticks(places, self.texts(max(6, min(24, _ROOM // len(places)))))
        else:
            every = -(-len(places) // _MOST_TICKS)
            axes.xaxis.set_major_locator(FixedLocator(sorted(places)[::every]))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        if labelled:
            axes.set_xlabel(self.label)


def swept_axis(table: "Table", index: int) -> SweptAxis:
    """The axis of a quantity; values that are no numbers stand in their order."""
    quantity = table.sweep.quantities[index]
    values = {point.values[index].text: point.values[index] for point in table.sweep.points}
    numbers = [
        value.number
        for value in values.values()
        if isinstance(value.number, int | float) and not isinstance(value.number, bool)
    ]
    if len(numbers) < len(values):
        places = {text: float(place) for place, text in enumerate(values)}
        return SweptAxis(index, _label(table, index), places, False, False)
    scale, unit = _unit(quantity.dimension, max(map(abs, numbers)))
    positions = dict(zip(values, (number / scale for number in numbers), strict=True))
    wide = min(numbers) > 0 and max(numbers) >= _WIDE * min(numbers) and len(numbers) > 2
    label = _label(table, index) + (f" ({unit})" if unit else "")
    return SweptAxis(index, label, positions, wide, True)


def speed(table: "Table") -> tuple[str, str]:
    """The metric of throughput, and its unit: of what is kept, where hosts fail at random."""
    if any(KEPT in row.values for row in table.rows):
        return KEPT, "examples/s kept"
    return STEERING, "examples/s"


def main_axis(table: "Table") -> SweptAxis:
    """The quantity to draw against: numbers rather than words, then that of the most values."""
    axes = [swept_axis(table, index) for index in table.sweep.groups]
    return max(axes, key=lambda axis: (axis.numeric, len(axis.positions)))


def panels_beside(table: "Table", axis: SweptAxis) -> "list[tuple[str, list[Row]]]":
    """The rows by what else is swept, each with a heading; at most MOST_PANELS, evenly chosen."""
    group = table.sweep.quantities[axis.index].group
    others = [i for i in table.sweep.groups if table.sweep.quantities[i].group != group]
    found: dict[str, list[Row]] = {}
    for row in table.rows:
        values = table.sweep.points[row.point].values
        told = ", ".join(f"{table.sweep.quantities[i].path} = {values[i].text}" for i in others)
        found.setdefault(told, []).append(row)
    return chosen(list(found.items()), MOST_PANELS)


def chosen(items: Sequence[T], most: int) -> list[T]:
    """At most so many, evenly chosen, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def _label(table: "Table", index: int) -> str:
    """The path of a quantity; of the same thing of several strategies, what that is."""
    quantity = table.sweep.quantities[index]
    together = [one.path for one in table.sweep.quantities if one.group == quantity.group]
    last = {path.rpartition(".")[2] for path in together}
    return drawable(last.pop() if len(together) > 1 and len(last) == 1 else quantity.path)


def _unit(dimension: str, largest: float) -> tuple[float, str]:
    if dimension == "time":
        seconds, name = time_unit(largest)
        return seconds, name
    tables = {"bytes": _SIZES, "rate": _RATES, "flops": _FLOPS}
    if dimension not in tables:
        return 1.0, ""
    return next((pair for pair in tables[dimension] if largest >= pair[0]), tables[dimension][-1])


def whisker(found: Estimate) -> float:
    """Half the length of a whisker; nan, for none, where nothing is random or told."""
    return math.nan if found.half_width == 0 or says_nothing(found) else found.half_width
