"""What reports of several products share."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from varsim.report.report import Media, Row, Table, Text
from varsim.units import format_bytes, format_rate

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from varsim.study.statistics import Estimate

T = TypeVar("T")

MOST_LINKS: Final = 20
AS_TABLE: Final = "As a table"
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
        ("Left out (--no-plots). The command varsim plot draws them in the folder of this page.",),
        "paragraphs",
        on=Media.PAGE,
    ),
)
CARRIED: Final = "Bytes carried by each link in a run, and that as a share of what it could carry"


def busiest_links(
    links: "DataFrame",
    by: str,
    names: Sequence[str],
    caption: str,
    left: str,
    servers: int = 0,
    **more: Any,
) -> Table:
    """What the busiest links carried, as the mean over replications; a column per alternative.

    `by`: the column of the alternatives, whose `names` these are. Where only some have room,
    `left` says so, of {most} and {all}; as many as `servers` of those of servers then go first:
    there are few of them.
    """
    means = links.groupby(["link", by], sort=False).mean(numeric_only=True)
    busiest = means["utilization"].groupby("link", sort=False).max()
    order = list(busiest.sort_values(ascending=False, kind="stable").index)
    first = [link for link in order if link.startswith("ps ")][:servers]
    chosen = list(dict.fromkeys([*first, *order]))[:MOST_LINKS]
    rows = []
    for link in sorted(chosen, key=order.index):
        of = means.loc[link]
        speeds = [format_rate(speed) for speed in of["bandwidth_bytes_per_s"].unique()]
        cells = tuple(_carried(of.loc[name]) if name in of.index else "-" for name in names)
        rows.append(Row(link, cells, " or ".join(speeds)))
    if len(order) > len(rows):
        caption += left.format(most=MOST_LINKS, all=f"{len(order):,}")
    return Table(tuple(names), tuple(rows), caption=caption, **more)


def _carried(row: "Series[float]") -> str:
    return f"{format_bytes(row['moved_bytes'])} ({100 * row['utilization']:.1f} %)"


def plain(cell: T) -> T | None:
    """A cell of JSON: no number, or one without end, is none."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def plain_estimate(found: "Estimate") -> dict[str, float | None]:
    """A mean and its interval for JSON."""
    return {name: plain(getattr(found, name)) for name in ("mean", "low", "high")}
