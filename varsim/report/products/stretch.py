"""What of a run its timeline shows: which workers, and how long."""

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.trace import Phase, Span
from varsim.study.rounds import micro_batches

if TYPE_CHECKING:
    from varsim.study.result import Result

_WORKER, _PHASE, _START, _END, _ITERATION = range(len(Span._fields))
STEPS: Final = 5  # of the first strategy are shown

MOST_WORKERS: Final = 16

MOST_SPANS: Final = 60  # per worker: more are hard to tell apart

MOST_TO_REACH: Final = 360  # per worker, where it takes so many to see an update of everybody

MOST_TO_DRAW: Final = 8_000  # of all strategies together, then: a picture of about 2.5 MB


def window(result: "Result") -> float:
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
    reach = max(_first(result, name) for name in result.strategies)
    counts = [(int(np.searchsorted(begun, reach)), workers) for begun, workers in shown_by]
    readable = all(count <= MOST_TO_REACH * workers for count, workers in counts) and (
        sum(count for count, _ in counts) <= MOST_TO_DRAW
    )
    return max(end, reach if readable else 1, 1) / 1e9


def _first(result: "Result", strategy: str) -> int:
    """When a strategy has made its first update, and replicas by themselves have met (ns)."""
    steps = result.trace(strategy).steps
    return max(int(steps[0]) if len(steps) else 0, met(result, strategy))


def met(result: "Result", strategy: str) -> int:
    """When replicas that train by themselves have first met (ns); 0 if they never do, or always."""
    (own,) = (one for one in result.scenario.strategies if one.label == strategy)
    first = []
    if own.round.of == "outer step":
        for spans in result.trace(strategy).span_rows.parts():
            sent = np.isin(spans[:, _PHASE], (Phase.READ, Phase.WRITE))
            first += [int(spans[sent, _END].min())] if sent.any() else []
    return min(first, default=0)


def shown_spans(result: "Result", strategy: str) -> NDArray[np.int64]:
    """The first spans of the workers that are shown: as many as are, and all that begin then."""
    shown, rows = shown_workers(result, strategy), result.trace(strategy).span_rows
    most = (MOST_TO_REACH + 1) * len(shown) + 1
    return rows.least(_START, most, lambda spans: np.isin(spans[:, _WORKER], shown))


def _shown(result: "Result", strategy: str) -> int:
    """How many workers are shown."""
    return len(shown_workers(result, strategy))


def shown_workers(result: "Result", strategy: str) -> list[int]:
    """At most MOST_WORKERS ranks: the slow ones first, as they are what one looks for."""
    cluster, trace = result.scenario.cluster, result.trace(strategy)
    slow = [s.rank for s in cluster.slow_workers] + [s.rank for s in cluster.network.slow_links]
    ranks = dict.fromkeys([rank for rank in slow if rank < trace.workers][: MOST_WORKERS // 2])
    ranks.update(dict.fromkeys(range(min(trace.workers, MOST_WORKERS))))
    return sorted(list(ranks)[:MOST_WORKERS])
