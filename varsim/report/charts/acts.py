"""The mark of what replicas did: a row each, boxes for acts, marks for instants, arrows."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from varsim.report.charts.looks import Look
from varsim.report.charts.panel import Made, Panel, Rows, swatch
from varsim.report.charts.style import FAINT, INK, PAPER, plain_numbers
from varsim.report.wording import axis

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
_HALF: Final = 0.31  # of the height of a row, that of its boxes
_BOX: Final[dict[str, Any]] = {"facecolor": PAPER, "linewidth": 0, "pad": 0.6, "alpha": 0.85}
_LETTER: Final = 0.0125  # of what is shown: the width of a letter


def acts(every: Sequence[Panel]) -> Made:
    """Draw the rows of each panel (see `products.program_step`), all on one clock."""
    rows = [row for panel in every for row in panel.rows]
    longest = max(row["end"] for row in rows)
    scale, label = axis(every[0].chart.x, longest)
    shown = longest / scale or 1.0
    heights = []
    for panel in every:
        names = list(dict.fromkeys(row["row"] for row in panel.rows))
        _panel(panel.axes, panel.rows, names, scale, shown)
        heights.append(max(0.62, 0.24 * len(names)))
    last = every[-1].axes
    last.set_xlim(-0.012 * shown, 1.03 * shown)
    last.xaxis.set_major_formatter(plain_numbers())
    last.set_xlabel(label)
    return Made(heights, _legend(rows))


def _panel(axes: Axes, rows: Rows, names: list[str], scale: float, shown: float) -> None:
    place = {name: at for at, name in enumerate(names)}
    boxes = [row for row in rows if row["activity"] in ACTS and row["end"] > row["start"]]
    for row in boxes:
        look, wide = ACTS[row["activity"]], (row["end"] - row["start"]) / scale
        at = row["start"] / scale, place[row["row"]] - _HALF
        # A fine edge tells where something begins: without it, one write after another is one box.
        edge: dict[str, Any] = {"edgecolor": PAPER, "linewidth": 0.7, "hatch": look.mark}
        axes.broken_barh([(at[0], wide)], (at[1], 2 * _HALF), facecolor=look.color, **edge)
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


def _legend(rows: Rows) -> list[Artist]:
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
