"""The option --all: a terminal shows every column of a run's table."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli

SMALL = Path(__file__).parent.parent / "small.yaml"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def test_all_columns_of_the_table_are_printed_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    few, every = run("run", SMALL), run("run", SMALL, "--all", "--out", "again")
    assert "vs. one worker" not in few.stdout
    assert "vs. one worker" in every.stdout
    assert re.search(r"^\d+ more columns: --all", few.stdout, re.M)
    assert "--all" not in every.stdout
    refused = run("run", SMALL, "--all", "--format", "csv")
    assert refused.exit_code == 2
    assert "--all has no effect" in refused.stderr
