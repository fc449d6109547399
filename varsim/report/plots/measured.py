"""Predicted against measured: every run a mark, with and without calibrated overheads."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from varsim.calibration.recorded.comparison import error, spread
from varsim.report.charts.looks import Look, looks
from varsim.report.plots.figure import FAINT, panels, plain_numbers, save, strategy_line, style

if TYPE_CHECKING:
    from varsim.calibration.recorded.comparison import Comparison, Prediction

_HEIGHTS: Final = (3.4, 2.4)  # inches


def draw(comparison: "Comparison", path: Path) -> None:
    """Write the figure to `path` as .png and .svg."""
    with style():
        figure, (totals, errors) = panels(_HEIGHTS)
        draw_totals(comparison, totals)
        draw_errors(comparison, errors)
        save(figure, title(comparison), legend(comparison), path)


def draw_totals(comparison: "Comparison", axes: Axes) -> Axes:
    """Predicted against measured total time; on the line they are equal."""
    longest = max(one.measured.total for one in comparison.predictions)
    axes.plot([0, longest], [0, longest], color=FAINT, linewidth=0.8, zorder=1)
    _marks(comparison, axes, lambda one, total: total)
    axes.set_ylabel("predicted total time (s)")
    return axes


def draw_errors(comparison: "Comparison", axes: Axes) -> Axes:
    """How far off the prediction is, against the measured total time."""
    axes.axhline(0, color=FAINT, linewidth=0.8, zorder=1)
    _marks(comparison, axes, lambda one, total: 100 * error(total, one.measured.total))
    axes.set_xlim(left=0)
    axes.set_xlabel("measured total time (s)")
    axes.set_ylabel("error (%)")
    axes.xaxis.set_major_formatter(plain_numbers())
    return axes


def title(comparison: "Comparison") -> str:
    """How far off the predictions are."""
    pairs = [(one.calibrated, one.measured) for one in comparison.predictions]
    found = spread((None if best is None else best.total, seen.total) for best, seen in pairs)
    ideal = spread((one.ideal.total, one.measured.total) for one in comparison.predictions)
    assert ideal is not None
    if found is None:
        return f"Without overheads, total times are off by {100 * ideal.median:.1f} % (median)"
    return (
        f"Total times are off by {100 * found.median:.1f} % (median of {found.runs} runs; at most "
        f"{100 * found.worst:.1f} %), without overheads by {100 * ideal.median:.1f} %"
    )


def legend(comparison: "Comparison") -> list[Artist]:
    """What stands for each kind, and for a prediction without overheads."""
    look = _looks(comparison)
    hollow = Line2D(
        [], [], color=FAINT, marker="o", markerfacecolor="none", markersize=5.5, linestyle="none"
    )
    hollow.set_label("without overheads")
    return [*(strategy_line(kind, look[kind], "none") for kind in look), hollow]


def _looks(comparison: "Comparison") -> dict[str, Look]:
    return looks(dict.fromkeys((one.kind for one in comparison.predictions), ""))


def _marks(
    comparison: "Comparison", axes: Axes, height: Callable[["Prediction", float], float]
) -> None:
    """A hollow mark for the ideal prediction of a run, a full one for the calibrated."""
    look = _looks(comparison)
    for one in comparison.predictions:
        color, marker, _ = look[one.kind]
        x = one.measured.total
        for totals, face in ((one.ideal, "none"), (one.calibrated, color)):
            if totals is not None:
                axes.plot(
                    [x],
                    [height(one, totals.total)],
                    marker,
                    color=color,
                    markerfacecolor=face,
                    markersize=5.5,
                    clip_on=False,
                    zorder=2 if face == "none" else 3,
                )
