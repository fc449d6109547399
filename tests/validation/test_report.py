"""The report of the whole validation as data: what is told of each section, what is drawn."""

from validation.finding import Finding, Section, Verdict
from validation.report import block, report


def line(
    expected: float,
    got: float | None,
    verdict: Verdict = Verdict.PASS,
    group: str = "family",
    why: str = "",
) -> Finding:
    source = f"a book (a.csv, line {round(expected)})"
    return Finding(group, "a line", "time", "s", expected, got, None, "", verdict, source, why)


FOUND = Section(
    "key",
    "A title",
    "What it is.",
    "Within 10 %.",
    (
        line(1.0, 1.1),
        line(2.0, 1.9),
        line(10.0, 12.0, Verdict.MISS, why="noise"),
        line(3.0, None, Verdict.NOT_RUN, "other", "no scenario"),
        line(0.0, 0.1, group="sums"),
    ),
)


def test_a_section_is_a_block_with_its_misses_and_what_was_not_run() -> None:
    told = block(FOUND)
    assert [note.values["said"] for note in told.headline[:2]] == [
        "What it is.",
        "Bound. Within 10 %.",
    ]
    assert told.table.rows == ("family", "sums")
    cells = {one.key: one.cells for one in told.table.columns}
    assert (cells["lines"], cells["missed"]) == (("3", "1"), ("1", "0"))
    assert cells["worst error"] == ("+20.00 %", "+0.1")
    missed, left = told.details
    assert missed.rows == ("family: a line",)
    assert missed.columns[-1].cells == ("noise",)
    assert left.rows == ("other",)
    assert [one.cells for one in left.columns] == [("1",), ("not run",), ("no scenario",)]


def test_what_is_drawn_are_lines_that_compare_two_numbers() -> None:
    (chart,) = report([FOUND], "a command").pictures()
    assert chart.data["x"] == (1.0, 2.0, 10.0, 1.0, 10.0)
    assert chart.data["mean"] == (1.1, 1.9, 12.0, 1.0, 10.0)
    only = Section("key", "A title", "", "", (line(3.0, None, Verdict.NOT_RUN),))
    assert report([only], "a command").pictures() == ()


def test_every_line_is_in_the_data_with_all_digits() -> None:
    told = report([FOUND], "a command")
    sources = told.appendix[1].columns[0]
    assert sources.cells[0] == "a book (a.csv, lines 1 to 2, 10)"
    rows = list(told.data.rows)
    assert len(rows) == 5
    assert rows[0][5:7] == (1.0, 1.1)
