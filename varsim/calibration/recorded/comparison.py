"""Predicted against measured: every run with overheads that were calibrated without it.

The runs of one kind, in the order of their names, go in turn to the first and the second half.
Each half is predicted with what the other one was calibrated to; runs in which nothing is computed
have nothing to be predicted and are there for both calibrations. Parameter servers are one family,
synchronized or not, collectives another: what a half of one says is used for nothing else.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.calibration.recorded import outcome
from varsim.calibration.recorded.outcome import Totals
from varsim.calibration.recorded.overheads import Calibration, calibrate
from varsim.calibration.recorded.replay import Replay
from varsim.calibration.recorded.runs import CollectiveRun, Run, computes

Half: TypeAlias = Literal["first", "second"]
HALVES: Final[tuple[Half, Half]] = ("first", "second")

FAMILIES: Final = ("parameter servers", "collectives")


class Prediction(NamedTuple):
    """A run as it was and as it was predicted: with no overheads, and with those of other runs.

    `asked`: the updates that it was to make. `calibrated` is None where the other half tells
    nothing; `unloaded` is predicted with overheads that were calibrated, and applied, without a
    look at foreign work.
    """

    run: str
    kind: str
    family: str
    half: Half
    planned_updates: int
    measured: Totals
    ideal: Totals
    calibrated: Totals | None
    unloaded: Totals | None

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
        """The run whose total time is farthest off."""
        return max(self.predictions, key=lambda one: abs(error(one.best.total, one.measured.total)))


class Spread(NamedTuple):
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


def calibrate_half(
    runs: Sequence[Run], family: str, half: Half | None = None, *, load: bool = True
) -> Calibration | None:
    """Calibrate with one half of a family, or with all of it; None if that tells nothing."""
    split = halves(runs)
    return calibrate(
        [
            run
            for run in runs
            if family_of(run) == family and (half is None or split.get(run.id, half) == half)
        ],
        load=load,
    )


def compare(
    runs: Sequence[Run], said: Callable[[str], None] = lambda _: None, *, unloaded: bool = True
) -> Comparison:
    """Predict every run; `said` is told what is being done, now and then.

    Without `unloaded` there are no predictions that ignore foreign work, in half the time.
    """
    split = halves(runs)
    half_calibrations: list[HalfCalibration] = []
    ignoring: dict[tuple[str, Half], Calibration | None] = {}
    for family in dict.fromkeys(family_of(run) for run in runs):
        for half in HALVES:
            said(f"calibrating: {family}, {half} half")
            found = calibrate_half(runs, family, half)
            half_calibrations.append(HalfCalibration(family, half, found))
            if found is not None and found.load:
                found = calibrate_half(runs, family, half, load=False) if unloaded else None
            ignoring[family, half] = found
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
                outcome.measured(run),
                outcome.predicted(run, replay.trace()),
                _predicted(replay, loaded[source]),
                _predicted(replay, ignoring[source]),
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
    """Relative to what was measured; of a number that was 0, to 1."""
    return (predicted - measured) / (measured or 1.0)


def spread(pairs: Iterable[tuple[float | None, float | None]]) -> Spread | None:
    """Of pairs of a predicted and a measured number, where both are there."""
    errors = [abs(error(a, b)) for a, b in pairs if a is not None and b is not None]
    return Spread(len(errors), median(errors), max(errors)) if errors else None


def _predicted(replay: Replay, calibration: Calibration | None) -> Totals | None:
    if calibration is None:
        return None
    return outcome.predicted(replay.run, replay.trace(calibration.applied_to(replay)))
