"""The report of a result of training: its tables, what it lets run again, and all its numbers."""

import math
from typing import TYPE_CHECKING, Final

from varsim.report.formats import lines
from varsim.report.notes import line
from varsim.report.parts import (
    AS_TABLE,
    BESIDE,
    CARRIED,
    MEANS,
    MOST_LINKS,
    NO_PLOTS,
    ONE,
    busiest_links,
    titled,
)
from varsim.report.report import Figure, Media, Report, Row, Source, Table, Text
from varsim.report.told import Report as Told
from varsim.report.wording import names, shown
from varsim.report.words.phrases import DOT, plus_minus, time
from varsim.study.measure import ACTIVITIES, METRICS
from varsim.study.tables import of_sends
from varsim.units import counted, format_bytes

if TYPE_CHECKING:
    from varsim.study.result import Result
    from varsim.study.statistics import Estimate

FILES: Final = {
    "summary.csv": "every measure of every strategy, with its interval",
    "summary.json": "the same, with seed and versions",
    "updates.csv": "one row per gradient: when it was read, computed and applied, how stale it was",
    "spans.csv": "one row per stretch of time that a worker spent on one activity",
    "steps.csv": "one row per update of the model",
    "links.csv": "one row per link: what it carried, and as what share of what it could",
    "evaluations.csv": "loss and accuracy, each time they were measured",
    "scenario.yaml": "the scenario, defaults written out",
    "trace.json.gz": "all workers' time and the load of links, to look at in ui.perfetto.dev",
}

OF_FAILURES: Final = {"lives.csv": "one row per attempt of a job, from a start to the next"}
OF_SENDS: Final = {"sends.csv": "what workers sent while they computed, in the first replication"}


def page(result: "Result", told: "Told", plots: bool = True) -> Report:
    """The blocks of a page, with or without `plots`."""
    notes = lines(told)
    return Report(
        "training",
        told.name,
        tuple(map(line, told.headline)),
        notes,
        (
            Text(("Comparison",), "heading", name="comparison", on=Media.PAGE),
            comparison(result, told),
            Text(notes, "items", close=True, on=Media.PAGE),
            *(_figures(result) if plots else NO_PLOTS),
            Text(("All numbers",), "heading", name="numbers", on=Media.PAGE),
            numbers(result),
        ),
        told.provenance,
        told.question,
        _setting(result),
        told.families,
        Source(told.source.text if told.source else "", *BESIDE),
        FILES
        | (OF_FAILURES if result.scenario.failures is not None else {})
        | (OF_SENDS if of_sends(result.traces) else {}),
    )


def _figures(result: "Result") -> list[Figure]:
    from varsim.report.player import content
    from varsim.report.plots import life as lives
    from varsim.report.plots.gallery import PLOTS

    tables = {"time_split": time_shares(result), "links": links(result)}
    played = {"timeline": content}
    shown = (plot for plot in (*PLOTS, lives.PLOT) if plot.shows(result))
    return [
        Figure(plot, result, tables.get(plot.name), played=played.get(plot.name)) for plot in shown
    ]


def comparison(result: "Result", told: "Told") -> Table:
    """The numbers that are read first, on their side: a row each, with its meaning."""
    metrics = {name: about.description for name, about in result.metrics.items()}
    rows = [
        Row(one.head, tuple(map(shown, one.cells)), metrics.get(one.about, one.about))
        for one in told.table.columns
    ]
    return Table(told.table.rows, tuple(rows), caption=_over(result), on=Media.PAGE)


def numbers(result: "Result") -> Table:
    """Every metric that exists in some strategy, a row each."""
    rows = []
    for metric, (unit, description) in result.metrics.items():
        found = [result.estimate(strategy, metric) for strategy in result.strategies]
        if any(estimate.replications for estimate in found):
            rows.append(Row(metric, tuple(_cell(each, unit) for each in found), description))
    folded = f"{len(rows)} measures of every strategy, with what they mean"
    columns = tuple(names(result.scenario).values())
    return Table(columns, tuple(rows), caption=_over(result), folded=folded, on=Media.PAGE)


def time_shares(result: "Result") -> Table:
    """Where all workers' time went, in percent, as it is drawn: computing in vain on its own."""
    from varsim.report.plots.gallery import in_vain

    rows, wasted = [], [*in_vain(result).values()]
    for name in ACTIVITIES:
        means = [result.estimate(strategy, f"share_{name}").mean for strategy in result.strategies]
        shares = [100 * share for share in means]
        if not any(share > 0 for share in shares):
            continue
        meaning = METRICS[f"share_{name}"].description.rpartition(" spent ")[2]
        parts = {name: (shares, meaning)}
        if name == "compute" and any(wasted):
            useful = [share - gone for share, gone in zip(shares, wasted, strict=True)]
            parts = {
                name: (useful, f"{meaning} that are not wasted"),
                f"{name}, wasted": (wasted, f"{meaning} that are dropped or lost"),
            }
        rows += [
            Row(part, tuple(f"{share:.1f} %" for share in of), said)
            for part, (of, said) in parts.items()
        ]
    caption = "Share of all worker time, mean over the replications"
    found = Table(result.strategies, tuple(rows), caption=caption, folded=AS_TABLE)
    return titled(result.scenario, found)


def links(result: "Result") -> Table | None:
    """What the busiest links carried; None without links."""
    if not result.carried:
        return None
    left, servers = "; {most} of {all} links: those of servers and the busiest", MOST_LINKS // 2
    found = busiest_links(
        result.carried, result.strategies, CARRIED, left, servers, folded=AS_TABLE
    )
    return titled(result.scenario, found)


def _setting(result: "Result") -> str:
    exact = ", exact" if _exact(result) else ""
    return DOT.join(
        [
            counted(result.scenario.cluster.workers, "worker"),
            counted(len(result.strategies), "strategy", "strategies"),
            counted(result.replications, "replication") + exact,
            f"seed {result.scenario.seed}",
        ]
    )


def _exact(result: "Result") -> bool:
    """Whether there is one replication, as others would be the same."""
    every = all(result.exact(strategy, "final_loss") for strategy in result.strategies)
    return result.replications == 1 and every


def _over(result: "Result") -> str:
    """What the numbers of a table are."""
    if _exact(result):
        return "Exact, from one run of each: nothing in them is random"
    return MEANS if result.replications > 1 else ONE


def _cell(found: "Estimate", unit: str) -> str:
    if math.isnan(found.mean):
        return found.note or "-"
    if unit == "s":
        return time(found)
    if unit == "fraction":
        return plus_minus(found, 100, "%")
    if unit == "bytes":
        return format_bytes(found.mean)
    return plus_minus(found)
