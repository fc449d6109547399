"""What all figures share: text that is safe to draw, units of time, room for title and legend."""

from pathlib import Path

import pytest
from matplotlib.lines import Line2D

from varsim.report.plots import figure
from varsim.report.plots.figure import TimeUnit, arrange, panels, style


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("plain_name", "plain_name"), ("$5$", r"\$5\$"), ("日a\t", "□a□"), ("± µ …", "± µ …")],
)
def test_text_is_never_mathematics_nor_without_a_glyph(text: str, drawn: str) -> None:
    assert figure.drawable(text) == drawn


@pytest.mark.parametrize(
    ("text", "short"),
    [("sync_replicas", "sync_replicas"), ("abcdefghij", "abcd…hij"), ("abcd   hij", "abcd…hij")],
)
def test_long_labels_lose_their_middle(text: str, short: str) -> None:
    found = figure.short(text, 13 if len(text) == 13 else 8)
    assert found == short


def test_labels_are_wrapped_and_never_lost() -> None:
    assert figure.wrapped("one two three", 8) == "one two\nthree"
    assert figure.wrapped("a" * 20, 8) == "aaaaaaaa\naaaaaaaa\naaaa"
    assert figure.wrapped(" ") == " "


@pytest.mark.parametrize(
    ("longest", "unit"),
    [
        (5e-7, TimeUnit(1e-6, "µs")),
        (0.02, TimeUnit(1e-3, "ms")),
        (1, TimeUnit(1, "s")),
        (299, TimeUnit(1, "s")),
        (300, TimeUnit(60, "min")),
        (20_000, TimeUnit(3600, "h")),
    ],
)
def test_a_time_gets_the_unit_it_reads_well_in(longest: float, unit: TimeUnit) -> None:
    assert figure.time_unit(longest) == unit


@pytest.mark.parametrize("letters", ["wwww ", "workers = 12, ", "il "])
def test_no_line_of_a_title_is_wider_than_the_figure(letters: str) -> None:
    title = letters * 40
    with style():
        made, _ = panels([1.0])
        arrange(made, title, [])
    (heading,) = made.texts
    assert " ".join(heading.get_text().split()) == title.strip()
    box = heading.get_window_extent(made.canvas.get_renderer())
    assert 0.5 * made.bbox.width < box.x1 <= made.bbox.width


def test_a_longer_title_and_a_legend_make_the_figure_higher(tmp_path: Path) -> None:
    def height(title: str, labels: list[str]) -> float:
        with figure.style():
            made, _ = figure.panels([1.0, 2.0])
            legend = [Line2D([], [], label=label) for label in labels]
            drawn = figure.save(made, title, legend, tmp_path / "x")
        left, top, width, below = drawn.below_title
        assert left == 0
        assert width == 72 * figure.WIDTH
        assert top + below == pytest.approx(72 * made.get_figheight())
        return made.get_figheight()

    short = height("Short", [])
    assert height("A long title " * 20, []) > short + 0.3
    assert height("Short", ["a"]) > short + 0.2
    assert height("Short", ["_a" * 30] * 6) > height("Short", ["a"]) + 0.3


def test_a_legend_of_several_rows_is_read_row_by_row() -> None:
    drawn, _ = figure.panels([1.0])
    handles = [Line2D([], [], label=f"{'long ' * 4}{number}") for number in range(5)]
    figure.arrange(drawn, "Title", handles)
    drawn.canvas.draw()
    (legend,) = drawn.legends
    read = [(text.get_window_extent(), text.get_text()[-1]) for text in legend.get_texts()]
    read.sort(key=lambda pair: (-round(pair[0].y0), pair[0].x0))
    assert len({round(place.y0) for place, _ in read}) == 2
    assert "".join(number for _, number in read) == "01234"


def test_text_in_an_svg_is_text_in_a_font_as_wide_as_was_measured(tmp_path: Path) -> None:
    with figure.style():
        made, (axes,) = figure.panels([1.0])
        axes.set_xlabel(figure.drawable("a \u202e <b> $1"))
        drawn = figure.save(made, "the title", [Line2D([], [], label="legend")], tmp_path / "x")
    for text in ("the title", "legend", "a \\u202e &lt;b&gt; $1"):
        assert f">{text}</text>" in drawn.svg
    assert drawn.svg.count("<text") == drawn.svg.count("'DejaVu Sans', Verdana, sans-serif")
