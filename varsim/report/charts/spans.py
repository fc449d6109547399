"""The mark of spans: a row per worker, boxes for what it did, marks for updates."""

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

from varsim.report.charts.looks import PHASES, PartLook
from varsim.report.charts.style import INK, PAPER, Made, Panel, Rows, plain_numbers, swatch
from varsim.report.wording import axis

MOST_UPDATES: Final = 150  # drawn as lines in one panel
_HALF: Final = 0.42  # of the height of a row, that of its boxes
_LANE: Final = (0.16, _HALF)  # where sends are in a row, below its boxes
_CODES: Final = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]


def spans(every: Sequence[Panel]) -> Made:
    """Draw the rows of each panel, all on one clock.

    Columns: `row` (a rank), `activity` (of PHASES; "update", of no row; "": all of the time
    that is drawn), `start`, `end` (s), and `kind`: "beside" computation, on a lane of its own, or
    "vain".
    """
    rows = [row for panel in every for row in panel.rows]
    scale, label = axis(every[0].chart.x, max(row["end"] for row in rows))
    shown = max(row["end"] for row in rows) / scale or 1.0
    names = [
        list(dict.fromkeys(row["row"] for row in panel.rows if row["row"] is not None))
        for panel in every
    ]
    height = min(0.19, max(0.075, 11 / max(sum(map(len, names)), 1)))
    heights = []
    for (chart, _, own, axes), there in zip(every, names, strict=True):
        scaled = [row | {key: row[key] / scale for key in ("start", "end")} for row in own]
        _panel(axes, scaled, {name: at for at, name in enumerate(there)})
        axes.set_yticks(range(len(there))[:: (each := 1 if height > 0.11 else 2)])
        axes.set_yticklabels(list(map(str, there[::each])))
        axes.tick_params(axis="y", length=0, labelsize=7)
        axes.set_ylabel(chart.y)
        lanes = 1.6 if any(row.get("kind") == "beside" for row in own) else 1.0
        heights.append(max(0.4, height * lanes * len(there)))
    last = every[-1].axes
    last.set_xlim(0, shown)
    last.xaxis.set_major_formatter(plain_numbers())
    last.set_xlabel(label)
    return Made(heights, _legend(rows))


def _panel(axes: Axes, rows: Rows, place: dict[object, int]) -> None:
    boxes = [row for row in rows if row["activity"] in PHASES and row["end"] > row["start"]]
    beside = any(row.get("kind") == "beside" for row in boxes)
    bottom = _LANE[0] - 0.04 if beside else _HALF
    kinds = {"": (-_HALF, bottom, 1.0), "vain": (-_HALF, bottom, 0.35), "beside": (*_LANE, 1.0)}

    def corners(chosen: Rows, top: float, low: float) -> NDArray[np.float64]:
        """Of each box, shape (rows, 4, 2), between these edges in its row."""
        left, right = (np.array([row[key] for row in chosen]) for key in ("start", "end"))
        row = np.array([place[row["row"]] for row in chosen])
        x = np.stack([left, right, right, left], axis=1)
        return np.stack([x, np.stack([row + top] * 2 + [row + low] * 2, axis=1)], axis=2)

    for name, look in PHASES.items():
        for kind, (top, low, alpha) in kinds.items():
            own = [row for row in boxes if (row["activity"], row.get("kind", "")) == (name, kind)]
            if own:
                axes.add_artist(_joined(corners(own, top, low), look, alpha))
    if vain := [row for row in boxes if row.get("kind") == "vain"]:
        across = [box[pair] for box in corners(vain, -_HALF, bottom) for pair in ([0, 2], [1, 3])]
        axes.add_collection(LineCollection(across, color=INK, linewidth=0.7), autolim=False)
    # A fine gap where something is begun: without it, one batch after another is one bar.
    begun = [row for row in boxes if row["activity"] == "compute"]
    at = np.array([place[row["row"]] for row in begun])
    starts = [row["start"] for row in begun]
    axes.vlines(starts, at - _HALF, at + bottom, color=PAPER, linewidth=0.7)
    updates = [row["end"] for row in rows if row["activity"] == "update"]
    if 0 < len(updates) <= MOST_UPDATES:
        width = 0.9 if len(updates) <= MOST_UPDATES // 3 else 0.5
        axes.vlines(updates, -0.5, len(place) - 0.5, color=INK, linewidth=width)
        axes.plot(updates, [-0.5] * len(updates), "v", color=INK, markersize=4, clip_on=False)
    axes.set_ylim(len(place) - 0.5, -0.6)
    axes.grid(visible=False)


def _joined(boxes: NDArray[np.float64], look: PartLook, alpha: float) -> PathPatch:
    """Boxes that do not overlap, as one path, which is hatched at once."""
    corners = np.concatenate([boxes, boxes[:, :1]], axis=1).reshape(-1, 2)
    path = Path(corners, _CODES * len(boxes))
    color = to_rgba(look.light, alpha)
    return PathPatch(path, facecolor=color, hatch=look.hatch, linewidth=0, snap=True)


def _legend(rows: Rows) -> list[Artist]:
    """What is seen: a patch for each activity; crosses, updates."""
    boxes = {row["activity"] for row in rows if row["end"] > row["start"]}
    found: list[Artist] = [
        Patch(facecolor=look.light, hatch=look.hatch, label=name, linewidth=0)
        for name, look in PHASES.items()
        if name in boxes
    ]
    if any(row.get("kind") == "vain" for row in rows):
        found.append(swatch("dropped or lost", INK, marker="x", linestyle="none"))
    found.append(swatch("update", INK, marker="v", markersize=4, linewidth=0.9))
    return found
