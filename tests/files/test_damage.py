"""Damaged files of a saved run: told in one line that names the file, never drawn as if right."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.damage import damage
from tests.handmade import a_result
from tests.programs import add, read, scenario
from varsim.cli import app as cli
from varsim.cli.settings import question
from varsim.report import training, variables
from varsim.report.files.claim import NotARunError
from varsim.report.files.program import load_variables, save_variables
from varsim.report.files.save import load_result, save
from varsim.report.render import render
from varsim.study.simulation import simulate_variables

CORRUPTIONS = 200
NAMES = {
    "training": "summary.json summary.csv updates.csv spans.csv evaluations.csv steps.csv "
    "links.csv trace.json.gz scenario.yaml",
    "variables": "result.json summary.csv runs.csv acts.csv sent.csv links.csv scenario.yaml",
}
TELL: dict[str, Callable[[Path], str]] = {
    "training": lambda directory: render(training.report(load_result(directory)), "json"),
    "variables": lambda directory: render(variables.report(load_variables(directory)), "json"),
}

both = pytest.mark.parametrize("kind", list(NAMES))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run of each kind."""
    directory = tmp_path_factory.mktemp("saved")
    save(a_result({"a": (1, 2), "none": (2, 3)}), directory / "training")
    save_variables(simulate_variables(scenario([add(1.0), read()])), directory / "variables")
    return directory


def refusal(kind: str, directory: Path) -> str:
    """What is said where a run cannot be read; empty if it can."""
    try:
        TELL[kind](directory)
        question(directory / "scenario.yaml")
    except NotARunError as error:
        return str(error)
    return ""


@both
def test_of_200_damaged_runs_each_is_told_or_makes_no_difference(
    saved: Path, tmp_path: Path, kind: str
) -> None:
    expected, told = TELL[kind](saved / kind), 0
    names = NAMES[kind].split()
    there = tmp_path / "run"
    shutil.copytree(saved / kind, there)
    for seed in range(CORRUPTIONS):
        name = names[seed % len(names)]
        whole = (there / name).read_bytes()
        damage(there / name, seed)
        said = refusal(kind, there)
        if said:
            told += 1
            assert name in said, (seed, said)
            assert "\n" not in said
        else:
            assert TELL[kind](there) == expected, (seed, name)
        (there / name).write_bytes(whole)
    assert told >= CORRUPTIONS - 3  # blanks in the facts make no difference


@both
@pytest.mark.parametrize("share", [0, 0.5], ids=["emptied", "cut"])
def test_plot_names_the_damaged_file_and_the_remedy(
    saved: Path, tmp_path: Path, kind: str, share: float
) -> None:
    there = tmp_path / "run"
    shutil.copytree(saved / kind, there)
    facts, *others = NAMES[kind].split()
    for name in [facts, *others] if share else others:  # of facts that are gone nobody knows whose
        content = (there / name).read_bytes()
        (there / name).write_bytes(content[: int(share * len(content))])
        done = CliRunner().invoke(cli.app, ["plot", str(there)])
        assert (done.exit_code, done.stdout) == (2, ""), name
        assert done.stderr == (
            f"varsim: {there / name} is damaged, or was changed since varsim wrote it: run its "
            "scenario again\n"
        )
        assert not (there / "report.html").exists()
        (there / name).write_bytes(content)


def test_a_file_that_is_not_read_may_be_taken_away(saved: Path, tmp_path: Path) -> None:
    """Traces are large; whoever moves one away can still draw."""
    shutil.copytree(saved / "training", tmp_path / "run")
    (tmp_path / "run" / "trace.json.gz").unlink()
    assert TELL["training"](tmp_path / "run") == TELL["training"](saved / "training")


@both
def test_a_digit_changed_within_valid_facts_is_noticed(
    saved: Path, tmp_path: Path, kind: str
) -> None:
    there, name = tmp_path / "run", NAMES[kind].split()[0]
    shutil.copytree(saved / kind, there)
    text = (there / name).read_text()
    assert '"end_ns": 1' in text
    (there / name).write_text(text.replace('"end_ns": 1', '"end_ns": 2'))
    assert f"{there / name} is damaged" in refusal(kind, there)


def test_a_run_of_an_earlier_version_is_told_from_a_damaged_one(
    saved: Path, tmp_path: Path
) -> None:
    shutil.copytree(saved / "training", tmp_path / "run")
    facts = (tmp_path / "run" / "summary.json").read_text()
    (tmp_path / "run" / "summary.json").write_text(facts.replace('"engine": 4', '"engine": 3'))
    assert refusal("training", tmp_path / "run") == (
        f"{tmp_path / 'run' / 'summary.json'} was written by an earlier varsim, without checksums: "
        "run it again"
    )


def test_a_damaged_run_is_replaced_when_it_is_run_again(saved: Path, tmp_path: Path) -> None:
    there = tmp_path / "run"
    shutil.copytree(saved / "training", there)
    text = (there / "summary.json").read_text()
    (there / "summary.json").write_text(text[: len(text) // 2])
    save(a_result(), there)
    assert load_result(there).strategies == ("none",)
