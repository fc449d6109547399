"""The mark of spans: what workers, or replicas of a program, did when."""

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


# How each action looks, in the order of the legend: a box where it takes time, else a mark.
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
MARKERS: Final = dict(zip(ACTS, "osD^vPX<>", strict=True))
_HALF_ACTS: Final = 0.31  # of the height of a row, that of its boxes
_BOX: Final[dict[str, Any]] = {"facecolor": PAPER, "linewidth": 0, "pad": 0.6, "alpha": 0.85}
_LETTER: Final = 0.0125  # of what is shown: the width of a letter


def acts(every: Sequence[Panel]) -> Made:
    """Draw the rows of each panel (see `products.variables`), all on one clock."""
    rows = [row for panel in every for row in panel.rows]
    longest = max(row["end"] for row in rows)
    scale, label = axis(every[0].chart.x, longest)
    shown = longest / scale or 1.0
    heights = []
    for panel in every:
        names = list(dict.fromkeys(row["row"] for row in panel.rows))
        _panel_of_acts(panel.axes, panel.rows, names, scale, shown)
        heights.append(max(0.62, 0.24 * len(names)))
    last = every[-1].axes
    last.set_xlim(-0.012 * shown, 1.03 * shown)
    last.xaxis.set_major_formatter(plain_numbers())
    last.set_xlabel(label)
    return Made(heights, _legend_of_acts(rows))


def _panel_of_acts(axes: Axes, rows: Rows, names: list[str], scale: float, shown: float) -> None:
    place = {name: at for at, name in enumerate(names)}
    boxes = [row for row in rows if row["activity"] in ACTS and row["end"] > row["start"]]
    for row in boxes:
        look, wide = ACTS[row["activity"]], (row["end"] - row["start"]) / scale
        at = row["start"] / scale, place[row["row"]] - _HALF_ACTS
        # A fine edge tells where something begins: without it, one write after another is one box.
        edge: dict[str, Any] = {"edgecolor": PAPER, "linewidth": 0.7, "hatch": look.mark}
        axes.broken_barh([(at[0], wide)], (at[1], 2 * _HALF_ACTS), facecolor=look.color, **edge)
    if len({row["step"] for row in boxes}) > 1:
        _number(axes, boxes, place, scale, shown)
    for row in rows:
        if row["activity"] == "message":
            axes.annotate(
                "",
                (row["end"] / scale, place[row["to"]]),
                (row["start"] / scale, place[row["row"]]),
                arrowprops={
                    "arrowstyle": "-|>,head_width=0.16,head_length=0.32",
                    "color": INK,
                    "linewidth": 0.8,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )
    _instants(axes, rows, place, scale)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.grid(visible=False)


def _number(axes: Axes, boxes: Rows, place: dict[str, int], scale: float, shown: float) -> None:
    """The number of its step in the longest box of each, where there is room."""
    longest: dict[tuple[str, int], tuple[float, float]] = {}
    for row in boxes:
        start, end = row["start"] / scale, row["end"] / scale
        before = longest.get((row["row"], row["step"]), (start, start))
        wider = end - start > before[1] - before[0]
        longest[row["row"], row["step"]] = (start, end) if wider else before
    for (name, step), (start, end) in longest.items():
        room = (end - start) / shown
        text = next((one for one in (f"step {step}", str(step)) if room > _LETTER * len(one)), "")
        center: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 7}
        if text:
            axes.text((start + end) / 2, place[name], text, bbox=_BOX, **center)


def _instants(axes: Axes, rows: Rows, place: dict[str, int], scale: float) -> None:
    """A mark for each act that took no time, those of one moment below each other."""
    moments: dict[tuple[str, float], Rows] = defaultdict(list)
    for row in rows:
        if row["activity"] in ACTS and row["end"] == row["start"]:
            moments[row["row"], row["end"]].append(row)
    edge: dict[str, Any] = {"mec": INK, "mew": 0.6, "clip_on": False, "zorder": 4}
    text: dict[str, Any] = {"va": "center", "fontsize": 7, "color": FAINT, "bbox": _BOX}
    for (name, moment), some in moments.items():
        for shift, row in zip(np.linspace(-0.24, 0.24, len(some)), some, strict=True):
            at = moment / scale, place[name] + (shift if len(some) > 1 else 0.0)
            look = ACTS[row["activity"]]
            axes.plot(*at, MARKERS[row["activity"]], color=look.color, markersize=5.5, **edge)
            if row["often"] > 1:
                said = f"x {row['often']:,}"
                axes.annotate(said, at, (5, 0), textcoords="offset points", **text)


def _legend_of_acts(rows: Rows) -> list[Artist]:
    """What is seen: a patch where it takes time, else a mark; and the line of a message."""
    boxes = {row["activity"] for row in rows if row["end"] > row["start"]}
    instants = {row["activity"] for row in rows if row["end"] == row["start"]}
    found: list[Artist] = []
    for kind, look in ACTS.items():
        if kind in boxes:
            found.append(Patch(facecolor=look.color, hatch=look.mark, label=kind, linewidth=0))
        if kind in instants:
            said = f"{kind}, no time" if kind in boxes else kind
            edge = {"markersize": 5.5, "markeredgecolor": INK, "linestyle": "none"}
            found.append(swatch(said, look.color, marker=MARKERS[kind], **edge))
    if "message" in boxes:
        found.append(swatch("message", INK, linewidth=0.9, marker=">", markersize=4))
    return found
