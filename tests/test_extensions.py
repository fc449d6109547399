"""What users add on the command line: `--import` has it registered, or says in a line why not."""

import json
import pickle
from pathlib import Path

import pytest

from tests.building import scenario
from tests.extending import ALL, SCENARIO, python, varsim
from varsim.core.distributions import ALL_DISTRIBUTIONS
from varsim.scenario.extensions import Need
from varsim.scenario.writing import provenance_of_many

GOOD = """\
print('own code ran')
from typing import Literal
import varsim
from beside import ABOUT
from varsim.cluster.collectives.algorithms import ring_all_reduce
from varsim.cluster.network.topologies import Star
from varsim.strategies.none import NoSynchronization
from varsim.core.units import Seconds
from varsim.core.distribution import Constant
from varsim.learning.problem import Quadratic

@varsim.register
class Mine(NoSynchronization):
    about = ABOUT
    kind: Literal["mine"] = "mine"
    every: int = 3
    pause: Seconds = 0.0

@varsim.register
class Bowl(Quadratic):
    about = "a bowl"
    kind: Literal["bowl"] = "bowl"

@varsim.register
class Steady(Constant):
    about = "always the same"
    kind: Literal["steady"] = "steady"

@varsim.register
class Hub(Star):
    about = "a hub"
    kind: Literal["hub"] = "hub"

@varsim.register
def circle(ranks, size):
    '''A ring with a name of its own.'''
    return ring_all_reduce(ranks)
"""
FILE = "own/extras.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file that registers one of each, in a folder below."""
    (tmp_path / "own").mkdir()
    (tmp_path / FILE).write_text(GOOD)
    (tmp_path / "own/beside.py").write_text("ABOUT = 'as none, but mine'\n")
    (tmp_path / "one.yaml").write_text(SCENARIO.replace("STRATEGY", "{kind: mine, pause: 3 ms}"))
    return tmp_path


def test_lists_name_what_is_imported(folder: Path) -> None:
    for table, name, about in (
        ("strategies", "mine", "as none, but mine"),
        ("problems", "bowl", "a bowl"),
        ("distributions", "steady", "always the same"),
        ("networks", "hub", "a hub"),
        ("collectives", "circle", "ring with a name of its own"),
    ):
        done = varsim(folder, "list", table, "--import", str(folder / FILE))
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert any(line.startswith(f"{name} ") and about in line for line in lines), name
    assert "own code ran" not in done.stdout  # what it prints goes to stderr
    one = ("list", "strategies", "on_write", "--import", str(folder / FILE))
    listed = varsim(folder, *one).stdout
    assert "double_binary_tree|hierarchical|push_pull|circle" in listed


def test_the_schema_has_what_is_imported(folder: Path) -> None:
    done = varsim(folder, "schema", "--import", str(folder / FILE))
    assert done.returncode == 0, done.stderr
    kinds = json.loads(done.stdout)["$defs"]
    places = [
        kinds["Scenario"]["properties"]["strategies"]["items"],
        kinds["Workload"]["properties"]["problem"],
        kinds["Cluster"]["properties"]["compute"]["anyOf"][0],
        kinds["Cluster"]["properties"]["network"],
    ]
    there = [one for place in places for one in place["oneOf"]]
    found = {one["title"]: one for one in there if "title" in one} | kinds
    assert found["Mine"]["properties"]["every"]["default"] == 3
    assert {"Bowl", "Steady", "Hub"} <= set(found)
    assert kinds["OnWrite"]["properties"]["collective"]["enum"][-1] == "circle"


@pytest.mark.slow
@pytest.mark.product
def test_all_five_run_and_are_named_in_the_result(folder: Path) -> None:
    path, out, add = folder / "all.yaml", folder / "out", ("--import", str(folder / FILE))
    path.write_text(ALL.replace("[{", "[{kind: mine, pause: 3 ms}, {"))
    two = ("--set", "replications=2", "--jobs", "2", "--no-plots")
    done = varsim(folder, "run", str(path), *add, *two, "--out", str(out))
    assert done.returncode == 0, done.stderr
    made = json.loads((out / "summary.json").read_text())["provenance"]["needs"]
    assert made == (
        "distribution 'steady': class Steady, defined in extras (extras.py); "
        "network 'hub': class Hub, defined in extras (extras.py); "
        "problem 'bowl': class Bowl, defined in extras (extras.py); "
        "strategy 'mine': class Mine, defined in extras (extras.py); "
        "collective 'circle': function circle, defined in extras (extras.py)"
    )
    elsewhere = varsim(folder, "check", str(out / "scenario.yaml"))
    assert elsewhere.returncode == 2
    assert elsewhere.stderr.count(": error: ") == 5  # a line each, and no more
    assert (
        "strategies[0]: strategy 'mine' is not known here: it is class Mine, defined in extras "
        "(extras.py); first run what defines it, and varsim.register(Mine), or --import "
        "extras.py\n" in elsewhere.stderr
    )
    again = varsim(folder, "check", str(out / "scenario.yaml"), *add)
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
@pytest.mark.product
def test_runs_are_made_again_once_the_file_has_changed(folder: Path) -> None:
    """In a sweep, whose processes import it, too; for plan, tune and explain it is the same."""
    given = (str(folder / "one.yaml"), "--import", str(folder / FILE))
    swept = ("--set", "cluster.workers=2,4", "--jobs", "2", "--no-plots")
    done = varsim(folder, "sweep", *given, *swept, "--out", str(folder / "out"))
    assert done.returncode == 0, done.stderr
    again = varsim(folder, "sweep", *given, *swept, "--out", str(folder / "out"))
    assert "already there" in again.stderr
    (folder / FILE).write_text(GOOD + "# another\n")
    changed = varsim(folder, "sweep", *given, *swept, "--out", str(folder / "out"))
    assert (changed.returncode, "already there" in changed.stderr) == (0, False)
    for command in ("explain", "tune"):
        assert varsim(folder, command, *given, "--quiet").returncode == 0, command


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (None, "there is no file {}"),
        ("x = 1\n", "{} registers nothing: write @varsim.register above each class"),
        ("\nraise RuntimeError('of\\nno use')\n", "own.py:2: RuntimeError: of no use"),
        ("import sys\nsys.exit('enough')\n", "own.py:2: SystemExit: enough"),
        ("x = (\n", "SyntaxError: '(' was never closed (own.py, line 1)"),
        ("import nowhere\n", "own.py:1: ModuleNotFoundError: No module named 'nowhere'"),
        (
            "import varsim\nfrom varsim.strategies.none import NoSynchronization as No\n"
            "varsim.register(No)\n",
            "own.py:3: ValueError: the strategy 'none' is taken: varsim has one of that name",
        ),
    ],
)
def test_what_cannot_be_imported_is_refused_in_a_line(
    folder: Path, code: str | None, why: str
) -> None:
    path = folder / "own.py"
    if code is not None:
        path.write_text(code)
    done = varsim(folder, "check", str(folder / "one.yaml"), "--import", str(path))
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    assert line.startswith("Error: Invalid value for '--import': ")
    assert why.format(path) in line
    assert "Traceback" not in done.stderr


def test_a_module_by_its_name_and_one_that_has_anothers(folder: Path) -> None:
    given = ("check", str(folder / "one.yaml"), "--import")
    assert varsim(folder / "own", *given, "extras").returncode == 0
    done = varsim(folder, *given, "extras")
    assert "extras cannot be imported: ModuleNotFoundError: No module named" in done.stderr
    (folder / "statistics.py").write_text(GOOD)
    done = varsim(folder / "own", *given, str(folder / "statistics.py"))
    assert done.returncode == 2
    assert "has the name of another module: give it one of its own" in done.stderr


def test_a_wrong_key_is_told_from_its_own_fields(folder: Path) -> None:
    path = folder / "one.yaml"
    path.write_text(SCENARIO.replace("STRATEGY", "{kind: mine, evry: 3}"))
    done = varsim(folder, "check", str(path), "--import", str(folder / FILE))
    assert done.returncode == 2
    assert "unknown key 'evry'; did you mean 'every'?" in done.stderr


def test_without_it_a_kind_is_unknown_and_the_way_is_told(folder: Path) -> None:
    path = folder / "one.yaml"
    path.write_text(SCENARIO.replace("STRATEGY", "{kind: waltzing}"))
    done = python(folder, "-m", "varsim", "check", str(path))
    assert done.returncode == 2
    assert "has to be registered first (varsim.register, or --import FILE)" in done.stderr


def test_a_table_is_the_same_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(ALL_DISTRIBUTIONS)) is ALL_DISTRIBUTIONS


def test_many_scenarios_need_what_any_of_them_does(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = scenario({"kind": "none"}), scenario({"kind": "none"}, name="other")
    found = {first.name: ["law 'a'"], other.name: ["law 'a'", "law 'b'"]}
    monkeypatch.setattr(
        "varsim.scenario.writing.needs",
        lambda one: [Need(said, said) for said in found[one.name]],
    )
    assert provenance_of_many([first, other])["needs"] == "law 'a'; law 'b'"
    assert provenance_of_many([first])["needs"] == "law 'a'"
