"""The links of a result: how much of what they could carry they carried."""

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from varsim.report.parts import by_use
from varsim.report.plots.figure import called, label_rows, marked, short, strategy_line
from varsim.report.plots.looks import looks
from varsim.report.words.resources import link_name
from varsim.strategies import families
from varsim.study.why.resources import NUMBERED_LINK, joined_name, one_kind

if TYPE_CHECKING:
    from varsim.study.result import Result

MOST_ROWS: Final = 8  # unless there are more of servers
LEAST_OTHERS: Final = 2  # rows that are not of servers
SERVER: Final = "ps "
LEAST: Final = 0.5  # percent: what is less cannot be seen
ALIKE: Final = 2.0  # percent points, about the width of a mark


class LinkUse(NamedTuple):
    """What links carried on average, in percent of their capacity, for each strategy (or nan)."""

    link: str
    percent: dict[str, float]


def link_use(result: "Result") -> list[LinkUse]:
    """The rows of all servers and the busiest others, busiest first.

    Links of one kind and direction that cannot be told apart in the picture share a row.
    """
    rows: list[list[LinkUse]] = []
    for link in by_use(result.carried):
        of = result.carried[link]
        percent = {
            name: 100 * of[name].utilization if name in of else math.nan
            for name in result.strategies
        }
        if all(map(math.isnan, percent.values())):
            continue
        use = LinkUse(link, percent)
        alike = next((row for row in rows if _alike(row[0], use)), None)
        if alike is None:
            rows.append([use])
        else:
            alike.append(use)
    servers = sum(row[0].link.startswith(SERVER) for row in rows)
    others = max(MOST_ROWS - servers, LEAST_OTHERS)
    shown = []
    for row in map(_joined, rows):
        is_server = row.link.startswith(SERVER)
        if is_server or others > 0:
            shown.append(row)
        others -= not is_server
    return shown


def shows(result: "Result") -> bool:
    """Whether some link carried anything worth a mark."""
    return any(use >= LEAST for row in link_use(result) for use in row.percent.values())


def draw(result: "Result", axes: Axes) -> Axes:
    """A mark per row and strategy: how much of its capacity was used."""
    rows = link_use(result)
    look = looks(families(result.scenario.strategies))
    spread = 0.5 / len(look)
    for index, (strategy, (color, marker, _)) in enumerate(look.items()):
        y = np.arange(len(rows)) + (index - (len(look) - 1) / 2) * spread
        x = [row.percent[strategy] for row in rows]
        axes.plot(x, y, marker, color=color, markersize=6, clip_on=False, zorder=3)
    label_rows(axes, [said(row.link) for row in rows])
    axes.set_xlim(0, 100)
    axes.set_xlabel("bytes carried, of what the link could carry in the time (%)")
    return axes


def title(result: "Result") -> str:
    """Which link is the busiest, and with which strategy."""
    rows = link_use(result)
    used = {name: use for name, use in rows[0].percent.items() if math.isfinite(use)}
    most = max(used, key=used.__getitem__)
    several, name = link_name(rows[0].link)
    verb, it = ("are", "they") if several else ("is", "it")
    use = f"{used[most]:.0f} % of what {it} can carry in {called(result.scenario, most)}"
    return f"The busiest {verb} the {short(name, 40)}: {use}"


def legend(result: "Result") -> list[Artist]:
    """What stands for each strategy."""
    look = looks(families(result.scenario.strategies))
    return [strategy_line(marked(result.scenario, one), look[one], "none") for one in look]


def said(link: str) -> str:
    """What a link, or several, is called: `downlinks of workers 0 to 6`."""
    return link_name(link)[1]


def _alike(first: LinkUse, other: LinkUse) -> bool:
    """Whether both are of one kind and direction, and within ALIKE percent points."""
    if not one_kind(first.link, other.link, NUMBERED_LINK):
        return False
    pairs = zip(first.percent.values(), other.percent.values(), strict=True)
    return all(abs(x - y) < ALIKE or (math.isnan(x) and math.isnan(y)) for x, y in pairs)


def _joined(row: list[LinkUse]) -> LinkUse:
    """One row for links that are alike, with their mean."""
    if len(row) == 1:
        return row[0]
    percent = {
        strategy: math.fsum(use.percent[strategy] for use in row) / len(row)
        for strategy in row[0].percent
    }
    return LinkUse(joined_name([use.link for use in row], NUMBERED_LINK), percent)
