"""What a person at a terminal sees: the progress of a run."""

import math
import time
from types import SimpleNamespace

import pytest

from varsim.cli import console


class TestProgress:
    def test_a_log_gets_a_line_now_and_then(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        now = iter([0.0, 5.0, 12.0, 13.0, 30.0])
        monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: next(now)))
        with console.Progress(quiet=False) as report:
            for done in (1, 4, 5, 10):
                report(done, 10)
        # At 5 s too early, at 12 s 3 s a run and 6 to go, at 13 s too soon again, at 30 s the end.
        captured = capsys.readouterr()
        assert captured.err == "varsim: 4 of 10 runs, about 18 s left\n"
        assert captured.out == ""

    def test_the_first_of_many_tells_nothing_of_the_others(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It has loaded what all need."""
        now = iter([0.0, 20.0, 35.0, 50.0])
        monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: next(now)))
        with console.Progress(quiet=False) as report:
            for done in (11, 15, 16):
                report(done, 110, resumed=10)
        assert capsys.readouterr().err.splitlines() == [
            "varsim: 11 of 110 runs",
            "varsim: 15 of 110 runs, about 11.1 min left",
            "varsim: 16 of 110 runs, about 13.1 min left",
        ]

    def test_quiet_is_quiet(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(console, "LINE_EVERY", 0.0)
        with console.Progress(quiet=True) as report:
            report(1, 2)
        assert capsys.readouterr() == ("", "")
        with console.Progress(quiet=False) as report:
            report(1, 2)
        assert capsys.readouterr().err.startswith("varsim: 1 of 2 runs")

    def test_while_one_run_takes_long_it_is_told_more_and_more_rarely(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(console, "SILENCE", 0.05)
        begun = time.monotonic()
        with console.Progress(quiet=False):
            time.sleep(0.5)
        waited = time.monotonic() - begun
        lines = capsys.readouterr().err.splitlines()
        # After 0.05, 0.15, 0.35, 0.75 s and so on.
        assert 1 <= len(lines) <= math.log2(waited / 0.05 + 1)
        assert lines[0] == "varsim: no run done after 0 s"
        with console.Progress(quiet=False) as report:
            report(0, 3)
            time.sleep(0.2)
        assert "varsim: 0 of 3 runs done after 0 s" in capsys.readouterr().err.splitlines()
        with console.Progress(quiet=True):
            time.sleep(0.2)
        assert capsys.readouterr().err == ""
