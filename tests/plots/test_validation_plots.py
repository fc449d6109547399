"""The pictures of the whole validation: what is drawn where."""

from pathlib import Path

import pytest

from validation.finding import Finding, Verdict
from validation.index.section import Section
from validation.plots import draw_all
from varsim.report.charts.style import panels, style


def line(
    expected: float, got: float | None, verdict: Verdict = Verdict.PASS, half: float | None = None
) -> Finding:
    return Finding("family", "a line", "time", "s", expected, got, half, "", verdict, "a book")


def section(*lines: Finding) -> Section:
    return Section("key", "A title", "", "", lines)


def test_a_picture_of_all_and_one_of_each_section(tmp_path: Path) -> None:
    found = section(
        line(1.0, 1.1), line(10.0, 12.0, Verdict.MISS), line(3.0, None, Verdict.NOT_RUN)
    )
    drawn = draw_all([found], tmp_path)

    assert list(drawn) == ["agreement", "errors_key"]
    assert drawn["agreement"] == "2 numbers, expected and simulated"
    assert drawn["errors_key"] == "A title: 2 lines, 1 of them miss their bound"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}.{form}" for name in ("agreement", "errors_key") for form in ("png", "svg")
    ]


def test_nothing_to_draw(tmp_path: Path) -> None:
    assert draw_all([section(line(3.0, None, Verdict.NOT_RUN))], tmp_path) == {}


@pytest.mark.parametrize(("half", "what"), [(0.5, "random lines"), (None, "lines")])
def test_errors_are_told_in_intervals_where_there_are_such(
    tmp_path: Path, half: float | None, what: str
) -> None:
    drawn = draw_all([section(line(2.0, 2.25, half=half))], tmp_path)
    assert drawn["errors_key"] == f"A title: 1 {what}, 0 of them miss their bound"


def test_the_marks_stand_where_the_errors_are() -> None:
    from validation.plots import draw_rows

    with style():
        _, (axes,) = panels(1)
        draw_rows(section(line(2.0, 2.5), line(4.0, 3.0)), axes)
    marks = [mark.get_xydata().tolist() for mark in axes.lines[:2]]
    assert marks == [[[25.0, 0.0]], [[-25.0, 0.0]]]
