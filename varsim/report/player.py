"""The timeline to walk through: what the page's script draws, as plain data."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.trace import GradientRow, Outcome, Phase, Span
from varsim.inert import visible
from varsim.report.plots.figure import ACTIVITIES
from varsim.report.plots.looks import looks
from varsim.report.plots.timeline import shown_workers, window
from varsim.report.words.names import title
from varsim.strategies import families

if TYPE_CHECKING:
    from varsim.study.result import Result

MOST: Final = 30_000  # spans and gradients of all strategies; a page of about 1 MB

# What a worker is doing in each activity.
_SAID: Final = {
    Phase.COMPUTE: "computing",
    Phase.READ: "receiving",
    Phase.WRITE: "sending",
    Phase.QUEUE: "waiting for its turn on a link or at a server, or sharing it",
    Phase.BARRIER: "waiting for other workers",
    Phase.TOKEN: "waiting for a token",
    Phase.LOCK: "waiting for the lock",
    Phase.DOWN: "not running",
}
# Of a gradient: the names that the script knows, and the columns of its row.
_GRADIENT: Final = {
    "worker": "worker",
    "iteration": "iteration",
    "read": "read",
    "read_step": "read_step",
    "begun": "compute_start",
    "computed": "computed",
    "arrived": "arrived",
    "ended": "applied",
    "ended_step": "applied_step",
    "outcome": "outcome",
}
_DASHES: Final = {"-": [], "--": [7, 4], "-.": [7, 3, 2, 3], ":": [2, 3]}
_SPAN: Final = {name: index for index, name in enumerate(Span._fields)}
_ROW: Final = {name: index for index, name in enumerate(GradientRow._fields)}


def content(result: "Result") -> dict[str, Any]:
    """The first replication of every strategy, up to one moment; times in ns.

    Spans of a worker are (activity, end, iteration), each from the end of the one before.
    """
    whole = max(result.trace(name).end for name in result.strategies)
    end = _end(result, whole)
    return {
        "end": end,
        "window": round(window(result) * 1e9),
        "cut": _cut(end, whole),
        "phases": [
            {
                "name": phase.name.lower(),
                "said": _SAID[phase],
                "color": ACTIVITIES[phase.name.lower()].color,
                "hatch": ACTIVITIES[phase.name.lower()].mark,
            }
            for phase in Phase
        ],
        "outcomes": [outcome.name.lower() for outcome in Outcome],
        "gradient": list(_GRADIENT),
        "strategies": [_strategy(result, name, end) for name in result.strategies],
    }


def _strategy(result: "Result", name: str, end: int) -> dict[str, Any]:
    trace, ranks = result.trace(name), shown_workers(result, name)
    spans, gradients = _first(result, name)
    spans = spans[spans[:, _SPAN["start"]] < end]
    gradients = gradients[gradients[:, _ROW["read"]] < end]
    columns = [_SPAN["phase"], _SPAN["end"], _SPAN["iteration"]]
    own = {rank: spans[spans[:, _SPAN["worker"]] == rank][:, columns] for rank in ranks}
    return {
        "name": visible(title(result.scenario, name)),
        "dash": _DASHES[looks(families(result.scenario.strategies))[name].line],
        "of": trace.workers,
        "workers": [{"rank": rank, "spans": own[rank].ravel().tolist()} for rank in ranks],
        "gradients": gradients[:, [_ROW[column] for column in _GRADIENT.values()]].tolist(),
        "updates": trace.steps[trace.steps <= end].tolist(),
        "loss": [
            [row.time, row.loss if np.isfinite(row.loss) else None]
            for row in trace.evaluations
            if row.time <= end
        ],
    }


def _first(result: "Result", name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first spans and gradients of the workers that are shown, one more than has room."""
    trace, ranks = result.trace(name), shown_workers(result, name)

    def chosen(column: int) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
        return lambda rows: np.isin(rows[:, column], ranks)

    return (
        trace.span_rows.least(_SPAN["start"], MOST + 1, chosen(_SPAN["worker"])),
        trace.gradient_rows.least(_ROW["read"], MOST + 1, chosen(_ROW["worker"])),
    )


def _end(result: "Result", whole: int) -> int:
    """Up to when all fits on the page (ns)."""
    begun = []
    for name in result.strategies:
        spans, gradients = _first(result, name)
        begun += [spans[:, _SPAN["start"]], gradients[:, _ROW["read"]]]
    moments = np.sort(np.concatenate(begun))
    return int(moments[MOST]) if len(moments) > MOST else whole


def _cut(end: int, whole: int) -> str:
    if end == whole:
        return ""
    return (
        f"The page holds the first {end / 1e9:.4g} s of {whole / 1e9:.4g} s of the first "
        "replication. All of it is in spans.csv and updates.csv, and in trace.json.gz for a trace "
        "viewer."
    )
