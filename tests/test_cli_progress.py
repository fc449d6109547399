"""What a person at a terminal sees: the progress of a run, and a table that fits."""

import re
from types import SimpleNamespace

import pandas
import pytest

from varsim.cli import progress


class TestProgress:
    def test_a_log_gets_a_line_now_and_then(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        now = iter([0.0, 5.0, 12.0, 13.0, 30.0])
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
        with progress.Progress(quiet=False) as report:
            for done in (1, 4, 5, 10):
                report(done, 10)
        # At 5 s too early, at 12 s 3 s a run and 6 to go, at 13 s too soon again, at 30 s the end.
        captured = capsys.readouterr()
        assert captured.err == "varsim: 4 of 10 runs, about 18 s left\n"
        assert captured.out == ""

    def test_quiet_is_quiet(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
        with progress.Progress(quiet=True) as report:
            report(1, 2)
        assert capsys.readouterr() == ("", "")
        with progress.Progress(quiet=False) as report:
            report(1, 2)
        assert capsys.readouterr().err.startswith("varsim: 1 of 2 runs")


class TestTable:
    FRAME = pandas.DataFrame(
        {"updates/s": ["10.1 ± 0.2", "9"], "[red]wasted[/red]": ["0 %", "12 %"]},
        index=["on_write", "[/red]"],
    )

    def test_names_are_text_not_markup(self) -> None:
        text = progress.drawn(self.FRAME)
        assert "[red]wasted[/red]" in text
        assert any(line.startswith("[/red]") for line in text.splitlines())

    MANY = pandas.DataFrame(
        {f"metric {i}": ["1.0 ± 0.1", "a_very_long_word_in_a_cell"] for i in range(20)},
        index=["a", "b"],
    )

    @pytest.mark.parametrize("nothing", ["", "0", "wide"])
    def test_a_wide_table_lies_on_its_side(
        self, monkeypatch: pytest.MonkeyPatch, nothing: str
    ) -> None:
        monkeypatch.setenv("COLUMNS", nothing)
        lines = progress.drawn(self.MANY).splitlines()
        assert len(lines) == 2 + 20
        assert lines[2].split() == ["metric", "0", "1.0", "±", "0.1", "a_very_long_word_in_a_cell"]
        assert len(progress.drawn(self.FRAME).splitlines()) == 2 + 2

    def test_a_pipe_is_as_wide_as_columns_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "50")
        lines = progress.drawn(self.MANY).splitlines()
        assert max(map(len, lines)) <= 50
        monkeypatch.setenv("COLUMNS", "1000")
        assert len(progress.drawn(self.MANY).splitlines()) == 2 + 2

    def test_a_pipe_never_breaks_a_word(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("COLUMNS", raising=False)
        word = "word" * 50
        wide = pandas.DataFrame({name: [f"{word} {word}"] for name in "abc"}, index=["x"])
        assert progress.drawn(wide).count(word) == 6

    def test_text_may_stand_on_the_left(self) -> None:
        frame = pandas.DataFrame({"seen": ["[1, 2]\nmore", "3"]}, index=["on_write", "none"])
        rows = [line.rstrip() for line in progress.drawn(frame, justify="left").splitlines()]
        assert rows[2:] == ["on_write   [1, 2]", "           more", "none       3"]

    def test_a_terminal_is_never_exceeded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "40")
        text = re.sub(r"\x1b\[[0-9;]*m", "", progress.drawn(self.MANY))
        assert max(len(line) for line in text.splitlines()) <= 40
