"""The curves of a result as data: loss against time and against updates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.study.statistics import interval

if TYPE_CHECKING:
    from varsim.cluster.trace import Trace
    from varsim.study.result import Result

Against: TypeAlias = Literal["time", "global_step"]

POINTS: Final = 200  # of a curve, at most


class Curve(NamedTuple):
    """The loss of one strategy over its replications; all of shape (points,)."""

    strategy: str
    x: NDArray[np.float64]  # seconds or updates
    mean: NDArray[np.float64]
    low: NDArray[np.float64]  # nan with one replication
    high: NDArray[np.float64]


def curves(result: "Result", by: Against) -> list[Curve]:
    """The curves that can be drawn: where every replication was evaluated, the loss finite.

    Between two evaluations the loss is read off the straight line that joins them.
    """
    found = []
    for strategy in result.strategies:
        runs = [result.trace(strategy, number) for number in range(result.replications)]
        if not all(run.evaluations for run in runs):
            continue
        measured = [_measured(run, by) for run in runs]
        grid = _grid([moments for moments, _ in measured], even=by == "time")
        losses = [np.interp(grid, *one) for one in measured]
        exact = result.exact(strategy, "final_loss")
        table = np.array(
            [interval(column, exact=exact)[:3] for column in np.array(losses).T.tolist()]
        )
        known = np.isfinite(table[:, 0])
        if known.any():
            x = grid[known] / (1e9 if by == "time" else 1)
            found.append(Curve(strategy, x, *table[known].T))
    return found


def _measured(run: "Trace", by: Against) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """When the run was evaluated, in ns or updates, and its losses; what was undone has none."""
    rows = run.evaluations if by == "time" else run.kept_evaluations
    moments = [row.time if by == "time" else row.global_step for row in rows]
    return np.array(moments, dtype=np.int64), np.array([row.loss for row in rows])


def _grid(moments: Sequence[NDArray[np.int64]], even: bool) -> NDArray[np.float64]:
    """At most POINTS points that every replication covers: evenly spaced, or recorded ones."""
    start, end = max(m[0] for m in moments), min(m[-1] for m in moments)
    if start >= end:
        return np.array([float(end)])
    if even:
        return np.linspace(start, end, POINTS)
    recorded: NDArray[np.float64] = np.unique(np.concatenate(list(moments))).astype(np.float64)
    recorded = recorded[(recorded >= start) & (recorded <= end)]
    if len(recorded) > POINTS:
        recorded = recorded[np.linspace(0, len(recorded) - 1, POINTS).round().astype(int)]
    return recorded
