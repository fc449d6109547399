"""The marks: any chart drawn by its data, for files and notebooks."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from varsim.report.charts import spans
from varsim.report.charts.acts import acts
from varsim.report.charts.lines import lines, points
from varsim.report.charts.looks import PARTS, looks
from varsim.report.charts.panel import Looks, Made, Panel, Rows
from varsim.report.charts.style import (
    INK,
    PAPER,
    drawable,
    lay_out,
    outline,
    panel_title,
    panels,
    plain_numbers,
    short,
    style,
    wrapped,
    write,
)
from varsim.report.told import Chart, Number
from varsim.report.wording import axis, percent, shown

_LEGIBLE: Final = 0.06  # of the longest bar: a part with its share written in it
_ORDER: Final = list(PARTS)
_VISIBLE: Final = 0.002
_MOST_WRITTEN: Final = 12  # columns of a map in whose cells there is room for a number
_MOST_TICKS: Final = 16


def drawn(views: Sequence[Chart], families: Mapping[str, str]) -> tuple[Figure, list[Axes]]:
    """Charts of one name as a figure, laid out, and its panels; `families`: of what is told apart.

    What is of no family, where there are none, has hues in the order in which it comes.
    """
    parts: list[tuple[Chart, str, Rows]] = []
    for chart in views:
        found: dict[str, Rows] = {}
        for row in chart.rows():
            if None not in (row.get("x", 0), row.get("mean", 0)):  # else it has no place
                found.setdefault(str(row[chart.panel]) if chart.panel else "", []).append(row)
        parts += [(chart, name, rows) for name, rows in found.items()]
    with style():
        figure, axes = panels(len(parts))
        every = [Panel(*part, own) for part, own in zip(parts, axes, strict=True)]
        made = _MARKS[views[0].mark](every, looks(families))
        for panel in every:
            if panel.name or panel.chart.remarks:
                panel_title(panel.axes, panel.name, panel.chart.remarks.get(panel.name, ""))
        lay_out(figure, made.heights, made.legend)
    return figure, axes


def write_all(
    charts: Mapping[str, Sequence[Chart]],
    families: Mapping[str, str],
    directory: Path,
    form: Literal["png", "svg"] = "png",
) -> None:
    """Write charts by name, each as one file."""
    for name, views in charts.items():
        figure, _ = drawn(views, families)
        write(figure, directory / f"{name}.{form}")


# --- bars


def _bars(every: Sequence[Panel], look: Looks) -> Made:
    """A bar per row with its interval and its number; upright ones where rows have an x."""
    if "x" in every[0].chart.data:
        return _upright(every, look)
    (panel,) = every
    chart, axes = panel.chart, panel.axes
    scale, label = axis(chart.x, max(row["mean"] for row in panel.rows))
    unit = "s" if chart.x.endswith("(s)") else "share" if chart.x.endswith("(share)") else ""
    limit = 0.0
    for y, row in enumerate(panel.rows):
        mean, half = row["mean"] / scale, row["half"] / scale
        axes.barh(y, mean, height=0.62, color=look[row[chart.by]].color)
        text = drawable(shown(Number(row["mean"], row["half"], unit)))
        right = mean
        if 0 < half <= abs(mean):
            whisker = axes.errorbar(mean, y, xerr=half, color=INK, capsize=4, linewidth=1.4)
            outline(*whisker.get_children())
            right += half
        weight = "bold" if row["best"] else "normal"
        axes.annotate(
            text, (right, y), (7, 0), textcoords="offset points", va="center", weight=weight
        )
        # Room for the text, whose letters are about 1.4 % of the axis wide.
        limit = max(limit, right / (1 - min(0.03 + 0.014 * len(text), 0.7)))
    axes.set_xlim(0, limit or 1)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return Made(_rows(panel, label), ())


def _upright(every: Sequence[Panel], look: Looks) -> Made:
    """A distribution per panel: its bars touch where each stands for several values."""
    places = sorted({row["x"] for panel in every for row in panel.rows})
    width = min((b - a for a, b in pairwise(places)), default=1)
    for panel in every:
        x, top = [row["x"] for row in panel.rows], max(row["mean"] for row in panel.rows) or 1
        color = look[panel.rows[0][panel.chart.by]].color
        panel.axes.bar(x, [row["mean"] for row in panel.rows], 0.86 * width, color=color)
        panel.axes.set_ylim(0, 1.1 * top)
        panel.axes.set_yticks([0, top], ["0", percent(top)])
        panel.axes.grid(visible=False, axis="x")
    last = every[-1].axes
    last.set_xlim(places[0] - 0.7 * width, max(places[-1] + 0.7 * width, 4.5))
    last.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    last.xaxis.set_major_formatter(plain_numbers())
    last.set_xlabel(every[0].chart.x)
    return Made([0.5] * len(every), ())


def _cut_bars(every: Sequence[Panel], _: Looks) -> Made:
    """A bar per row, cut into parts; what is less than nothing hangs to the left of 0."""
    (panel,) = every
    series, seen = panel.series(), set()
    sums = {name: math.fsum(row["mean"] for row in rows) for name, rows in series.items()}
    longest = max(sums.values()) or 1.0
    scale, label = axis(panel.chart.x, longest)
    for y, (name, rows) in enumerate(series.items()):
        ends = [0.0, 0.0]
        for row in sorted(rows, key=lambda row: _ORDER.index(row["part"])):
            size, part = row["mean"], PARTS[row["part"]]
            if abs(size) < _VISIBLE * longest:
                continue
            seen.add(row["part"])
            start = ends[size < 0]
            ends[size < 0] += size
            at, wide = start / scale, size / scale
            panel.axes.barh(y, wide, 0.66, left=at, color=part.light, hatch=part.hatch, linewidth=0)
            if size >= _LEGIBLE * longest:
                box: dict[str, Any] = {"facecolor": PAPER, "linewidth": 0, "pad": 1.6, "alpha": 0.9}
                said = percent(size / sums[name])
                center: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5}
                panel.axes.text(at + wide / 2, y, said, bbox=box, **center)
    panel.axes.margins(x=0)
    legend = [
        Patch(facecolor=part.light, hatch=part.hatch, label=part.said, linewidth=0)
        for key, part in PARTS.items()
        if key in seen
    ]
    return Made(_rows(panel, label), legend)


def _rows(panel: Panel, label: str) -> list[float]:
    """A label before every bar, the first at the top, in bold what wins; inches of the panel."""
    axes, series = panel.axes, panel.series()
    names = [wrapped(name) for name in series]
    axes.set_yticks(range(len(names)), names)
    for tick, rows in zip(axes.get_yticklabels(), series.values(), strict=True):
        tick.set_fontweight("bold" if rows[0]["best"] else "normal")
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.set_xlabel(label)
    lines = max(name.count("\n") + 1 for name in names)
    return [0.1 + len(names) * max(0.36, 0.16 * lines + 0.08)]


# --- heat


def _heat(every: Sequence[Panel], _: Looks) -> Made:
    """A map per panel, all in one scale of colours; the best of each in bold."""
    means = [row["mean"] for panel in every for row in panel.rows if math.isfinite(row["mean"])]
    low, high, middle = min(means), max(means), every[0].chart.target
    scale = Normalize(0, high)
    if middle is not None:
        scale = TwoSlopeNorm(middle, min(low, middle - 1e-9), max(high, middle + 1e-9))
    heights = []
    for panel in every:
        across = list(dict.fromkeys(row["x"] for row in panel.rows))
        down = list(dict.fromkeys(row["row"] for row in panel.rows))
        values = np.full((len(down), len(across)), math.nan)
        for row in panel.rows:
            values[down.index(row["row"]), across.index(row["x"])] = row["mean"]
        image = panel.axes.imshow(
            values, "cividis", scale, aspect="auto", interpolation="nearest", origin="lower"
        )
        _named(panel.axes.set_xticks, across)
        _named(panel.axes.set_yticks, down)
        panel.axes.set_ylabel(drawable(panel.chart.y))
        panel.axes.grid(visible=False)
        bar = panel.axes.inset_axes((1.02, 0, 0.03, 1))
        assert panel.axes.figure is not None
        panel.axes.figure.colorbar(image, cax=bar, label=panel.chart.by, format=plain_numbers())
        if len(across) <= _MOST_WRITTEN:
            _write(panel, across, down, high)
        heights.append(max(1.2, min(6.0, 0.3 * len(down))))
    every[-1].axes.set_xlabel(drawable(every[0].chart.x))
    return Made(heights, ())


def _named(ticks: Callable[..., object], names: Sequence[object]) -> None:
    """At most so many names along an axis."""
    places = range(0, len(names), -(-len(names) // _MOST_TICKS))
    ticks(list(places), [drawable(short(str(names[at]), 12)) for at in places])


def _write(panel: Panel, across: list[object], down: list[object], highest: float) -> None:
    """The number in each cell, in a colour that is read on it."""
    for row in panel.rows:
        if math.isfinite(row["mean"]):
            panel.axes.text(
                across.index(row["x"]),
                down.index(row["row"]),
                shown(Number(row["mean"])),
                ha="center",
                va="center",
                fontsize=8.5,
                color="#101214" if row["mean"] > 0.55 * highest else "#fefefe",
                weight="bold" if row["best"] else "normal",
            )


def _spans(every: Sequence[Panel], _: Looks) -> Made:
    """What workers did; see `spans`; or replicas, with what they sent; see `acts`."""
    if "to" in every[0].chart.data:
        return acts(every)
    found = [(panel.axes, panel.rows) for panel in every]
    return Made(*spans.draw(every[0].chart, found))


_MARKS: Final[Mapping[str, Callable[[Sequence[Panel], Looks], Made]]] = {
    "bars": _bars,
    "cut bars": _cut_bars,
    "lines": lines,
    "points": points,
    "heat": _heat,
    "spans": _spans,
}
