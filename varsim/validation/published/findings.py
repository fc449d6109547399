"""The findings of a file of published measurements, experiment by experiment."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from varsim.validation.finding import Finding
from varsim.validation.matching import matches
from varsim.validation.published.experiment import Calibrated, Family, NotCalibratedError
from varsim.validation.published.families import FAMILIES, family_of, units_of
from varsim.validation.published.judging import (
    Prediction,
    judged,
    not_run,
    overall,
    summary,
    unknown,
)
from varsim.validation.published.table import Row, bundled_rows, experiments, read_rows


def findings(path: Path | None, only: str | None, said: Callable[[str], None]) -> list[Finding]:
    """Predict the experiments of a file (None: those that come with varsim), and judge.

    `only`: a pattern for names of experiments (see `matches`). `said` is told what is done next.
    For every experiment its rows, in order, then their median; then, unless there is a pattern,
    that of all experiments; last what has no scenario, one finding for each experiment.
    PublishedFileError says line by line what is wrong with the file.
    """
    rows = bundled_rows() if path is None else read_rows(path)
    wanted = [row for row in rows if matches(only, row.experiment)]
    found: list[Finding] = []
    every: list[Prediction] = []
    for family in FAMILIES:
        known = [row for row in wanted if family.knows(row.experiment)]
        if not known:
            continue
        said(f"calibrating and predicting {', '.join(name for name, _ in experiments(known))}")
        # An experiment may be calibrated on rows of another one of its family.
        relatives = [row for row in rows if family.knows(row.experiment)]
        fitted = calibrated(family, relatives)
        for experiment, own in experiments(known):
            told, made = _experiment(family, experiment, own, fitted)
            found += told
            every += made
    if only is None:
        found += overall(every)
    for experiment, own in experiments(wanted):
        if family_of(experiment) is None:
            found.append(unknown(experiment, own))
    return found


def calibrated(family: Family, rows: Sequence[Row]) -> Calibrated:
    """The parameters of a family from those of these rows that it is calibrated on."""
    used = [row for row in rows if not refused(family, row) and family.is_calibrated_on(row)]
    try:
        return Calibrated(family.calibrate(used))
    except ValidationError:  # of scenarios with impossible values, which nothing measured has
        return Calibrated()


def refused(family: Family, row: Row) -> str:
    """Why a row is not simulated; nothing where it is."""
    if row.status.startswith("recalled"):
        return "recalled from memory by who collected it, and not verified: no target"
    if row.value <= 0:
        return "nothing was measured"
    if row.unit not in units_of(family):
        return f"{row.metric} in {row.unit or 'no unit'}, but {units_of(family)[0]} is predicted"
    return family.refuses(row)


def _experiment(
    family: Family, experiment: str, rows: Sequence[Row], fitted: Calibrated
) -> tuple[list[Finding], list[Prediction]]:
    """The findings of one experiment, and what was predicted."""
    told: list[Finding] = []
    made: list[Prediction] = []
    for row in rows:
        why = refused(family, row)
        if not why:
            try:
                got = family.predicted(row, fitted)
            except NotCalibratedError as error:
                why = str(error)
            except ValidationError as error:
                why = f"what was fitted makes no scenario: {error.errors()[0]['msg']}"
        if why:
            told.append(not_run(row, family.label(row), why))
        else:
            made.append(Prediction(row, got, family.is_calibrated_on(row)))
            told.append(judged(family, made[-1]))
    return told + summary(experiment, family, made, family.learnt(experiment, fitted)), made
