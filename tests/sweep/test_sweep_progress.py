"""What a person sees while a sweep goes on."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli
from tests.sweep.sweeping import SWEPT
from varsim.cli import console
from varsim.cli.console import SweepProgress
from varsim.study import pool
from varsim.study.runs import Status


def lines(capsys: pytest.CaptureFixture[str], *statuses: Status, quiet: bool = False) -> str:
    with SweepProgress(quiet, lambda key, speed: f"{key} with {speed:g}") as shown:
        for status in statuses:
            shown.show(status)
    return capsys.readouterr().err


def test_plain_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LINE_EVERY", 0.0)
    status = Status(done=40, total=100, resumed=20, failed=3, best=("none", 12.5))
    said = lines(capsys, status)
    assert said.startswith("varsim: 40 of 100 runs, about 0 s left; ")
    assert said.endswith("; 3 failed, 20 resumed, best so far none with 12.5\n")
    assert lines(capsys, status, quiet=True) == ""


def test_what_was_resumed_says_nothing_of_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LINE_EVERY", 0.0)
    assert lines(capsys, Status(20, 100, 20, 0, None)) == ""
    assert lines(capsys, Status(21, 100, 20, 0, None)).startswith("varsim: 21 of 100 runs")


def test_lines_come_only_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, Status(40, 100, 0, 0, None), Status(41, 100, 0, 0, None)) == ""


def test_no_scheduler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(pool, "PATIENCE", 1.0)
    file, out = tmp_path / "tiny.yaml", tmp_path / "out"
    file.write_text(SWEPT)
    scheduler = ("--backend", "dask", "--scheduler", "tcp://127.0.0.1:1", "--quiet")
    done = CliRunner().invoke(cli.app, ["sweep", str(file), "--out", str(out), *scheduler])
    assert done.exit_code == 1
    assert done.stderr == "varsim: no dask scheduler answers at tcp://127.0.0.1:1\n"
    assert not out.exists()
