"""The plots of a result: what each shows, as data and as a figure, written as PNG and SVG."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from varsim.report.plots import curves, timeline
from varsim.report.plots.bars import Bar, bars, cut_bars
from varsim.report.plots.figure import (
    ACTIVITIES,
    IN_VAIN,
    INK,
    activity_patch,
    drawable,
    label_rows,
    marked,
    outline,
    panel_title,
    plain_numbers,
    row_heights,
)
from varsim.report.plots.looks import looks
from varsim.report.plots.plot import Plot
from varsim.report.products.curves import curves as read_curves
from varsim.report.words.phrases import DOT, digits, plus_minus
from varsim.strategies import families

if TYPE_CHECKING:
    from varsim.study.result import Result

MOST_BINS: Final = 60  # of a staleness distribution
_LOWER: Final = (
    "Lower and further left is better, at the learning rates of the table: whoever averages more "
    "gradients into an update makes fewer steps from the same examples, and needs larger ones. "
    "Where a curve rises, its steps are too large for that part of the way."
)
LEAST: Final = 0.2  # percent of the time: what is less cannot be seen


class Staleness(NamedTuple):
    """How stale the applied gradients of one strategy were, over all replications."""

    strategy: str
    lowest: NDArray[np.float64]  # smallest staleness of each bin
    width: int  # staleness values per bin
    percent: NDArray[np.float64]  # of applied gradients, per bin; sums to 100
    mean: float
    largest: float
    copies: float  # updates that a copy had missed when it was read; nan without copies


# --- throughput


def throughput(result: "Result", axes: Axes) -> Axes:
    """Bars of examples applied per second, with intervals."""
    found = []
    for name in result.strategies:
        of = result.estimate(name, "examples_per_s")
        found.append(Bar.of(name, of, drawable(plus_minus(of)) + _times_first(result, name)))
    bars(axes, found, looks(families(result.scenario.strategies)), MaxNLocator(6))
    label_rows(axes, _rows(result))
    axes.set_xlabel("examples in applied gradients, per second of simulated time")
    return axes


def _throughput_spreads(result: "Result") -> bool:
    every = (result.estimate(name, "examples_per_s") for name in result.strategies)
    return any(one.high > one.low for one in every)


def _times_first(result: "Result", strategy: str) -> str:
    if strategy == result.first or not math.isfinite(
        times := result.estimate(strategy, "throughput_ratio").mean
    ):
        return ""
    return f"\n({digits(times)} x first)"


# --- staleness


def staleness(result: "Result") -> list[Staleness]:
    """The distributions of all strategies over the same bins."""
    runs: dict[str, list[NDArray[np.int32]]] = {strategy: [] for strategy in result.strategies}
    for trace, rows, window in zip(result.traces, result.gradients, result.windows, strict=True):
        runs[trace.strategy].append(rows.staleness_in(window))
    values = {
        strategy: each[0] if len(each) == 1 else np.concatenate(each)
        for strategy, each in runs.items()
    }
    limit = _limit(list(values.values()))
    width = limit // MOST_BINS + 1
    lowest = np.arange(0, limit + 1, width, dtype=np.float64)
    found = []
    for strategy, stale in values.items():
        counts = np.bincount(np.minimum(stale, limit) // width, minlength=len(lowest))
        percent = counts * 100 / max(len(stale), 1)
        mean = result.estimate(strategy, "staleness_mean").mean
        most = float(stale.max()) if len(stale) else math.nan
        copies = result.estimate(strategy, "copy_staleness_mean").mean
        found.append(Staleness(strategy, lowest, width, percent, mean, most, copies))
    return found


def _limit(values: Sequence[NDArray[np.int32]]) -> int:
    """The largest staleness with a place of its own: rare values far out share the last one."""
    known = [stale for stale in values if len(stale)]
    largest = max((int(stale.max()) for stale in known), default=0)
    usual = max((int(np.percentile(stale, 99)) for stale in known), default=0)
    return largest if largest <= 2 * usual + 10 else usual + usual // 4 + 2


def draw_staleness(result: "Result", panels: list[Axes]) -> list[Axes]:
    """One distribution on each of the Axes, the mean marked."""
    look = looks(families(result.scenario.strategies))
    found = staleness(result)
    for axes, panel in zip(panels, found, strict=True):
        shown = panel.percent > 0
        left = panel.lowest[shown] + (panel.width - 1) / 2
        color = look[panel.strategy].color
        axes.bar(left, panel.percent[shown], width=0.86 * panel.width, color=color)
        remark = shorter = "no gradient was applied"
        if math.isfinite(panel.mean):
            remark = shorter = f"mean {_updates(panel.mean)}{DOT}largest {panel.largest:,.0f}"
            if panel.copies > 0:
                remark += f"{DOT}copies, when read, had missed {_updates(panel.copies)} on average"
                shorter += f"{DOT}copies missed {_updates(panel.copies)}"
            outline(axes.axvline(panel.mean, color=INK, linestyle=(0, (4, 2)), linewidth=1.3))
        panel_title(axes, marked(result.scenario, panel.strategy), remark, pad=5, shorter=shorter)
        top = float(panel.percent.max()) or 100.0
        axes.set_ylim(0, 1.1 * top)
        axes.set_yticks([0, top], ["0", f"{top:.{0 if top >= 10 else 1}f} %"])
        axes.grid(visible=False, axis="x")
    right = panel.lowest[-1] + panel.width
    panels[-1].set_xlim(-0.7 * panel.width, max(right, 4.5) - 0.3 * panel.width)
    panels[-1].xaxis.set_major_locator(MaxNLocator(10, integer=True))
    panels[-1].xaxis.set_major_formatter(plain_numbers())
    remarks = [f"{panel.width:,} values to a bar"] if panel.width > 1 else []
    if max(np.nan_to_num([each.largest for each in found])) >= right:
        remarks.append(f"the last bar: {panel.lowest[-1]:,.0f} or more")
    unit = result.metrics["staleness_mean"].unit
    panels[-1].set_xlabel(f"staleness of applied gradients ({'; '.join([unit, *remarks])})")
    return panels


# --- where the time went


def time_shares(result: "Result") -> dict[str, dict[str, float]]:
    """Percent of all worker time by strategy and activity; each strategy sums to 100."""
    return {
        strategy: {
            name: 100 * result.estimate(strategy, f"share_{name}").mean for name in ACTIVITIES
        }
        for strategy in result.strategies
    }


def in_vain(result: "Result") -> dict[str, float]:
    """Percent of all worker time in which gradients were computed that were wasted."""
    found = {}
    for strategy in result.strategies:
        of = zip(
            result.values(strategy, "wasted_compute"),
            result.values(strategy, "share_compute"),
            strict=True,
        )
        known = [100 * part * share for part, share in of if part > 0]
        found[strategy] = math.fsum(known) / result.replications
    return found


def time_split(result: "Result", axes: Axes) -> Axes:
    """One bar of 100 % per strategy, cut into activities; computing in vain on its own."""
    wasted, cut = in_vain(result), []
    for strategy, shares in time_shares(result).items():
        parts = [(shares[name], look) for name, look in ACTIVITIES.items() if shares[name] > 0]
        if wasted[strategy] > 0:
            (computing, look), *rest = parts
            parts = [(computing - wasted[strategy], look), (wasted[strategy], IN_VAIN), *rest]
        cut.append(parts)
    return cut_bars(axes, _rows(result), cut, "share of all worker time (%)")


def _activities(result: "Result") -> list[Artist]:
    """What stands for the activities that can be seen."""
    found: list[Artist] = [activity_patch(name) for name in seen_activities(result)]
    if max(in_vain(result).values()) >= LEAST:
        color, hatch, _ = IN_VAIN
        wasted = Patch(facecolor=color, hatch=hatch, label="compute, wasted", linewidth=0)
        found.insert(1, wasted)
    return found


def seen_activities(result: "Result") -> list[str]:
    """The activities that took time in some strategy, so much that it can be seen."""
    shares = time_shares(result).values()
    return [name for name in ACTIVITIES if any(parts[name] >= LEAST for parts in shares)]


def _rows(result: "Result") -> list[str]:
    """A label for each strategy."""
    return [marked(result.scenario, strategy) for strategy in result.strategies]


def _updates(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _single(draw: Callable[["Result", Axes], Axes]) -> Callable[["Result", list[Axes]], list[Axes]]:
    """A drawing on one Axes as one on a list of panels."""
    return lambda result, panels: [draw(result, *panels)]


def _nothing(result: "Result") -> list[Artist]:
    return []


PLOTS: Final[tuple[Plot["Result"], ...]] = (
    Plot(
        "throughput",
        "Throughput",
        "Bars: mean over the replications; whiskers: its 95 % confidence interval. Longer is "
        "faster; the next figures show why.",
        lambda result: "Examples per second",
        lambda result: row_heights(_rows(result)),
        _single(throughput),
        _nothing,
        alone="Bars: one number each, exact or from one replication. Longer is faster; the next "
        "figures show why.",
        spreads=_throughput_spreads,
    ),
    Plot(
        "time_split",
        "Where the time went",
        "All workers' time, summed over workers and replications, cut by what they did. Only "
        "computing that is not wasted trains the model; the rest is the price of keeping in sync. "
        "What each waits for, and what would help: varsim explain scenario.yaml, in the folder of "
        "this page.",
        lambda result: "Where the time went",
        lambda result: row_heights(_rows(result)),
        _single(time_split),
        _activities,
    ),
    Plot(
        "timeline",
        "The first steps",
        "One row per worker, one panel per strategy, all on the same clock, in the first "
        "replication. A line with a triangle: the model was updated.",
        timeline.title,
        timeline.heights,
        timeline.draw,
        timeline.legend,
    ),
    Plot(
        "staleness",
        "Staleness",
        "How many updates the model had seen between the read of the parameters and the "
        "application of the gradient computed from them. Where nobody waits and every gradient is "
        "an update, each of the other workers makes about one meanwhile: the mean is near their "
        "number. Dashed: the mean. Each panel has its own vertical scale.",
        lambda result: "Staleness of applied gradients",
        lambda result: [0.72] * len(result.strategies),
        draw_staleness,
        _nothing,
        shows=lambda result: any(one.largest > 0 or one.copies > 0 for one in staleness(result)),
    ),
    Plot(
        "loss",
        "Loss",
        f"Lines: mean over the replications; bands: its 95 % confidence interval. {_LOWER}",
        lambda result: "Loss against time",
        lambda result: [3.4],
        _single(lambda result, axes: curves.draw(result, axes, "time")),
        lambda result: curves.legend(result, "time"),
        shows=lambda result: bool(read_curves(result, "time")),
        alone=f"Lines: one run of each strategy, exact or the only replication. {_LOWER}",
        spreads=lambda result: any(
            bool((one.high > one.low).any()) for one in read_curves(result, "time")
        ),
    ),
)
