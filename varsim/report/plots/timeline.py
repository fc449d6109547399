"""The timeline: what every worker did in the first steps, strategy below strategy."""

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from varsim.cluster.trace import IN_VAIN, GradientRow, Phase, Span, Trace
from varsim.report.plots.figure import (
    ACTIVITIES,
    INK,
    activity_patch,
    called,
    marked,
    panel_title,
    time_unit,
)
from varsim.report.plots.looks import Look
from varsim.report.products.stretch import met, shown_spans, shown_workers, window

if TYPE_CHECKING:
    from varsim.study.result import Result

MOST_UPDATES: Final = 150  # drawn as lines in one panel
APART: Final = 1 / 1000  # of the window: sends that are nearer to each other are one in the picture
HALF: Final = 0.42  # of the height of a row, that of its bars
LANE: Final = (0.16, HALF)  # where sends are in a row, below its spans

_OUTCOME: Final = GradientRow._fields.index("outcome")
_KEY: Final = np.array([1 << 32, 1])  # of worker and iteration: one number for both
_WORKER, _PHASE, _START, _END, _ITERATION = range(len(Span._fields))


class Panel(NamedTuple):
    """What one strategy shows between time 0 and the end of the window; times in seconds."""

    strategy: str
    workers: list[int]  # ranks shown, top to bottom
    of: int  # workers that took part
    row: NDArray[np.int64]  # of each span: index into `workers`
    activity: NDArray[np.int64]  # of each span: a Phase
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    in_vain: NDArray[np.bool_]  # of each span: a gradient is computed that is dropped or lost
    updates: NDArray[np.float64]  # when global_step rose
    later: str  # what is to be seen only after the window
    sends: "Sends"  # beside computation, on a lane of their own


class Sends(NamedTuple):
    """What the workers of a panel send while they compute, as the spans of a Panel."""

    row: NDArray[np.int64]
    activity: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]


def timeline(result: "Result") -> list[Panel]:
    """The panels of all strategies over the same window, from their first replications."""
    end = window(result)
    return [_panel(result, strategy, end) for strategy in result.strategies]


def heights(result: "Result") -> list[float]:
    """Inches for each strategy's panel: a row per worker, lower where there are very many."""
    row = _row_height(result)
    lanes = [1.6 if len(result.trace(name).send_rows) else 1.0 for name in result.strategies]
    # At least so high that the word at the axis fits.
    return [
        0.42 + max(0.62, row * lane * len(shown_workers(result, name)))
        for name, lane in zip(result.strategies, lanes, strict=True)
    ]


def title(result: "Result") -> str:
    """What the timeline shows, in words."""
    shown = {panel.strategy: len(panel.updates) for panel in timeline(result)}
    end = window(result)
    unit = time_unit(end)
    head = f"Updates made in the first {end / unit.seconds:.3g} {unit.name}"
    name = partial(called, result.scenario)
    if len(shown) <= 4:
        return f"{head}: {', '.join(f'{name(strategy)} {n:,}' for strategy, n in shown.items())}"
    least, most = min(shown, key=shown.__getitem__), max(shown, key=shown.__getitem__)
    if shown[least] == shown[most]:
        return f"{head}: {shown[most]:,} in every strategy"
    few, many = f"{shown[least]:,} in {name(least)}", f"{shown[most]:,} in {name(most)}"
    return f"{head}: from {few} to {many}"


def draw(result: "Result", panels: list[Axes]) -> list[Axes]:
    """Draw one strategy on each of the Axes, all over the same time."""
    end = window(result)
    unit = time_unit(end)
    for axes, panel in zip(panels, timeline(result), strict=True):
        label = marked(result.scenario, panel.strategy)
        _draw_panel(axes, panel, label, unit.seconds, every=1 if _row_height(result) > 0.11 else 2)
        axes.set_xlim(0, end / unit.seconds)
    panels[-1].set_xlabel(f"simulated time ({unit.name})")
    return panels


def legend(result: "Result") -> list[Artist]:
    """The activities that are seen, the cross of what was in vain, and the line of an update."""
    seen = {
        int(phase)
        for panel in timeline(result)
        for phase in np.unique(np.append(panel.activity, panel.sends.activity))
    }
    patches: list[Artist] = [
        activity_patch(name) for name in ACTIVITIES if Phase[name.upper()] in seen
    ]
    if any(panel.in_vain.any() for panel in timeline(result)):
        crossed = Line2D([], [], color=INK, marker="x", linestyle="", label="dropped or lost")
        patches.append(crossed)
    update = Line2D([], [], color=INK, marker="v", markersize=4, linewidth=0.9, label="update")
    return [*patches, update]


def _row_height(result: "Result") -> float:
    """Inches for one worker: less where all panels together would be too high for a screen."""
    rows = sum(len(shown_workers(result, strategy)) for strategy in result.strategies)
    return min(0.19, max(0.075, 11 / rows))


def _panel(result: "Result", strategy: str, end: float) -> Panel:
    trace = result.trace(strategy)
    ranks = shown_workers(result, strategy)
    spans = shown_spans(result, strategy)
    spans = spans[(spans[:, _START] < end * 1e9) & (spans[:, _END] > spans[:, _START])]
    row_of = np.full(trace.workers, -1)
    row_of[ranks] = np.arange(len(ranks))
    steps = np.asarray(trace.steps) / 1e9
    return Panel(
        strategy,
        ranks,
        trace.workers,
        row_of[spans[:, _WORKER]],
        spans[:, _PHASE],
        spans[:, _START] / 1e9,
        np.minimum(spans[:, _END] / 1e9, end),
        _in_vain(trace, spans),
        steps[steps <= end],
        _later(steps, met(result, strategy) / 1e9, end),
        _sends(trace, row_of, end),
    )


def _later(steps: NDArray[np.float64], met: float, end: float) -> str:
    """When the first update, or exchange, is made that is not in a window up to `end` (s)."""
    first = steps[0] if len(steps) else 0.0
    moment, what = (first, "the first") if first > end else (met, "the first exchange")
    unit = time_unit(moment)
    return f", {what} after {moment / unit.seconds:.3g} {unit.name}" if moment > end else ""


def _sends(trace: Trace, row_of: NDArray[np.int64], end: float) -> Sends:
    """The sends of the workers that are shown; those that touch each other are one."""

    def shown(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (row_of[rows[:, _WORKER]] >= 0) & (rows[:, _START] < end * 1e9)
        return found

    rows = np.concatenate([part[shown(part)] for part in trace.send_rows.parts()])
    row, phase = row_of[rows[:, _WORKER]], rows[:, _PHASE]
    start, until = rows[:, _START] / 1e9, np.minimum(rows[:, _END] / 1e9, end)
    apart = (row[1:] != row[:-1]) | (phase[1:] != phase[:-1])
    apart |= start[1:] - until[:-1] > end * APART
    first, last = np.append(True, apart)[: len(row)], np.append(apart, True)[: len(row)]
    return Sends(row[first], phase[first], start[first], until[last])


def _in_vain(trace: Trace, spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which spans compute a gradient that is dropped or lost."""
    gone = [
        rows[np.isin(rows[:, _OUTCOME], IN_VAIN)][:, :2] for rows in trace.gradient_rows.parts()
    ]
    keys = np.concatenate([rows @ _KEY for rows in gone]) if gone else np.empty(0, dtype=np.int64)
    own = spans[:, [_WORKER, _ITERATION]] @ _KEY
    found: NDArray[np.bool_] = (spans[:, _PHASE] == Phase.COMPUTE) & np.isin(own, keys)
    return found


def _draw_panel(axes: Axes, panel: Panel, label: str, unit: float, every: int) -> None:
    """Draw a panel with times in `unit` seconds; `every` so many rows have their rank beside."""
    sends = panel.sends
    bottom = LANE[0] - 0.04 if len(sends.row) else HALF
    for name, look in ACTIVITIES.items():
        chosen = panel.activity == Phase[name.upper()]
        sent = _boxes(sends, sends.activity == Phase[name.upper()], unit, *LANE)
        for boxes, alpha in (
            (_boxes(panel, chosen & ~panel.in_vain, unit, -HALF, bottom), 1.0),
            (_boxes(panel, chosen & panel.in_vain, unit, -HALF, bottom), 0.35),
            (sent, 1.0),
        ):
            if len(boxes):
                axes.add_artist(_joined(boxes, look, alpha))
    corners = _boxes(panel, panel.in_vain, unit, -HALF, bottom)
    if len(corners):
        across = [box[pair] for box in corners for pair in ([0, 2], [1, 3])]
        axes.add_collection(LineCollection(across, color=INK, linewidth=0.7), autolim=False)
    # A fine gap where a gradient is begun: without it, one batch after another is one bar.
    begun = panel.activity == Phase.COMPUTE
    axes.vlines(
        panel.start[begun] / unit,
        panel.row[begun] - HALF,
        panel.row[begun] + bottom,
        color="white",
        linewidth=0.7,
    )
    if 0 < len(panel.updates) <= MOST_UPDATES:
        width = 0.9 if len(panel.updates) <= 50 else 0.5
        axes.vlines(
            panel.updates / unit, -0.5, len(panel.workers) - 0.5, color=INK, linewidth=width
        )
        axes.plot(
            panel.updates / unit,
            np.full(len(panel.updates), -0.5),
            "v",
            color=INK,
            markersize=4,
            clip_on=False,
        )
    axes.set_ylim(len(panel.workers) - 0.5, -0.6)
    axes.set_yticks(range(0, len(panel.workers), every), map(str, panel.workers[::every]))
    axes.tick_params(axis="y", length=0, labelsize=7.5 if len(panel.workers) <= 8 else 7)
    axes.grid(visible=False)
    axes.set_ylabel("worker")
    panel_title(axes, label, _remark(panel), pad=7)


def _joined(boxes: NDArray[np.float64], look: Look, alpha: float) -> PathPatch:
    """Boxes that do not overlap, as one path, which is hatched at once."""
    corners = np.concatenate([boxes, boxes[:, :1]], axis=1).reshape(-1, 2)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    path = Path(corners, codes * len(boxes))
    color = to_rgba(look.color, alpha)
    return PathPatch(path, facecolor=color, hatch=look.mark, linewidth=0, snap=True)


def _boxes(
    bars: Panel | Sends, chosen: NDArray[np.bool_], unit: float, top: float, bottom: float
) -> NDArray[np.float64]:
    """Corners of the chosen spans' boxes, shape (spans, 4, 2), between these edges in a row."""
    left, right = bars.start[chosen] / unit, bars.end[chosen] / unit
    row = bars.row[chosen]
    x = np.stack([left, right, right, left], axis=1)
    y = np.stack([row + top, row + top, row + bottom, row + bottom], axis=1)
    return np.stack([x, y], axis=2)


def _remark(panel: Panel) -> str:
    updates = f"{len(panel.updates):,} update{'' if len(panel.updates) == 1 else 's'}"
    if len(panel.updates) > MOST_UPDATES:
        updates += ", too many to draw"
    updates += panel.later
    if len(panel.sends.row):
        updates += "; thin bars: communication"
    if len(panel.workers) < panel.of:
        return f"{len(panel.workers)} of {panel.of:,} workers shown; {updates}"
    return updates
