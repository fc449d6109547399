"""Replayed runs of real clusters as lines of a validation."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from validation.finding import Finding, Section
from varsim.calibration.recorded.comparison import (
    FAMILIES,
    HALVES,
    Comparison,
    Prediction,
    Totals,
    other,
    spread,
)

SECTION: Final = Section(
    "measured_runs",
    "Measured runs",
    "Runs of real clusters, recorded for this project and replayed; each half is predicted from "
    "overheads that were calibrated on the other half.",
    "Parameter servers: total time off by 1 % in the median, 4 % at most; 90th percentile of the "
    "step time 3 % in the median; gradients dropped 1 % and staleness 3 % at most. All-reduce: "
    "total time 2 % in the median, 10 % at most. Without any overheads: 7 % in the median.",
    link="measured.md",
)
_SERVERS, _COLLECTIVES = FAMILIES
_SOURCE: Final = "recorded for this project; see validation/data/MEASURED.md"
_WHY: Final = "see reports/validation/README.md"


class _Bound(NamedTuple):
    """At most this, of the median or the worst error of one number of the runs of a family."""

    family: str
    number: str  # a field of Totals
    what: str
    of: str  # a field of Spread
    most: float
    ideal: bool = False


# Written down before the runs were predicted.
_BOUNDS: Final = (
    _Bound(_SERVERS, "total", "total time", "median", 0.01),
    _Bound(_SERVERS, "total", "total time", "worst", 0.04),
    _Bound(_SERVERS, "p90_step", "90th percentile of the step time", "median", 0.03),
    _Bound(_SERVERS, "dropped", "gradients dropped", "worst", 0.01),
    _Bound(_SERVERS, "staleness", "asynchronous staleness", "worst", 0.03),
    _Bound(_COLLECTIVES, "total", "total time", "median", 0.02),
    _Bound(_SERVERS, "total", "total time without overheads", "median", 0.07, ideal=True),
)


def findings(comparison: Comparison) -> list[Finding]:
    """The errors that are bounded, in sum over each half; and the total time of every run."""
    predictions = comparison.predictions
    sums = [
        found
        for bound in _BOUNDS
        for half in HALVES
        for found in _summed(
            bound, [one for one in predictions if (one.family, one.half) == (bound.family, half)]
        )
    ]
    return [*sums, *map(_run, predictions)]


def _summed(bound: _Bound, runs: Sequence[Prediction]) -> Iterator[Finding]:
    def of(totals: Totals | None) -> float | None:
        return None if totals is None else getattr(totals, bound.number)

    found = spread(
        (of(one.ideal if bound.ideal else one.calibrated), of(one.measured)) for one in runs
    )
    if found is None:
        return
    half = runs[0].half
    source = "" if bound.ideal else f", calibrated on the {other(half)}"
    yield Finding(
        bound.family,
        f"{found.runs} runs of the {half} half{source}",
        f"{bound.of} error of {bound.what}",
        "1",
        0.0,
        getattr(found, bound.of),
        source=_SOURCE,
    ).at_most(bound.most, _WHY)


def _run(one: Prediction) -> Finding:
    """The total time of one run."""
    measured, best = one.measured.total, one.best.total
    line = Finding(one.kind, one.run, "total time", "s", measured, best, source=_SOURCE)
    return line.within(0.04 if one.family == _SERVERS else 0.10, _WHY)
