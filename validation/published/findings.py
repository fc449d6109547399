"""The findings of a file of published measurements, setting by setting."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from pydantic import ValidationError

from validation.finding import Finding, Verdict, matches
from validation.published.adaptdl import AdaptDl
from validation.published.allreduce import AllReduces
from validation.published.experiment import Calibrated, Family, NotCalibratedError
from validation.published.hkbu import PLAIN, RINGS, Hkbu
from validation.published.machines import Dl2, Machines
from validation.published.one_machine import BatchCurves, OneMachine
from validation.published.table import (
    Row,
    bundled_rows,
    experiments,
    has_rdma,
    line_rate,
    mesh,
    read_rows,
)

# All experiments that have scenarios; a row is of the first that knows it.
FAMILIES: Final[tuple[Family, ...]] = (
    BatchCurves(),
    Hkbu(),
    OneMachine(),
    Machines(),
    AllReduces(),
    Dl2(),
    AdaptDl(),
)

# A single row may be off by so many times the bound on the median of its experiment.
ROW_FACTOR: Final = 3
OVERALL: Final = 0.08
# Orders: pairs that a measurement tells apart, and the share of them that must come out so.
APART: Final = 0.05
IN_ORDER: Final = 0.9
# Written down before: for models and experiments without a constant of their own, for rings on
# 10 GbE, for hybrid meshes.
HELD_OUT: Final = 0.08
RING_BOUND: Final = 0.04
MESH_BOUND: Final = 0.12

LEAD: Final = "without a constant of their own"
_ALL: Final = "all experiments"
_OF_ALL: Final = " constants fitted in all"
_RECALLED: Final = "recalled from memory by who collected it, and not verified: no target"
_WHY_NOT: Final = {
    "accuracy|error|epoch": "accuracy of real training on data that are not here",
    "time to train": "time to train to an accuracy, with data and hyperparameters not here",
    "tensor|pipeline|utilisation": "tensor and pipeline parallelism, which is not simulated",
    "bus bandwidth": "one bandwidth per row, with nothing to calibrate on besides",
    "fitted time": "constants of a fit that somebody else made, not a measurement",
    "only read": "workers that only read, which no strategy here does",
    "staleness|learners": "statements about staleness without a table; closed forms stand for them",
    "step rate": "step rates of jobs that share machines with others in ways that are not said",
    "[%]|[x]|[gbit/s]|[mb]": "a ratio or a single figure, with nothing to calibrate on besides",
    "backward pass time": "a single figure of one system, with nothing to calibrate on besides",
    "best split": "a best split by time to accuracy on data that are not here",
    "asynchronous": "speeds without one of a worker by itself, to calibrate on",
}


def family_of(row: Row) -> Family | None:
    """The family that has scenarios for a row; None where there is none."""
    return next((family for family in FAMILIES if family.knows(row)), None)


def refused(family: Family, row: Row) -> str:
    """Why a row is not simulated; nothing where it is."""
    if row.status.startswith("recalled"):
        return _RECALLED
    if row.value <= 0:
        return "nothing was measured"
    if row.unit not in family.units:
        return f"{row.metric} in {row.unit or 'no unit'}, but {family.units[0]} is predicted"
    return family.refuses(row)


# Settings: what is calibrated on, and what is predicted.


class Prediction(NamedTuple):
    """A row, and what was simulated for it."""

    row: Row
    got: float
    calibrated_on: bool

    @property
    def error(self) -> float:
        """Relative, without its sign."""
        return abs(self.got / self.row.value - 1)


class Setting(NamedTuple):
    """Rows that share constants; `relatives`: those that come with varsim besides."""

    family: Family
    name: str
    rows: list[Row]
    relatives: list[Row]

    def told(self, rows: Sequence[Row]) -> list[Row]:
        """Of these rows, those that tell constants."""
        there = [row for row in rows if not refused(self.family, row)]
        return self.family.told_by([row for row in there if not self.family.is_given(row)])

    def _fitted(self, telling: Sequence[Row], every: Sequence[Row]) -> Calibrated:
        """Constants from what the first of these rows tell, with what is given of all of them."""
        there = [row for row in every if not refused(self.family, row)]
        given = [row for row in there if self.family.is_given(row)]
        try:
            return Calibrated(self.family.calibrate(given + self.told(telling)))
        except ValidationError:  # of scenarios with impossible values, which nothing measured has
            return Calibrated()

    def calibrated(self) -> Calibrated:
        """Constants from the rows; from relatives those that the rows do not tell."""
        fitted = self._fitted(self.rows, self.rows)
        if self.relatives:
            related = self._fitted(self.relatives, [*self.rows, *self.relatives])
            fitted = Calibrated({**related, **fitted})
        return fitted

    def predicted(self, row: Row, fitted: Calibrated) -> float | str:
        """What comes out for a row, or why nothing does."""
        if why := refused(self.family, row):
            return why
        try:
            return self.family.predicted(row, fitted)
        except NotCalibratedError as error:
            return str(error)
        except ValidationError as error:
            return f"what was fitted makes no scenario: {error.errors()[0]['msg']}"

    def held_out(self, rows: Sequence[Row]) -> Iterator["Held"]:
        """Every model, and every experiment, predicted from the others of its setting."""
        family, done, every = self.family, set[frozenset[Row]](), [*self.rows, *self.relatives]
        for kind in family.left_out if family.parameters else ():
            for name in dict.fromkeys(getattr(row, kind) for row in rows):
                own = [row for row in rows if getattr(row, kind) == name]
                others = [row for row in every if getattr(row, kind) != name]
                if frozenset(own) in done or not self.told(others):
                    continue
                done.add(frozenset(own))
                fitted = self._fitted(others, every)
                asked = [row for row in own if not family.is_given(row)]
                got = [(row, self.predicted(row, fitted)) for row in asked]
                made = [Prediction(row, one, False) for row, one in got if isinstance(one, float)]
                if made:
                    yield Held(kind, name, family, made, len(family.learnt(fitted)))


class Held(NamedTuple):
    """A model, or an experiment (`kind`), predicted by `constants` fitted to others only."""

    kind: str
    name: str
    family: Family
    predictions: Sequence[Prediction]
    constants: int


def known(rows: Sequence[Row], related: bool) -> Iterator[Setting]:
    """Rows of a known kind, by setting; `related`: with those that come with varsim."""
    there = {row.content for row in rows}
    spare = [row for row in bundled_rows() if row.content not in there] if related else []
    relatives, found = _settings(spare), _settings(rows)
    for number, name in sorted(found, key=lambda key: key[0]):
        own = found[number, name]
        yield Setting(FAMILIES[number], name, own, relatives.get((number, name), []))


def _settings(rows: Sequence[Row]) -> dict[tuple[int, str], list[Row]]:
    """The rows of every family, by its number, and setting; as they first occur."""
    found: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if (family := family_of(row)) is not None:
            found.setdefault((FAMILIES.index(family), family.setting(row)), []).append(row)
    return found


class _Part(NamedTuple):
    """Rows of one experiment that share constants: findings by line, predictions, constants."""

    told: list[tuple[int, Finding]]
    made: list[Prediction]
    learnt: list[str]


def findings(
    path: Path | None, only: str | None, said: Callable[[str], None] = lambda _: None
) -> list[Finding]:
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
        learnt = setting.family.learnt(constants)
        fitted += len(learnt)
        for experiment, of_one in experiments(own):
            part = _Part(*_rows(setting, of_one, constants), learnt)
            parts.setdefault((setting.family, experiment), []).append(part)
            every += part.made
        held += setting.held_out(own)
    for (family, experiment), those in parts.items():
        lines = sorted((one for part in those for one in part.told), key=lambda one: one[0])
        found += [one for _, one in lines]
        names = dict.fromkeys(name for part in those for name in part.learnt)
        found += summary(experiment, family, [one for p in those for one in p.made], [*names])
    if only is None:
        found += _overall(every)
    for experiment, own in experiments(wanted):
        found += _unknown(experiment, [row for row in own if family_of(row) is None])
    families = dict.fromkeys(family for family, _ in parts)
    return _leading(held, every, list(families), fitted) + found


# Findings row by row.


def _rows(
    setting: Setting, rows: Sequence[Row], fitted: Calibrated
) -> tuple[list[tuple[int, Finding]], list[Prediction]]:
    """The findings of rows of one experiment, with their lines, and what was predicted."""
    family, told, made = setting.family, list[tuple[int, Finding]](), list[Prediction]()
    used = set(setting.told(setting.rows))
    for row in rows:
        got = setting.predicted(row, fitted)
        if isinstance(got, str):
            told.append((row.line, _line(row, family.label(row), got)))
        else:
            made.append(Prediction(row, got, family.is_given(row) or row in used))
            told.append((row.line, judged(family, made[-1])))
    return told, made


def _line(row: Row, name: str, why: str = "") -> Finding:
    """The finding of a row; as it is, of one for which there is no scenario."""
    return Finding(row.experiment, name, row.metric, row.unit, row.value, source=row.where, why=why)


def judged(family: Family, prediction: Prediction) -> Finding:
    """The finding of one row that was predicted."""
    row, got, calibrated_on = prediction
    line = replace(_line(row, family.label(row)), got=got)
    if calibrated_on:
        return replace(line, bound=str(Verdict.CALIBRATED), verdict=Verdict.CALIBRATED)
    most = ROW_FACTOR * family.bound
    return line.held(prediction.error <= most, f"within {most:.0%}", family.explains(row))


def _unknown(experiment: str, rows: Sequence[Row]) -> list[Finding]:
    """The findings of rows that no family knows, all with one reason in one."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        reasons.setdefault(_unknown_because(row), []).append(row)
    return [_line(own[0], f"{len(own)} rows", why) for why, own in reasons.items()]


def _unknown_because(row: Row) -> str:
    """Why no family knows a row: by what it says."""
    if row.status.startswith("recalled"):
        return _RECALLED
    said = f"{row.metric} [{row.unit}], {row.strategy}".lower()
    for words, why in _WHY_NOT.items():
        if any(word in said for word in words.split("|")):
            return why
    unit, strategy = row.unit or "no unit", row.strategy or "no strategy"
    return f"no scenario describes these rows: {row.metric} in {unit}, {strategy}"


# In sum: medians of the errors of predicted rows, and orders.


def _median(
    group: str,
    what: str,
    predictions: Sequence[Prediction],
    bound: float,
    why: str = "",
    source: str = "",
) -> list[Finding]:
    """The median error of those that were predicted; none without any."""
    errors = [one.error for one in predictions if not one.calibrated_on]
    if not errors:
        return []
    if len(errors) == 1:
        what = what.replace("rows ", "row ", 1)
    line = _of_errors(group, f"{len(errors)} {what}", errors).at_most(bound, why)
    tail, worst = np.quantile(errors, 0.9), max(errors)
    said = f"90 % of them within {tail:.1%}, the worst off by {worst:.1%}"
    return [replace(line, source=source, why=". ".join(filter(None, (said, line.why))))]


def _of_errors(group: str, name: str, errors: Sequence[float]) -> Finding:
    return Finding(group, name, "median of absolute errors", "", 0.0, float(np.median(errors)))


def _leading(
    held: Sequence[Held], every: Sequence[Prediction], families: Sequence[Family], fitted: int
) -> list[Finding]:
    """What stands first: what is predicted of models and experiments that nothing was fitted on."""
    placed = [constant for family in families for constant in family.by_hand]
    counted = (
        f"{fitted}{_OF_ALL}, {len(placed)} placed by hand{': ' * bool(placed)}{'; '.join(placed)}"
    )
    every_held = [row for one in held for row in one.predictions]
    meshes = [one for one in every if _is_on_mesh(one.row)]
    found: list[Finding] = []
    for kind in ("model", "experiment"):
        own = [one for one in held if one.kind == kind]
        rows = [row for one in own for row in one.predictions]
        what = f"rows of {len(own)} {kind}{'s' * (len(own) != 1)}"
        found += _median(LEAD, what, rows, HELD_OUT, source=counted)
    rings = [one for one in every_held if _is_plain_ring(one.row)]
    on_mesh = [one for one in every_held if _is_on_mesh(one.row)]
    for what, rows, bound in (
        ("rows of plain rings on 10 GbE", rings, RING_BOUND),
        ("rows on hybrid meshes", on_mesh, MESH_BOUND),
        ("predicted rows on hybrid meshes", meshes, MESH_BOUND),
    ):
        found += _median(LEAD, what, rows, bound, source=counted)
    for one in held:
        name = f"rows of {one.kind} {one.name}"
        source = f"{one.constants} constants, all fitted to other {one.kind}s"
        found += _median(LEAD, name, one.predictions, HELD_OUT, one.family.why, source)
    return found


def lead(findings: Sequence[Finding]) -> str:
    """What stands first, in a sentence or two; nothing where nothing could be left out."""
    first = [one for one in findings if one.group == LEAD and _OF_ALL in one.source]
    if not first:
        return ""
    said = [f"{one.name} off by {one.got:.1%} in the median ({one.bound})" for one in first]
    constants = first[0].source.partition(": ")[0]
    return f"Without a constant of their own: {'; '.join(said)}. There are {constants}."


def _is_on_mesh(row: Row) -> bool:
    return bool(mesh(row)) and "server" not in row.strategy


def _is_plain_ring(row: Row) -> bool:
    return row.system in PLAIN and line_rate(row) == 1.25e9 and not has_rdma(row)


def summary(
    experiment: str, family: Family, predictions: Sequence[Prediction], learnt: Sequence[str]
) -> list[Finding]:
    """The median error of the rows of an experiment that were predicted; none without any.

    `learnt`: what was fitted, in words.
    """
    source = f"calibrated on {family.split}. Fitted: {'; '.join(learnt) or 'nothing'}"
    found = _median(experiment, "predicted rows", predictions, family.bound, family.why, source)
    if isinstance(family, Hkbu):
        # Whether methods come out in the measured order: with all GPUs, and with any number.
        most = max((one.row.workers for one in predictions), default=0)
        largest = [one for one in predictions if one.row.workers == most]
        found += _order(experiment, family, f"on {most} GPUs", largest)
        found += _order(experiment, family, "on as many GPUs", predictions)
        rings = [one for one in predictions if one.row.system in RINGS]
        if any(_is_plain_ring(one.row) for one in rings):
            found += _median(experiment, "predicted rows of rings", rings, RING_BOUND, family.why)
    return found


def _overall(predictions: Sequence[Prediction]) -> list[Finding]:
    """The median over everything; and of the experiments' medians, as some have many more rows."""
    by_experiment: dict[str, list[float]] = {}
    for one in predictions:
        if not one.calibrated_on:
            by_experiment.setdefault(one.row.experiment, []).append(one.error)
    if not by_experiment:
        return []
    medians = [float(np.median(errors)) for errors in by_experiment.values()]
    of_medians = _of_errors(_ALL, f"{len(medians)} medians", medians).at_most(OVERALL)
    return [*_median(_ALL, "predicted rows", predictions, OVERALL), of_medians]


def _order(
    experiment: str, family: Family, which: str, predictions: Sequence[Prediction]
) -> Iterator[Finding]:
    """Pairs of methods on equally many GPUs, one of them predicted at least, told apart."""
    pairs, wrong, because = 0, [], dict[str, None]()
    for first, second in combinations(predictions, 2):
        both_known = first.calibrated_on and second.calibrated_on
        if first.row.workers != second.row.workers or both_known:
            continue
        fast, slow = sorted((first, second), key=lambda one: -one.row.value)
        if fast.row.value >= (1 + APART) * slow.row.value:
            pairs += 1
            if fast.got <= slow.got:
                wrong.append(f"{fast.row.system} above {slow.row.system} ({fast.row.workers})")
                farthest = max(first, second, key=lambda one: one.error)
                because[family.explains(farthest.row)] = None
    if not pairs:
        return
    share = 1 - len(wrong) / pairs
    name = f"{pairs} pairs of methods {which}, more than {APART:.0%} apart"
    line = Finding(experiment, name, "share in the measured order", "", 1.0, share)
    line = line.held(share >= IN_ORDER, f"at least {IN_ORDER:.0%}")
    why = f"not so predicted: {'; '.join(wrong)}. {' '.join(because)}" if wrong else ""
    yield replace(line, why=why)
