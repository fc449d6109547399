"""What holds for every command: standard input, --jobs auto, --strategy, the examples of --help."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli
from varsim.cli.app import Catalogue
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

    assert "on_write" in shown
    assert "async" not in shown
    assert invoke("check", "small.yaml", "--strategy", "gossip").exit_code == 2


@pytest.mark.parametrize("command", ["run", "demo", "sweep", "plan", "tune"])
def test_jobs_may_be_auto(command: str) -> None:
    assert "auto: one per core" in " ".join(invoke(command, "--help").stdout.split())


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("run", "run [OPTIONS] FILE"),
        ("merge", "merge [OPTIONS] FILE DIR..."),
        ("stragglers", "stragglers [OPTIONS] FILE..."),
        ("calibrate", "calibrate [OPTIONS] [FILE...]"),
        ("list", "list [OPTIONS] [TABLE]"),
        ("schema", "schema [OPTIONS]"),
    ],
)
def test_a_usage_line_names_the_arguments(command: str, usage: str) -> None:
    lines = invoke(command, "--help").stdout.splitlines()
    assert lines[0].endswith(usage)
    names = [name.strip("[]") for name in usage.split()[2:]]
    if names:
        start = lines.index("Arguments:") + 1
        told = [line for line in lines[start : lines.index("", start)] if line[2] != " "]
        assert [line.split("  ")[1] for line in told] == names
    assert any(line.startswith("  --help ") for line in lines)


def test_the_help_of_list_names_every_table_on_lines_that_fit() -> None:
    shown = invoke("list", "--help").stdout
    assert f"There are {', '.join(get_args(Catalogue))}." in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    assert set(get_args(Catalogue)) == set(TABLES)


def test_models_are_listed_with_numbers_as_anywhere_else() -> None:
    lines = " ".join(invoke("list", "models").stdout.split())
    assert "resnet50 25.6 million parameters in 161 tensors, 24.5 GFLOP to" in lines
    assert "gpt2_xl 1.56 billion parameters in 580 tensors, 10.5 TFLOP to" in lines
    assert not re.search(r"\de\+", lines)


def test_what_is_listed_of_collectives_begins_like_all_else() -> None:
    lines = [line for line in invoke("list", "collectives").stdout.splitlines() if line[0] != " "]
    assert lines[2].split(maxsplit=1) == [
        "halving_doubling",
        "a reduce-scatter by halves, an all-gather by doubles: Rabenseifner's",
    ]
    assert all(line.split(maxsplit=1)[1][0].islower() for line in lines)


def test_the_examples_of_help_work_with_the_quickstart() -> None:
    shown = " ".join(invoke("run", "--help").stdout.split())
    examples = re.findall(r"for example (\S+=\S+?);", shown)

    assert examples
    for example in examples:
        assert invoke("check", QUICKSTART, "--set", *shlex.split(example)).exit_code == 0
