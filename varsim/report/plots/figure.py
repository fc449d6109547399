"""How every figure looks: style, layout, text that is safe to draw, and files."""

import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import BboxBase

from varsim.inert import visible
from varsim.report.charts.looks import ACTIVITIES as ACTIVITIES
from varsim.report.charts.looks import Look
from varsim.report.wording import names, too_large
from varsim.scenario.training import Scenario

INK: Final = "#1f2328"
FAINT: Final = "#59636e"
GRID: Final = "#d9dee3"
PAPER: Final = "#ffffff"
WIDTH: Final = 8.0  # inches
_LETTERS: Final = (84, 78, 72, 66, 60)  # of a line of the title: the most that have room
_GAP: Final = 0.1  # inches below the title and the legend
_PAD: Final = (0.07, 0.05)  # inches beside and above what belongs to a panel
_FONT: Final = "DejaVu Sans"
# Of text in an SVG: what it was measured in, then Verdana, which is as wide, then what there is.
FONTS: Final = f"font-family: '{_FONT}', Verdana, sans-serif"

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
    "axes.titley": 1.0,  # where they stand anyway, as nothing is above: not to be looked for
    "figure.facecolor": PAPER,
    "font.family": _FONT,  # comes with matplotlib: the same on every machine
    "font.size": 9.5,
    "grid.color": GRID,
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


class TimeUnit(NamedTuple):
    """A unit for an axis of times."""

    seconds: float
    name: str


class Drawn(NamedTuple):
    """A figure as the report needs it, which puts the title beside the picture."""

    title: str
    svg: str
    below_title: tuple[float, float, float, float]  # the rest of it, as a viewBox


def time_unit(longest: float) -> TimeUnit:
    """The unit in which a time of `longest` seconds reads well."""
    units = (TimeUnit(3600, "h"), TimeUnit(60, "min"), TimeUnit(1, "s"), TimeUnit(1e-3, "ms"))
    least = (3 * 3600, 5 * 60, 1, 1e-3)
    found = (unit for unit, size in zip(units, least, strict=True) if longest >= size)
    return next(found, TimeUnit(1e-6, "µs"))


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


def named(mode: str) -> str:
    """A mode within a sentence, shortened and quoted: 'on_read'."""
    return f"'{short(mode)}'"


def marked(scenario: Scenario, strategy: str) -> str:
    """A strategy's title, and whether it is too large for the memory there is."""
    return names(scenario)[strategy] + too_large(scenario, strategy)


def called(scenario: Scenario, strategy: str) -> str:
    """A strategy in a sentence, with the same mark."""
    return short(scenario.strategy(strategy).mention, 32) + too_large(scenario, strategy)


def short(text: str, width: int = 30) -> str:
    """A label on one line, its middle left out where it is too long."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail].rstrip()}…{text[-tail:].lstrip()}"


def panel_title(axes: Axes, label: str, remark: str, pad: float, shorter: str = "") -> None:
    """The label above the left end of a panel, the remark above the right end.

    A remark is made `shorter`, if it can be, before a label is.
    """
    if shorter and len(label) > _room(remark):
        remark = shorter
    axes.set_title(drawable(short(label, _room(remark))), pad=pad)
    axes.set_title(remark, loc="right", pad=pad, fontsize=8.5, color=FAINT)


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """A label before every row, the first one at the top."""
    axes.set_yticks(range(len(labels)), [wrapped(label) for label in labels])
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def row_heights(labels: Sequence[str]) -> list[float]:
    """Inches of one panel with such rows."""
    lines = max(wrapped(label).count("\n") + 1 for label in labels)
    return [0.35 + len(labels) * max(0.36, 0.16 * lines + 0.08)]


def outline(*lines: Artist) -> None:
    """Edge lines that cross bars, so that they are seen on dark shades, too."""
    for line in lines:
        line.set_path_effects([withStroke(linewidth=3.2, foreground=PAPER)])


def plain_numbers() -> FuncFormatter:
    """Ticks as people write numbers: 12,000, never 1.2e4 or an offset."""
    return FuncFormatter(lambda value, _: f"{value:,.10g}")


def activity_patch(activity: str) -> Patch:
    """What stands for an activity in a legend."""
    look = ACTIVITIES[activity]
    return Patch(facecolor=look.color, hatch=look.mark, label=activity, linewidth=0)


def strategy_line(strategy: str, look: Look, line: str = "") -> Line2D:
    """What stands for a strategy in a legend; `line`: another than its own."""
    color, marker, own = look
    return Line2D(
        [], [], color=color, marker=marker, markersize=5.5, linestyle=line or own, label=strategy
    )


@contextmanager
def style() -> Iterator[None]:
    """Draw as varsim does, whatever the user's matplotlibrc says; it is as before afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def panels(heights: Sequence[float], one_axis: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure with one Axes above the other, on a common x axis or not; heights in inches."""
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.55))
    FigureCanvasAgg(figure)
    grid = figure.subplots(
        len(heights),
        1,
        sharex=one_axis,
        squeeze=False,
        gridspec_kw={"height_ratios": list(heights)},
    )
    return figure, list(grid[:, 0])


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure that is laid out as .png or .svg, the same bytes every time."""
    with style():
        if path.suffix == ".png":
            figure.savefig(path, dpi=150, metadata={"Software": None})
            return
        text = io.StringIO()
        nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", metadata=nothing)
        path.write_text(_portable(text.getvalue()), encoding="utf-8", newline="\n")


def save(figure: Figure, title: str, legend: Sequence[Artist], path: Path) -> Drawn:
    """Write `path` as .png and .svg, the same bytes every time; return what a page needs."""
    top = arrange(figure, title, legend)
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=nothing)
    vectors = _portable(text.getvalue())
    path.with_suffix(".svg").write_text(vectors, encoding="utf-8", newline="\n")
    points = 72
    below = (0, top * points, WIDTH * points, (float(figure.get_figheight()) - top) * points)
    return Drawn(title, vectors, below)


def arrange(figure: Figure, title: str, legend: Sequence[Artist]) -> float:
    """Give title and legend room above the panels, as much as they need; inches of the title."""
    heading = figure.text(0, 1, "", va="top", fontsize=11.5, fontweight="bold", linespacing=1.3)
    for width in _LETTERS:
        heading.set_text("\n".join(textwrap.wrap(drawable(title), width)))
        if _extent(figure, heading).width <= (WIDTH - 0.2) * figure.dpi:
            break
    key = _legend(figure, legend) if legend else None
    above = [_inches(figure, artist) + _GAP for artist in (heading, key) if artist is not None]
    height = float(figure.get_figheight()) + sum(above)
    figure.set_figheight(height)
    heading.set_position((0.1 / WIDTH, 1 - 0.1 / height))
    if key is not None:
        key.set_bbox_to_anchor((0.1 / WIDTH, 1 - (0.1 + above[0]) / height))
    _lay_out(figure, 1 - (0.1 + sum(above)) / height)
    return 0.05 + above[0]


def _lay_out(figure: Figure, top: float) -> None:
    """Place the panels below `top` by matplotlib's constrained layout.

    Its solver (kiwi) adds up terms in the order of their addresses, so that last bits change from
    process to process; rounded places are the same in each.
    """
    across, above = _PAD
    figure.set_layout_engine(
        "constrained", rect=(0, 0, 1, top), w_pad=across, h_pad=above, wspace=0, hspace=0
    )
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(edge, 5) for edge in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _room(remark: str) -> int:
    """Letters of a label beside a remark: about 0.083 inches each, one of the remark 0.075."""
    return int((WIDTH - 0.8 - 0.075 * len(remark)) / 0.083)


def _legend(figure: Figure, handles: Sequence[Artist]) -> Legend:
    """A legend in as many columns as fit."""
    labels = [drawable(short(str(handle.get_label()), 40)) for handle in handles]
    longest = max(len(label) for label in labels)
    columns = max(1, min(len(labels), 96 // (longest + 6)))
    # It is filled column by column, but read row by row.
    order = [place for column in range(columns) for place in range(column, len(labels), columns)]
    return figure.legend(
        [handles[place] for place in order],
        # A label that begins with an underscore would be left out.
        [
            f" {labels[place]}" if labels[place].startswith("_") else labels[place]
            for place in order
        ],
        loc="upper left",
        ncols=columns,
    )


def _inches(figure: Figure, artist: Text | Legend) -> float:
    """How high it is."""
    return float(_extent(figure, artist).height / figure.dpi)


def _extent(figure: Figure, artist: Text | Legend) -> BboxBase:
    """Where it lies, in dots."""
    return artist.get_window_extent()


def _portable(vectors: str) -> str:
    """An SVG with fonts that every browser has, and no rotation by nothing."""
    named = vectors.replace(f"font-family: '{_FONT}'", FONTS)
    return re.sub(r' transform="rotate\(-0 [^"]*\)"', "", named)


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(_FONT)).get_charmap())
