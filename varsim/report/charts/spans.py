"""The mark of what workers did: a row per worker, a box per span, a line per update."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from varsim.report.charts.looks import ACTIVITIES, Look
from varsim.report.charts.panel import Rows, swatch
from varsim.report.charts.style import INK
from varsim.report.told import Chart
from varsim.report.wording import axis

MOST_UPDATES: Final = 150  # drawn as lines in one panel
_HALF: Final = 0.42  # of the height of a row, that of its bars
_LANE: Final = (0.16, _HALF)  # where sends are in a row, below its spans
_CODES: Final = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]


def draw(chart: Chart, panels: Sequence[tuple[Axes, Rows]]) -> tuple[list[float], Sequence[Artist]]:
    """Draw the rows of each panel on its Axes; their heights in inches, and the legend.

    Columns of the chart: `worker`, `activity` (of ACTIVITIES; "": all of the time that is drawn; or
    "update", of no worker), `start`, `end` (s), and `kind`: "beside" computation, on a lane of its
    own, or "vain".
    """
    every = chart.rows()
    scale, label = axis(chart.x, max(row["end"] for row in every))
    ranks = [sorted({row["worker"] for row in rows} - {None}) for _, rows in panels]
    height = min(0.19, max(0.075, 11 / max(sum(map(len, ranks)), 1)))
    heights = []
    for (axes, rows), own in zip(panels, ranks, strict=True):
        _panel(axes, rows, own, scale, every=1 if height > 0.11 else 2)
        axes.set_ylabel(chart.y)
        lanes = 1.6 if any(row["kind"] == "beside" for row in rows) else 1.0
        heights.append(max(0.4, height * lanes * len(own)))
    last = panels[-1][0]
    last.set_xlim(0, max(row["end"] for row in every) / scale or 1)
    last.set_xlabel(label)
    return heights, _legend(every)


def _legend(every: Rows) -> list[Artist]:
    """The activities that are seen, the cross of what was in vain, and the line of an update."""
    seen = {row["activity"] for row in every}
    found: list[Artist] = [
        Patch(facecolor=look.color, hatch=look.mark, label=name, linewidth=0)
        for name, look in ACTIVITIES.items()
        if name in seen
    ]
    if any(row["kind"] == "vain" for row in every):
        found.append(swatch("dropped or lost", INK, marker="x", linestyle="none"))
    return [*found, swatch("update", INK, marker="v", markersize=4, linewidth=0.9)]


def _panel(axes: Axes, rows: Rows, ranks: list[int], scale: float, every: int) -> None:
    """Draw a panel with times in `scale` seconds; `every` so many rows have their rank beside."""
    place = {rank: at for at, rank in enumerate(ranks)}
    updates = [row["end"] / scale for row in rows if row["activity"] == "update"]
    boxes = [row for row in rows if row["activity"] in ACTIVITIES]
    sends = [row for row in boxes if row["kind"] == "beside"]
    bottom = _LANE[0] - 0.04 if sends else _HALF

    def corners(chosen: Rows, top: float, low: float) -> NDArray[np.float64]:
        """Of each box, shape (rows, 4, 2), between these edges in its row."""
        left, right = (np.array([row[key] for row in chosen]) / scale for key in ("start", "end"))
        row = np.array([place[row["worker"]] for row in chosen])
        x = np.stack([left, right, right, left], axis=1)
        return np.stack([x, np.stack([row + top] * 2 + [row + low] * 2, axis=1)], axis=2)

    for name, look in ACTIVITIES.items():
        own = [row for row in boxes if row["activity"] == name]
        for kind, edges, alpha in (
            ("", (-_HALF, bottom), 1.0),
            ("vain", (-_HALF, bottom), 0.35),
            ("beside", _LANE, 1.0),
        ):
            if chosen := [row for row in own if row["kind"] == kind]:
                axes.add_artist(_joined(corners(chosen, *edges), look, alpha))
    vain = [row for row in boxes if row["kind"] == "vain"]
    if vain:
        across = [box[pair] for box in corners(vain, -_HALF, bottom) for pair in ([0, 2], [1, 3])]
        axes.add_collection(LineCollection(across, color=INK, linewidth=0.7), autolim=False)
    # A fine gap where a gradient is begun: without it, one batch after another is one bar.
    begun = [row for row in boxes if row["activity"] == "compute"]
    at = np.array([place[row["worker"]] for row in begun])
    starts = [row["start"] / scale for row in begun]
    axes.vlines(starts, at - _HALF, at + bottom, color="white", linewidth=0.7)
    if 0 < len(updates) <= MOST_UPDATES:
        width = 0.9 if len(updates) <= MOST_UPDATES // 3 else 0.5
        axes.vlines(updates, -0.5, len(ranks) - 0.5, color=INK, linewidth=width)
        axes.plot(updates, [-0.5] * len(updates), "v", color=INK, markersize=4, clip_on=False)
    axes.set_ylim(len(ranks) - 0.5, -0.6)
    axes.set_yticks(range(0, len(ranks), every), map(str, ranks[::every]))
    axes.tick_params(axis="y", length=0, labelsize=7.5 if len(ranks) <= 8 else 7)
    axes.grid(visible=False)


def _joined(boxes: NDArray[np.float64], look: Look, alpha: float) -> PathPatch:
    """Boxes that do not overlap, as one path, which is hatched at once."""
    corners = np.concatenate([boxes, boxes[:, :1]], axis=1).reshape(-1, 2)
    path = Path(corners, _CODES * len(boxes))
    color = to_rgba(look.color, alpha)
    return PathPatch(path, facecolor=color, hatch=look.mark, linewidth=0, snap=True)
