"""Predicted against measured runs, as tables and a Markdown page."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from varsim.calibration.recorded.comparison import (
    HALVES,
    Comparison,
    Half,
    HalfCalibration,
    Prediction,
    Totals,
    error,
    spread,
)
from varsim.calibration.recorded.overheads import Calibration
from varsim.cluster.description.servers import Overheads
from varsim.core.units import format_rate, format_seconds

Row = Sequence[str]

_WHAT: Final = {
    "total": "total time",
    "p90_step": "p90 step time",
    "dropped": "gradients dropped",
    "staleness": "mean staleness",
}


class Table(NamedTuple):
    """Table of text cells; the first `named` columns hold words, the others numbers."""

    head: Row
    rows: Sequence[Row]
    named: int = 1


def run_table(comparison: Comparison) -> Table:
    """One row per run: what was measured, what predicted, and by how much that is off."""
    head = (
        *("run", "half", "total", "total predicted", "total error", "ideal error"),
        *("p90 step", "p90 predicted", "p90 error"),
        *("dropped", "dropped predicted", "dropped error"),
        *("staleness", "staleness predicted", "staleness error"),
    )
    return Table(head, [_run_row(one) for one in comparison.predictions], named=2)


def incomplete_runs(comparison: Comparison) -> list[str]:
    """One line for each run that did not make all updates, or was predicted not to."""
    return [
        f"{one.run} was to make {one.planned_updates} updates; it deadlocked after "
        f"{one.measured.updates}, predicted {one.best.updates}"
        for one in comparison.predictions
        if min(one.measured.updates, one.best.updates) < one.planned_updates
    ]


def summary_table(comparison: Comparison) -> Table:
    """One row per kind, half and number: median and worst error, ideal and calibrated."""
    head = (
        *("runs of", "number", "predicted", "runs", "ideal median", "ideal worst"),
        *("calibrated median", "calibrated worst"),
    )
    return Table(head, list(_summary_rows(comparison)), named=3)


def calibration_table(comparison: Comparison) -> Table:
    """One column per half of a family: the overheads found."""
    found = [one for one in comparison.half_calibrations if one.calibration is not None]
    names = [
        name
        for name in Overheads.model_fields
        if any(name in one.calibration.overheads.given for one in found if one.calibration)
    ]
    rows = [
        (name, *(_overhead(one.calibration.overheads, name) for one in found if one.calibration))
        for name in names
    ]
    loads = [f"+{one.calibration.load:.0%}" for one in found if one.calibration]
    rows.append(("per core of foreign load", *(("" if each == "+0%" else each) for each in loads)))
    return Table(("overhead", *(f"{one.family}, {one.half} half" for one in found)), rows)


def markdown(comparison: Comparison, command: str, picture: str) -> str:
    """The whole page; `command` made it, `picture` is the file of the figure."""
    parts = [
        "# Predicted against measured",
        f"Made by `{command}`. Do not edit.",
        _INTRODUCTION,
        f"![Predicted against measured total time, and the error of each run]({picture})",
        "## Summary",
        "Errors are relative to what was measured, without their signs. `predicted`: which half of "
        "the runs, each from the other half. `p90`: 90th percentile.",
        _as_markdown(summary_table(comparison)),
        "## The overheads found",
        "On a machine with nothing else to do; per core of foreign load each is longer by so much.",
        _as_markdown(calibration_table(comparison)),
        *_sources(comparison.half_calibrations),
        "## Run by run",
        "Times in seconds. `half`: the one that the run is in; it is predicted from the other. "
        "`ideal error`: that of the total time without any overheads.",
        _as_markdown(run_table(comparison)),
        *incomplete_runs(comparison),
        "## Farthest off",
        _as_markdown(_farthest(comparison)),
    ]
    return "\n\n".join(parts) + "\n"


def fragment(calibration: Calibration) -> list[str]:
    """The overheads as they stand in a scenario, and how well they fit, as comments."""
    overheads = calibration.overheads.model_dump(mode="json", exclude_none=True)
    given = {name: overheads[name] for name in calibration.overheads.given}
    lines = [f"# calibrated on: {', '.join(calibration.runs)}"]
    if calibration.load:
        lines.append(
            "# on a machine with nothing else to do; with f cores busy with foreign work each "
            f"takes 1 + {calibration.load:g} f times as long"
        )
    lines += ["cluster:", "  overheads:", *(f"    {name}: {text}" for name, text in given.items())]
    lines.append("# mean latencies, measured and with these overheads:")
    for run in dict.fromkeys(fitted.run for fitted in calibration.residuals):
        pairs = [
            f"{fitted.latency} {format_seconds(fitted.measured)} {format_seconds(fitted.fitted)}"
            for fitted in calibration.residuals
            if fitted.run == run
        ]
        lines.append(f"#   {run}: {', '.join(pairs)}")
    return lines


_INTRODUCTION: Final = (
    "Every run of a real cluster is replayed: the prescribed compute times of each iteration "
    "(`trace`), workers, servers, tokens, payload and kills go through the same strategies that "
    "`varsim run` uses. Nothing else of the run is known to its prediction but, for parameter "
    "servers, how many cores of the machine were busy with foreign work.\n\n"
    "The overheads are calibrated on other runs: those of one kind, in the order of their names, "
    "go in turn to the first and the second half, and each half is predicted from the other one. "
    "Runs without computation are there for both calibrations. What is fitted is how long reads "
    "take, how long workers need from one computation to the next, and how long a collective "
    "takes; no total time, no step and no count of gradients. Gradients dropped are counted up to "
    "the last update."
)


def _run_row(one: Prediction) -> Row:
    def of(name: str, decimals: int) -> Row:
        """A number as measured, as predicted, and its error, where there are such."""
        seen = getattr(one.measured, name)
        found = None if one.calibrated is None else getattr(one.calibrated, name)
        off = "" if seen is None or found is None else f"{error(found, seen):+.2%}"
        return _number(seen, decimals), _number(found, decimals), off

    without = f"{error(one.ideal.total, one.measured.total):+.2%}"
    others = (*of("p90_step", 4), *of("dropped", 0), *of("staleness", 3))
    return (one.run, one.half, *of("total", 3), without, *others)


def _summary_rows(comparison: Comparison) -> Iterator[Row]:
    groups: dict[str, dict[str, list[Prediction]]] = {}
    for one in comparison.predictions:
        groups.setdefault(one.family, {}).setdefault(one.kind, []).append(one)
    for family, kinds in groups.items():
        if len(kinds) > 1:
            yield from _group_rows(family, [one for of_kind in kinds.values() for one in of_kind])
        for kind, of_kind in kinds.items():
            yield from _group_rows(kind, of_kind)


def _group_rows(label: str, group: Sequence[Prediction]) -> Iterator[Row]:
    for name, words in _WHAT.items():
        for half in (*HALVES, None):
            chosen = [one for one in group if half in (None, one.half)]
            if row := _summary_row(chosen, name, half):
                yield label, words, *row


def _summary_row(chosen: Sequence[Prediction], name: str, half: Half | None) -> Row | None:
    def of(totals: Totals | None) -> float | None:
        return None if totals is None else getattr(totals, name)

    ideal = spread((of(one.ideal), of(one.measured)) for one in chosen)
    if ideal is None:
        return None
    cells = [half or "all", str(ideal.runs)]
    spreads = (
        ideal,
        spread((of(one.calibrated), of(one.measured)) for one in chosen),
    )
    for found in spreads:
        cells += ["", ""] if found is None else [f"{found.median:.2%}", f"{found.worst:.2%}"]
    return cells


def _farthest(comparison: Comparison, number: int = 8) -> Table:
    """The largest errors of calibrated predictions, whatever they are of."""
    errors = []
    for one in comparison.predictions:
        for name, words in _WHAT.items():
            seen, best = getattr(one.measured, name), getattr(one.best, name)
            if seen is not None and best is not None:
                errors.append((error(best, seen), one.run, words))
    errors.sort(key=lambda entry: -abs(entry[0]))
    rows = [(run, words, f"{size:+.2%}") for size, run, words in errors[:number]]
    return Table(("run", "number", "error"), rows, named=2)


def _sources(half_calibrations: Sequence[HalfCalibration]) -> Iterator[str]:
    for one in half_calibrations:
        if one.calibration is None:
            yield f"From the {one.half} half of {one.family} nothing can be learnt."
        else:
            runs = ", ".join(f"`{run}`" for run in one.calibration.runs)
            yield f"The {one.half} half of {one.family} is {runs}."


def _overhead(overheads: Overheads, name: str) -> str:
    if name not in overheads.given:
        return ""
    value = getattr(overheads, name)
    return format_rate(value) if name in ("payload", "reduction") else format_seconds(value)


def _as_markdown(table: Table) -> str:
    rule = ["---" if index < table.named else "---:" for index in range(len(table.head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (table.head, rule, *table.rows))


def _number(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:.{decimals}f}"
