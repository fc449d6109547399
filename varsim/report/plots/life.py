"""The life of jobs among failures: where all of their time went, and attempt by attempt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from varsim.cluster.recovery import in_run
from varsim.cluster.trace import WORKER, Attempt
from varsim.report.plots.bars import cut_bars
from varsim.report.plots.figure import called, label_rows, marked, row_heights
from varsim.report.plots.looks import Look
from varsim.report.plots.plot import Plot
from varsim.study.goodput import PARTS
from varsim.study.measure import NANOSECONDS

if TYPE_CHECKING:
    from varsim.study.result import Result

# Part of a life -> what it is called, and how it looks.
_LOOKS: Final = {
    "goodput": ("kept", Look("#3f90da", "")),
    "life_checkpoint": ("checkpoints", Look("#ffa90e", "\\\\\\")),
    "life_lost": ("lost", Look("#bd1f01", "xxx")),
    "life_detection": ("detection", Look("#94a4a2", "|||")),
    "life_repair": ("waiting for hosts", Look("#717581", "//||")),
    "life_restart": ("restart", Look("#92dadd", "///")),
}
_DAY: Final = 86_400.0
_MOST: Final = 40  # attempts that are drawn one by one


def _rows(result: "Result") -> list[str]:
    return [marked(result.scenario, strategy) for strategy in result.strategies]


def _heights(result: "Result") -> list[float]:
    """Two panels: shares, and the first attempts."""
    return 2 * row_heights(_rows(result))


def shares(result: "Result", axes: Axes) -> Axes:
    """One bar of 100 % per strategy, cut into what its job's time went into."""
    cut = [
        [(100 * result.estimate(one, name).mean, look) for name, (_, look) in _LOOKS.items()]
        for one in result.strategies
    ]
    return cut_bars(axes, _rows(result), cut, "share of the time of the whole life (%)")


def attempts(result: "Result", axes: Axes) -> Axes:
    """The first attempts of each job in the first replication, one after the other."""
    fields = [Attempt._fields.index(field) for field, _ in PARTS.values()]
    lasted, inside = 0.0, bool(in_run(result.scenario.failures))
    unit = 1.0 if inside else _DAY
    for y, strategy in enumerate(result.strategies):
        life = result.trace(strategy).life
        assert life is not None, "drawn of jobs that fail at random"
        if inside:
            life = life[life[:, WORKER] == 0]
        rows = life[:_MOST]
        lengths = rows[:, fields] / NANOSECONDS / unit
        starts = rows[:, :1] / NANOSECONDS / unit + np.cumsum(lengths, axis=1) - lengths
        for column, (_, look) in enumerate(_LOOKS.values()):
            spans = list(zip(starts[:, column].tolist(), lengths[:, column].tolist(), strict=True))
            axes.broken_barh(
                [span for span in spans if span[1] > 0],
                (y - 0.33, 0.66),
                facecolor=look.color,
                hatch=look.mark,
                linewidth=0,
            )
        lasted = max(lasted, float(lengths.sum()))
    axes.set_xlim(0, lasted)
    label_rows(axes, _rows(result))
    axes.grid(visible=False, axis="y")
    of, told = (" of worker 0", "s") if inside else ("", "days")
    axes.set_xlabel(f"time ({told}), up to {_MOST} attempts{of} of the first replication")
    return axes


def _draw(result: "Result", panels: list[Axes]) -> list[Axes]:
    above, below = panels
    return [shares(result, above), attempts(result, below)]


def _title(result: "Result") -> str:
    kept = {name: result.estimate(name, "goodput").mean for name in result.strategies}
    best = max(kept, key=kept.__getitem__)
    return f"{100 * kept[best]:.1f} % of the time is kept in {called(result.scenario, best)}"


def _legend(result: "Result") -> Sequence[Artist]:
    return [
        Patch(facecolor=look.color, hatch=look.mark, label=name, linewidth=0)
        for part, (name, look) in _LOOKS.items()
        if any(result.estimate(strategy, part).mean > 0 for strategy in result.strategies)
    ]


PLOT: Final[Plot["Result"]] = Plot(
    "life",
    "The life of the job",
    "Above: all time of all workers over the whole life, mean over the replications. Below: "
    "attempts, each from a start to the next: first what of it was kept, then what checkpoints "
    "took, what the failure at its end threw away, and how long recovery took.",
    _title,
    _heights,
    _draw,
    _legend,
    one_axis=False,
    shows=lambda result: result.scenario.failures is not None,
)
