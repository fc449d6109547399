"""The report page of a result: one HTML file that needs nothing else, and the plots beside it."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from varsim.report.pages.page import Row, Section, Table, common, rendered
from varsim.report.words.cost import headings
from varsim.report.words.phrases import plus_minus, time
from varsim.report.words.table import LEARNING_RATE, STANDS_STILL
from varsim.study.cost import COSTS
from varsim.study.measure import ACTIVITIES, METRICS
from varsim.units import format_bytes, format_rate

if TYPE_CHECKING:
    from pandas import Series

    from varsim.report.plots.figure import Drawn
    from varsim.study.result import Result
    from varsim.study.statistics import Estimate

MOST_LINKS: Final = 20

# What the headings of the first table are about; see METRICS for the words.
HEADINGS: Final = {
    "updates/s": "updates_per_s",
    "examples/s": "examples_per_s",
    "examples/s vs. first": "throughput_ratio",
    "speed-up": "speedup",
    "step p50": "step_time_p50",
    "step p99": "step_time_p99",
    "staleness mean": "staleness_mean",
    "staleness max": "staleness_max",
    "copy staleness mean": "copy_staleness_mean",
    "copy divergence mean": "divergence_mean",
    "copy divergence max": "divergence_max",
    "wasted compute": "wasted_compute",
    "final loss": "final_loss",
    "final accuracy": "final_accuracy",
}
FILES: Final = {
    "summary.csv": "every measure of every strategy, with its interval",
    "summary.json": "the same, with seed and versions",
    "updates.csv": "one row per gradient: when it was read, computed and applied, how stale it was",
    "spans.csv": "one row per stretch of time that a worker spent on one activity",
    "steps.csv": "one row per update of the model",
    "evaluations.csv": "loss and accuracy, each time they were measured",
    "scenario.yaml": "the scenario, defaults written out",
    "trace.json.gz": "all workers' time, to look at in ui.perfetto.dev",
}


def write(
    result: "Result", directory: Path, question: str = "", beside: Path | None = None
) -> None:
    """Write all plots and report.html into an existing directory; `question` heads the page.

    `beside`: where the files of the run are, if not there.
    """
    from varsim.report.plots.gallery import draw_all

    figures = draw_all(result, directory)
    there = directory if beside is None else beside
    files = {name: meaning for name, meaning in FILES.items() if (there / name).exists()}
    text = page(result, figures, files, question)
    (directory / "report.html").write_text(text, encoding="utf-8", newline="\n")


def page(
    result: "Result", figures: "dict[str, Drawn]", files: dict[str, str], question: str = ""
) -> str:
    """The report as HTML; `figures` as drawn by `plots.draw_all`, `files` lie beside the page."""
    return rendered("report.html.j2", _content(result, figures, files, question))


def comparison(result: "Result") -> Table:
    """The numbers that are read first: a row each, with its meaning; a column per strategy."""
    cells = result.table()
    rows = [
        Row(
            heading,
            _meaning(result, heading),
            [str(text).replace(", ", ",\n") for text in cells[heading]],
        )
        for heading in cells.columns
    ]
    return Table(_over(result), rows)


def numbers(result: "Result") -> Table:
    """Every metric that exists in some strategy, a row each."""
    rows = []
    for metric, (unit, description) in METRICS.items():
        found = [result.estimate(strategy, metric) for strategy in result.strategies]
        if any(estimate.replications for estimate in found):
            rows.append(Row(metric, description, [_cell(each, unit) for each in found]))
    return Table(_over(result), rows)


def time_shares(result: "Result") -> Table:
    """Where all workers' time went, in percent."""
    rows = []
    for name in ACTIVITIES:
        shares = [result.estimate(strategy, f"share_{name}").mean for strategy in result.strategies]
        if any(share > 0 for share in shares):
            cells = [f"{100 * share:.1f} %" for share in shares]
            meaning = METRICS[f"share_{name}"].description.rpartition(" spent ")[2]
            rows.append(Row(name, meaning, cells))
    return Table("Share of all worker time, mean over the replications", rows)


def links(result: "Result") -> Table | None:
    """What the busiest links carried, as the mean over replications; None without links."""
    if result.links.empty:
        return None
    means = result.links.groupby(["link", "strategy"], sort=False).mean(numeric_only=True)
    busiest = means["utilization"].groupby("link", sort=False).max()
    order = busiest.sort_values(ascending=False, kind="stable").index
    rows = []
    # Where only the busiest have room, the servers' go first: there are few of them.
    servers = [link for link in order if link.startswith("ps ")]
    chosen = list(dict.fromkeys([*servers[: MOST_LINKS // 2], *order]))[:MOST_LINKS]
    for link in sorted(chosen, key=list(order).index):
        of = means.loc[link]
        speeds = [format_rate(speed) for speed in of["bandwidth_bytes_per_s"].unique()]
        cells = [
            _carried(of.loc[strategy]) if strategy in of.index else "-"
            for strategy in result.strategies
        ]
        rows.append(Row(link, " or ".join(speeds), cells))
    left_out = len(order) - len(rows)
    caption = "Bytes carried by each link in a run, and that as a share of what it could carry" + (
        f"; {MOST_LINKS} of {len(order):,} links: those of servers and the busiest"
        if left_out
        else ""
    )
    return Table(caption, rows)


def _content(
    result: "Result", figures: "dict[str, Drawn]", files: dict[str, str], question: str
) -> dict[str, Any]:
    from varsim.report.plots.figure import looks
    from varsim.report.plots.gallery import PLOTS

    tables = {"time_split": time_shares(result), "links": links(result)}
    return common(result.scenario, result.provenance, looks(result.strategies)) | {
        "question": question,
        "setting": _setting(result),
        "answer": result.answer().splitlines(),
        "notes": result.notes,
        "comparison": comparison(result),
        "figures": [Section.of(plot, figures[plot.name], tables.get(plot.name)) for plot in PLOTS],
        "numbers": numbers(result),
        "files": files,
    }


def _meaning(result: "Result", heading: str) -> str:
    """What a row of the first table says."""
    if heading == STANDS_STILL:
        return "since when nothing could happen any more; the earliest of all replications"
    if heading == LEARNING_RATE:
        return "of the optimizer; its kind is told where it is not plain SGD"
    if heading == "where the time went":
        return "the activities that took most of all worker time"
    costly = headings(result)
    if heading in costly:
        return COSTS[costly[heading]].description
    metric = "time_to_target" if heading.startswith("time to loss") else HEADINGS[heading]
    # The table shows the largest of all replications, the metric is one of each.
    return METRICS[metric].description.replace("of a replication", "of all replications")


def _setting(result: "Result") -> str:
    scenario = result.scenario
    workers, count = scenario.cluster.workers, result.replications
    return " · ".join(
        [
            f"{workers:,} worker{'s' * (workers != 1)}",
            f"{len(result.strategies)} strateg{'ies' if len(result.strategies) != 1 else 'y'}",
            f"{count} replication{'s' * (count != 1)}{', exact' if _exact(result) else ''}",
            f"seed {scenario.seed}",
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
    return "Means over the replications, ± the half-width of a 95 % confidence interval"


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


def _carried(row: "Series[float]") -> str:
    return f"{format_bytes(row['moved_bytes'])} ({100 * row['utilization']:.1f} %)"
