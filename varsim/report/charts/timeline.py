"""The first steps of a run: what its workers did, as a chart."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.trace import IN_VAIN, GradientRow, Phase, Span, Trace
from varsim.report.products.stretch import met, shown_spans, shown_workers, window
from varsim.report.told import Chart, Number
from varsim.report.wording import shown
from varsim.study.measure import NANOSECONDS

if TYPE_CHECKING:
    from varsim.study.result import Result

_APART: Final = 1 / 1000  # of the window: sends that are nearer to each other are drawn as one
_OUTCOME: Final = GradientRow._fields.index("outcome")
_KEY: Final = np.array([1 << 32, 1])  # of worker and iteration: one number for both
_WORKER, _PHASE, _START, _END, _ITERATION = range(len(Span._fields))
_NAMES: Final = [phase.name.lower() for phase in Phase]


def chart(result: "Result", named: Mapping[str, str]) -> Chart:
    """What happens in each strategy in the window, in its first replication; a panel each."""
    end = round(window(result) * NANOSECONDS)
    rows = [
        {"who": named[label], **row}
        for label in result.strategies
        for row in _rows(result, label, end)
    ]
    remarks = {named[label]: _remark(result, label, end) for label in result.strategies}
    return Chart.of(
        "timeline", "spans", rows, "simulated time (s)", "worker", panel="who", remarks=remarks
    )


def _rows(result: "Result", label: str, end: int) -> Iterator[dict[str, Any]]:
    """Spans, what is sent beside them, and updates up to a moment (ns)."""
    trace, ranks = result.trace(label), shown_workers(result, label)
    spans = shown_spans(result, label)
    spans = spans[(spans[:, _START] < end) & (spans[:, _END] > spans[:, _START])]
    vain = _in_vain(trace, spans)
    for span, lost in zip(spans.tolist(), vain.tolist(), strict=True):
        yield _row(span, end, "vain" if lost else "")
    for send in _sends(trace, ranks, end):
        yield _row(send, end, "beside")
    for moment in trace.steps[trace.steps <= end].tolist():
        at = moment / NANOSECONDS
        yield {"worker": None, "activity": "update", "start": at, "end": at, "kind": ""}
    for rank in ranks:
        yield _row([rank, Phase.COMPUTE, 0, end, 0], end, "") | {"activity": ""}


def _row(span: list[int], end: int, kind: str) -> dict[str, Any]:
    return {
        "worker": span[_WORKER],
        "activity": _NAMES[span[_PHASE]],
        "start": span[_START] / NANOSECONDS,
        "end": min(span[_END], end) / NANOSECONDS,
        "kind": kind,
    }


def _remark(result: "Result", label: str, end: int) -> str:
    """How many workers there are, how many updates, and when the first is made after the window."""
    trace, there = result.trace(label), len(shown_workers(result, label))
    count = int(np.count_nonzero(trace.steps <= end))
    said = [f"{there} of {trace.workers:,} workers"] if there < trace.workers else []
    updates = f"{count:,} update{'s' * (count != 1)}"
    first = int(trace.steps[0]) if len(trace.steps) else 0
    moment, what = (first, "the first") if first > end else (met(result, label), "first exchange")
    if moment > end:
        updates += f", {what} after {shown(Number(moment / NANOSECONDS, unit='days'))}"
    return "; ".join([*said, updates])


def _sends(trace: Trace, ranks: list[int], end: int) -> list[list[int]]:
    """The sends of the workers that are shown; those that touch each other are one."""
    parts = [
        part[np.isin(part[:, _WORKER], ranks) & (part[:, _START] < end)]
        for part in trace.send_rows.parts()
    ]
    rows = np.concatenate(parts) if parts else np.empty((0, len(Span._fields)), dtype=np.int64)
    apart = (np.diff(rows[:, [_WORKER, _PHASE]], axis=0) != 0).any(axis=1)
    apart |= rows[1:, _START] - rows[:-1, _END] > end * _APART
    first, last = np.append(True, apart)[: len(rows)], np.append(apart, True)[: len(rows)]
    joined = rows[first]
    joined[:, _END] = rows[last, _END]
    return joined.tolist()  # type: ignore[no-any-return]


def _in_vain(trace: Trace, spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which spans compute a gradient that is dropped or lost."""
    gone = [
        rows[np.isin(rows[:, _OUTCOME], IN_VAIN)][:, :2] for rows in trace.gradient_rows.parts()
    ]
    keys = np.concatenate([rows @ _KEY for rows in gone]) if gone else np.empty(0, dtype=np.int64)
    own = spans[:, [_WORKER, _ITERATION]] @ _KEY
    found: NDArray[np.bool_] = (spans[:, _PHASE] == Phase.COMPUTE) & np.isin(own, keys)
    return found
