"""What reports of several products share."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from varsim.report.report import Media, Row, Table, Text
from varsim.units import format_bytes, format_rate

if TYPE_CHECKING:
    from varsim.study.measure import Carried
    from varsim.study.statistics import Estimate

T = TypeVar("T")

MOST_LINKS: Final = 20
AS_TABLE: Final = "As a table"
MEANS: Final = "Means over the replications, ± the half-width of a 95 % confidence interval"
ONE: Final = "One replication"
# What the page of a run says of its scenario, and of how it is run again.
BESIDE: Final = (
    "Everything that was simulated, defaults written out. It is the file `scenario.yaml` beside "
    "this page.",
    "In the folder of this page; the results are the same, byte for byte, for any number of "
    "`--jobs`:",
    "varsim run scenario.yaml --out again",
)
# In place of figures, where none are wanted.
NO_PLOTS: Final = (
    Text(("Plots",), "heading", name="plots", on=Media.PAGE),
    Text(
        ("Left out (--no-plots). Without that option the same command draws them.",),
        "paragraphs",
        on=Media.PAGE,
    ),
)
CARRIED: Final = "Bytes carried by each link in a run, and that as a share of what it could carry"


def busiest_links(
    carried: "Mapping[str, Mapping[str, Carried]]",
    names: Sequence[str],
    caption: str,
    left: str,
    servers: int = 0,
    **more: Any,
) -> Table:
    """What the busiest links carried; a column per alternative, whose `names` these are.

    Where only some have room, `left` says so, of {most} and {all}; as many as `servers` of those
    of servers then go first: there are few of them.
    """
    order = by_use(carried)
    first = [link for link in order if link.startswith("ps ")][:servers]
    chosen = list(dict.fromkeys([*first, *order]))[:MOST_LINKS]
    rows = []
    for link in sorted(chosen, key=order.index):
        of = carried[link]
        speeds = map(format_rate, dict.fromkeys(one.bandwidth for one in of.values()))
        cells = tuple(_carried(of[name]) if name in of else "-" for name in names)
        rows.append(Row(link, cells, " or ".join(speeds)))
    if len(order) > len(rows):
        caption += left.format(most=MOST_LINKS, all=f"{len(order):,}")
    return Table(tuple(names), tuple(rows), caption=caption, **more)


def by_use(carried: "Mapping[str, Mapping[str, Carried]]") -> list[str]:
    """The links, the busiest of all alternatives first; last those whose use is not known."""
    most = {
        link: max((one.utilization for one in of.values() if one.utilization >= 0), default=-1.0)
        for link, of in carried.items()
    }
    return sorted(most, key=most.__getitem__, reverse=True)


def _carried(one: "Carried") -> str:
    return f"{format_bytes(one.moved)} ({100 * one.utilization:.1f} %)"


def plain(cell: T) -> T | None:
    """A cell of JSON: no number, or one without end, is none."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def plain_estimate(found: "Estimate") -> dict[str, float | None]:
    """A mean and its interval for JSON."""
    return {name: plain(getattr(found, name)) for name in ("mean", "low", "high")}
