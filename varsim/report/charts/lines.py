"""The marks of lines and points, with their axes."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from varsim.report.charts.looks import Look
from varsim.report.charts.panel import Looks, Made, Panel, Rows, swatch
from varsim.report.charts.style import FAINT, INK, PAPER, drawable, plain_numbers, short
from varsim.report.wording import axis

_WIDE: Final = 20  # times the lowest is the highest where an axis of losses is logarithmic
_RUNAWAY: Final = 3  # times its start is the highest that is shown of a curve
_MOST_TICKS: Final = 16
_MOST_NAMED: Final = 8  # marks with a text beside them
_LETTERS: Final = 84  # along an x axis


def lines(every: Sequence[Panel], look: Looks) -> Made:
    """A line per series: with a band, or with whiskers at the values that were swept."""
    for panel in every:
        chart, axes = panel.chart, panel.axes
        across, up = _scales(panel, every)
        series = panel.series()
        for index, (name, rows) in enumerate(series.items()):
            x, mean, low, high = (
                np.array([row[key] for row in rows], dtype=float)
                for key in ("x", "mean", "low", "high")
            )
            x, mean, low, high = x / across, mean / up, low / up, high / up
            if name not in look:
                axes.plot(x, mean, color=FAINT, linewidth=1, linestyle=":")
                continue
            color, marker, line = look[name]
            own: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "linestyle": line,
                "markersize": 5.5,
            }
            if not chart.ticks:
                stride = max(1, len(x) // 8)
                first = index * stride // len(series) if len(x) > 8 else 0
                edge: dict[str, Any] = {"markeredgecolor": PAPER, "markeredgewidth": 0.6}
                axes.plot(x, mean, markevery=(first, stride), **own, **edge)
                shade = 0.6 / (2 + len(series))
                axes.fill_between(x, low, high, color=color, alpha=shade, linewidth=0)
                continue
            if rows[0].get("flat"):
                own |= {"marker": "", "linestyle": "-", "linewidth": 1.0}
            halves = np.where(high - low > 0, (high - low) / 2, math.nan)
            axes.errorbar(x, mean, yerr=halves, capsize=2.5, **own)
        _rings(panel, across, up)
        _dress(panel, every)
    handles = _handles(every, look)
    return Made([3.4 if len(every) == 1 else 2.3] * len(every), handles)


def points(every: Sequence[Panel], look: Looks) -> Made:
    """A mark per row, hollow where it says so; a series of no family is a line."""
    for panel in every:
        across, up = _scales(panel, every)
        for name, rows in panel.series().items():
            if name not in look:
                places = [row["x"] / across for row in rows], [row["mean"] / up for row in rows]
                panel.axes.plot(*places, color=FAINT, linewidth=1.1, zorder=1)
                continue
            color, marker, _ = look[name]
            for row in rows:
                hollow = bool(row.get("hollow"))
                at = row["x"] / across, row["mean"] / up
                face = PAPER if hollow else color
                own: dict[str, Any] = {"color": color, "markersize": 5.5, "mfc": face}
                panel.axes.plot(*at, marker, zorder=2 if hollow else 3, clip_on=False, **own)
        front = sorted(
            (row["x"] / across, row["mean"] / up) for row in panel.rows if row.get("front")
        )
        steps: dict[str, Any] = {"drawstyle": "steps-post", "linewidth": 1.1, "zorder": 1}
        if front:
            panel.axes.plot(*zip(*front, strict=True), color=FAINT, **steps)
        named = [row for row in panel.rows if row.get("text")]
        for row in named[:: -(-len(named) // _MOST_NAMED) or 1]:
            text, at = drawable(short(row["text"], 40)), (row["x"] / across, row["mean"] / up)
            place: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
            panel.axes.annotate(text, at, (-6, 3), fontsize=7.5, **place)
        _rings(panel, across, up)
        _dress(panel, every)
    height = 4.0 if len(every) == 1 else 2.6
    return Made([height] * len(every), _handles(every, look, ""))


def _scales(panel: Panel, every: Sequence[Panel]) -> tuple[float, float]:
    """What is divided by along both axes; their labels are written: of the x axis at the bottom."""
    chart = panel.chart
    beside = [row for one in every if one.chart.y == chart.y for row in one.rows]
    across, below = axis(chart.x, max(row["x"] for one in every for row in one.rows))
    up, label = axis(chart.y, max(row["mean"] for row in beside))
    if panel is every[-1]:
        panel.axes.set_xlabel(drawable(below))
    panel.axes.set_ylabel(drawable(label))
    return across, up


def _rings(panel: Panel, across: float, up: float) -> None:
    for row in panel.rows:
        if row.get("ring"):
            at = row["x"] / across, row["mean"] / up
            panel.axes.plot(*at, "o", markersize=12, mfc="none", color=INK, zorder=4)


def _dress(panel: Panel, every: Sequence[Panel]) -> None:
    """Limits, ticks and the target."""
    chart, axes = panel.chart, panel.axes
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.yaxis.set_major_formatter(plain_numbers())
    _, up = _scales(panel, every)
    if chart.target is not None:
        axes.axhline(chart.target / up, color=INK, linewidth=1.1, linestyle=(0, (2, 2)))
        text = f"target\n{chart.target / up:,g}"
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(text, (1, chart.target / up), (4, 0), va="center", fontsize=8.5, **at)
    if "x" in chart.log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if chart.ticks:
        _swept(panel)
    elif "x" not in chart.log:
        axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 5, 10]))
        if chart.mark == "lines":
            axes.set_xlim(left=0)
    beside = [row for one in every if one.chart.y == chart.y for row in one.rows]
    if chart.y == "loss" and not chart.ticks:
        _of_losses(axes, beside, chart.target)
    elif "y" in chart.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(plain_numbers())
    else:
        tops = [np.nanmax([row["mean"], row.get("high", math.nan)]) for row in beside]
        axes.set_ylim(min(0, 1.06 * min(tops) / up), 1.06 * max(*tops, chart.target or 0) / up or 1)


def _swept(panel: Panel) -> None:
    """What was swept, as it was written: as many of the values as there is room for."""
    places, texts = zip(*panel.chart.ticks, strict=True)
    panel.axes.update_datalim([(place, 0.0) for place in places], updatey=False)
    panel.axes.autoscale_view(scaley=False)
    room = max(6, min(24, _LETTERS // min(len(texts), _MOST_TICKS) - 1))
    every = -(-len(texts) // max(1, _LETTERS // (min(room, max(map(len, texts))) + 2)))
    panel.axes.xaxis.set_major_locator(FixedLocator(places[::every]))
    panel.axes.set_xticks(places[::every], [drawable(short(one, room)) for one in texts[::every]])


def _of_losses(axes: Axes, rows: Rows, target: float | None) -> None:
    """Limits of curves: one that runs away leaves the picture instead of flattening the others."""
    starts: dict[object, float] = {}
    for row in rows:
        starts.setdefault(next(iter(row.values())), row["mean"])
    means = [row["mean"] for row in rows] + ([] if target is None else [target])
    start = max(map(abs, starts.values()))
    low, high = min(means), max(means)
    high = max(low, min(high, _RUNAWAY * start)) if start > 0 else high
    if low > 0 and high / low > _WIDE:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 1e3 else (1,)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(plain_numbers())
        axes.set_ylim(low / 1.15, high * 1.15)
        axes.set_ylabel(f"{axes.get_ylabel()} (logarithmic)")
    else:
        margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)


def _handles(every: Sequence[Panel], look: Looks, line: str | None = None) -> list[Artist]:
    """What stands for each series, in the order of the looks, then what rings and marks mean."""
    chart = every[0].chart
    there = dict.fromkeys(name for panel in every for name in panel.series())
    found: list[Artist] = []
    for name in sorted(there, key=lambda one: [*look, one].index(one)):
        color, marker, own = look.get(name, Look(FAINT, "", ":" if line is None else "-"))
        dashes = own if line is None or not marker else "none"
        size = {"markersize": 5.5, "linewidth": 1.8 if marker else 1.0}
        found.append(swatch(name, color, marker=marker, linestyle=dashes, **size))
    blank = {"linestyle": "none", "marker": "o", "mfc": PAPER}
    rows = [row for panel in every for row in panel.rows]
    if any(row.get("hollow") for row in rows):
        found.append(swatch(chart.hollow, FAINT, markersize=5.5, **blank))
    if any(row.get("front") for row in rows):
        found.append(swatch(chart.front, FAINT, linewidth=1.1))
    if any(row.get("ring") for row in rows):
        found.append(swatch(chart.ring, INK, markersize=11, **blank))
    return found
