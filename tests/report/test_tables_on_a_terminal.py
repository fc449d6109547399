"""A table on a terminal, or in a pipe: it fits, and nothing in it is markup."""

import re

import pytest

from varsim.report.report import Row, Table
from varsim.report.terminal import drawn


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
