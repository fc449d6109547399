"""A result as text for other programs: Markdown, CSV, JSON."""

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from varsim import inert
from varsim.cluster.trace import Trace
from varsim.scenario.provenance import MADE_BY, to_json
from varsim.study.cost import COSTS, estimates
from varsim.study.measure import ACTIVITIES, METRICS
from varsim.study.tables import COLUMNS

if TYPE_CHECKING:
    from varsim.study.result import Result


def render(result: "Result", format: Literal["md", "csv", "json"]) -> str:
    """The summary as a Markdown table, as CSV (one row per strategy and metric) or as JSON."""
    if format == "md":
        return markdown(result)
    return summary_csv(result) if format == "csv" else to_json(document(result))


def markdown(result: "Result") -> str:
    """The table, the answer and the notes in Markdown."""
    table = result.table()
    rows = [["strategy", *table.columns], ["---"] * (1 + len(table.columns))]
    rows += [[label, *table.loc[label]] for label in table.index]
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    answer = map(inert.markdown, result.answer().splitlines())
    return "\n".join([*lines, "", *answer, *_listed(result.notes)]) + "\n"


def summary_csv(result: "Result") -> str:
    """The summary table as CSV; a number that does not exist is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS["summary"])
    for row in result.summary.itertuples(index=False):
        writer.writerow(inert.row("" if value != value else value for value in row))
    return text.getvalue()


def document(result: "Result", notes: Sequence[str] = ()) -> dict[str, Any]:
    """Everything but the long tables, as plain data; `notes` are added to the result's own."""
    summary = [
        {**row, "values": result.values(row["strategy"], row["metric"])}
        for row in result.summary.drop(columns="description").to_dict("records")
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
        "metrics": {name: metric._asdict() for name, metric in METRICS.items()},
        "columns": COLUMNS,
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
        "heap_events": trace.heap_events,
        "sent_bytes": trace.sent,
        **({"sending_ns": trace.sending, "hidden_ns": trace.hidden} if trace.sending else {}),
        "gradients_evaluated": trace.gradients_evaluated,
        "gradients_aggregated": trace.gradients_aggregated,
        "copy_staleness": {"values": values.tolist(), "counts": counts.tolist()},
        "links": {
            "name": [link.name for link in trace.links],
            "bandwidth_bytes_per_s": [link.bandwidth for link in trace.links],
            "moved_bytes": [link.moved for link in trace.links],
        },
    }


def _cell(text: str) -> str:
    return text if text == "---" else inert.markdown(text)


def _listed(notes: Sequence[str]) -> list[str]:
    return ["", *(f"- {inert.markdown(note)}" for note in notes)] if notes else []
