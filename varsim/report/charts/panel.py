"""A panel of a picture, and what a mark makes of its panels."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from varsim.report.charts.looks import Look
from varsim.report.told import Chart

Rows: TypeAlias = list[dict[str, Any]]
Looks: TypeAlias = Mapping[str, Look]


class Panel(NamedTuple):
    """A part of a picture: a chart, the rows of it that are drawn here, and its Axes."""

    chart: Chart
    name: str
    rows: Rows
    axes: Axes

    def series(self) -> dict[str, Rows]:
        """The rows by what they are of."""
        found: dict[str, Rows] = {}
        for row in self.rows:
            found.setdefault(row[self.chart.by], []).append(row)
        return found


class Made(NamedTuple):
    """What a mark has made of its panels: their heights in inches, and what the legend holds."""

    heights: list[float]
    legend: Sequence[Artist]


def swatch(label: str, color: str, **style: Any) -> Line2D:
    """What stands for a line or a mark in a legend."""
    return Line2D([], [], color=color, label=label, **style)
