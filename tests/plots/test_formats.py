"""PNG and SVG of a figure, beside what matplotlib writes itself."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.image import imread
from matplotlib.textpath import TextToPath
from PIL import Image

from varsim.report.plots import formats
from varsim.report.plots.figure import panels, style


def a_figure() -> Figure:
    """Lines, boxes, and text along, across and on two lines."""
    figure, (above, below) = panels([1.0, 2.0])
    above.bar([1, 2, 3], [3, 1, 2], hatch="//")
    above.set_title("a title $1")
    below.plot([1, 2, 3], [0, 0.3, 0.1], marker="o", label="a line")
    below.set_ylabel("across")
    below.text(2, 0.2, "two\nlines", ha="center", va="center", rotation=30)
    below.legend()
    return figure


def matplotlibs_own(figure: Figure, kind: str) -> io.BytesIO:
    """What it would write."""
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=150, metadata=nothing if kind == "svg" else {})
    file.seek(0)
    return file


class TestPng:
    def test_has_the_pixels_of_matplotlibs_own_where_nothing_is_aligned_by_its_width(self) -> None:
        with style():
            figure, (axes,) = panels([1.0])
            axes.plot([1, 2, 3], [1, 4, 2], marker="^", color="#123456", alpha=0.5)
            axes.fill_between([1, 2, 3], [1, 4, 2], hatch="xx")
            axes.set_axis_off()
            axes.text(1, 1, "Text, at its left end", va="baseline")
            ours = imread(io.BytesIO(formats.png(figure)))
            theirs = imread(matplotlibs_own(figure, "png"))
        assert ours.shape == (232, 1200, 3)
        assert (theirs[:, :, 3] == 1).all()
        assert np.array_equal(ours, theirs[:, :, :3])

    def test_says_its_resolution(self) -> None:
        with style():
            picture = Image.open(io.BytesIO(formats.png(a_figure())))
        assert picture.info == {"dpi": pytest.approx((150, 150), abs=0.02)}


class TestSvg:
    def test_is_that_of_matplotlib(self) -> None:
        with style():
            figure = a_figure()
            assert formats.svg(figure) == matplotlibs_own(figure, "svg").getvalue().decode()


class TestText:
    def test_is_shaped_once_for_the_layout_and_both_files(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shaped = []
        shape = TextToPath.get_text_width_height_descent

        def counted(self: TextToPath, text: str, font: FontProperties, mathtext: bool) -> object:
            shaped.append((text, hash(font)))
            return shape(self, text, font, mathtext)

        monkeypatch.setattr(TextToPath, "get_text_width_height_descent", counted)
        with style():
            figure = a_figure()
            formats._size.cache_clear()
            formats.ruler.cache_clear()
            for axes in figure.axes:
                axes.get_tightbbox(formats.ruler(figure.dpi))
            layout = len(shaped)
            formats.png(figure)
            formats.svg(figure)
        assert {"across", "two", "lines", "a title $1"} <= dict(shaped).keys()
        assert len(shaped) == len(set(shaped)) == layout

    @pytest.mark.parametrize("dpi", [72, 100, 150])
    def test_is_as_wide_at_each_resolution(self, dpi: float) -> None:
        with style():
            font = FontProperties(size=9.5)
            ruler = formats.ruler(dpi)
            found = ruler.get_text_width_height_descent("sync_replicas", font, False)
            points = TextToPath().get_text_width_height_descent("sync_replicas", font, False)
        assert found == pytest.approx([dpi / 72 * each for each in points], rel=1e-12)

    def test_is_as_wide_as_it_is_drawn(self) -> None:
        with style():
            figure = Figure(figsize=(3, 1))
            text = figure.text(0.1, 0.4, "widths, drawn", fontsize=20)
            drawn = imread(io.BytesIO(formats.png(figure)))[:, :, 0] < 0.5
            figure.dpi = 150
            box = text.get_window_extent(formats.ruler(150))
        (columns,) = np.nonzero(drawn.any(axis=0))
        bearing = 20 * 150 / 72 / 6  # beside the first letter and the last, at most
        assert 0 <= columns[0] - box.x0 < bearing
        assert 0 <= box.x1 - columns[-1] < bearing

    def test_sizes_are_of_the_font_as_it_was(self) -> None:
        font = FontProperties(size=10)
        ruler = formats.ruler(72)
        small = ruler.get_text_width_height_descent("m", font, False)
        font.set_size(20)
        large = ruler.get_text_width_height_descent("m", font, False)
        assert large == pytest.approx([2 * each for each in small])


def test_a_figure_keeps_its_resolution() -> None:
    with style():
        figure = a_figure()
        usual = figure.dpi
        assert usual not in (72, 150)
        formats.png(figure)
        formats.svg(figure)
        assert figure.dpi == usual
        assert matplotlib.rcParams["text.hinting"] == "none"
