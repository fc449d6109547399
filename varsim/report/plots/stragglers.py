"""A map of worker by step: how long each step took there, against the mean of all."""

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

from varsim.report.plots.plot import Plot
from varsim.study.stragglers import Stragglers, Table

_MOST_COLUMNS = 600
_COLORS = "cividis"


def cells(found: Stragglers) -> Table:
    """Times over the mean of all, shape (workers, columns); of many steps a column is the mean."""
    steps = found.table.shape[0]
    groups = np.array_split(found.table / found.mean, min(steps, _MOST_COLUMNS))
    return np.stack([group.mean(axis=0) for group in groups], axis=1)


def title(found: Stragglers) -> str:
    """What the map shows, as a sentence."""
    slow = int(np.argmax(found.worker_slowdowns))
    said = f"A step that waits for all takes {found.slowdown:.3g} times the mean time"
    if found.slowdown < 1.005:
        return "Steps that wait for all take hardly longer than the mean time"
    return f"{said}; worker {slow} alone would make it {found.worker_slowdowns[slow]:.3g} times"


def heights(found: Stragglers) -> list[float]:
    """Inches of the map."""
    return [min(6.0, max(1.2, 0.22 * found.table.shape[1]))]


def draw(found: Stragglers, panels: list[Axes]) -> list[Axes]:
    """The map: a row per worker, time goes to the right."""
    (axes,) = panels
    values = cells(found)
    steps, workers = found.table.shape
    low, high = float(values.min()), float(values.max())
    scale = TwoSlopeNorm(1.0, min(low, 1 - 1e-9), max(high, 1 + 1e-9))
    image = axes.imshow(
        values,
        _COLORS,
        scale,
        aspect="auto",
        interpolation="nearest",
        extent=(0, steps, workers, 0),
    )
    axes.set_xlabel("step")
    axes.set_ylabel("worker")
    stride = -(-workers // 20)
    shown = list(range(0, workers, stride))
    axes.set_yticks([rank + 0.5 for rank in shown], [str(rank) for rank in shown])
    axes.grid(visible=False)
    axes.figure.colorbar(
        image,
        ax=axes,
        label="time / mean of all",
        fraction=0.04,
        pad=0.02,
        use_gridspec=False,
        ticks=[low, 1.0, high],
        format="%.3g",
    )
    return panels


def legend(found: Stragglers) -> Sequence[Artist]:
    """None: the colours have a scale of their own."""
    return ()


PLOT = Plot(
    "heat_map",
    "Stragglers",
    "Time of each worker in each step, over the mean of all",
    title,
    heights,
    draw,
    legend,
)
