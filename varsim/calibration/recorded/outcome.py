"""What a run came to, measured or predicted: the few numbers that are compared."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from varsim.calibration.recorded.runs import DROPPED, AsyncRun, CollectiveRun, Run
from varsim.cluster.trace import GradientRow, Outcome, Trace

_OUTCOME, _READ_STEP, _APPLIED_STEP = (
    GradientRow._fields.index(name) for name in ("outcome", "read_step", "applied_step")
)


class Totals(NamedTuple):
    """A run until its last update.

    `total`: seconds until then; `p90_step`: 90th percentile of the time from one update to the next
    (the first one's from the start); `dropped`: gradients until then that went into no update, None
    where none can; `staleness`: mean over the gradients of these updates, None where it is 0 by
    design.
    """

    updates: int
    total: float
    p90_step: float
    dropped: int | None
    staleness: float | None


def measured(run: Run) -> Totals:
    """What was recorded."""
    if isinstance(run, CollectiveRun):
        return _totals([max(ends) for ends in zip(*(rank.end for rank in run.ranks), strict=True)])
    if isinstance(run, AsyncRun):
        updates = sorted(
            update
            for worker in run.workers
            for update in zip(worker.applied_as, worker.end, worker.staleness, strict=True)
            if update[0] <= run.steps
        )
        # A worker may notice the end of its update after the next one's; then both are done.
        ends = list(accumulate((end for _, end, _ in updates), max))
        staleness = sum(updates_missed for _, _, updates_missed in updates) / run.steps
        return _totals(ends, staleness=staleness)
    dropped = sum(
        fate == DROPPED and end <= run.step_done[-1]
        for worker in run.workers
        for fate, end in zip(worker.accepted, worker.compute_end, strict=True)
    )
    return _totals(run.step_done, dropped=dropped)


def predicted(run: Run, trace: Trace) -> Totals:
    """The same of a simulated run."""
    ends = (trace.steps / 1e9).tolist()
    if isinstance(run, CollectiveRun):
        return _totals(ends)
    fates = trace.gradients[:, _OUTCOME]
    if isinstance(run, AsyncRun):
        applied = trace.gradients[fates == Outcome.APPLIED]
        staleness = applied[:, _APPLIED_STEP] - applied[:, _READ_STEP]
        return _totals(ends, staleness=float(staleness.mean()))
    return _totals(ends, dropped=int((fates == Outcome.DROPPED).sum()))


def _totals(
    ends: Sequence[float], dropped: int | None = None, staleness: float | None = None
) -> Totals:
    lengths = np.diff(ends, prepend=0.0)
    p90_step = float(np.quantile(lengths, 0.9))
    return Totals(len(ends), ends[-1], p90_step, dropped, staleness)
