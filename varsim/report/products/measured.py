"""Predicted against measured, as charts: every run a point, with and without overheads."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from varsim.calibration.recorded.comparison import error
from varsim.report.told import Chart

if TYPE_CHECKING:
    from varsim.calibration.recorded.comparison import Comparison, Prediction

_MEASURED: Final = "measured total time (s)"
_VIEWS: Final[dict[str, Callable[["Prediction", float], float]]] = {
    "predicted total time (s)": lambda one, total: total,
    "error (share)": lambda one, total: error(total, one.measured.total),
}


def charts(comparison: "Comparison") -> list[Chart]:
    """Predicted total times, and how far off they are, against those that were measured."""
    return [_chart(comparison, y, height) for y, height in _VIEWS.items()]


def families(comparison: "Comparison") -> dict[str, str]:
    """The kinds that are told apart."""
    return dict.fromkeys((one.kind for one in comparison.predictions), "")


def _chart(
    comparison: "Comparison", y: str, height: Callable[["Prediction", float], float]
) -> Chart:
    rows: list[dict[str, Any]] = [
        {"who": one.kind, "x": one.measured.total, "mean": height(one, total), "hollow": hollow}
        for one in comparison.predictions
        for hollow, totals in ((True, one.ideal), (False, one.calibrated))
        if totals is not None
        for total in [totals.total]
    ]
    longest = max(one.measured.total for one in comparison.predictions)
    for x in (0.0, longest):
        exact = x if y == next(iter(_VIEWS)) else 0.0
        rows.append({"who": "exact", "x": x, "mean": exact, "hollow": False})
    words = {"by": "who", "hollow": "without overheads"}
    return Chart.of("measured", "points", rows, _MEASURED, y, **words)
