"""The time of a step over the outside's reads per write, and where modes change places."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox, blended_transform_factory
from numpy.typing import NDArray

from varsim.report.charts.looks import looks
from varsim.report.plots.figure import (
    INK,
    PAPER,
    WIDTH,
    TimeUnit,
    drawable,
    named,
    plain_numbers,
    strategy_line,
    time_unit,
)
from varsim.report.words.phrases import digits, time

if TYPE_CHECKING:
    from varsim.study.variables import Crossover, VariablesResult

# A crossing lower than this share of the axis, or ratios that far apart, ask for a logarithm.
LOW: Final = 1 / 8
FAR: Final = 1 / 30
_FINE: Final = 60  # points of a line between two that were run
_LETTER: Final = 7.0  # points, of a bold number


class Curve(NamedTuple):
    """The time per step of one mode (s); all of shape (ratios,)."""

    mode: str
    ratio: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]  # nan with one replication
    high: NDArray[np.float64]


class Range(NamedTuple):
    """Reads per write between which one mode is the cheapest."""

    begin: float
    end: float
    mode: str


def curves(result: "VariablesResult") -> list[Curve]:
    """One curve per mode."""
    found = []
    for mode in result.modes:
        estimates = [result.estimate(mode, "time_per_step", ratio)[:3] for ratio in result.ratios]
        found.append(Curve(mode, np.array(result.ratios), *np.array(estimates).T))
    return found


def cheapest(result: "VariablesResult") -> list[Range]:
    """Which mode is the cheapest from where to where; of equal ones the first."""
    lines = curves(result)
    crossed = [found.reads_per_write.mean for found in result.crossovers()]
    bounds = sorted({*result.ratios, *crossed})
    ranges: list[Range] = []
    for begin, end in pairwise(bounds):
        middle = (begin + end) / 2
        best = min(lines, key=lambda line: float(_on(line, middle))).mode
        if ranges and ranges[-1].mode == best:
            ranges[-1] = ranges[-1]._replace(end=end)
        else:
            ranges.append(Range(begin, end, best))
    return ranges


def draw(result: "VariablesResult", axes: Axes) -> Axes:
    """A line per mode, every crossing with its number, and above them who is the cheapest."""
    lines, look = curves(result), looks(result.families)
    unit = time_unit(max(float(line.mean.max()) for line in lines))
    _scale(axes, result, lines, unit)
    fine = _between(np.array(result.ratios))
    shade = 0.6 / (2 + len(lines))
    for line in lines:
        color, marker, _ = look[line.mode]
        axes.plot(fine, _on(line, fine) / unit.seconds, color=color)
        axes.plot(
            line.ratio,
            line.mean / unit.seconds,
            marker,
            color=color,
            markersize=6,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            clip_on=False,
            zorder=3,
        )
        axes.fill_between(
            line.ratio,
            line.low / unit.seconds,
            line.high / unit.seconds,
            color=color,
            alpha=shade,
            linewidth=0,
        )
    drawn = [np.stack([fine, _on(line, fine) / unit.seconds], axis=1) for line in lines]
    _mark(axes, result.crossovers(), unit, np.concatenate(drawn))
    _name_cheapest(axes, result)
    axes.set_xlabel("outside reads per write of a replica" + _logarithmic(axes.get_xscale()))
    axes.set_ylabel(f"time per step ({unit.name}{_logarithmic(axes.get_yscale(), ', ')}")
    return axes


def title(result: "VariablesResult") -> str:
    """Where the cheapest mode changes, or who is the cheapest throughout."""
    ranges = cheapest(result)
    first, *others = ranges
    if len(result.modes) == 1:
        ends = [
            time(result.estimate(first.mode, "time_per_step", at))
            for at in (result.ratios[0], result.ratios[-1])
        ]
        return f"A step takes {' to '.join(dict.fromkeys(ends))}"
    if not others:
        head = f"{named(first.mode)} is the cheapest at every ratio"
        return f"{head}; others change places" if result.crossovers() else head
    parts = [f"{named(first.mode)} is the cheapest below {digits(first.end)} reads per write"]
    parts += [f"{named(one.mode)} from there to {digits(one.end)}" for one in others[:-1]]
    return f"{', '.join(parts)}, {named(others[-1].mode)} above"


def heights(result: "VariablesResult") -> list[float]:
    """Inches of the one panel."""
    return [3.9]


def legend(result: "VariablesResult") -> list[Artist]:
    """What stands for each mode."""
    return [strategy_line(mode, look) for mode, look in looks(result.families).items()]


def _scale(axes: Axes, result: "VariablesResult", lines: list[Curve], unit: TimeUnit) -> None:
    """Linear axes where crossings can be told from the corner, else logarithmic with 0 in them."""
    found = result.crossovers()
    ratios = np.array(result.ratios)
    positive = ratios[ratios > 0]
    crowded = (
        any(one.reads_per_write.mean < LOW * ratios[-1] for one in found)
        if found
        else float(np.median(positive)) < LOW * ratios[-1]
    )
    if len(positive) > 1 and positive[0] < FAR * ratios[-1] and crowded:
        _logarithm(axes, "x", float(positive[0]), float(ratios[-1]), zero=ratios[0] == 0)
    else:
        axes.set_xlim(min(0.0, float(ratios[0])), float(ratios[-1]))
        axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 5, 10]))
    times = np.concatenate([line.mean for line in lines]) / unit.seconds
    tops = np.concatenate([np.fmax(line.mean, line.high) for line in lines]) / unit.seconds
    if not times.any():
        axes.set_ylim(0, 1)
        return
    top, least = float(tops.max()), float(times[times > 0].min())
    low = min((one.time_per_step / unit.seconds for one in found), default=least)
    if low < LOW * top and least < FAR * 3 * top:
        _logarithm(axes, "y", least, 1.6 * top, zero=bool((times == 0).any()))
    else:
        axes.set_ylim(0, 1.16 * top)
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain_numbers())


def _logarithm(axes: Axes, which: str, least: float, most: float, *, zero: bool) -> None:
    """A logarithmic axis from `least` to `most`, with a short linear piece for 0 where asked."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    steps = (1, 2, 5) if most < 3e3 * least else (1,)
    if zero:
        settings = {"linthresh": least, "linscale": 0.35}
        axes.set(**{f"{which}scale": "symlog"})
        getattr(axes, f"set_{which}scale")("symlog", **settings)
        powers = np.arange(np.floor(np.log10(least)), np.ceil(np.log10(most)) + 1)
        ticks = [step * 10.0**power for power in powers for step in steps]
        axis.set_major_locator(FixedLocator([0.0, *(t for t in ticks if least <= t <= most)]))
    else:
        getattr(axes, f"set_{which}scale")("log")
        axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    getattr(axes, f"set_{which}lim")(0 if zero else least / 1.15, most)


def _mark(axes: Axes, found: "list[Crossover]", unit: TimeUnit, lines: NDArray[np.float64]) -> None:
    """A ring at every crossing, a line down to the axis, and its number where there is room."""
    bottom = axes.get_ylim()[0]
    places = [(one.reads_per_write.mean, one.time_per_step / unit.seconds) for one in found]
    taken = axes.transData.transform(lines) if found else lines
    rings = axes.transData.transform(places) if found else lines
    labels: list[Bbox] = []
    for (x, y), ring in zip(places, rings, strict=False):
        axes.vlines(x, bottom, y, color=INK, linewidth=1.0, linestyle=(0, (3, 2)))
        axes.plot(x, y, "o", markersize=11, markerfacecolor="none", markeredgecolor=INK, zorder=4)
        text = digits(x)
        offset = _offset(axes, ring, len(text), taken, [*labels, *map(_ring, rings)])
        labels.append(_label(axes, ring, offset, len(text)))
        axes.annotate(
            text,
            (x, y),
            offset,
            textcoords="offset points",
            fontweight="bold",
            bbox={"facecolor": PAPER, "linewidth": 0, "pad": 1.2, "alpha": 0.85},
            zorder=5,
        )


def _offset(
    axes: Axes,
    ring: NDArray[np.float64],
    letters: int,
    taken: NDArray[np.float64],
    boxes: Sequence[Bbox],
) -> tuple[float, float]:
    """Where beside a ring a number covers least: other numbers, rings, lines (all in pixels)."""
    left = -9 - _LETTER * letters
    candidates = [
        (x, y) for y in (-15.0, 8.0, -28.0, 21.0, -41.0, 34.0) for x in (9.0, left)
    ]  # in points

    def covered(offset: tuple[float, float]) -> tuple[bool, int, int]:
        box = _label(axes, ring, offset, letters)
        inside = (taken > box.min).all(axis=1) & (taken < box.max).all(axis=1)
        window = axes.get_window_extent()
        outside = box.x0 < window.x0 or box.x1 > window.x1 or box.y0 < window.y0
        return outside, sum(map(box.overlaps, boxes)), int(inside.sum())

    return min(candidates, key=covered)


def _label(
    axes: Axes, ring: NDArray[np.float64], offset: tuple[float, float], letters: int
) -> Bbox:
    """The pixels that a number takes."""
    pixels = axes.get_window_extent().width / axes.get_position().width / WIDTH / 72
    left, bottom = ring + np.array(offset) * pixels
    return Bbox.from_bounds(left, bottom, _LETTER * letters * pixels, 10 * pixels)


def _ring(ring: NDArray[np.float64]) -> Bbox:
    """The pixels that a ring takes."""
    return Bbox.from_bounds(ring[0] - 6, ring[1] - 6, 12, 12)


def _name_cheapest(axes: Axes, result: "VariablesResult") -> None:
    """A strip along the top: the colour of the cheapest mode, with its name where there is room."""
    look = looks(result.families)
    at_top = blended_transform_factory(axes.transData, axes.transAxes)
    for begin, end, mode in cheapest(result):
        axes.plot(
            [begin, end],
            [1.0, 1.0],
            transform=at_top,
            color=look[mode].color,
            linewidth=5,
            solid_capstyle="butt",
            clip_on=False,
        )
        left, right = (axes.transData.transform((x, 1.0))[0] for x in (begin, end))
        width = (right - left) / axes.get_window_extent().width
        texts = (f"{drawable(mode)} is cheapest", drawable(mode))
        text = next((text for text in texts if width > 0.0135 * len(text)), "")
        middle = axes.transData.inverted().transform(((left + right) / 2, 0))[0]
        axes.text(middle, 1.025, text, transform=at_top, ha="center", fontsize=8.5)


def _on(line: Curve, ratio: "float | NDArray[np.float64]") -> NDArray[np.float64]:
    """The time of a mode between the points that were run."""
    return np.asarray(np.interp(ratio, line.ratio, line.mean))


def _between(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points so close that straight lines bend as they must on a logarithmic axis."""
    pieces = [np.linspace(*pair, _FINE) for pair in pairwise(ratios)]
    return np.unique(np.concatenate(pieces))


def _logarithmic(scale: str, before: str = " (") -> str:
    return ")" * (before != " (") if scale == "linear" else f"{before}logarithmic)"
