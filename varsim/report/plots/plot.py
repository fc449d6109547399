"""One picture of a result: its name, its words, and how it is drawn and written."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from varsim.report.plots.figure import Drawn, arrange, panels, save, style, write_figure

R = TypeVar("R")


class Plot(NamedTuple, Generic[R]):
    """A picture of a result R: its file's name, what it says, how to read it, and its parts."""

    name: str
    heading: str
    caption: str
    title: Callable[[R], str]
    heights: Callable[[R], list[float]]  # inches of its panels, top to bottom
    draw: Callable[[R, list[Axes]], list[Axes]]
    legend: Callable[[R], Sequence[Artist]]
    one_axis: bool = True  # whether all panels have the same x axis
    shows: Callable[[R], bool] = lambda result: True  # whether there is anything to be seen
    alone: str = ""  # the caption where nothing has an interval, if that is another
    spreads: Callable[[R], bool] = lambda result: True  # whether anything has an interval

    def reads(self, result: R) -> str:
        """How to read it."""
        return self.alone if self.alone and not self.spreads(result) else self.caption


def write_all(
    plots: Sequence[tuple[Plot[Any], Any]], directory: Path, form: Literal["png", "svg"] = "png"
) -> None:
    """Write plots of results, each as one file."""
    for plot, result in plots:
        figure, _ = drawn(plot, result)
        write_figure(figure, directory / f"{plot.name}.{form}")


def draw_all(plots: Sequence[tuple[Plot[Any], Any]], directory: Path) -> dict[str, Drawn]:
    """Write plots of results as PNG and SVG."""
    return {plot.name: draw_one(plot, result, directory) for plot, result in plots}


def draw_one(plot: Plot[R], result: R, directory: Path) -> Drawn:
    """Write one plot as PNG and SVG."""
    with style():
        figure, axes = panels(plot.heights(result), plot.one_axis)
        plot.draw(result, axes)
        return save(figure, plot.title(result), plot.legend(result), directory / plot.name)


def drawn(plot: Plot[R], result: R) -> tuple[Figure, list[Axes]]:
    """One plot as a figure, laid out, and its panels."""
    with style():
        figure, axes = panels(plot.heights(result), plot.one_axis)
        plot.draw(result, axes)
        arrange(figure, plot.title(result), plot.legend(result))
    return figure, axes
