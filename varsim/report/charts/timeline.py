"""The timeline: what workers did, as plain data for a page's script, and its start as a chart."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.trace import IN_VAIN, GradientRow, Outcome, Phase, Span
from varsim.core.inert import visible
from varsim.report.charts.looks import ACTIVITIES, DASHES, looks
from varsim.report.told import Chart, Number
from varsim.report.wording import names, shown
from varsim.strategies import families
from varsim.study.gradients import NANOSECONDS, micro_batches

if TYPE_CHECKING:
    from varsim.study.result import Result


# Spans, sends and gradients of all strategies; a page of about 700 kB.
MOST: Final = 15_000

# What a worker is doing in each activity.
_SAID: Final = {
    Phase.COMPUTE: "computing",
    Phase.READ: "receiving",
    Phase.WRITE: "sending",
    Phase.QUEUE: "waiting for a turn on a link or at a server",
    Phase.BARRIER: "waiting for other workers",
    Phase.TOKEN: "waiting for a token",
    Phase.LOCK: "waiting for the lock",
    Phase.DOWN: "not running",
}
# And in a strategy, by what it sends, and where to (`Sends`): as it writes, and as it reads.
_SENT: Final = {
    ("gradients", "servers"): "sending gradients to {servers}",
    ("gradients", "sums"): "sending gradients to {servers} and receiving sums",
    ("gradients", "workers"): "all-reducing gradients with all other workers",
    ("parameters", "centre"): "sending changes to {servers}",
    ("parameters", "neighbours"): "exchanging copies with neighbours",
    ("parameters", "workers"): "averaging copies with all other workers",
    ("parameters", "copies"): "broadcasting the copy of worker 0",
}
_RECEIVED: Final = "receiving variables from {whom}"
_SHARING: Final = "sharing a link or a server with others"
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
# Lengths of dashes and gaps (pixels), for those of `DASHES`.
_DASHES: Final[tuple[list[int], ...]] = (
    [],
    [7, 4],
    [7, 3, 2, 3],
    [2, 3],
    [7, 3, 2, 3, 2, 3],
    [14, 4],
)
_SPAN: Final = {name: index for index, name in enumerate(Span._fields)}
_ROW: Final = {name: index for index, name in enumerate(GradientRow._fields)}


def content(result: "Result[Any]") -> dict[str, Any]:
    """The first replication of every strategy, up to one moment; times in ns.

    Spans of a worker are (activity, end, iteration), each from the end of the one before; what it
    sends beside them (activity, start, end, iteration).
    """
    seen = {
        int(phase)
        for name in result.strategies
        for rows in _first(result, name)[:2]
        for phase in np.unique(rows[:, _SPAN["phase"]])
    }
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
                "hatch": ACTIVITIES[phase.name.lower()].mark,
                "seen": int(phase) in seen,
            }
            for phase in Phase
        ],
        "outcomes": [outcome.name.lower() for outcome in Outcome],
        "gradient": list(_GRADIENT),
        "marks": _marks(result),
        "strategies": [_strategy(result, name, end) for name in result.strategies],
    }


def chart(result: "Result[Any]", played: Mapping[str, Any], named: Mapping[str, str]) -> Chart:
    """What happens in each strategy in the window, a panel each; `played`: the `content`."""
    end, phases = min(played["window"], played["end"]), [one["name"] for one in played["phases"]]
    rows, remarks = [], {}
    for label, strategy in zip(result.strategies, played["strategies"], strict=True):
        every = (worker["rank"] for worker in strategy["workers"])
        rows += [_row(named[label], rank, "", 0, end) for rank in every]
        lost = {(row[0], row[1]) for row in strategy["gradients"] if row[-1] in IN_VAIN}
        for rank, phase, start, until, iteration, beside in _bars(strategy):
            vain = phase == Phase.COMPUTE and (rank, iteration) in lost
            kind = "beside" if beside else "vain" if vain else ""
            if start < min(until, end):
                rows.append(_row(named[label], rank, phases[phase], start, min(until, end), kind))
        updates = (moment for moment in strategy["updates"] if moment <= end)
        rows += [_row(named[label], None, "update", moment, moment) for moment in updates]
        remarks[named[label]] = _remark(result, label, end)
    x = "simulated time (s)"
    return Chart.of("timeline", "spans", rows, x, "worker", panel="who", remarks=remarks)


def _bars(strategy: Mapping[str, Any]) -> Iterator[tuple[int, int, int, int, int, bool]]:
    """Worker, phase, start, end, iteration of all it did; whether that was beside computation."""
    for worker in strategy["workers"]:
        start, spans = 0, worker["spans"]
        for phase, end, iteration in zip(spans[::3], spans[1::3], spans[2::3], strict=True):
            yield worker["rank"], phase, start, end, iteration, False
            start = end
        sends = (worker["sends"][at::4] for at in range(4))
        for phase, begun, end, iteration in zip(*sends, strict=True):
            yield worker["rank"], phase, begun, end, iteration, True


def _row(
    who: str, rank: int | None, activity: str, start: int, end: int, kind: str = ""
) -> dict[str, Any]:
    at = {"start": start / NANOSECONDS, "end": end / NANOSECONDS}
    return {"who": who, "row": rank, "activity": activity, **at, "kind": kind}


def _remark(result: "Result[Any]", label: str, end: int) -> str:
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


def _marks(result: "Result[Any]") -> list[str]:
    """What else the key explains, of what there is to see."""
    found = ["\N{BLACK DOWN-POINTING TRIANGLE} update"]
    rows = [_first(result, name) for name in result.strategies]
    if any(np.isin(one[:, _ROW["outcome"]], IN_VAIN).any() for _, _, one in rows):
        found.append("\N{BOX DRAWINGS LIGHT DIAGONAL CROSS} dropped or lost")
    return found + ["thin bars: communication"] * any(len(sends) for _, sends, _ in rows)


def _strategy(result: "Result[Any]", name: str, end: int) -> dict[str, Any]:
    trace, ranks = result.trace(name), shown_workers(result, name)
    spans, sends, gradients = _first(result, name)
    spans = spans[spans[:, _SPAN["start"]] < end]
    sends = sends[sends[:, _SPAN["start"]] < end]
    gradients = gradients[gradients[:, _ROW["read"]] < end]

    def of(rows: NDArray[np.int64], rank: int, *columns: str) -> list[int]:
        own = rows[rows[:, _SPAN["worker"]] == rank]
        flat: list[int] = own[:, [_SPAN[column] for column in columns]].ravel().tolist()
        return flat

    (strategy,) = (one for one in result.scenario.strategies if one.label == name)
    cluster = result.scenario.cluster_of(strategy)
    servers, shares = cluster.parameter_servers, cluster.network.sharing == "fair"
    to = "the server" if servers == 1 else f"the {servers} servers"
    with_servers = strategy.sends.to in ("servers", "centre")
    whom = to if with_servers else "other workers"
    sent = _SENT.get((strategy.sends.what, strategy.sends.to), _SAID[Phase.WRITE])
    received = _RECEIVED
    if result.scenario.kind == "variables":
        sent, received = "writing variables", "reading variables"
    return {
        "name": visible(names(result.scenario)[name]),
        "said": {
            "write": sent.format(servers=to),
            "read": received.format(whom=whom),
            **({"queue": _SHARING} if shares else {}),
        },
        "shares": shares,
        "dash": _DASHES[DASHES.index(looks(families(result.scenario.strategies))[name].line)],
        "of": trace.workers,
        "workers": [
            {
                "rank": rank,
                "spans": of(spans, rank, "phase", "end", "iteration"),
                "sends": of(sends, rank, "phase", "start", "end", "iteration"),
            }
            for rank in ranks
        ],
        "gradients": gradients[:, [_ROW[column] for column in _GRADIENT.values()]].tolist(),
        "updates": trace.steps[trace.steps <= end].tolist(),
        "loss": [
            [row.time, row.loss if np.isfinite(row.loss) else None]
            for row in trace.evaluations
            if row.time <= end
        ],
    }


def _first(result: "Result[Any]", name: str) -> list[NDArray[np.int64]]:
    """The first spans, sends and gradients of the workers shown, one more of each than has room."""
    trace, ranks = result.trace(name), shown_workers(result, name)

    def chosen(column: int) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
        return lambda rows: np.isin(rows[:, column], ranks)

    return [
        rows.least(first, MOST + 1, chosen(worker))
        for rows, first, worker in (
            (trace.span_rows, _SPAN["start"], _SPAN["worker"]),
            (trace.send_rows, _SPAN["start"], _SPAN["worker"]),
            (trace.gradient_rows, _ROW["read"], _ROW["worker"]),
        )
    ]


def _end(result: "Result[Any]", whole: int) -> int:
    """Up to when all fits on the page (ns)."""
    begun = []
    for name in result.strategies:
        spans, sends, gradients = _first(result, name)
        begun += [spans[:, _SPAN["start"]], sends[:, _SPAN["start"]], gradients[:, _ROW["read"]]]
    moments = np.sort(np.concatenate(begun))
    return int(moments[MOST]) if len(moments) > MOST else whole


def _cut(end: int, whole: int) -> str:
    if end == whole:
        return ""
    return (
        f"The page holds the first {end / 1e9:.4g} s of {whole / 1e9:.4g} s of the first "
        "replication; --rows writes all of it, as tables and for a trace viewer."
    )


_WORKER, _PHASE, _START, _END, _ITERATION = range(len(Span._fields))
STEPS: Final = 5  # of the first strategy are shown

MOST_WORKERS: Final = 16

MOST_SPANS: Final = 60  # per worker: more are hard to tell apart

MOST_TO_REACH: Final = 360  # per worker, where it takes so many to see an update of everybody

MOST_TO_DRAW: Final = 8_000  # of all strategies together, then: a picture of about 2.5 MB


def window(result: "Result[Any]") -> float:
    """Seconds shown: the first STEPS steps of the first strategy, in its first replication.

    A step is over when half of its workers have finished that iteration, or all micro-batches. The
    window is shorter where a worker of another strategy would show more than MOST_SPANS spans on
    average, and longer where that lets it reach the first update or exchange of every strategy;
    where that would be more than MOST_TO_REACH of one, or MOST_TO_DRAW in all, panels say when.
    """
    first = result.trace(result.first)
    shown = STEPS * micro_batches(result.scenario, first.strategy)
    ends = np.zeros(first.workers, dtype=np.int64)
    for spans in first.span_rows.parts():
        early = spans[spans[:, _ITERATION] < shown]
        np.maximum.at(ends, early[:, _WORKER], early[:, _END])
    middle = np.sort(ends)[[(len(ends) - 1) // 2, len(ends) // 2]]  # np.median imports numpy.ma
    end = int(middle.mean()) or max(trace.end for trace in result.traces)
    starts = [np.sort(shown_spans(result, name)[:, _START]) for name in result.strategies]
    shown_by = list(zip(starts, map(partial(_shown, result), result.strategies), strict=True))
    for begun, workers in shown_by:
        if np.searchsorted(begun, end) > MOST_SPANS * workers:
            end = int(begun[MOST_SPANS * workers])
    reach = max(_first_update(result, name) for name in result.strategies)
    counts = [(int(np.searchsorted(begun, reach)), workers) for begun, workers in shown_by]
    readable = all(count <= MOST_TO_REACH * workers for count, workers in counts) and (
        sum(count for count, _ in counts) <= MOST_TO_DRAW
    )
    return max(end, reach if readable else 1, 1) / 1e9


def _first_update(result: "Result[Any]", strategy: str) -> int:
    """When a strategy has made its first update, and replicas by themselves have met (ns)."""
    steps = result.trace(strategy).steps
    return max(int(steps[0]) if len(steps) else 0, met(result, strategy))


def met(result: "Result[Any]", strategy: str) -> int:
    """When replicas that train by themselves have first met (ns); 0 if they never do, or always."""
    (own,) = (one for one in result.scenario.strategies if one.label == strategy)
    first = []
    if own.round.of == "outer step":
        for spans in result.trace(strategy).span_rows.parts():
            sent = np.isin(spans[:, _PHASE], (Phase.READ, Phase.WRITE))
            first += [int(spans[sent, _END].min())] if sent.any() else []
    return min(first, default=0)


def shown_spans(result: "Result[Any]", strategy: str) -> NDArray[np.int64]:
    """The first spans of the workers that are shown: as many as are, and all that begin then."""
    shown, rows = shown_workers(result, strategy), result.trace(strategy).span_rows
    most = (MOST_TO_REACH + 1) * len(shown) + 1
    return rows.least(_START, most, lambda spans: np.isin(spans[:, _WORKER], shown))


def _shown(result: "Result[Any]", strategy: str) -> int:
    """How many workers are shown."""
    return len(shown_workers(result, strategy))


def shown_workers(result: "Result[Any]", strategy: str) -> list[int]:
    """At most MOST_WORKERS ranks: the slow ones first, as they are what one looks for."""
    cluster, trace = result.scenario.cluster, result.trace(strategy)
    slow = [s.rank for s in cluster.slow_workers] + [s.rank for s in cluster.network.slow_links]
    ranks = dict.fromkeys([rank for rank in slow if rank < trace.workers][: MOST_WORKERS // 2])
    ranks.update(dict.fromkeys(range(min(trace.workers, MOST_WORKERS))))
    return sorted(list(ranks)[:MOST_WORKERS])
