"""All that is known of a run of training as plain data: `summary.json`, `--format json`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from varsim.cluster.trace import Trace
from varsim.report.notes import plain
from varsim.scenario.provenance import MADE_BY
from varsim.study.cost import COSTS, estimates
from varsim.study.measure import ACTIVITIES
from varsim.study.tables import COLUMNS, columns_of, of_sends

if TYPE_CHECKING:
    from varsim.study.result import Result


def document(result: "Result", remarks: Sequence[str] = ()) -> dict[str, Any]:
    """Everything but the long tables, as plain data; `remarks`: on files that were left out."""
    told = result.report
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
        "headline": [plain(note) for note in told.headline],
        "notes": [plain(note) for note in told.notes],
        "remarks": list(remarks),
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
