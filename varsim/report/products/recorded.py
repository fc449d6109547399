"""What is told of recorded runs: how far off predictions of them are, and the overheads found."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any, Final, NamedTuple

from varsim.calibration.recorded.comparison import (
    HALVES,
    Comparison,
    ErrorSpread,
    Half,
    HalfCalibration,
    Prediction,
    Totals,
    error,
    spread,
)
from varsim.calibration.recorded.forecast import Forecast, of_its_workload, worst
from varsim.cluster.description.servers import Overheads
from varsim.core.units import format_rate, format_seconds
from varsim.report.notes import plain, plain_rows
from varsim.report.told import (
    Cell,
    Chart,
    Column,
    Note,
    Number,
    Report,
    Table,
    Unit,
    Value,
)
from varsim.scenario.document import plain as plain_tree
from varsim.scenario.document import read_document
from varsim.scenario.fault import Source
from varsim.scenario.writing import MADE_BY
from varsim.study.verdict import NOTHING

# Of a run until its last update: what it is called, and its unit.
_OF_RUN: Final = {
    "total": ("total time", "s"),
    "p90_step": ("p90 step time", "s"),
    "dropped": ("gradients dropped", ""),
    "staleness": ("mean staleness", ""),
}
_FARTHEST: Final = 8  # errors that are listed
_MEASURED: Final = "measured total time (s)"
_VIEWS: Final[dict[str, Callable[[float, float], float]]] = {
    "predicted total time (s)": lambda measured, total: total,
    "error (share)": lambda measured, total: error(total, measured),
}
_KNOWN: Final = (
    "Of each run the prediction knows what its recording states: ranks, bytes, strategy, steps and "
    "slow ranks. How long anything takes is the scenario's.",
)
_METHOD: Final = (
    "Every run of a real cluster is replayed: the prescribed compute times of each iteration, "
    "workers, servers, tokens, payload and kills go through the same strategies that `varsim run` "
    "uses. Nothing else of the run is known to its prediction but, for parameter servers, how many "
    "cores of the machine were busy with foreign work.",
    "The overheads are calibrated on other runs: those of one kind, in the order of their names, "
    "go in turn to the first and the second half, and each half is predicted from the other one. "
    "Runs without computation are there for both calibrations. What is fitted is how long reads "
    "take, how long workers need from one computation to the next, and how long a collective "
    "takes; no total time, no step and no count of gradients. Gradients dropped are counted up to "
    "the last update.",
    "Errors are relative to what was measured, without their signs.",
)


def report(comparison: Comparison) -> Report:
    """How far predictions are off what was measured, by kind of run; each run in the details."""
    headline, notes = (_headline(comparison),), tuple(_notes(comparison))
    overheads, each, farthest = _overheads(comparison), _each(comparison), _errors(comparison)
    table, halves = _summary(comparison, [None]), _summary(comparison, HALVES)
    return Report(
        "validation",
        "Predicted against measured",
        headline,
        table,
        notes,
        details=(*([overheads] if overheads.columns else []), halves, each, farthest),
        always=1,
        families=dict.fromkeys((one.kind for one in comparison.predictions), ""),
        pictures=lambda: _charts(
            [
                _Point(one.kind, one.measured.total, totals.total, hollow)
                for one in comparison.predictions
                for hollow, totals in ((True, one.ideal), (False, one.calibrated))
                if totals is not None
            ],
            "without overheads",
        ),
        facts=lambda: {
            "made_by": MADE_BY,
            "kind": "validation",
            "headline": [plain(note) for note in headline],
            "notes": [plain(note) for note in notes],
            "summary": plain_rows(table),
            "by_half": plain_rows(halves),
            "overheads": plain_rows(overheads),
            "runs": plain_rows(each),
        },
    )


def forecast_report(forecasts: Sequence[Forecast], name: str, seen: Sequence[str]) -> Report:
    """How far a scenario is off runs that it was not made from; `seen`: those that it was."""
    offs = [abs(one.off) for one in of_its_workload(forecasts)]
    sizes = {"median": _share(median(offs)), "worst": _share(max(offs))}
    whose: dict[str, Value] = {"count": len(offs), "who": worst(forecasts).run, "name": name}
    headline = (Note("forecast", {**sizes, **whose}),)
    others = tuple(one.run for one in forecasts if not one.predicted)
    notes = [Note("with-its-times")]
    if others:
        notes.append(Note("other-workload", {"runs": others}))
    if again := tuple(one.run for one in forecasts if one.run in seen):
        notes.append(Note("seen-run", {"runs": again}))
    table = _forecast_table(forecasts)
    return Report(
        "validation",
        "Predicted against measured",
        headline,
        table,
        tuple(notes),
        always=len(notes),
        families=dict.fromkeys((one.kind for one in forecasts), ""),
        pictures=lambda: _charts(
            [
                _Point(one.kind, one.measured.total, total, hollow)
                for one in forecasts
                for hollow, made in ((True, (one.replayed,)), (False, one.predicted))
                if made
                for total in [fmean(totals.total for totals in made)]
            ],
            "with its compute times",
        ),
        facts=lambda: {
            "made_by": MADE_BY,
            "kind": "validation",
            "headline": [plain(note) for note in headline],
            "notes": [plain(note) for note in notes],
            "runs": plain_rows(table),
        },
    )


def _forecast_table(forecasts: Sequence[Forecast]) -> Table:
    """A row per run: measured, predicted, and by how much that is off."""
    columns = [Column("ranks", "ranks", tuple(Number(one.ranks) for one in forecasts))]
    for key, (what, unit) in _OF_RUN.items():
        seen = [getattr(one.measured, key) for one in forecasts]
        if all(one is None for one in seen):
            continue
        found = [
            one.estimate(key) if one.predicted and value is not None else NOTHING
            for one, value in zip(forecasts, seen, strict=True)
        ]
        given, detail = [getattr(one.replayed, key) for one in forecasts], key != "total"
        off = map(_error, (one.mean for one in found), seen)
        cells = {
            (key, what): (_number(one, unit) for one in seen),
            (f"{key}_predicted", "predicted"): (Number.of(one, unit) for one in found),
            (f"{key}_error", "error"): (_number(one, "share") for one in off),
            (f"{key}_replayed_error", "with its compute times"): (
                _number(one, "share") for one in map(_error, given, seen)
            ),
        }
        columns += [Column(*name, tuple(of), detail=detail) for name, of in cells.items()]
    runs = tuple(one.run for one in forecasts)
    return Table(runs, tuple(columns), corner="run", keys=1, fold=False, above=_KNOWN)


def _number(value: float | None, unit: Unit) -> Number:
    return Number(math.nan if value is None else value, unit=unit)


def off(comparison: Comparison) -> float:
    """How far the total time is off of the run that is farthest off."""
    worst = comparison.worst
    return abs(error(worst.best.total, worst.measured.total))


def _headline(comparison: Comparison) -> Note:
    errors = spread((one.best.total, one.measured.total) for one in comparison.predictions)
    assert errors is not None, "every run has a total time"
    sizes = {"median": _share(errors.median), "worst": _share(errors.worst)}
    return Note("predicted", {"count": errors.runs, **sizes, "who": comparison.worst.run})


def _notes(comparison: Comparison) -> Iterator[Note]:
    """Which runs did not make all updates; what each half was calibrated on."""
    for one in comparison.predictions:
        made = (one.measured.updates, one.best.updates)
        if min(made) < one.planned_updates:
            counts = dict(zip(("count", "predicted"), made, strict=True))
            yield Note("incomplete-run", {"who": one.run, "of": one.planned_updates, **counts})
    for half in comparison.half_calibrations:
        whose: dict[str, Value] = {"who": half.family, "half": half.half}
        if half.calibration is None:
            yield Note("not-calibrated", whose)
        else:
            yield Note("calibrated-on", {**whose, "runs": tuple(half.calibration.runs)})


# --- tables ---------------------------------------------------------------------------------------


def _summary(comparison: Comparison, halves: Sequence[Half | None]) -> Table:
    """A row per kind of runs, number and half: median and worst error, ideal and calibrated."""
    whole = halves == [None]
    found = [
        (name, what, half or "", ideal, calibrated)
        for name, group in _groups(comparison)
        for key, (what, _) in _OF_RUN.items()
        for half in halves
        for chosen in [[one for one in group if half in (None, one.half)]]
        if (ideal := _spread(chosen, key, lambda one: one.ideal)) is not None
        for calibrated in [_spread(chosen, key, lambda one: one.calibrated)]
    ]
    columns = [Column("number", "number", tuple(row[1] for row in found), prose=True)]
    if not whole:
        columns.append(Column("half", "predicted", tuple(row[2] for row in found), prose=True))
    columns.append(Column("runs", "runs", tuple(Number(row[3].runs) for row in found)))
    for at, kind in ((4, "calibrated"), (3, "ideal")):
        for part in ("median", "worst"):
            cells = tuple(_share(getattr(row[at], part, math.nan)) for row in found)
            columns.append(Column(f"{kind}_{part}", f"{kind} {part}", cells))
    names, above = tuple(row[0] for row in found), _METHOD if whole else ()
    return Table(names, tuple(columns), corner="runs of", keys=1, fold=False, above=above)


def _groups(comparison: Comparison) -> Iterator[tuple[str, list[Prediction]]]:
    """Each family of several kinds, and each kind."""
    families: dict[str, dict[str, list[Prediction]]] = {}
    for one in comparison.predictions:
        families.setdefault(one.family, {}).setdefault(one.kind, []).append(one)
    for family, kinds in families.items():
        if len(kinds) > 1:
            yield family, [one for of_kind in kinds.values() for one in of_kind]
        yield from kinds.items()


def _spread(
    chosen: Sequence[Prediction], key: str, made: Callable[[Prediction], Totals | None]
) -> ErrorSpread | None:
    return spread((getattr(made(one), key, None), getattr(one.measured, key)) for one in chosen)


def _overheads(comparison: Comparison) -> Table:
    """A column per half of a family: the overheads found."""
    found = [one for one in comparison.half_calibrations if one.calibration is not None]
    names = [
        name
        for name in Overheads.model_fields
        if any(one.calibration and name in one.calibration.overheads.given for one in found)
    ]
    columns = tuple(_overheads_of(one, names) for one in found)
    return Table((*names, "per core of foreign load"), columns, corner="overhead", fold=False)


def _overheads_of(half: HalfCalibration, names: Sequence[str]) -> Column:
    assert half.calibration is not None
    given = half.calibration.overheads
    cells: list[Cell] = [_overhead(given, name) if name in given.given else "" for name in names]
    load = half.calibration.load
    cells.append(f"+{100 * load:.0f} %" if round(load, 2) else "")
    return Column(f"{half.family}_{half.half}", f"{half.family}, {half.half} half", tuple(cells))


def _overhead(overheads: Overheads, name: str) -> str:
    value = getattr(overheads, name)
    return format_rate(value) if name in ("payload", "reduction") else format_seconds(value)


def _each(comparison: Comparison) -> Table:
    """A row per run: what was measured, what predicted, and by how much that is off."""
    runs = comparison.predictions
    columns = [Column("half", "half", tuple(one.half for one in runs), prose=True)]
    for key, (what, unit) in _OF_RUN.items():
        seen = [getattr(one.measured, key) for one in runs]
        found = [getattr(one.calibrated, key, None) for one in runs]
        views = {"": (what, seen, unit), "_predicted": ("predicted", found, unit)}
        views["_error"] = ("error", list(map(_error, found, seen)), "share")
        if key == "total":
            ideal = [_error(one.ideal.total, one.measured.total) for one in runs]
            views["_ideal_error"] = ("ideal error", ideal, "share")
        for name, (head, values, of) in views.items():
            cells = (Number(math.nan if one is None else one, unit=of) for one in values)
            columns.append(Column(f"{key}{name}", head, tuple(cells)))
    return Table(tuple(one.run for one in runs), tuple(columns), corner="run", keys=1, fold=False)


def _error(found: float | None, seen: float | None) -> float | None:
    return None if found is None or seen is None else error(found, seen)


def _errors(comparison: Comparison) -> Table:
    """The largest errors of predictions, whatever they are of."""
    found = [
        (error(best, seen), one.run, what)
        for one in comparison.predictions
        for key, (what, _) in _OF_RUN.items()
        for best, seen in [(getattr(one.best, key), getattr(one.measured, key))]
        if best is not None and seen is not None
    ]
    found = sorted(found, key=lambda one: -abs(one[0]))[:_FARTHEST]
    numbers = Column("number", "number", tuple(what for _, _, what in found), prose=True)
    errors = Column("error", "error", tuple(_share(size) for size, _, _ in found))
    runs = tuple(run for _, run, _ in found)
    return Table(runs, (numbers, errors), corner="farthest off", fold=False)


_share: Final = partial(Number, unit="share")


# --- the chart ------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A predicted total time (s) beside the measured one."""

    who: str
    measured: float
    total: float
    hollow: bool


def _charts(points: Sequence[_Point], hollow: str) -> tuple[Chart, ...]:
    """Predicted total times against measured ones, and how far off they are; `hollow`: of which."""
    charts = []
    longest = max(one.measured for one in points)
    for place, (y, height) in enumerate(_VIEWS.items()):
        rows: list[dict[str, Any]] = [
            {"who": who, "x": seen, "mean": height(seen, total), "hollow": empty}
            for who, seen, total, empty in points
        ]
        for x in (0.0, longest):
            exact = x if place == 0 else 0.0
            rows.append({"who": "exact", "x": x, "mean": exact, "hollow": False})
        charts.append(Chart.of("measured", "points", rows, _MEASURED, y, by="who", hollow=hollow))
    return tuple(charts)


# --- parts of a scenario --------------------------------------------------------------------------


def document(lines: Sequence[str]) -> dict[str, Any]:
    """What `calibrate` found as plain data: the scenario, or part of one, and the remarks on it."""
    tree, _ = read_document("\n".join(lines), Source("calibrate"))
    return {
        "made_by": MADE_BY,
        "kind": "calibration",
        "scenario": None if tree is None else plain_tree(tree),
        "remarks": [line.strip()[1:].strip() for line in lines if line.strip().startswith("#")],
    }
