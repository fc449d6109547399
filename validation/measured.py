"""Replayed runs of real clusters as lines of a validation."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from validation.finding import Finding, Verdict
from varsim.calibration.recorded.comparison import (
    FAMILIES,
    HALVES,
    Comparison,
    Prediction,
    Spread,
    Totals,
    error,
    other,
    spread,
)

ABOUT: Final = (
    "Runs of real clusters, recorded for this project and replayed; each half is predicted from "
    "overheads that were calibrated on the other half."
)
BOUND: Final = (
    "Parameter servers: total time off by 1 % in the median, 4 % at most; 90th percentile of the "
    "step time 3 % in the median; gradients dropped 1 % and staleness 3 % at most. All-reduce: "
    "total time 2 % in the median, 10 % at most. Without any overheads: 7 % in the median."
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
    sums = [
        found
        for bound in _BOUNDS
        for half in HALVES
        if (found := _summed(bound, [p for p in _of(comparison, bound.family) if p.half == half]))
    ]
    return [*sums, *(_run(one) for one in comparison.predictions)]


def _of(comparison: Comparison, family: str) -> Iterable[Prediction]:
    return (one for one in comparison.predictions if one.family == family)


def _summed(bound: _Bound, runs: Sequence[Prediction]) -> Finding | None:
    def of(totals: Totals | None) -> float | None:
        return None if totals is None else getattr(totals, bound.number)

    predicted = [one.ideal if bound.ideal else one.calibrated for one in runs]
    pairs = zip(map(of, predicted), (of(one.measured) for one in runs), strict=True)
    found: Spread | None = spread(pairs)
    if found is None:
        return None
    got: float = getattr(found, bound.of)
    half = runs[0].half
    return Finding(
        bound.family,
        f"{found.runs} runs of the {half} half, calibrated on the {other(half)}"
        if not bound.ideal
        else f"{found.runs} runs of the {half} half",
        f"{bound.of} error of {bound.what}",
        "1",
        0.0,
        got,
        bound=f"at most {bound.most:.0%}",
        verdict=Verdict.PASS if got <= bound.most else Verdict.MISS,
        source=_SOURCE,
        why="" if got <= bound.most else _WHY,
    )


def _run(one: Prediction) -> Finding:
    """The total time of one run."""
    most = 0.04 if one.family == _SERVERS else 0.10
    passed = abs(error(one.best.total, one.measured.total)) <= most
    return Finding(
        one.kind,
        one.run,
        "total time",
        "s",
        one.measured.total,
        one.best.total,
        bound=f"within {most:.0%}",
        verdict=Verdict.PASS if passed else Verdict.MISS,
        source=_SOURCE,
        why="" if passed else _WHY,
    )
