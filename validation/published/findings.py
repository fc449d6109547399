"""The findings of a file of published measurements, setting by setting."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pydantic import ValidationError

from validation.finding import Finding
from validation.matching import matches
from validation.published.experiment import Calibrated, Family, NotCalibratedError
from validation.published.families import family_of, settings
from validation.published.judging import (
    Held,
    Prediction,
    judged,
    leading,
    not_run,
    overall,
    summary,
    unknown,
)
from validation.published.table import Row, bundled_rows, experiments, read_rows


class Setting(NamedTuple):
    """Rows that share constants; `relatives`: those that come with varsim besides."""

    family: Family
    name: str
    rows: list[Row]
    relatives: list[Row]

    def calibrated(self) -> Calibrated:
        """Constants from the rows; from relatives those that the rows do not tell."""
        fitted = _calibrated(self.family, self.rows, self.rows)
        if self.relatives:
            every = [*self.rows, *self.relatives]
            fitted = Calibrated({**_calibrated(self.family, self.relatives, every), **fitted})
        return fitted

    def without(self, kind: str, value: str) -> Calibrated:
        """Constants from the rows and relatives of other models, or of other experiments."""
        every = [*self.rows, *self.relatives]
        return _calibrated(self.family, [r for r in every if getattr(r, kind) != value], every)


# Rows of one experiment that share constants: findings, predictions, constants.
_Part: TypeAlias = tuple[list[tuple[int, Finding]], list[Prediction], Calibrated]


def findings(path: Path | None, only: str | None, said: Callable[[str], None]) -> list[Finding]:
    """Predict the experiments of a file (None: those that come with varsim), and judge.

    `only`: a pattern for names of experiments (see `matches`). `said` is told what is done next.
    First how well models and experiments are predicted on which nothing was fitted; then for
    every experiment its rows, in order, and their median; then, unless there is a pattern, that of
    all experiments; last what has no scenario, one finding for each experiment and reason.
    PublishedFileError says line by line what is wrong with the file.
    """
    rows = bundled_rows() if path is None else read_rows(path)
    wanted = [row for row in rows if matches(only, row.experiment)]
    found: list[Finding] = []
    every: list[Prediction] = []
    held: list[Held] = []
    parts: dict[tuple[Family, str], list[_Part]] = {}
    fitted = 0
    for setting in known(rows, path is not None):
        own = [row for row in setting.rows if matches(only, row.experiment)]
        if not own:
            continue
        said(f"calibrating and predicting {', '.join(name for name, _ in experiments(own))}")
        constants = setting.calibrated()
        fitted += len(setting.family.learnt(constants))
        for experiment, of_one in experiments(own):
            told, made = _rows(setting, of_one, constants)
            parts.setdefault((setting.family, experiment), []).append((told, made, constants))
            every += made
        held += _held_out(setting, own)
    for (family, experiment), those in parts.items():
        lines = sorted((one for told, *_ in those for one in told), key=lambda one: one[0])
        found += [one for _, one in lines]
        learnt = dict.fromkeys(one for *_, constants in those for one in family.learnt(constants))
        found += summary(experiment, family, [one for _, m, _ in those for one in m], [*learnt])
    if only is None:
        found += overall(every)
    for experiment, own in experiments(wanted):
        found += unknown(experiment, [row for row in own if family_of(row) is None])
    families = dict.fromkeys(family for family, _ in parts)
    return leading(held, every, list(families), fitted) + found


def known(rows: Sequence[Row], related: bool) -> Iterator[Setting]:
    """Rows of a known kind, by setting; `related`: with those that come with varsim."""
    there = {row.content for row in rows}
    spare = [row for row in bundled_rows() if row.content not in there] if related else []
    relatives = {(family, name): own for family, name, own in settings(spare)}
    for family, name, own in settings(rows):
        yield Setting(family, name, own, relatives.get((family, name), []))


def refused(family: Family, row: Row) -> str:
    """Why a row is not simulated; nothing where it is."""
    if row.status.startswith("recalled"):
        return "recalled from memory by who collected it, and not verified: no target"
    if row.value <= 0:
        return "nothing was measured"
    if row.unit not in family.units:
        return f"{row.metric} in {row.unit or 'no unit'}, but {family.units[0]} is predicted"
    return family.refuses(row)


def _calibrated(family: Family, telling: Sequence[Row], every: Sequence[Row]) -> Calibrated:
    """Constants from what the first of these rows tell, with what is given of all of them."""
    given = [row for row in every if not refused(family, row) and family.is_given(row)]
    try:
        return Calibrated(family.calibrate(given + _told(family, telling)))
    except ValidationError:  # of scenarios with impossible values, which nothing measured has
        return Calibrated()


def _told(family: Family, rows: Sequence[Row]) -> list[Row]:
    there = [row for row in rows if not refused(family, row) and not family.is_given(row)]
    return family.told_by(there)


def _rows(
    setting: Setting, rows: Sequence[Row], fitted: Calibrated
) -> tuple[list[tuple[int, Finding]], list[Prediction]]:
    """The findings of rows of one experiment, with their lines, and what was predicted."""
    family, told, made = setting.family, list[tuple[int, Finding]](), list[Prediction]()
    used = set(_told(family, setting.rows))
    for row in rows:
        got = _predicted(family, row, fitted)
        if isinstance(got, str):
            told.append((row.line, not_run(row, family.label(row), got)))
        else:
            made.append(Prediction(row, got, family.is_given(row) or row in used))
            told.append((row.line, judged(family, made[-1])))
    return told, made


def _held_out(setting: Setting, rows: Sequence[Row]) -> Iterator[Held]:
    """Every model, and every experiment, predicted from the others of its setting."""
    family, done = setting.family, set[frozenset[Row]]()
    if not family.parameters:
        return
    for kind in family.left_out:
        for name in dict.fromkeys(getattr(row, kind) for row in rows):
            own = [row for row in rows if getattr(row, kind) == name]
            others = [
                row for row in (*setting.rows, *setting.relatives) if getattr(row, kind) != name
            ]
            if frozenset(own) in done or not _told(family, others):
                continue
            done.add(frozenset(own))
            fitted = setting.without(kind, name)
            made = [
                Prediction(row, got, False)
                for row in own
                if not family.is_given(row)
                and not isinstance(got := _predicted(family, row, fitted), str)
            ]
            if made:
                yield Held(kind, name, family, made, len(family.learnt(fitted)))


def _predicted(family: Family, row: Row, fitted: Calibrated) -> float | str:
    """What comes out for a row, or why nothing does."""
    why = refused(family, row)
    if why:
        return why
    try:
        return family.predicted(row, fitted)
    except NotCalibratedError as error:
        return str(error)
    except ValidationError as error:
        return f"what was fitted makes no scenario: {error.errors()[0]['msg']}"
