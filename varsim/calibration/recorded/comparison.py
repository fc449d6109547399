"""Cross-validation of predictions: every run is predicted with overheads calibrated without it.

The runs of one kind, in the order of their names, go in turn to the first and the second half, and
each half is predicted with the calibration of the other. Runs in which nothing is computed serve
both calibrations. Parameter servers, synchronized or not, are one family, collectives another; the
families share nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from varsim.calibration.recorded.overheads import Calibration, calibrate
from varsim.calibration.recorded.runs import DROPPED, AsyncRun, CollectiveRun, Replay, Run, computes
from varsim.cluster.record.trace import GradientRow, Outcome, Trace

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


def measured_totals(run: Run) -> Totals:
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


def predicted_totals(run: Run, trace: Trace) -> Totals:
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


Half: TypeAlias = Literal["first", "second"]
HALVES: Final[tuple[Half, Half]] = ("first", "second")

FAMILIES: Final = ("parameter servers", "collectives")


class Prediction(NamedTuple):
    """Prediction of a run, without overheads (`ideal`) and with those of other runs.

    `planned_updates`: that it was to make. `calibrated` is None where the other half tells nothing.
    """

    run: str
    kind: str
    family: str
    half: Half
    planned_updates: int
    measured: Totals
    ideal: Totals
    calibrated: Totals | None

    @property
    def best(self) -> Totals:
        """The calibrated prediction, where there is one."""
        return self.ideal if self.calibrated is None else self.calibrated


class HalfCalibration(NamedTuple):
    """What one half of a family was calibrated to; None where it tells nothing."""

    family: str
    half: Half
    calibration: Calibration | None


class Comparison(NamedTuple):
    """All predictions, by kind and name, and the calibrations behind them."""

    predictions: tuple[Prediction, ...]
    half_calibrations: tuple[HalfCalibration, ...]

    @property
    def worst(self) -> Prediction:
        """Run with the largest relative error of the total time."""
        return max(self.predictions, key=lambda one: abs(error(one.best.total, one.measured.total)))


class ErrorSpread(NamedTuple):
    """Relative errors of several runs, without their signs."""

    runs: int
    median: float
    worst: float


def halves(runs: Iterable[Run]) -> dict[str, Half]:
    """The half of each run, by name; nothing of those in which nothing is computed."""
    found: dict[str, Half] = {}
    replayable = sorted((run for run in runs if computes(run)), key=lambda run: (run.kind, run.id))
    for _, of_kind in groupby(replayable, key=lambda run: run.kind):
        for place, run in enumerate(of_kind):
            found[run.id] = HALVES[place % 2]
    return found


def compare(runs: Sequence[Run], said: Callable[[str], None] = lambda _: None) -> Comparison:
    """Predict every run; `said` is told what is being done, now and then."""
    split = halves(runs)
    half_calibrations: list[HalfCalibration] = []
    for family in dict.fromkeys(family_of(run) for run in runs):
        for half in HALVES:
            said(f"calibrating: {family}, {half} half")
            found = calibrate(
                [
                    run
                    for run in runs
                    if family_of(run) == family and split.get(run.id, half) == half
                ]
            )
            half_calibrations.append(HalfCalibration(family, half, found))
    loaded = {(one.family, one.half): one.calibration for one in half_calibrations}
    predictions = []
    said(f"predicting: {len(split)} runs")
    for run in sorted(runs, key=lambda run: (run.kind, run.id)):
        if run.id not in split:
            continue
        replay, half = Replay(run), split[run.id]
        source = family_of(run), other(half)
        predictions.append(
            Prediction(
                run.id,
                run.kind,
                family_of(run),
                half,
                run.steps,
                measured_totals(run),
                predicted_totals(run, replay.trace()),
                _predicted(replay, loaded[source]),
            )
        )
    return Comparison(tuple(predictions), tuple(half_calibrations))


def family_of(run: Run) -> str:
    """Runs of one family have the same overheads."""
    return FAMILIES[isinstance(run, CollectiveRun)]


def other(half: Half) -> Half:
    """The half that a run of this one is predicted from."""
    return "second" if half == "first" else "first"


def error(predicted: float, measured: float) -> float:
    """Error relative to the measured number, or absolute where that is 0."""
    return (predicted - measured) / (measured or 1.0)


def spread(pairs: Iterable[tuple[float | None, float | None]]) -> ErrorSpread | None:
    """Spread of the errors of (predicted, measured) pairs, where both exist."""
    errors = [abs(error(a, b)) for a, b in pairs if a is not None and b is not None]
    return ErrorSpread(len(errors), median(errors), max(errors)) if errors else None


def _predicted(replay: Replay, calibration: Calibration | None) -> Totals | None:
    if calibration is None:
        return None
    return predicted_totals(replay.run, replay.trace(calibration.applied_to(replay)))
