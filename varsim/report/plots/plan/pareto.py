"""Cost and throughput, or goodput, of every cell of a plan, the front of them, and the answer."""

import math
from typing import TYPE_CHECKING, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from varsim.report.charts.looks import looks
from varsim.report.plots.figure import FAINT, INK, PAPER, plain_numbers
from varsim.report.plots.plot import Plot
from varsim.report.products.plan_cells import speed_named
from varsim.study.plan.findings import trade

if TYPE_CHECKING:
    from varsim.study.plan.plan import Plan
    from varsim.study.plan.standing import Standing

HEIGHT: Final = 4.2  # inches
_LINE: Final = (
    " The line joins those with a higher mean than all that cost less, if they meet the other "
    "targets."
)
_WIDE: Final = 30  # times the cheapest is the dearest where the axis is logarithmic


def draw(plan: "Plan", axes: Axes) -> Axes:
    """A mark per cell: filled where it meets every target, hollow where it does not.

    Where goodput is a target, that is drawn: how fast a job is while nothing fails says little.
    """
    found, question = plan.found, plan.found.question
    look = looks(question.families)
    every, _, front = trade(found)
    metric, bound = _target(plan)
    for one in every:
        color, marker, _ = look[one.cell.label]
        face = color if one.feasible else PAPER
        axes.plot(
            one.hourly,
            _height(one, metric),
            linestyle="none",
            marker=marker,
            markersize=5.5,
            color=color,
            markerfacecolor=face,
            zorder=3 if one.feasible else 2,
        )
    if metric == "throughput":
        axes.plot(
            [one.hourly for one in front],
            [one.speed.mean for one in front],
            color=FAINT,
            linewidth=1.1,
            drawstyle="steps-post",
            zorder=1,
        )
    best = found.answer
    if best is not None:
        axes.plot(
            best.hourly, _height(best, metric), "o", markersize=14, mfc="none", color=INK, zorder=4
        )
    if bound is not None:
        axes.axhline(bound, color=INK, linewidth=1, linestyle=":")
    costs = [one.hourly for one in every if one.hourly > 0]
    if costs and max(costs) >= _WIDE * min(costs):
        axes.set_xscale("log")
    axes.set_ylim(0, None if metric == "throughput" else 100)
    priced = question.base.prices is not None
    axes.set_xlabel(f"cost ({question.currency} per hour)" if priced else "machines")
    axes.set_ylabel(speed_named(question.base) if metric == "throughput" else "goodput (%)")
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.yaxis.set_major_formatter(plain_numbers())
    return axes


def title(plan: "Plan") -> str:
    """What is drawn: the answer has a ring, and stands above the picture."""
    return f"{plot(plan).heading} of every cell that was run"


def legend(plan: "Plan") -> list[Artist]:
    """What stands for what."""
    question = plan.found.question
    there = {one.cell.label for one in plan.found.looked_at.values()}
    handles: list[Artist] = []
    for label, (color, marker, _) in looks(question.families).items():
        if label in there:
            handles.append(_mark(question.base.strategy(label).title, marker, color, color))
    handles.append(_mark("does not surely meet a target", "o", FAINT, PAPER))
    metric, bound = _target(plan)
    if metric == "throughput":
        handles.append(
            Line2D([], [], color=FAINT, linewidth=1.1, label="highest mean, other targets met")
        )
    if plan.found.answer is not None:
        ring = _mark("the answer", "o", INK, "none")
        ring.set_markersize(11)
        handles.append(ring)
    if bound is not None:
        line = Line2D([], [], color=INK, linewidth=1, linestyle=":", label=f"target {metric}")
        handles.append(line)
    return handles


PLOT: Final = Plot["Plan"](
    "pareto",
    "Cost and throughput",
    "Every cell that was run; filled marks meet every target with 95 % certainty, and only one of "
    "those can be the answer.",
    title,
    lambda plan: [HEIGHT],
    lambda plan, panels: [draw(plan, panels[0])],
    legend,
)


def plot(plan: "Plan") -> Plot["Plan"]:
    """The picture, by what it shows."""
    metric, _ = _target(plan)
    caption = PLOT.caption + (_LINE if metric == "throughput" else "")
    return PLOT._replace(heading=f"Cost and {metric}", caption=caption)


def _target(plan: "Plan") -> tuple[str, float | None]:
    """What is drawn against the cost, and its target, if that is one."""
    targets = plan.found.question.targets
    if targets.goodput is not None:
        return "goodput", 100 * targets.goodput
    return "throughput", targets.throughput


def _height(one: "Standing", metric: str) -> float:
    if metric == "throughput":
        return one.speed.mean
    return next((100 * of.mean for of in one.judgements if of.target == metric), math.nan)


def _mark(label: str, marker: str, color: str, face: str) -> Line2D:
    return Line2D(
        [], [], linestyle="none", marker=marker, markersize=6, color=color, mfc=face, label=label
    )
