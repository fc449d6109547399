"""How every picture looks: style, panels, layout by the longest labels, safe text, files."""

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

from varsim.core.inert import visible
from varsim.report.charts.looks import Look
from varsim.report.told import Chart

INK: Final = "#1f2328"
FAINT: Final = "#59636e"
PAPER: Final = "#ffffff"
WIDTH: Final = 8.0  # inches
_PAD: Final = 0.1
_FONT: Final = "DejaVu Sans"  # comes with matplotlib: the same on every machine
_STYLE: Final = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titley": 1.0,
    "figure.facecolor": PAPER,
    "font.family": _FONT,
    "font.size": 9.5,
    "grid.color": "#d9dee3",
    "grid.linewidth": 0.7,
    "hatch.color": PAPER,
    "hatch.linewidth": 0.7,
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "legend.columnspacing": 1.6,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "varsim",
    "text.color": INK,
    "text.hinting": "none",  # as wide at each resolution
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw as varsim does, whatever the user's matplotlibrc says; it is as before afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def drawable(text: str) -> str:
    """The text with nothing in it that acts unseen, is mathematics, or has no glyph."""
    glyphs = _glyphs()
    return "".join(
        "\\$" if letter == "$" else letter if ord(letter) in glyphs else "\N{WHITE SQUARE}"
        for letter in visible(text)
    )


def wrapped(text: str, width: int = 22) -> str:
    """A label on as many lines as it needs, ready to draw."""
    return "\n".join(textwrap.wrap(drawable(text), width) or [text])


def short(text: str, width: int = 30) -> str:
    """A label on one line, its middle left out where it is too long."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail].rstrip()}…{text[-tail:].lstrip()}"


def panel_title(axes: Axes, label: str, remark: str = "") -> None:
    """The label above the left end of a panel, the remark above the right end."""
    # A letter of the label takes about 0.083 inches, one of the remark 0.075.
    room = int((WIDTH * share(axes) - 0.8 - 0.075 * len(remark)) / 0.083)
    axes.set_title(drawable(short(label, room)), pad=6)
    axes.set_title(drawable(remark), loc="right", pad=6, fontsize=8.5, color=FAINT)


def plain_numbers() -> FuncFormatter:
    """Ticks as people write numbers: 12,000, never 1.2e4 or an offset."""
    return FuncFormatter(lambda value, _: f"{value:,.10g}")


def outline(*lines: Artist) -> None:
    """Edge lines that cross bars, so that they are seen on dark shades, too."""
    for line in lines:
        line.set_path_effects([withStroke(linewidth=3.2, foreground=PAPER)])


def share(axes: Axes) -> float:
    """How wide its figure is, as a share of the usual width: there is so much room for letters."""
    assert isinstance(axes.figure, Figure)
    return axes.figure.get_figwidth() / WIDTH


def panels(count: int, width: float = WIDTH) -> tuple[Figure, list[Axes]]:
    """A figure with so many Axes below each other, on a common x axis."""
    figure = Figure(figsize=(width, 2.0 * count))
    FigureCanvasAgg(figure)
    grid = figure.subplots(count, 1, sharex=True, squeeze=False)
    return figure, list(grid[:, 0])


def lay_out(figure: Figure, heights: Sequence[float], legend: Sequence[Artist]) -> None:
    """Give each panel its height (inches), and room for its longest labels; the legend on top."""
    axes, width = figure.axes, figure.get_figwidth()
    key = _legend(figure, legend) if legend else None
    for _ in range(2):  # which ticks there are depends on the room for them
        above = 0.0 if key is None else key.get_window_extent().height / figure.dpi + _PAD
        edges = []
        for one in axes:
            box, whole = one.get_window_extent(), one.get_tightbbox()
            assert whole is not None, "axes can be seen"
            sides = (box.x0 - whole.x0, whole.x1 - box.x1, whole.y1 - box.y1, box.y0 - whole.y0)
            edges.append([max(0.0, round(side / figure.dpi, 3)) for side in sides])
        left, right = (max(one[side] for one in edges) + _PAD for side in (0, 1))
        height = sum(heights) + sum(one[2] + one[3] + _PAD for one in edges) + above + _PAD
        figure.set_size_inches(width, height)
        if key is not None:
            key.set_bbox_to_anchor((_PAD / width, 1 - _PAD / height))
        y = height - above - _PAD
        for one, (_, _, top, bottom), own in zip(axes, edges, heights, strict=True):
            y -= top + own
            one.set_position((left / width, y / height, 1 - (left + right) / width, own / height))
            y -= bottom + _PAD


def write(figure: Figure, path: Path) -> None:
    """Write a figure as .png or .svg, the same bytes every time."""
    with style():
        if path.suffix == ".png":
            figure.savefig(path, dpi=150, metadata={"Software": None})
            return
        text = io.StringIO()
        nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", metadata=nothing)
    # Verdana is as wide as what the text was measured in.
    fonts = text.getvalue().replace(f"'{_FONT}'", f"'{_FONT}', Verdana, sans-serif")
    path.write_text(fonts, encoding="utf-8", newline="\n")


def _legend(figure: Figure, handles: Sequence[Artist]) -> Legend:
    """A legend in as many columns as fit, read row by row though it is filled by columns."""
    labels = [drawable(short(str(handle.get_label()), 40)) for handle in handles]
    longest = max(len(label) for label in labels)
    letters = int(96 * figure.get_figwidth() / WIDTH)
    columns = max(1, min(len(labels), letters // (longest + 6)))
    order = [place for column in range(columns) for place in range(column, len(labels), columns)]
    # A label that begins with an underscore would be left out.
    said = [f" {label}" if label.startswith("_") else label for label in labels]
    return figure.legend(
        [handles[place] for place in order],
        [said[place] for place in order],
        loc="upper left",
        ncols=columns,
    )


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(_FONT)).get_charmap())


Rows: TypeAlias = list[dict[str, Any]]
Looks: TypeAlias = Mapping[str, Look]


class Panel(NamedTuple):
    """A part of a picture: a chart, the rows of it that are drawn here, and its Axes."""

    chart: Chart
    name: str
    rows: Rows
    axes: Axes

    def series(self) -> dict[str, Rows]:
        """The rows by what they are of."""
        found: dict[str, Rows] = {}
        for row in self.rows:
            found.setdefault(row[self.chart.by], []).append(row)
        return found


class Made(NamedTuple):
    """What a mark has made of its panels: their heights in inches, and what the legend holds."""

    heights: list[float]
    legend: Sequence[Artist]


def swatch(label: str, color: str, **style: Any) -> Line2D:
    """What stands for a line or a mark in a legend."""
    return Line2D([], [], color=color, label=label, **style)
