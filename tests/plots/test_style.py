"""What all pictures share: text that is safe to draw, room for labels and for the legend."""

from pathlib import Path

import pytest
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from varsim.report.charts.style import (
    drawable,
    lay_out,
    panels,
    short,
    style,
    swatch,
    wrapped,
    write,
)
from varsim.report.wording import axis


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("plain_name", "plain_name"), ("$5$", r"\$5\$"), ("日a\t", "□a□"), ("± µ …", "± µ …")],
)
def test_text_is_never_mathematics_nor_without_a_glyph(text: str, drawn: str) -> None:
    assert drawable(text) == drawn


def test_long_labels_lose_their_middle() -> None:
    assert short("sync_replicas", 13) == "sync_replicas"
    assert [short(text, 8) for text in ("abcdefghij", "abcd   hij")] == ["abcd…hij"] * 2


def test_labels_are_wrapped_and_never_lost() -> None:
    assert wrapped("one two three", 8) == "one two\nthree"
    assert wrapped("a" * 20, 8) == "aaaaaaaa\naaaaaaaa\naaaa"
    assert wrapped(" ") == " "


@pytest.mark.parametrize(
    ("label", "longest", "shown"),
    [
        ("time (s)", 5e-7, (1e-6, "time (us)")),
        ("time (s)", 0.02, (1e-3, "time (ms)")),
        ("time (s)", 299, (1, "time (s)")),
        ("time (s)", 300, (60, "time (min)")),
        ("time (s)", 20_000, (3600, "time (h)")),
        ("wasted (share)", 0.5, (0.01, "wasted (%)")),
        ("price (USD/h)", 20_000, (1, "price (USD/h)")),
    ],
)
def test_an_axis_has_the_unit_it_reads_well_in(
    label: str, longest: float, shown: tuple[float, str]
) -> None:
    assert axis(label, longest) == shown


def laid_out(label: str, legend: list[Artist]) -> tuple[Figure, list[Axes]]:
    with style():
        figure, axes = panels(2)
        for one in axes:
            one.set_yticks([0.5], [drawable(label)])
        lay_out(figure, [1.0, 2.0], legend)
    return figure, axes


def test_a_longer_label_and_a_legend_have_room() -> None:
    few, (narrow, _) = laid_out("a", [])
    figure, axes = laid_out("long " * 8, [swatch(str(n) * 30, "red") for n in range(6)])
    assert figure.get_figheight() > few.get_figheight() + 0.3
    figure.canvas.draw()
    for one, inches in zip(axes, (1.0, 2.0), strict=True):
        assert one.get_window_extent().height == pytest.approx(inches * figure.dpi, abs=1)
        (label,) = one.get_yticklabels()
        assert label.get_window_extent().x0 >= 0
        assert one.get_position().x0 > narrow.get_position().x0


def test_a_legend_of_several_rows_is_read_row_by_row() -> None:
    drawn, _ = laid_out("a", [swatch(f"{'long ' * 4}{number}", "red") for number in range(5)])
    drawn.canvas.draw()
    (legend,) = drawn.legends
    read = [(text.get_window_extent(), text.get_text()[-1]) for text in legend.get_texts()]
    read.sort(key=lambda pair: (-round(pair[0].y0), pair[0].x0))
    assert len({round(place.y0) for place, _ in read}) == 2
    assert "".join(number for _, number in read) == "01234"


def test_text_in_an_svg_is_text_in_a_font_as_wide_as_was_measured(tmp_path: Path) -> None:
    figure, _ = laid_out("a \u202e <b> $1", [swatch("legend", "red")])
    write(figure, tmp_path / "x.svg")
    svg = (tmp_path / "x.svg").read_text(encoding="utf-8")
    for text in ("legend", "a \\u202e &lt;b&gt; $1"):
        assert f">{text}</text>" in svg
    assert svg.count("<text") == svg.count("'DejaVu Sans', Verdana, sans-serif")
