"""Where the time of a step goes: a bar per strategy, cut into causes."""

from typing import TYPE_CHECKING, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from varsim.report.charts.looks import Look
from varsim.report.plots.bars import part
from varsim.report.plots.figure import FAINT, called, label_rows, marked, row_heights, time_unit
from varsim.report.plots.plot import Plot
from varsim.units import format_seconds

if TYPE_CHECKING:
    from varsim.study.why.account import Account, Why

# In the order of the bars: what is of use first, then what could be taken away.
CAUSES: Final = {
    "compute": Look("#3f90da", ""),
    "variance": Look("#92dadd", "..."),
    "stragglers": Look("#bd1f01", "xxx"),
    "latency": Look("#94a4a2", "|||"),
    "bandwidth": Look("#ffa90e", "\\\\\\"),
    "uplinks": Look("#e76300", "xx"),
    "slow_links": Look("#a96b59", "---"),
    "overheads": Look("#b9ac70", "+++"),
    "server": Look("#832db6", "///"),
    "deaths": Look("#717581", "//||"),
    "rest": Look("#d9dee3", ""),
}
NAMES: Final = {
    "compute": "mean compute",
    "variance": "varying compute times",
    "stragglers": "stragglers",
    "latency": "latency",
    "bandwidth": "bandwidth of links",
    "uplinks": "uplinks of racks",
    "slow_links": "slow links",
    "overheads": "software overheads",
    "server": "servers (ports, handling)",
    "deaths": "deaths and restarts",
    "rest": "all else",
}
VISIBLE: Final = 0.002  # of the longest bar
LABELLED: Final = 0.06


def seconds(account: "Account") -> dict[str, float]:
    """The parts of a strategy's step (s), in the order of the bars."""
    parts = {part.key: part.seconds.mean for part in account.parts}
    return {cause: parts[cause] for cause in CAUSES if cause in parts}


def draw(why: "Why", axes: Axes) -> Axes:
    """One bar per strategy, as long as its step; what makes it shorter hangs to the left of 0."""
    there = _there(why)
    longest = max((account.step_time.mean for account in there), default=1.0)
    unit = time_unit(longest)
    for y, account in enumerate(there):
        right, left = 0.0, 0.0
        for cause, size in seconds(account).items():
            if abs(size) < VISIBLE * longest:
                continue
            start = right if size > 0 else left
            shown = f"{100 * size / account.step_time.mean:.0f} %"
            text = shown if size >= LABELLED * longest else ""
            part(axes, y, start / unit.seconds, size / unit.seconds, CAUSES[cause], text)
            right, left = right + max(size, 0.0), left + min(size, 0.0)
    label_rows(axes, [marked(why.scenario, account.label) for account in there])
    if not there:
        axes.text(0.5, 0.5, "no steps", transform=axes.transAxes, ha="center", color=FAINT)
    axes.grid(visible=False, axis="y")
    told = {True: "an iteration of all workers", False: "a step"}
    units = dict.fromkeys(told[account.asynchronous] for account in there)
    axes.set_xlabel(f"time of {', or of '.join(units) or 'a step'} ({unit.name})")
    return axes


def title(why: "Why") -> str:
    """What takes most of a step, in the strategy whose step is the longest."""
    there = _there(why)
    if not there:
        return "No strategy made a step"
    slowest = max(there, key=lambda account: account.step_time.mean)
    main = slowest.main
    share = 100 * slowest.share(main)
    took = format_seconds(slowest.step_time.mean)
    unit = "an iteration" if slowest.asynchronous else "a step"
    whose = f"In {called(why.scenario, slowest.label)} {unit} takes {took}"
    return f"{whose}; {share:.0f} % of that: {NAMES[main.key]}"


def legend(why: "Why") -> list[Artist]:
    """What stands for each cause that can be seen."""
    there = _there(why)
    longest = max((account.step_time.mean for account in there), default=1.0)
    seen = {
        cause
        for account in there
        for cause, size in seconds(account).items()
        if abs(size) >= VISIBLE * longest
    }
    return [
        Patch(facecolor=look.color, hatch=look.mark, label=NAMES[cause], linewidth=0)
        for cause, look in CAUSES.items()
        if cause in seen
    ]


def _there(why: "Why") -> "list[Account]":
    return [account for account in why.accounts if not account.stuck]


PLOT: Final = Plot["Why"](
    "why",
    "Where the time of a step goes",
    "Causes are taken away one after the other, outermost first, on the same draws; the part of "
    "each is what a step then takes less. The parts add up to the step.",
    title,
    lambda why: row_heights(
        [marked(why.scenario, account.label) for account in _there(why)] or [""]
    ),
    lambda why, panels: [draw(why, *panels)],
    legend,
)
