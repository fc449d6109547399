"""The mark of spans: a row per worker or replica, boxes for what it did, marks, arrows."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from varsim.report.charts.looks import ACTIVITIES, Look
from varsim.report.charts.style import FAINT, INK, PAPER, Made, Panel, Rows, plain_numbers, swatch
from varsim.report.wording import axis

# How each action of a program looks, in the order of the legend: a box where it takes time.
ACTS: Final = {
    "compute": Look("#3d4249", ""),
    "assign": Look("#5e3c1c", "xxx"),
    "assign_add": Look("#8c5f36", "\\\\\\"),
    "assign_sub": Look("#dcc0a0", "+++"),
    "moving_average": Look("#2c6b57", "|||"),
    "read": Look("#4fae62", "///"),
    "save": Look("#c3c8cf", "..."),
    "restore": Look("#b0a34a", "---"),
    "waiting for others": Look("#efe2a0", ""),
}
# And as a mark, where it takes none.
MARKERS: Final = dict(zip(ACTS, "osD^vPX<>", strict=True))
MOST_UPDATES: Final = 150  # drawn as lines in one panel
_HALF: Final = 0.42  # of the height of a row, that of its boxes
_LANE: Final = (0.16, _HALF)  # where sends are in a row, below its boxes
_CODES: Final = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
_BOX: Final[dict[str, Any]] = {"facecolor": PAPER, "linewidth": 0, "pad": 0.6, "alpha": 0.85}
_LETTER: Final = 0.0125  # of what is shown: the width of a letter


def spans(every: Sequence[Panel]) -> Made:
    """Draw the rows of each panel, all on one clock.

    Columns: `row` (a rank or a name), `activity` ("": all of the time that is drawn), `start`,
    `end` (s). Of workers, by ACTIVITIES or "update" (of no row), with `kind`: "beside" computation,
    on a lane of its own, or "vain". Of a program, by ACTS or "message", with `to` (the row that it
    goes to), `step`, and `often`: so many at this moment.
    """
    acts = "to" in every[0].chart.data
    looks = ACTS if acts else ACTIVITIES
    rows = [row for panel in every for row in panel.rows]
    scale, label = axis(every[0].chart.x, max(row["end"] for row in rows))
    shown = max(row["end"] for row in rows) / scale or 1.0
    names = [
        list(dict.fromkeys(row["row"] for row in panel.rows if row["row"] is not None))
        for panel in every
    ]
    height = 0.24 if acts else min(0.19, max(0.075, 11 / max(sum(map(len, names)), 1)))
    heights = []
    for (chart, _, own, axes), there in zip(every, names, strict=True):
        scaled = [row | {key: row[key] / scale for key in ("start", "end")} for row in own]
        _panel(axes, scaled, {name: at for at, name in enumerate(there)}, looks, shown)
        axes.set_yticks(range(len(there))[:: (each := 1 if height > 0.11 else 2)])
        axes.set_yticklabels(list(map(str, there[::each])))
        axes.tick_params(axis="y", length=0, labelsize=8 if acts else 7)
        axes.set_ylabel(chart.y)
        lanes = 1.6 if any(row.get("kind") == "beside" for row in own) else 1.0
        heights.append(max(0.62 if acts else 0.4, height * lanes * len(there)))
    last = every[-1].axes
    last.set_xlim(*((-0.012 * shown, 1.03 * shown) if acts else (0, shown)))
    last.xaxis.set_major_formatter(plain_numbers())
    last.set_xlabel(label)
    return Made(heights, _legend(rows, looks))


def _panel(
    axes: Axes, rows: Rows, place: dict[object, int], looks: dict[str, Look], shown: float
) -> None:
    boxes = [row for row in rows if row["activity"] in looks and row["end"] > row["start"]]
    beside = any(row.get("kind") == "beside" for row in boxes)
    bottom = _LANE[0] - 0.04 if beside else _HALF
    kinds = {"": (-_HALF, bottom, 1.0), "vain": (-_HALF, bottom, 0.35), "beside": (*_LANE, 1.0)}

    def corners(chosen: Rows, top: float, low: float) -> NDArray[np.float64]:
        """Of each box, shape (rows, 4, 2), between these edges in its row."""
        left, right = (np.array([row[key] for row in chosen]) for key in ("start", "end"))
        row = np.array([place[row["row"]] for row in chosen])
        x = np.stack([left, right, right, left], axis=1)
        return np.stack([x, np.stack([row + top] * 2 + [row + low] * 2, axis=1)], axis=2)

    for name, look in looks.items():
        for kind, (top, low, alpha) in kinds.items():
            own = [row for row in boxes if (row["activity"], row.get("kind", "")) == (name, kind)]
            if own:
                axes.add_artist(_joined(corners(own, top, low), look, alpha))
    if vain := [row for row in boxes if row.get("kind") == "vain"]:
        across = [box[pair] for box in corners(vain, -_HALF, bottom) for pair in ([0, 2], [1, 3])]
        axes.add_collection(LineCollection(across, color=INK, linewidth=0.7), autolim=False)
    # A fine gap where something is begun: without it, one batch after another is one bar.
    begun = [row for row in boxes if looks is ACTS or row["activity"] == "compute"]
    at = np.array([place[row["row"]] for row in begun])
    starts = [row["start"] for row in begun]
    axes.vlines(starts, at - _HALF, at + bottom, color=PAPER, linewidth=0.7)
    updates = [row["end"] for row in rows if row["activity"] == "update"]
    if 0 < len(updates) <= MOST_UPDATES:
        width = 0.9 if len(updates) <= MOST_UPDATES // 3 else 0.5
        axes.vlines(updates, -0.5, len(place) - 0.5, color=INK, linewidth=width)
        axes.plot(updates, [-0.5] * len(updates), "v", color=INK, markersize=4, clip_on=False)
    if looks is ACTS:
        _arrows(axes, rows, place)
        _steps(axes, boxes, place, shown)
        _instants(axes, rows, place)
    axes.set_ylim(len(place) - 0.5, -0.6)
    axes.grid(visible=False)


def _joined(boxes: NDArray[np.float64], look: Look, alpha: float) -> PathPatch:
    """Boxes that do not overlap, as one path, which is hatched at once."""
    corners = np.concatenate([boxes, boxes[:, :1]], axis=1).reshape(-1, 2)
    path = Path(corners, _CODES * len(boxes))
    color = to_rgba(look.color, alpha)
    return PathPatch(path, facecolor=color, hatch=look.mark, linewidth=0, snap=True)


def _arrows(axes: Axes, rows: Rows, place: dict[object, int]) -> None:
    """Messages, from row to row."""
    look = {"arrowstyle": "-|>,head_width=0.16,head_length=0.32", "color": INK, "linewidth": 0.8}
    for row in rows:
        if row["activity"] == "message":
            ends = (row["end"], place[row["to"]]), (row["start"], place[row["row"]])
            axes.annotate("", *ends, arrowprops={**look, "shrinkA": 0, "shrinkB": 0})


def _steps(axes: Axes, boxes: Rows, place: dict[object, int], shown: float) -> None:
    """The number of its step in the longest box of each, where there are several, and room."""
    longest: dict[tuple[str, int], tuple[float, float]] = {}
    for row in boxes:
        whose, box = (row["row"], row["step"]), (row["start"], row["end"])
        longest[whose] = max(longest.get(whose, box), box, key=lambda one: one[1] - one[0])
    if len({step for _, step in longest}) < 2:
        return
    for (name, step), (start, end) in longest.items():
        room = (end - start) / shown
        text = next((one for one in (f"step {step}", str(step)) if room > _LETTER * len(one)), "")
        center: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 7}
        if text:
            axes.text((start + end) / 2, place[name], text, bbox=_BOX, **center)


def _instants(axes: Axes, rows: Rows, place: dict[object, int]) -> None:
    """A mark for each act that took no time, those of one moment below each other."""
    moments: dict[tuple[str, float], Rows] = defaultdict(list)
    for row in rows:
        if row["activity"] in ACTS and row["end"] == row["start"]:
            moments[row["row"], row["end"]].append(row)
    edge: dict[str, Any] = {"mec": INK, "mew": 0.6, "clip_on": False, "zorder": 4}
    text: dict[str, Any] = {"va": "center", "fontsize": 7, "color": FAINT, "bbox": _BOX}
    for (name, moment), some in moments.items():
        for shift, row in zip(np.linspace(-0.24, 0.24, len(some)), some, strict=True):
            at = moment, place[name] + (shift if len(some) > 1 else 0.0)
            color = ACTS[row["activity"]].color
            axes.plot(*at, MARKERS[row["activity"]], color=color, markersize=5.5, **edge)
            if row["often"] > 1:
                said = f"x {row['often']:,}"
                axes.annotate(said, at, (5, 0), textcoords="offset points", **text)


def _legend(rows: Rows, looks: dict[str, Look]) -> list[Artist]:
    """What is seen: a patch where it takes time, else a mark; crosses, updates, messages."""
    boxes = {row["activity"] for row in rows if row["end"] > row["start"]}
    instants = {row["activity"] for row in rows if row["end"] == row["start"]}
    found: list[Artist] = []
    for name, look in looks.items():
        if name in boxes:
            found.append(Patch(facecolor=look.color, hatch=look.mark, label=name, linewidth=0))
        if name in instants:
            said = f"{name}, no time" if name in boxes else name
            edge = {"markersize": 5.5, "markeredgecolor": INK, "linestyle": "none"}
            found.append(swatch(said, look.color, marker=MARKERS[name], **edge))
    if any(row.get("kind") == "vain" for row in rows):
        found.append(swatch("dropped or lost", INK, marker="x", linestyle="none"))
    if looks is not ACTS:
        found.append(swatch("update", INK, marker="v", markersize=4, linewidth=0.9))
    elif "message" in boxes:
        found.append(swatch("message", INK, linewidth=0.9, marker=">", markersize=4))
    return found
