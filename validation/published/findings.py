"""The findings of a file of published measurements, setting by setting."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

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

# All experiments that have scenarios.


FAMILIES: Final[tuple[Family, ...]] = (
    BatchCurves(),
    Hkbu(),
    OneMachine(),
    Machines(),
    AllReduces(),
    Dl2(),
    AdaptDl(),
)


def family_of(row: Row) -> Family | None:
    """The family that has scenarios for a row; None where there is none."""
    return next((family for family in FAMILIES if family.knows(row)), None)


def settings(rows: Sequence[Row]) -> Iterator[tuple[Family, str, list[Row]]]:
    """The rows of every family and setting, in the order in which they first occur."""
    found: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        for number, family in enumerate(FAMILIES):
            if family.knows(row):
                found.setdefault((number, family.setting(row)), []).append(row)
                break
    for (number, setting), own in sorted(found.items(), key=lambda item: item[0][0]):
        yield FAMILIES[number], setting, own


# What is made of the predictions of an experiment: findings, row by row and in sum.


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
_OF_ALL: Final = " constants fitted in all"
_NO_SCENARIO: Final = "no scenario describes these rows"


class Prediction(NamedTuple):
    """A row, and what was simulated for it."""

    row: Row
    got: float
    calibrated_on: bool

    @property
    def error(self) -> float:
        """Relative, without its sign."""
        return abs(self.got / self.row.value - 1)


def judged(family: Family, prediction: Prediction) -> Finding:
    """The finding of one row."""
    row, got, calibrated_on = prediction
    bound = ROW_FACTOR * family.bound
    verdict = Verdict.PASS if prediction.error <= bound else Verdict.MISS
    if calibrated_on:
        verdict = Verdict.CALIBRATED
    return Finding(
        row.experiment,
        family.label(row),
        row.metric,
        row.unit,
        row.value,
        got,
        bound="calibrated on" if calibrated_on else f"within {bound:.0%}",
        verdict=verdict,
        source=row.where,
        why=family.explains(row) if verdict is Verdict.MISS else "",
    )


def not_run(row: Row, label: str, why: str) -> Finding:
    """The finding of a row for which there is no scenario."""
    return Finding(
        row.experiment, label, row.metric, row.unit, row.value, source=row.where, why=why
    )


def unknown(experiment: str, rows: Sequence[Row]) -> list[Finding]:
    """The findings of rows that no family knows, all with one reason in one."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        reasons.setdefault(unknown_because(row), []).append(row)
    return [not_run(own[0], f"{len(own)} rows", why) for why, own in reasons.items()]


def unknown_because(row: Row) -> str:
    """Why no family knows a row: by what it says."""
    if row.status.startswith("recalled"):
        return "recalled from memory by who collected it, and not verified: no target"
    said = f"{row.metric} [{row.unit}], {row.strategy}".lower()
    for words, why in _WHY_NOT.items():
        if any(word in said for word in words.split("|")):
            return why
    strategy = row.strategy or "no strategy"
    return f"{_NO_SCENARIO}: {row.metric} in {row.unit or 'no unit'}, {strategy}"


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


class Held(NamedTuple):
    """A model, or an experiment (`kind`), predicted by `constants` fitted to others only."""

    kind: str
    name: str
    family: Family
    predictions: Sequence[Prediction]
    constants: int


def leading(
    held: Sequence[Held], every: Sequence[Prediction], families: Sequence[Family], fitted: int
) -> list[Finding]:
    """What stands first: what is predicted of models and experiments that nothing was fitted on."""
    placed = [constant for family in families for constant in family.by_hand]
    counted = (
        f"{fitted}{_OF_ALL}, {len(placed)} placed by hand{': ' * bool(placed)}{'; '.join(placed)}"
    )
    found: list[Finding] = []
    for kind in ("model", "experiment"):
        own = [one for one in held if one.kind == kind]
        rows = [row for one in own for row in one.predictions]
        what = f"rows of {len(own)} {kind}{'s' * (len(own) != 1)}"
        found += _of_all(LEAD, what, rows, HELD_OUT, "", counted)
    kinds: tuple[tuple[str, Callable[[Row], bool], float], ...] = (
        ("rows of plain rings on 10 GbE", _is_plain_ring, RING_BOUND),
        ("rows on hybrid meshes", _is_on_mesh, MESH_BOUND),
    )
    rows = [row for one in held for row in one.predictions]
    for what, chosen, bound in kinds:
        found += _of_all(LEAD, what, [one for one in rows if chosen(one.row)], bound, "", counted)
    meshes = [one for one in every if _is_on_mesh(one.row)]
    found += _of_all(LEAD, "predicted rows on hybrid meshes", meshes, MESH_BOUND, "", counted)
    for one in held:
        name = f"rows of {one.kind} {one.name}"
        source = f"{one.constants} constants, all fitted to other {one.kind}s"
        found += _of_all(LEAD, name, one.predictions, HELD_OUT, one.family.why, source)
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
    found = list(
        _of_all(experiment, "predicted rows", predictions, family.bound, family.why, source)
    )
    if isinstance(family, Hkbu):
        found += _orders(experiment, family, predictions)
        rings = [one for one in predictions if one.row.system in RINGS]
        if any(_is_plain_ring(one.row) for one in rings):
            found += _of_all(experiment, "predicted rows of rings", rings, RING_BOUND, family.why)
    return found


def overall(predictions: Sequence[Prediction]) -> list[Finding]:
    """The same over everything; and of the experiments' medians, as some have many more rows."""
    errors = _errors(predictions)
    if not len(errors):
        return []
    by_experiment: dict[str, list[Prediction]] = {}
    for one in predictions:
        by_experiment.setdefault(one.row.experiment, []).append(one)
    medians = [
        float(np.median(of_one)) for own in by_experiment.values() if len(of_one := _errors(own))
    ]
    return [
        *_of_all("all experiments", "predicted rows", predictions, OVERALL, ""),
        _median("all experiments", f"{len(medians)} medians", medians, OVERALL, "", ""),
    ]


def _of_all(
    group: str,
    what: str,
    predictions: Sequence[Prediction],
    bound: float,
    why: str,
    source: str = "",
) -> Iterable[Finding]:
    errors = _errors(predictions)
    if len(errors):
        tail, worst = np.quantile(errors, 0.9), max(errors)
        said = f"90 % of them within {tail:.1%}, the worst off by {worst:.1%}"
        if len(errors) == 1:
            what = what.replace("rows ", "row ", 1)
        yield _median(group, f"{len(errors)} {what}", errors, bound, said, why, source)


def _median(
    group: str,
    name: str,
    errors: Sequence[float],
    bound: float,
    said: str,
    why: str,
    source: str = "",
) -> Finding:
    got = float(np.median(errors))
    kept = got <= bound
    return Finding(
        group,
        name,
        "median of absolute errors",
        "",
        0.0,
        got,
        bound=f"at most {bound:.0%}",
        verdict=Verdict.PASS if kept else Verdict.MISS,
        source=source,
        why=". ".join(filter(None, (said, "" if kept else why))),
    )


def _errors(predictions: Sequence[Prediction]) -> list[float]:
    return [one.error for one in predictions if not one.calibrated_on]


def _orders(experiment: str, family: Family, predictions: Sequence[Prediction]) -> list[Finding]:
    """Whether methods come out in the measured order: with all GPUs, and with any number."""
    most = max((one.row.workers for one in predictions), default=0)
    largest = [one for one in predictions if one.row.workers == most]
    return [
        *_order(experiment, family, f"on {most} GPUs", largest),
        *_order(experiment, family, "on as many GPUs", predictions),
    ]


def _order(
    experiment: str, family: Family, which: str, predictions: Sequence[Prediction]
) -> Iterable[Finding]:
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
    yield Finding(
        experiment,
        f"{pairs} pairs of methods {which}, more than {APART:.0%} apart",
        "share in the measured order",
        "",
        1.0,
        share,
        bound=f"at least {IN_ORDER:.0%}",
        verdict=Verdict.PASS if share >= IN_ORDER else Verdict.MISS,
        why=f"not so predicted: {'; '.join(wrong)}. {' '.join(because)}" if wrong else "",
    )


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
