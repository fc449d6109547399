"""One step of a program: what every replica and the outside did in it, mode below mode.

Where replicas are ahead of each other in it: all steps since they last met.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from varsim.distribute.program_run import CROSS_REPLICA, ActionRecord
from varsim.report.charts.looks import Look
from varsim.report.plots.figure import (
    FAINT,
    INK,
    PAPER,
    named,
    panel_title,
    plain_numbers,
    time_unit,
)
from varsim.report.plots.program.span import last_whole, length, span
from varsim.report.words.phrases import time
from varsim.study.program.tables import actor, place

if TYPE_CHECKING:
    from varsim.cluster.program import ProgramTrace
    from varsim.study.variables import VariablesResult

MOST_REPLICAS: Final = 12
MOST_SERVERS: Final = 4
MOST_MESSAGES: Final = 60  # drawn in one panel: more cannot be told apart
SHORTEST: Final = 0.02  # of what a panel shows: shorter messages are upright lines
ALIKE: Final = 6.0  # steps that differ by less in length are drawn on one clock
BAR: Final = 0.62  # of the height of a row
ROOM: Final = 0.025  # of what a panel shows: shorter bars have no room for the number of a step

WAITING: Final = "waiting for others"

# How each action looks: in the order of the legend.
ACTIONS: Final = {
    "compute": Look("#3f90da", ""),
    "assign": Look("#bd1f01", "xxx"),
    "assign_add": Look("#ffa90e", "\\\\\\"),
    "assign_sub": Look("#e76300", "+++"),
    "moving_average": Look("#832db6", "|||"),
    "read": Look("#92dadd", "///"),
    "save": Look("#717581", "..."),
    "restore": Look("#b9ac70", "---"),
    WAITING: Look("#d9dee3", ""),
}
_MARKS: Final = dict(zip(ACTIONS, "osD^vPX<>", strict=True))


class Bar(NamedTuple):
    """Something that took time; s from the start of what is shown."""

    row: int
    kind: str
    begin: float
    end: float
    step: int


class Instant(NamedTuple):
    """Something that took no time, so often at one moment."""

    row: int
    kind: str
    moment: float
    often: int


class Arrow(NamedTuple):
    """A message."""

    source: int  # row
    target: int
    begin: float
    end: float


class Panel(NamedTuple):
    """What one mode shows of the steps; times in s from the start of the first."""

    mode: str
    rows: list[str]
    length: float
    bars: list[Bar]
    instants: list[Instant]
    arrows: list[Arrow]  # none where they could not be told apart
    messages: int  # that are kept of the steps
    whole: bool  # whether all acts and messages of the steps are kept
    replicas: int  # all of them, shown or not
    steps: range
    hidden: str = ""  # why messages are not drawn, in words


def step(result: "VariablesResult") -> list[Panel]:
    """The panels of all modes, from their first replications."""
    steps = span(result).shown
    found = [_panel(result, mode, steps) for mode in result.modes]
    return [
        _without_arrows(panel, why) if (why := _unreadable(panel, shown)) else panel
        for panel, shown in zip(found, _lengths(found), strict=True)
    ]


def title(result: "VariablesResult") -> str:
    """How long the step took in each mode; where steps overlap, what each took on average.

    Nothing is said of times where only some of the steps that overlap are kept.
    """
    shown, block, whole = span(result)
    which = f"Step{'s' * (len(shown) > 1)} {_listed(shown)}"
    if not whole:
        return f"{which}: replicas are ahead of each other"
    if len(block) == 1:
        took = [(mode, length(result.trace(mode), block)) for mode in result.modes]
        return f"{which} took {_times(took)}"
    took = [(mode, length(result.trace(mode), block) / len(block)) for mode in result.modes]
    if shown == block:
        return f"{which} took per step: {_times(took)}"
    return f"{which}, one of {_listed(block)}, which took per step: {_times(took)}"


def heights(result: "VariablesResult") -> list[float]:
    """Inches for each mode's panel: a row per replica, one for the outside, one per server."""
    axis = 0.0 if _on_one_clock(step(result)) else 0.35
    return [0.55 + axis + max(0.62, 0.24 * len(panel.rows)) for panel in step(result)]


def draw(result: "VariablesResult", panels: list[Axes]) -> list[Axes]:
    """Draw one mode on each of the Axes."""
    found = step(result)
    alike = _on_one_clock(found)
    for axes, panel, shown in zip(panels, found, _lengths(found), strict=True):
        unit = time_unit(shown)
        _draw_panel(axes, panel, shown, unit.seconds)
        axes.set_xlim(-0.012 * shown / unit.seconds, 1.03 * shown / unit.seconds)
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(plain_numbers())
        if axes is panels[-1] or not alike:
            what = "the step" if len(panel.steps) == 1 else f"step {panel.steps[0]}"
            axes.set_xlabel(f"time since {what} began ({unit.name})")
        else:
            axes.tick_params(labelbottom=False)
    return panels


def legend(result: "VariablesResult") -> list[Artist]:
    """What is seen: a patch where it takes time, else a mark; and the arrow of a message."""
    found = step(result)
    bars = {bar.kind for panel in found for bar in panel.bars}
    instants = {one.kind for panel in found for one in panel.instants}
    handles: list[Artist] = []
    for kind, look in ACTIONS.items():
        if kind in bars:
            handles.append(Patch(facecolor=look.color, hatch=look.mark, label=kind, linewidth=0))
        if kind in instants:
            also = kind in bars
            label = f"{kind}, no time" if also else kind
            handles.append(_mark_line(kind, label))
    if any(panel.arrows for panel in found):
        handles.append(Line2D([], [], color=INK, linewidth=0.9, marker=">", markersize=4,
                              label="message"))  # fmt: skip
    return handles


def _lengths(found: Sequence[Panel]) -> list[float]:
    """How much time each panel shows, s."""
    lengths = [panel.length for panel in found]
    if _on_one_clock(found):
        lengths = [max(lengths)] * len(lengths)
    return [length or 1e-6 for length in lengths]


def _unreadable(panel: Panel, shown: float) -> str:
    """Why arrows cannot be told apart in a panel of so many seconds; empty: they can."""
    lengths = sorted(arrow.end - arrow.begin for arrow in panel.arrows)
    if len(lengths) > MOST_MESSAGES:
        return "too many to draw"
    short = bool(lengths) and lengths[len(lengths) // 2] < SHORTEST * shown
    return "too short to draw" if short else ""


def _without_arrows(panel: Panel, why: str) -> Panel:
    """The panel without messages, and without the servers, which do nothing else."""
    rows = [row for row in panel.rows if not row.startswith("ps ")]
    return panel._replace(rows=rows, arrows=[], hidden=why)


def _on_one_clock(found: Sequence[Panel]) -> bool:
    lengths = [panel.length for panel in found]
    return max(lengths) <= ALIKE * min(lengths)


def _panel(result: "VariablesResult", mode: str, steps: range) -> Panel:
    trace = result.trace(mode)
    acts = [act for act in trace.acts if act.step in steps]
    begin, end = min(act.begin for act in acts), max(act.end for act in acts)
    inside = [
        act
        for act in trace.acts
        if act.step in steps
        or (act.begin < end and act.end > begin)  # of replicas that are ahead or behind
    ]
    sent = [row for row in trace.sent if begin <= row.start and row.end <= end]
    places = {place(device) for row in sent for device in (row.source, row.target)}
    rows = _rows(result, trace, inside, places)
    where = {name: index for index, name in enumerate(rows)}

    def seconds(moment: int) -> float:
        return (min(max(moment, begin), end) - begin) / 1e9

    kept = [act for act in inside if actor(act.replica) in where]
    first_sent: dict[int, int] = {}
    for row in trace.sent:
        first_sent.setdefault(row.movement, row.start)
    bars = [
        Bar(where[actor(act.replica)], kind, seconds(since), seconds(until), act.step)
        for act in kept
        for kind, since, until in _parts(act, first_sent)
        if until > since
    ]
    moments = Counter(
        (where[actor(act.replica)], act.kind, seconds(act.end))
        for act in kept
        if act.end == act.begin
    )
    arrows = [
        Arrow(where[place(row.source)], where[place(row.target)], seconds(row.start),
              seconds(row.end))
        for row in sent
        if place(row.source) in where and place(row.target) in where
    ]  # fmt: skip
    return Panel(
        mode,
        rows,
        (end - begin) / 1e9,
        bars,
        [Instant(*key, count) for key, count in moments.items()],
        arrows,
        len(sent),
        steps[-1] <= last_whole(result, mode),
        result.scenario.cluster.workers,
        steps,
    )


def _parts(act: ActionRecord, first_sent: dict[int, int]) -> list[tuple[str, int, int]]:
    """Waiting for others, then the act itself; from when to when, ns.

    What is sent for a write in which all meet is sent when the last of them has come.
    """
    met = min((first_sent.get(number, act.begin) for number in act.moved), default=act.begin)
    met = max(met, act.begin)
    return [(WAITING, act.begin, met), (act.kind, met, act.end)]


def _rows(
    result: "VariablesResult", trace: "ProgramTrace", acts: Sequence[ActionRecord], places: set[str]
) -> list[str]:
    """Replicas, the slow ones among them; the outside where it acts; servers that took part."""
    cluster = result.scenario.cluster
    slow = [one.rank for one in cluster.slow_workers]
    slow += [one.rank for one in cluster.network.slow_links]
    ranks = dict.fromkeys(slow[: MOST_REPLICAS // 2])
    ranks.update(dict.fromkeys(range(min(cluster.workers, MOST_REPLICAS))))
    rows = [actor(rank) for rank in sorted(list(ranks)[:MOST_REPLICAS])]
    if any(act.replica == CROSS_REPLICA for act in acts):
        rows.append(actor(CROSS_REPLICA))
    servers = [f"ps {task}" for task in range(cluster.parameter_servers)]
    return rows + [name for name in servers if name in places][:MOST_SERVERS]


def _draw_panel(axes: Axes, panel: Panel, shown: float, unit: float) -> None:
    """Draw a panel of `shown` seconds with times in `unit` seconds."""
    for kind, look in ACTIONS.items():
        boxes = [_box(bar, unit) for bar in panel.bars if bar.kind == kind]
        if boxes:
            patches = PolyCollection(boxes, facecolor=look.color, hatch=look.mark, linewidth=0)
            axes.add_collection(patches, autolim=False)
    # A fine gap where something begins: without it, one write after another is one bar.
    axes.vlines(
        [bar.begin / unit for bar in panel.bars],
        [bar.row - BAR / 2 for bar in panel.bars],
        [bar.row + BAR / 2 for bar in panel.bars],
        color="white",
        linewidth=0.7,
    )
    _number_steps(axes, panel, shown, unit)
    for arrow in panel.arrows:
        axes.annotate(
            "",
            (arrow.end / unit, arrow.target),
            (arrow.begin / unit, arrow.source),
            arrowprops={
                "arrowstyle": "-|>,head_width=0.16,head_length=0.32",
                "color": INK,
                "linewidth": 0.8,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
    _draw_instants(axes, panel.instants, unit)
    axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    axes.set_yticks(range(len(panel.rows)), panel.rows)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.grid(visible=False)
    panel_title(axes, panel.mode, _remark(panel), pad=6)


def _number_steps(axes: Axes, panel: Panel, shown: float, unit: float) -> None:
    """The number of its step in the longest bar of each, if bars of several steps are shown."""
    if {bar.step for bar in panel.bars} <= {*panel.steps} and len(panel.steps) == 1:
        return
    longest: dict[tuple[int, int], Bar] = {}
    for bar in panel.bars:
        before = longest.get((bar.row, bar.step), bar)
        longest[bar.row, bar.step] = max(before, bar, key=lambda one: one.end - one.begin)
    for bar in longest.values():
        share = (bar.end - bar.begin) / shown
        words = (f"step {bar.step}", str(bar.step))
        text = next((text for text in words if share > ROOM * len(text) / 2), "")
        if not text:
            continue
        axes.text(
            (bar.begin + bar.end) / 2 / unit,
            bar.row,
            text,
            ha="center",
            va="center_baseline",
            fontsize=7,
            bbox={"facecolor": PAPER, "linewidth": 0, "pad": 0.6, "alpha": 0.85},
        )


def _draw_instants(axes: Axes, instants: Sequence[Instant], unit: float) -> None:
    """A mark for each, those of one moment below each other; how often, where not once."""
    moments: dict[tuple[int, float], list[Instant]] = defaultdict(list)
    for one in instants:
        moments[one.row, one.moment].append(one)
    for (row, moment), some in moments.items():
        for place_, one in zip(np.linspace(-0.24, 0.24, len(some)), some, strict=True):
            y = row + (place_ if len(some) > 1 else 0.0)
            axes.add_line(_mark_line(one.kind, "", moment / unit, float(y)))
            if one.often > 1:
                axes.annotate(
                    f"x {one.often:,}",
                    (moment / unit, float(y)),
                    (5, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7,
                    color=FAINT,
                    bbox={"facecolor": PAPER, "linewidth": 0, "pad": 0.6, "alpha": 0.85},
                )


def _mark_line(kind: str, label: str, *at: float) -> Line2D:
    """The mark of something that took no time."""
    x, y = at or ((), ())
    return Line2D(
        [x] if at else [],
        [y] if at else [],
        linestyle="none",
        marker=_MARKS[kind],
        markersize=5.5,
        color=ACTIONS[kind].color,
        markeredgecolor=INK,
        markeredgewidth=0.6,
        label=label,
        clip_on=False,
        zorder=4,
    )


def _box(bar: Bar, unit: float) -> list[tuple[float, float]]:
    """Corners of a bar."""
    left, right = bar.begin / unit, bar.end / unit
    top, bottom = bar.row - BAR / 2, bar.row + BAR / 2
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _remark(panel: Panel) -> str:
    many = "message" if panel.messages == 1 else "messages"
    remark = f"{panel.messages:,} {many}" if panel.messages else "nothing is sent"
    if not panel.whole:
        remark = f"not all is kept of this step, {remark}"
    if panel.messages and panel.hidden:
        remark += f", {panel.hidden}"
    shown = sum(row.startswith("replica") for row in panel.rows)
    if shown < panel.replicas:
        remark = f"{shown} of {panel.replicas:,} replicas shown; {remark}"
    return remark


def _times(took: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{time(seconds)} in {named(mode)}" for mode, seconds in took)


def _listed(steps: range) -> str:
    return f"{steps[0]}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
