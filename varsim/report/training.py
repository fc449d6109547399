"""The report of a result of training: its tables, what it lets run again, and all its numbers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from varsim.cluster.trace import Trace
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
from varsim.report.report import Data, Figure, Media, Report, Row, Source, Table, Text
from varsim.report.words import life
from varsim.report.words import table as main
from varsim.report.words.answer import answer as answer
from varsim.report.words.cost import headings
from varsim.report.words.notes import notes as notes
from varsim.report.words.notes import replayed
from varsim.report.words.phrases import DOT, plus_minus, time
from varsim.scenario.provenance import MADE_BY
from varsim.study.cost import COSTS, estimates
from varsim.study.goodput import TO_TARGET
from varsim.study.measure import ACTIVITIES, METRICS
from varsim.study.tables import COLUMNS, columns_of, of_sends
from varsim.units import counted, format_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

    from varsim.study.result import Result
    from varsim.study.statistics import Estimate

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
    **life.HEADINGS,
}
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


def report(
    result: "Result", question: str = "", *, plots: bool = True, all_rows: bool = False
) -> Report:
    """What there is to tell of a result, with or without `plots`; `question`: it was to answer.

    `all_rows`: a terminal shows every row of the table, not only those that are read first.
    """
    from varsim.scenario.writing import dump_scenario

    sentences = tuple(result.answer().splitlines())
    whole = titled(result.scenario, main.table(result))
    brief = titled(result.scenario, main.brief(result))
    left = len(whole.columns) - len(brief.columns)
    return Report(
        "training",
        result.scenario.name,
        sentences,
        result.notes,
        (
            Text(sentences, on=Media.TERMINAL),
            *(
                [replace(whole, on=Media.TERMINAL)]
                if all_rows
                else [
                    brief.turned({}, on=Media.TERMINAL),
                    Text((f"{left} more rows: --all",), close=True, on=Media.TERMINAL),
                ]
            ),
            replace(whole, on=Media.MARKDOWN),
            Text(("Comparison",), "heading", name="comparison", on=Media.PAGE),
            comparison(result),
            Text(result.notes, "items", close=True, on=Media.TERMINAL | Media.PAGE),
            Text(sentences, on=Media.MARKDOWN),
            Text(result.notes, "items", on=Media.MARKDOWN),
            *(_figures(result) if plots else NO_PLOTS),
            Text(("All numbers",), "heading", name="numbers", on=Media.PAGE),
            numbers(result),
        ),
        result.provenance,
        question,
        _setting(result),
        {one.title: one.family for one in result.scenario.strategies},
        Source(dump_scenario(result.scenario), *BESIDE),
        FILES
        | (OF_FAILURES if result.scenario.failures is not None else {})
        | (OF_SENDS if of_sends(result.traces) else {}),
        partial(document, result),
        summary(result),
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


def table(result: "Result") -> "DataFrame":
    """The main numbers as text; a row per strategy."""
    return main.table(result).frame()


def summary(result: "Result") -> Data:
    """Every measure of every strategy."""
    return Data(list(COLUMNS["summary"]), result.summary_rows)


def comparison(result: "Result") -> Table:
    """The numbers that are read first, on their side: a row each, with its meaning."""
    first = main.table(result)
    meanings = {heading: _meaning(result, heading) for heading in first.columns}
    broken = [
        Row(row.label, tuple(cell.replace(", ", ",\n") for cell in row.cells)) for row in first.rows
    ]
    first = titled(result.scenario, replace(first, rows=tuple(broken)))
    return first.turned(meanings, caption=_over(result), on=Media.PAGE)


def numbers(result: "Result") -> Table:
    """Every metric that exists in some strategy, a row each."""
    rows = []
    for metric, (unit, description) in result.metrics.items():
        found = [result.estimate(strategy, metric) for strategy in result.strategies]
        if any(estimate.replications for estimate in found):
            rows.append(Row(metric, tuple(_cell(each, unit) for each in found), description))
    folded = f"{len(rows)} measures of every strategy, with what they mean"
    columns = tuple(one.title for one in result.scenario.strategies)
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


def document(result: "Result", notes: Sequence[str] = ()) -> dict[str, Any]:
    """Everything but the long tables, as plain data; `notes` are added to the result's own."""
    summary = [
        {
            **dict(zip(COLUMNS["summary"], row[:-1], strict=False)),  # all but the description
            "values": result.values(str(row[0]), str(row[1])),
        }
        for row in result.summary_rows
    ]
    return {
        "made_by": MADE_BY,
        "name": result.scenario.name,
        "provenance": result.provenance,
        "answer": result.answer().splitlines(),
        "notes": [*result.notes, *notes],
        "strategies": list(result.strategies),
        "target_loss": result.target_loss,
        "targets": [judgement._asdict() for judgement in result.judgements],
        "costs": _costs(result),
        "summary": summary,
        "metrics": {name: metric._asdict() for name, metric in result.metrics.items()},
        "columns": columns_of(result.scenario) | of_sends(result.traces),
        "activities": list(ACTIVITIES),
        "runs": [
            _facts(trace)
            | {"worker_time_ns": split.tolist(), "share_of_applied": shares.tolist()}
            | ({"measured_time_ns": later.tolist()} if result.windowed else {})
            for trace, split, later, shares in zip(
                result.traces,
                result.time_splits,
                result.measured_splits,
                result.shares_of_applied,
                strict=True,
            )
        ],
        "reference": [
            _facts(trace) | {"examples_per_s": speed}
            for trace, speed in zip(result.reference, result.speeds_alone, strict=True)
        ],
        "scenario": result.scenario.model_dump(mode="json"),
    }


def _costs(result: "Result") -> list[dict[str, Any]]:
    """What each strategy costs, one row each; none without prices."""
    return [
        {"strategy": strategy, "cost": name, "unit": _unit(result, name), **found._asdict()}
        for strategy in result.strategies
        for name, found in estimates(result, strategy).items()
    ]


def _unit(result: "Result", cost: str) -> str:
    prices = result.scenario.prices
    return "" if prices is None else prices.currency + COSTS[cost].unit


def _facts(trace: Trace) -> dict[str, Any]:
    """A trace without its long rows, but enough to make the summary again."""
    values, counts = np.unique(trace.copy_staleness, return_counts=True)
    return {
        "strategy": trace.strategy,
        "replication": trace.replication,
        "workers": trace.workers,
        "variables": trace.variables,
        "batch_size": trace.batch_size,
        "end_ns": trace.end,
        "stopped_by": trace.stopped_by,
        "standstill": trace.standstill and trace.standstill._asdict(),
        "global_step": trace.global_step,
        "sent_bytes": trace.sent,
        **({} if trace.rolled_back is None else {"rolled_back": trace.rolled_back.tolist()}),
        **({} if trace.in_vain is None else {"in_vain": trace.in_vain.tolist()}),
        **({"model_lost": True} if trace.model_lost else {}),
        **({"sending_ns": trace.sending, "hidden_ns": trace.hidden} if trace.sending else {}),
        "gradients_aggregated": trace.gradients_aggregated,
        "copy_staleness": {"values": values.tolist(), "counts": counts.tolist()},
        "links": {
            "name": [link.name for link in trace.links],
            "bandwidth_bytes_per_s": [link.bandwidth for link in trace.links],
            "moved_bytes": [link.moved for link in trace.links],
        },
    }


def _meaning(result: "Result", heading: str) -> str:
    """What a row of the first table says."""
    if heading == main.DEADLOCKED:
        return "when nothing could happen any more; the earliest of all replications"
    if heading == main.LEARNING_RATE:
        return "of the optimizer; its kind is told where it is not plain SGD"
    if heading == "where the time went":
        wasted = [result.estimate(name, "wasted_compute").mean for name in result.strategies]
        also = "; compute includes what was wasted" if any(one > 0 for one in wasted) else ""
        return f"the activities that took most of all worker time{also}"
    costly = headings(result)
    if heading in costly:
        return COSTS[costly[heading]].description
    if heading.startswith(life.TO_TARGET):
        return result.metrics[TO_TARGET].description
    if heading == "in recovery":
        return life.recovery(result.scenario)
    metric = "time_to_target" if heading.startswith("time to loss") else HEADINGS[heading]
    # The table shows the largest of all replications, the metric is one of each.
    return result.metrics[metric].description.replace("of a replication", "of all replications")


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
    return result.replications == 1 and every and not replayed(result, "final_loss")


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
