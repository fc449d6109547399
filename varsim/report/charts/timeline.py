"""The timeline: what workers did, as plain data for a page's script, and its start as a chart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.record.rows import Rows
from varsim.cluster.record.trace import IN_VAIN, GradientRow, Outcome, Phase, Span, Trace
from varsim.core.inert import visible
from varsim.report.charts.looks import DASHES, PHASES, looks
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
_ROW: Final = {name: index for index, name in enumerate(GradientRow._fields)}
_WORKER, _PHASE, _START, _END, _ITERATION = range(len(Span._fields))

STEPS: Final = 5  # of the first strategy are shown
MOST_WORKERS: Final = 16
MOST_SPANS: Final = 60  # per worker: more are hard to tell apart
MOST_TO_REACH: Final = 360  # per worker, where it takes so many to see an update of everybody
MOST_TO_DRAW: Final = 8_000  # of all strategies together, then: a picture of about 2.5 MB


class _Seen(NamedTuple):
    """What is shown of a strategy: the first rows of some workers, one more than has room."""

    trace: Trace
    ranks: list[int]
    spans: NDArray[np.int64]
    sends: NDArray[np.int64]
    gradients: NDArray[np.int64]

    @classmethod
    def of(cls, result: "Result[Any]", name: str) -> "_Seen":
        """Of the first replication."""
        trace, ranks = result.trace(name), shown_workers(result, name)
        kinds = (
            (trace.span_rows, _START, _WORKER),
            (trace.send_rows, _START, _WORKER),
            (trace.gradient_rows, _ROW["read"], _ROW["worker"]),
        )
        return cls(trace, ranks, *(_least(*kind, ranks, MOST + 1) for kind in kinds))


def _least(rows: Rows, first: int, worker: int, ranks: list[int], most: int) -> NDArray[np.int64]:
    """So many rows of these workers, by a column."""
    return rows.least(first, most, lambda some: np.isin(some[:, worker], ranks))


def content(result: "Result[Any]") -> dict[str, Any]:
    """The first replication of every strategy, up to one moment; times in ns.

    Spans of a worker are (activity, end, iteration), each from the end of the one before; what it
    sends beside them (activity, start, end, iteration).
    """
    every = {name: _Seen.of(result, name) for name in result.strategies}
    sent = [rows for one in every.values() for rows in (one.spans, one.sends)]
    seen = {phase for rows in sent for phase in set(rows[:, _PHASE].tolist())}
    read = [one.gradients[:, _ROW["read"]] for one in every.values()]
    begun = np.sort(np.concatenate([*(rows[:, _START] for rows in sent), *read]))
    whole = max(one.trace.end for one in every.values())
    end = int(begun[MOST]) if len(begun) > MOST else whole
    return {
        "end": end,
        "window": round(window(result) * 1e9),
        "cut": _cut(end, whole),
        "phases": [
            {
                "name": phase.name.lower(),
                "said": _SAID[phase],
                "hatch": PHASES[phase.name.lower()].hatch,
                "seen": int(phase) in seen,
            }
            for phase in Phase
        ],
        "outcomes": [outcome.name.lower() for outcome in Outcome],
        "gradient": list(_GRADIENT),
        "marks": _marks([*every.values()]),
        "strategies": [_strategy(result, name, one, end) for name, one in every.items()],
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


def _marks(every: Sequence[_Seen]) -> list[str]:
    """What else the key explains, of what there is to see."""
    found = ["\N{BLACK DOWN-POINTING TRIANGLE} update"]
    if any(np.isin(one.gradients[:, _ROW["outcome"]], IN_VAIN).any() for one in every):
        found.append("\N{BOX DRAWINGS LIGHT DIAGONAL CROSS} dropped or lost")
    return found + ["thin bars: communication"] * any(len(one.sends) for one in every)


def _strategy(result: "Result[Any]", name: str, seen: _Seen, end: int) -> dict[str, Any]:
    """What a page plays of a strategy."""
    trace, own = seen.trace, result.scenario.strategy(name)
    gradients = seen.gradients[seen.gradients[:, _ROW["read"]] < end]

    def of(rows: NDArray[np.int64], rank: int, *columns: int) -> list[int]:
        chosen = rows[(rows[:, _WORKER] == rank) & (rows[:, _START] < end)]
        flat: list[int] = chosen[:, columns].ravel().tolist()
        return flat

    cluster = result.scenario.cluster_of(own)
    servers, shares = cluster.parameter_servers, cluster.network.sharing == "fair"
    to = "the server" if servers == 1 else f"the {servers} servers"
    whom = to if own.sends.to in ("servers", "centre") else "other workers"
    sent = _SENT.get((own.sends.what, own.sends.to), _SAID[Phase.WRITE])
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
                "spans": of(seen.spans, rank, _PHASE, _END, _ITERATION),
                "sends": of(seen.sends, rank, _PHASE, _START, _END, _ITERATION),
            }
            for rank in seen.ranks
        ],
        "gradients": gradients[:, [_ROW[column] for column in _GRADIENT.values()]].tolist(),
        "updates": trace.steps[trace.steps <= end].tolist(),
        "loss": [
            [row.time, row.loss if np.isfinite(row.loss) else None]
            for row in trace.evaluations
            if row.time <= end
        ],
    }


def _cut(end: int, whole: int) -> str:
    if end == whole:
        return ""
    return (
        f"The page holds the first {end / 1e9:.4g} s of {whole / 1e9:.4g} s of the first "
        "replication; --rows writes all of it, as tables and for a trace viewer."
    )


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
    starts = [
        (_starts(result, name), len(shown_workers(result, name))) for name in result.strategies
    ]
    for begun, workers in starts:
        if np.searchsorted(begun, end) > MOST_SPANS * workers:
            end = int(begun[MOST_SPANS * workers])
    reach = max(_first_update(result, name) for name in result.strategies)
    counts = [(int(np.searchsorted(begun, reach)), workers) for begun, workers in starts]
    readable = all(count <= MOST_TO_REACH * workers for count, workers in counts) and (
        sum(count for count, _ in counts) <= MOST_TO_DRAW
    )
    return max(end, reach if readable else 1, 1) / 1e9


def _starts(result: "Result[Any]", strategy: str) -> NDArray[np.int64]:
    """When the first spans of the workers that are shown begin: all that a picture may need."""
    shown = shown_workers(result, strategy)
    most = (MOST_TO_REACH + 1) * len(shown) + 1
    rows = _least(result.trace(strategy).span_rows, _START, _WORKER, shown, most)
    return np.sort(rows[:, _START])


def _first_update(result: "Result[Any]", strategy: str) -> int:
    """When a strategy has made its first update, and replicas by themselves have met (ns)."""
    steps = result.trace(strategy).steps
    return max(int(steps[0]) if len(steps) else 0, met(result, strategy))


def met(result: "Result[Any]", strategy: str) -> int:
    """When replicas that train by themselves have first met (ns); 0 if they never do, or always."""
    first = []
    if result.scenario.strategy(strategy).round.of == "outer step":
        for spans in result.trace(strategy).span_rows.parts():
            sent = np.isin(spans[:, _PHASE], (Phase.READ, Phase.WRITE))
            first += [int(spans[sent, _END].min())] if sent.any() else []
    return min(first, default=0)


def shown_workers(result: "Result[Any]", strategy: str) -> list[int]:
    """At most MOST_WORKERS ranks: the slow ones first, as they are what one looks for."""
    cluster, trace = result.scenario.cluster, result.trace(strategy)
    slow = [s.rank for s in cluster.stragglers] + [s.rank for s in cluster.network.slow_links]
    ranks = dict.fromkeys([rank for rank in slow if rank < trace.workers][: MOST_WORKERS // 2])
    ranks.update(dict.fromkeys(range(min(trace.workers, MOST_WORKERS))))
    return sorted(list(ranks)[:MOST_WORKERS])
