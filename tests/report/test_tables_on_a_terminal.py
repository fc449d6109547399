"""A table on a terminal, or in a pipe: it fits, and nothing in it is markup."""

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from varsim.report.report import Report, Row, Table
from varsim.report.terminal import drawn, flow, terminal


class TestTable:
    FEW = Table(
        ("updates/s", "[red]wasted[/red]"),
        (Row("on_write", ("10.1 ± 0.2", "0 %")), Row("[/red]", ("9", "12 %"))),
    )

    def test_names_are_text_not_markup(self) -> None:
        text = drawn(self.FEW)
        assert "[red]wasted[/red]" in text
        assert any(line.startswith("[/red]") for line in text.splitlines())

    MANY = Table(
        tuple(f"metric {i}" for i in range(20)),
        (Row("a", ("1.0 ± 0.1",) * 20), Row("b", ("a_very_long_word_in_a_cell",) * 20)),
    )

    @pytest.mark.parametrize("nothing", ["", "0", "wide"])
    def test_a_wide_table_lies_on_its_side(
        self, monkeypatch: pytest.MonkeyPatch, nothing: str
    ) -> None:
        monkeypatch.setenv("COLUMNS", nothing)
        lines = drawn(self.MANY).splitlines()
        assert len(lines) == 2 + 20
        assert lines[2].split() == ["metric", "0", "1.0", "±", "0.1", "a_very_long_word_in_a_cell"]
        assert len(drawn(self.FEW).splitlines()) == 2 + 2

    def test_a_pipe_is_as_wide_as_columns_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "50")
        lines = drawn(self.MANY).splitlines()
        assert max(map(len, lines)) <= 50
        monkeypatch.setenv("COLUMNS", "1000")
        assert len(drawn(self.MANY).splitlines()) == 2 + 2

    def test_a_pipe_never_breaks_a_word(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("COLUMNS", raising=False)
        word = "word" * 50
        wide = Table(tuple("abc"), (Row("x", (f"{word} {word}",) * 3),))
        assert drawn(wide).count(word) == 6

    def test_quantities_stay_whole_and_room_is_shared(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "60")
        rows = (
            Row("examples/s vs. first", ("1.00x", "1.20x (0.966 to 1.50), too close to call")),
            Row("updates/s", ("844.2 ± 32.0", "1,015 ± 35")),
            Row("where the time went", ("barrier 42 %, compute 39 %, write 19 %",) * 2),
        )
        lines = drawn(Table(("mirrored all-reduce", "sync on read"), rows)).splitlines()
        assert max(map(len, lines)) <= 60
        text = " ".join(" ".join(lines).split())
        for whole in ("844.2 ± 32.0", "1,015 ± 35", "compute 39 %", "to 1.50),"):
            assert whole in text
        assert len(lines) <= 11  # two lines of heading and rule, then no row of more than three

    def test_letters_of_two_columns_count_as_two(self) -> None:
        assert max(map(cell_len, flow("模型 " * 30, 20))) <= 20

    def test_text_may_stand_on_the_left(self) -> None:
        rows = (Row("on_write", ("[1, 2]\nmore",)), Row("none", ("3",)))
        lines = drawn(Table(("seen",), rows, holds="words")).splitlines()
        assert lines[2:] == ["on_write   [1, 2]", "           more", "none       3"]

    def test_a_terminal_is_never_exceeded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "40")
        text = re.sub(r"\x1b\[[0-9;]*m", "", drawn(self.MANY))
        assert max(len(line) for line in text.splitlines()) <= 40


class TestNarrow:
    FOUR = Table(
        tuple(f"strategy {letter}" for letter in "abcd"),
        (Row("examples/s", ("1,457.7 ± 1.8",) * 4), Row("wasted", ("21.88 ± 0.28 %",) * 4)) * 3,
    )

    def test_columns_that_do_not_fit_stand_below_with_the_labels_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "60")
        lines = drawn(self.FOUR).splitlines()
        assert max(map(len, lines)) <= 60
        assert [line.split()[0] for line in lines if "±" in line] == ["examples/s", "wasted"] * 6
        assert [line.count("±") for line in lines if "±" in line] == [2] * 12
        monkeypatch.setenv("COLUMNS", "100")
        assert [line.count("±") for line in drawn(self.FOUR).splitlines()] == [0, 0, *[4] * 6]

    def test_a_column_of_labels_has_its_heading_in_every_part(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "60")
        lines = drawn(replace(self.FOUR, corner="what if")).splitlines()
        assert [line.split()[:2] for line in lines if "strategy" in line] == [["what", "if"]] * 2

    def test_columns_that_say_which_row_it_is_are_in_every_part(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        rows = (Row("a", ("8", *["1.000 ± 0.100"] * 4)), Row("b", ("16", *["2"] * 4)))
        table = Table(("cluster.workers", *("wxyz")), rows * 6, keys=1)
        lines = drawn(table).splitlines()
        assert max(map(len, lines)) <= 40
        assert sum(line.split() == ["a", "8", "1.000", "±", "0.100"] for line in lines) == 4 * 6

    def test_a_long_name_over_a_column_is_broken_at_its_parts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "30")
        table = Table(("replicas_to_aggregate",), (Row("a_rather_long_label", ("8",)),))
        assert [line.strip() for line in drawn(table).splitlines()[:3]] == [
            *("replicas_", "to_", "aggregate")
        ]


def test_a_dumb_terminal_is_as_wide_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = drawn(TestTable.MANY).splitlines()
    assert max(map(cell_len, lines)) <= 40


def test_the_tables_of_one_report_have_one_kind_of_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    few = Table(("share",), (Row("compute", ("40 %",)),))
    wide = Table(tuple(f"metric {i}" for i in range(20)), (Row("a", ("1.0 ± 0.1",) * 20),) * 30)
    both = terminal(Report("why", "t", (), (), (few, wide), {}), 60)
    assert "-----" not in both
    assert "─────" in both
    assert "-----" in terminal(Report("why", "t", (), (), (few,), {}), 60)
