"""Bars, one for each alternative: of a mean with its interval, or cut into parts."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from varsim.report.charts.looks import Look
from varsim.report.plots.figure import INK, PAPER, label_rows, outline, plain_numbers
from varsim.report.words.phrases import says_nothing
from varsim.study.statistics import Estimate


class Bar(NamedTuple):
    """One bar: a mean, its interval (nan where there is none), and what is written beside it."""

    label: str
    mean: float
    half_width: float
    text: str

    @classmethod
    def of(cls, label: str, found: Estimate, text: str) -> "Bar":
        """That of an estimate; an interval that says nothing is none."""
        half = math.nan if says_nothing(found) else found.half_width
        return cls(label, found.mean, half, text)


def bars(
    axes: Axes,
    found: Sequence[Bar],
    look: Mapping[str, Look],
    ticks: MaxNLocator,
    scale: float = 1.0,
) -> None:
    """Means with intervals, in units of `scale`."""
    limit = 0.0
    for y, bar in enumerate(found):
        mean = bar.mean / scale if math.isfinite(bar.mean) else 0.0
        axes.barh(y, mean, height=0.62, color=look[bar.label].color)
        right = mean
        if bar.half_width > 0:
            half = bar.half_width / scale
            whisker = axes.errorbar(mean, y, xerr=half, color=INK, capsize=4, linewidth=1.4)
            outline(*whisker.get_children())
            right += half
        axes.annotate(bar.text, (right, y), (7, 0), textcoords="offset points", va="center")
        # Room for the text, whose letters are about 1.2 % of the axis wide.
        longest = max(map(len, bar.text.split("\n")))
        limit = max(limit, right / (1 - min(0.03 + 0.012 * longest, 0.7)))
    axes.set_xlim(0, limit or 1)
    label_rows(axes, [bar.label for bar in found])
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.grid(visible=False, axis="y")


def cut_bars(
    axes: Axes, rows: Sequence[str], cut: Sequence[Sequence[tuple[float, Look]]], about: str
) -> Axes:
    """A bar of 100 % per row, cut into shares (%), each with its look."""
    for y, parts in enumerate(cut):
        left = 0.0
        for share, look in parts:
            part(axes, y, left, share, look, f"{share:.0f} %" if share >= 6 else "")
            left += share
    axes.set_xlim(0, 100)
    label_rows(axes, rows)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(about)
    return axes


def part(axes: Axes, y: int, left: float, size: float, look: Look, text: str) -> None:
    """A part of a bar that is cut into parts, with a text in it or none."""
    axes.barh(y, size, 0.66, left=left, color=look.color, hatch=look.mark, linewidth=0)
    if text:
        axes.text(
            left + size / 2,
            y,
            text,
            ha="center",
            va="center",
            fontsize=8.5,
            bbox={"facecolor": PAPER, "linewidth": 0, "pad": 1.6, "alpha": 0.9},
        )
