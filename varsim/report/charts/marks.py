"""The marks: any chart drawn by its data, for files and notebooks."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from varsim.report.charts.looks import PARTS, Look, looks
from varsim.report.charts.spans import spans
from varsim.report.charts.style import (
    FAINT,
    INK,
    PAPER,
    WIDTH,
    Looks,
    Made,
    Panel,
    Rows,
    drawable,
    lay_out,
    outline,
    panel_title,
    panels,
    plain_numbers,
    share,
    short,
    style,
    swatch,
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
_WIDE: Final = 20  # times the lowest is the highest where an axis of losses is logarithmic
_RUNAWAY: Final = 3  # times its start is the highest that is shown of a curve
_MOST_NAMED: Final = 8  # marks with a text beside them
_LETTERS: Final = 84  # along an x axis


def drawn(
    views: Sequence[Chart], families: Mapping[str, str], width: float = WIDTH
) -> tuple[Figure, list[Axes]]:
    """Charts of one name as a figure, laid out, and its panels; `families`: of what is told apart.

    What is of no family, where there are none, has hues in the order in which it comes. `width`:
    in inches; letters are as large in a narrow figure, and fewer.
    """
    parts: list[tuple[Chart, str, Rows]] = []
    for chart in views:
        found: dict[str, Rows] = {}
        for row in chart.rows():
            if None not in (row.get("x", 0), row.get("mean", 0)):  # else it has no place
                found.setdefault(str(row[chart.panel]) if chart.panel else "", []).append(row)
        parts += [(chart, name, rows) for name, rows in found.items()]
    with style():
        figure, axes = panels(len(parts), width)
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
    head = every[0].chart.x
    scale, label = axis(head, max(row["mean"] for panel in every for row in panel.rows))
    unit = "s" if head.endswith("(s)") else "share" if head.endswith("(share)") else ""
    limit, heights = 0.0, list[float]()
    for panel in every:
        for y, row in enumerate(panel.rows):
            color = look[row[panel.chart.by]].color
            limit = max(limit, _bar(panel.axes, y, row, scale, unit, color))
        heights += _rows(panel, label if panel is every[-1] else "")
    for panel in every:
        panel.axes.set_xlim(0, limit or 1)
        panel.axes.xaxis.set_major_locator(MaxNLocator(math.ceil(6 * share(panel.axes))))
    return Made(heights, ())


def _bar(axes: Axes, y: int, row: Mapping[str, Any], scale: float, unit: str, color: str) -> float:
    """One of them; how far it reaches with its number, along the axis."""
    mean, half = row["mean"] / scale, row["half"] / scale
    axes.barh(y, mean, height=0.62, color=color)
    text, right = drawable(shown(Number(row["mean"], row["half"], unit))), mean
    if 0 < half <= abs(mean):
        whisker = axes.errorbar(mean, y, xerr=half, color=INK, capsize=4, linewidth=1.4)
        outline(*whisker.get_children())
        right += half
    weight = "bold" if row["best"] else "normal"
    axes.annotate(text, (right, y), (7, 0), textcoords="offset points", va="center", weight=weight)
    # Room for the text, whose letters are about 1.4 % of the usual axis wide.
    return float(right / (1 - min(0.03 + 0.014 / share(axes) * len(text), 0.7)))


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
            if size >= _LEGIBLE / share(panel.axes) * longest:
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
    names = [wrapped(name, max(16, int(22 * share(axes)))) for name in series]
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


# --- lines and points


def _lines(every: Sequence[Panel], look: Looks) -> Made:
    """A line per series: with a band, or with whiskers at the values that were swept."""
    scaled = _scaled(every)
    for panel in scaled:
        chart, axes, series = panel.chart, panel.axes, panel.series()
        for index, (name, rows) in enumerate(series.items()):
            columns = ("x", "mean", "low", "high")
            x, mean, low, high = (np.array([row[key] for row in rows], float) for key in columns)
            if name not in look:
                axes.plot(x, mean, color=FAINT, linewidth=1, linestyle=":")
                continue
            color, marker, line = look[name]
            own: dict[str, Any] = {"color": color, "marker": marker, "linestyle": line}
            own["markersize"] = 5.5
            if not chart.ticks:
                stride = max(1, len(x) // 8)
                first = index * stride // len(series) if len(x) > 8 else 0
                edge: dict[str, Any] = {"markeredgecolor": PAPER, "markeredgewidth": 0.6}
                # A mark on the frame is whole; a loss that runs away leaves the picture.
                edge["clip_on"] = chart.y == "loss"
                axes.plot(x, mean, markevery=(first, stride), **own, **edge)
                shade = 0.6 / (2 + len(series))
                axes.fill_between(x, low, high, color=color, alpha=shade, linewidth=0)
                continue
            if rows[0].get("flat"):
                own |= {"marker": "", "linestyle": "-", "linewidth": 1.0}
            halves = np.where(high - low > 0, (high - low) / 2, math.nan)
            axes.errorbar(x, mean, yerr=halves, capsize=2.5, **own)
    return _dressed(scaled, _handles(every, look), 3.4 if len(every) == 1 else 2.3)


def _points(every: Sequence[Panel], look: Looks) -> Made:
    """A mark per row, hollow where it says so; a series of no family is a line."""
    scaled = _scaled(every)
    thin: dict[str, Any] = {"color": FAINT, "linewidth": 1.1, "zorder": 1}
    for panel in scaled:
        for name, rows in panel.series().items():
            if name not in look:
                panel.axes.plot(*_places(rows), **thin)
                continue
            color, marker, _ = look[name]
            for row in rows:
                hollow = bool(row.get("hollow"))
                own: dict[str, Any] = {"color": color, "mfc": PAPER if hollow else color}
                own |= {"markersize": 5.5, "zorder": 2 if hollow else 3, "clip_on": False}
                panel.axes.plot(row["x"], row["mean"], marker, **own)
        if front := [row for row in panel.rows if row.get("front")]:
            front.sort(key=lambda row: (row["x"], row["mean"]))
            panel.axes.plot(*_places(front), drawstyle="steps-post", **thin)
        named = [row for row in panel.rows if row.get("text")]
        for row in named[:: -(-len(named) // _MOST_NAMED) or 1]:
            text, at = drawable(short(row["text"], 40)), (row["x"], row["mean"])
            place: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
            panel.axes.annotate(text, at, (-6, 3), fontsize=7.5, **place)
    return _dressed(scaled, _handles(every, look, ""), 4.0 if len(every) == 1 else 2.6)


def _places(rows: Rows) -> tuple[list[float], list[float]]:
    return [row["x"] for row in rows], [row["mean"] for row in rows]


def _scaled(every: Sequence[Panel]) -> list[Panel]:
    """The same in units that read well, which stand beside the axes: of x at the bottom."""
    found = []
    across, below = axis(every[0].chart.x, max(row["x"] for one in every for row in one.rows))
    for panel in every:
        chart = panel.chart
        beside = [row["mean"] for one in every if one.chart.y == chart.y for row in one.rows]
        up, label = axis(chart.y, max(beside))
        panel.axes.set_ylabel(drawable(label))
        units = {"x": across, "mean": up, "low": up, "high": up}
        rows = [
            row | {key: row[key] / worth for key, worth in units.items() if key in row}
            for row in panel.rows
        ]
        target = None if chart.target is None else chart.target / up
        found.append(panel._replace(chart=chart._replace(target=target), rows=rows))
    every[-1].axes.set_xlabel(drawable(below))
    return found


def _dressed(every: Sequence[Panel], legend: Sequence[Artist], height: float) -> Made:
    """Rings, the target, limits and ticks; every panel is so high (inches)."""
    for panel in every:
        chart, axes = panel.chart, panel.axes
        if rings := [row for row in panel.rows if row.get("ring")]:
            axes.plot(*_places(rings), "o", markersize=12, mfc="none", color=INK, zorder=4)
        axes.xaxis.set_major_formatter(plain_numbers())
        axes.yaxis.set_major_formatter(plain_numbers())
        if chart.target is not None:
            axes.axhline(chart.target, color=INK, linewidth=1.1, linestyle=(0, (2, 2)))
            text, at = f"target\n{chart.target:,g}", ("axes fraction", "data")
            place: dict[str, Any] = {"xycoords": at, "textcoords": "offset points", "va": "center"}
            axes.annotate(text, (1, chart.target), (4, 0), fontsize=8.5, **place)
        if "x" in chart.log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        if chart.ticks:
            _swept(panel)
        elif "x" not in chart.log:
            most = math.ceil(9 * share(axes))
            axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
            if chart.mark == "lines":
                axes.set_xlim(left=0)
        beside = [row for one in every if one.chart.y == chart.y for row in one.rows]
        if chart.y == "loss" and not chart.ticks:
            _of_losses(axes, beside, chart.target)
        elif "y" in chart.log:
            heights = [row["mean"] for row in beside]
            _logarithmic(axes, (1, 2, 5) if max(heights) < 1e6 * min(heights) else (1,))
        else:
            tops = [np.nanmax([row["mean"], row.get("high", math.nan)]) for row in beside]
            axes.set_ylim(min(0, 1.06 * min(tops)), 1.06 * max(*tops, chart.target or 0) or 1)
    return Made([height * math.sqrt(share(every[0].axes))] * len(every), legend)


def _logarithmic(axes: Axes, ticks: tuple[int, ...]) -> None:
    """Upwards, with ticks at so many times each power of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(plain_numbers())


def _swept(panel: Panel) -> None:
    """What was swept, as it was written: as many of the values as there is room for."""
    places, texts = zip(*panel.chart.ticks, strict=True)
    panel.axes.update_datalim([(place, 0.0) for place in places], updatey=False)
    panel.axes.autoscale_view(scaley=False)
    letters = int(_LETTERS * share(panel.axes))
    room = max(10, min(24, letters // min(len(texts), _MOST_TICKS) - 1))
    every = -(-len(texts) // max(1, letters // (min(room, max(map(len, texts))) + 2)))
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
        _logarithmic(axes, (1, 2, 5) if high / low < 1e3 else (1,))
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


_MARKS: Final[Mapping[str, Callable[[Sequence[Panel], Looks], Made]]] = {
    "bars": _bars,
    "cut bars": _cut_bars,
    "lines": _lines,
    "points": _points,
    "heat": _heat,
    "spans": lambda every, _: spans(every),
}
