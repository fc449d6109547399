"""A result of variables as text for other programs: Markdown, CSV, JSON."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from varsim import inert
from varsim.distribute.program.act import Glance, View
from varsim.report.words.program.table import by_ratio, seen, table
from varsim.scenario.provenance import MADE_BY, to_json
from varsim.study.program.tables import COLUMNS
from varsim.study.program.values import described

if TYPE_CHECKING:
    from pandas import DataFrame

    from varsim.cluster.program import ProgramTrace
    from varsim.study.variables import VariablesResult


def render(result: "VariablesResult", format: Literal["md", "csv", "json"]) -> str:
    """The summary as Markdown tables, as CSV (one row per mode and metric) or as JSON."""
    if format == "md":
        return markdown(result)
    return summary_csv(result) if format == "csv" else to_json(document(result))


def markdown(result: "VariablesResult") -> str:
    """The tables, the answer and the notes in Markdown."""
    lines = [*_grid(table(result))]
    for variable in result.scenario.variables:
        head = f"`{variable.name}` ({described(variable)}), as it was read last:"
        lines += ["", head, "", *_grid(seen(result, variable.name))]
    if result.ratios:
        lines += ["", "Time per step, over outside reads per write:", "", *_grid(by_ratio(result))]
    notes = ["", *(f"- {note}" for note in result.notes)] if result.notes else []
    return "\n".join([*lines, "", *result.answer().splitlines(), *notes]) + "\n"


def summary_csv(result: "VariablesResult") -> str:
    """The summary table as CSV; a number that does not exist is empty."""
    return _csv(result.summary)


def runs_csv(result: "VariablesResult") -> str:
    """The table of runs as CSV."""
    return _csv(result.runs)


def links_csv(result: "VariablesResult") -> str:
    """The table of links as CSV."""
    return _csv(result.links)


def document(result: "VariablesResult") -> dict[str, Any]:
    """Everything but the long tables, as plain data."""
    from varsim.study.program.metrics import METRICS

    written = len(result.written)
    points = [None, *result.ratios]
    per_point = len(result.modes) * result.replications
    return {
        "made_by": MADE_BY,
        "kind": "variables",
        "name": result.scenario.name,
        "provenance": result.provenance,
        "answer": result.answer().splitlines(),
        "notes": list(result.notes),
        "modes": list(result.modes),
        "summary": [
            {
                "mode": mode,
                "reads_per_write": ratio,
                "metric": metric,
                "unit": about.unit,
                **result.estimate(mode, metric, ratio)._asdict(),
                "values": result.values(mode, metric, ratio),
            }
            for ratio in points
            for mode in result.modes
            for metric, about in METRICS.items()
        ],
        "crossovers": [
            {
                "cheaper_below": found.first,
                "cheaper_above": found.second,
                "reads_per_write": found.reads_per_write._asdict(),
                "time_per_step_s": found.time_per_step,
            }
            for found in result.crossovers()
        ],
        "seen": {mode: [_view(view) for view in result.trace(mode).views] for mode in result.modes},
        "metrics": {
            name: {"unit": metric.unit, "description": metric.description}
            for name, metric in METRICS.items()
        },
        "columns": COLUMNS,
        "runs": [
            {
                "mode": result.modes[place % per_point // result.replications],
                "reads_per_write": points[place // per_point],
                **_facts(trace, whole=place < written),
            }
            for place, trace in enumerate(result.traces)
        ],
        "scenario": result.scenario.model_dump(mode="json", exclude_none=True),
    }


def _facts(trace: "ProgramTrace", whole: bool) -> dict[str, Any]:
    """A run without its rows; of one whose rows are kept, how many there are."""
    rows = {"acts": len(trace.acts), "sent": len(trace.sent), "links": len(trace.links)}
    return {
        "replication": trace.replication,
        "began_ns": trace.began,
        "end_ns": trace.end,
        "moved_bytes": trace.moved,
        "messages": trace.messages,
        "all_acts": trace.all_acts,
        "all_sent": trace.all_sent,
        **({"rows": rows} if whole else {}),
    }


def _view(view: View) -> dict[str, Any]:
    return {
        "variable": view.variable,
        "replicas": list(map(_glance, view.replicas)),
        "outside": _glance(view.outside),
        "copies": list(map(_glance, view.copies)),
    }


def _glance(glance: Glance | None) -> dict[str, Any] | None:
    if glance is None:
        return None
    return {"shape": list(glance.shape), "first": list(glance.first), "mean": glance.mean}


def _grid(frame: "DataFrame") -> Iterator[str]:
    """A table in Markdown."""
    yield _row([str(frame.index.name), *frame.columns])
    yield _row(["---"] * (1 + len(frame.columns)))
    for label in frame.index:
        yield _row([str(label), *frame.loc[label]])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace(chr(10), '<br>') for cell in cells)} |"


def _csv(frame: "DataFrame") -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in frame.itertuples(index=False):
        writer.writerow(inert.row("" if value != value else value for value in row))
    return text.getvalue()
