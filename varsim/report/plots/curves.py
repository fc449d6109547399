"""The curves of a result: loss against time and against updates, as data and as figures."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from varsim.report.plots.figure import (
    FAINT,
    INK,
    PAPER,
    called,
    drawable,
    marked,
    plain_numbers,
    strategy_line,
    time_unit,
)
from varsim.report.plots.looks import looks
from varsim.report.products.curves import Against, Curve, curves
from varsim.strategies import families

if TYPE_CHECKING:
    from varsim.study.result import Result

MOST_APART: Final = 4  # times the updates of the shortest curve are drawn on a linear axis


def legend(result: "Result", by: Against) -> list[Artist]:
    """The strategies that have a curve."""
    look = looks(families(result.scenario.strategies))
    return [
        strategy_line(marked(result.scenario, curve.strategy), look[curve.strategy])
        for curve in curves(result, by)
    ]


def draw(result: "Result", axes: Axes, by: Against) -> Axes:
    """Mean loss of every strategy with its interval, against time or updates."""
    drawn = curves(result, by)
    unit = time_unit(max(float(curve.x[-1]) for curve in drawn))
    scale = unit.seconds if by == "time" else 1.0
    look = looks(families(result.scenario.strategies))
    shade = 0.6 / (2 + len(drawn))
    for index, (strategy, x, mean, low, high) in enumerate(drawn):
        color, marker, line = look[strategy]
        every = max(1, len(x) // 8)
        first = index * every // len(drawn) if len(x) > 8 else 0
        axes.plot(
            x / scale,
            mean,
            color=color,
            marker=marker,
            linestyle=line,
            markersize=5.5,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            markevery=(first, every),
        )
        axes.fill_between(x / scale, low, high, color=color, alpha=shade, linewidth=0)
    lowest, highest = _range(result, np.concatenate([curve.mean for curve in drawn]))
    if lowest > 0 and highest / lowest > 20:
        axes.set_yscale("log")
        axes.set_ylim(lowest / 1.15, highest * 1.15)
        _label_decades(axes, highest / lowest)
    else:
        margin = 0.06 * (highest - lowest) or 0.06 * abs(highest) or 1.0
        axes.set_ylim(lowest - margin, highest + margin)
        axes.yaxis.set_major_formatter(plain_numbers())
    if result.target_loss is not None:
        _draw_target(axes, result.target_loss)
    axes.set_ylabel("training loss" + (" (logarithmic)" if axes.get_yscale() == "log" else ""))
    if by == "time":
        axes.set_xlabel(f"simulated time ({unit.name})")
        axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 5, 10]))
    else:
        _scale_updates(axes, drawn)
        kind = "" if axes.get_xscale() == "linear" else ", logarithmic"
        axes.set_xlabel(f"updates (global_step{kind})")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.set_title(_remark(result, drawn, highest), loc="right", fontsize=8.5, color=FAINT)
    return axes


def _remark(result: "Result", drawn: list[Curve], highest: float) -> str:
    """Which strategies are not in the picture, or not wholly."""
    there = {curve.strategy for curve in drawn}
    absent = [
        called(result.scenario, strategy) for strategy in result.strategies if strategy not in there
    ]
    leaving = [
        called(result.scenario, curve.strategy) for curve in drawn if curve.mean.max() > highest
    ]
    parts = [f"{', '.join(absent)}: no finite loss"] if absent else []
    parts += [f"{', '.join(leaving)}: beyond the top"] if leaving else []
    return drawable("; ".join(parts))


def _range(result: "Result", means: NDArray[np.float64]) -> tuple[float, float]:
    """The losses shown: a curve that runs away leaves the picture instead of flattening it."""
    first = [trace.evaluations[0].loss for trace in result.traces if trace.evaluations]
    start = max((abs(loss) for loss in first if math.isfinite(loss)), default=math.inf)
    highest = min(float(means.max()), 3 * start) if start > 0 else float(means.max())
    lowest = float(means.min())
    target = result.target_loss
    if target is not None:
        lowest, highest = min(lowest, target), max(highest, target)
    return lowest, max(lowest, highest)


def _scale_updates(axes: Axes, drawn: Sequence[Curve]) -> None:
    """A logarithmic axis, 0 included, where the longest curve would squeeze the others."""
    ends = [float(curve.x[-1]) for curve in drawn]
    first = min((float(x) for curve in drawn for x in curve.x if x > 0), default=0.0)
    if max(ends) <= MOST_APART * min(ends) or first == 0:
        axes.xaxis.set_major_locator(MaxNLocator(9, integer=True))
        return
    axes.set_xscale("symlog", linthresh=first, linscale=0.3)
    steps = (1, 2, 5) if max(ends) < 1e3 * first else (1,)
    ticks = [step * 10.0**power for power in range(13) for step in steps]
    axes.xaxis.set_major_locator(FixedLocator([0.0, *(t for t in ticks if t >= first)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(right=1.05 * max(ends))


def _draw_target(axes: Axes, target: float) -> None:
    axes.axhline(target, color=INK, linewidth=1.1, linestyle=(0, (2, 2)))
    axes.annotate(
        f"target\n{target:g}",
        (1, target),
        (4, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
    )


def _label_decades(axes: Axes, span: float) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < 1e3 else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
