"""The option --all: a terminal shows every row of a run's table."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli

SMALL = Path(__file__).parent.parent / "small.yaml"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def test_all_rows_of_the_table_are_printed_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    few, every = run("run", SMALL), run("run", SMALL, "--all", "--out", "again")
    assert "\nspeed-up" not in few.stdout
    assert "\nspeed-up" in every.stdout
    (left,) = re.findall(r"^(\d+) more rows: --all$", few.stdout, re.M)
    shown = [text.stdout.partition("\n\n")[2].partition("─\n")[2] for text in (few, every)]
    rows = [sum(bool(line[:1].strip()) for line in text.splitlines()) for text in shown]
    assert rows[1] - rows[0] == int(left) - 1  # that line itself is gone
    refused = run("run", SMALL, "--all", "--format", "csv")
    assert refused.exit_code == 2
    assert "--all has no effect" in refused.stderr
