"""What holds for every command: standard input, --jobs auto, --strategy, the examples of --help."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli
from varsim.cli.app import CATALOGUE
from varsim.cli.catalogue import TABLES
from varsim.scenario import loading

SMALL = (Path(__file__).parent / "small.yaml").read_text()
QUICKSTART = Path(__file__).parent.parent / "scenarios" / "quickstart.yaml"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    "command",
    [
        ["check"],
        ["run", "--quiet", "--jobs", "auto"],
        ["explain", "--quiet"],
        ["sweep", "--quiet", "--set", "cluster.workers=3,4"],
    ],
    ids=lambda command: command[0],
)
def test_a_scenario_may_come_from_standard_input(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_piped", lambda: SMALL.encode())
    result = invoke(command[0], "-", *command[1:])

    assert result.exit_code == 0, result.stderr


def test_check_takes_a_strategy() -> None:
    Path("small.yaml").write_text(SMALL)
    shown = invoke("check", "small.yaml", "--strategy", "on_write").stdout

    assert "all-reduce" in shown
    assert "async" not in shown
    assert invoke("check", "small.yaml", "--strategy", "gossip").exit_code == 2


def test_the_help_of_list_names_every_table_on_lines_that_fit() -> None:
    shown = invoke("list", "--help").stdout
    assert f"There are {', '.join(CATALOGUE)}." in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    assert set(CATALOGUE) == set(TABLES)


def test_the_examples_of_help_work_with_the_quickstart() -> None:
    shown = " ".join(invoke("run", "--help").stdout.split())
    examples = re.findall(r"for example (\S+=\S+?);", shown)

    assert examples
    for example in examples:
        assert invoke("check", QUICKSTART, "--set", *shlex.split(example)).exit_code == 0
