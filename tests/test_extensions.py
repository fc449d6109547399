"""What other packages and users add: nothing of it runs before it is named, none breaks varsim."""

import json
import pickle
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.building import scenario
from tests.extending import ALL, SCENARIO, varsim
from varsim.scenario import provenance
from varsim.scenario.extensions import Need
from varsim.strategies import Strategy
from varsim.strategies.none import NoSynchronization
from varsim.values.distributions import LAWS
from varsim.values.table import Models

BROKEN = "print('plugin code ran')\nraise RuntimeError('broken\\nplugin')\n"
GOOD = """\
print('plugin code ran')
from typing import Literal
from varsim.cluster.collectives import ring
from varsim.cluster.topology.star import Star
from varsim.strategies import Strategy
from varsim.strategies.none import NoSynchronization
from varsim.units import Seconds
from varsim.values.distribution import Constant
from varsim.values.problem import Quadratic

class Mine(NoSynchronization):
    about = "as none, but mine"
    kind: Literal["mine"] = "mine"
    every: int = 3
    pause: Seconds = 0.0

class Vague(Strategy):
    kind: Literal["vague"] = "vague"

class Other:
    pass

class Bowl(Quadratic):
    about = "a bowl"
    kind: Literal["bowl"] = "bowl"

class Steady(Constant):
    about = "always the same"
    kind: Literal["steady"] = "steady"

class Hub(Star):
    about = "a hub"
    kind: Literal["hub"] = "hub"

def circle(ranks, size):
    '''A ring with a name of its own.'''
    return ring.all_reduce(ranks)
"""
ENTRIES = """\
[varsim.strategies]
mine = goodplug:Mine
none = goodplug:Mine
[varsim.problems]
bowl = goodplug:Bowl
[varsim.distributions]
steady = goodplug:Steady
[varsim.networks]
hub = goodplug:Hub
[varsim.collectives]
circle = goodplug:circle
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a package that cannot be imported and one that can."""
    for name, code, entries in (
        ("badplug", BROKEN, "[varsim.strategies]\nbad = badplug:Nope\n"),
        ("goodplug", GOOD, ENTRIES),
    ):
        (tmp_path / f"{name}.py").write_text(code)
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("badplug", "goodplug"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


class TestEntryPoints:
    def check(self, packages: Path, strategy: str) -> subprocess.CompletedProcess[str]:
        path = packages / "scenario.yaml"
        path.write_text(SCENARIO.replace("STRATEGY", strategy))
        return varsim(packages, "check", str(path))

    def test_nothing_runs_that_is_not_named(self, packages: Path) -> None:
        done = self.check(packages, "{kind: on_write}".replace("on_write", "none"))
        assert done.returncode == 0, done.stderr
        assert "plugin code ran" not in done.stdout + done.stderr

    def test_one_that_cannot_be_imported_is_an_error_where_it_is_named(
        self, packages: Path
    ) -> None:
        done = self.check(packages, "{kind: bad}")
        assert done.returncode == 2
        assert "scenario.yaml:8:21: error: the strategy 'bad' of another package" in done.stderr
        assert "from badplug:Nope: RuntimeError: broken plugin" in done.stderr
        assert "Traceback" not in done.stderr

    def test_lists_name_them_and_go_on(self, packages: Path) -> None:
        done = varsim(packages, "list")
        assert done.returncode == 0, done.stderr
        lines = [line.strip() for line in done.stdout.splitlines()]
        assert any(line.startswith("bad ") and "RuntimeError: broken" in line for line in lines)
        for name, about in {
            "mine": "as none, but mine",
            "bowl": "a bowl",
            "steady": "always the same",
            "hub": "a hub",
            "circle": "A ring with a name of its own",
        }.items():
            assert any(line.startswith(f"{name} ") and about in line for line in lines), name
        assert "plugin code ran" not in done.stdout  # what it prints goes to stderr
        listed = varsim(packages, "list", "strategies").stdout
        assert "double_binary_tree|hierarchical|push_pull|circle" in listed

    def test_the_schema_names_them_and_goes_on(self, packages: Path) -> None:
        done = varsim(packages, "schema")
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
        assert found["bad"]["description"].endswith("RuntimeError: broken plugin")
        assert found["Mine"]["properties"]["every"]["default"] == 3
        assert {"Bowl", "Steady", "Hub"} <= set(found)
        assert kinds["OnWrite"]["properties"]["collective"]["enum"][-1] == "circle"

    def test_a_wrong_key_is_told_from_its_own_fields(self, packages: Path) -> None:
        done = self.check(packages, "{kind: mine, evry: 3}")
        assert done.returncode == 2
        assert "unknown key 'evry'; did you mean 'every'?" in done.stderr

    @pytest.mark.slow
    @pytest.mark.product
    def test_all_five_run_and_are_named_in_the_result(self, packages: Path) -> None:
        path = packages / "all.yaml"
        path.write_text(ALL.replace("[{", "[{kind: mine, pause: 3 ms}, {"))
        done = varsim(packages, "run", str(path), "--out", str(packages / "out"))
        assert done.returncode == 0, done.stderr
        made = json.loads((packages / "out/summary.json").read_text())["provenance"]["needs"]
        assert made == (
            "law 'steady': class goodplug.Steady of package goodplug 1; "
            "network 'hub': class goodplug.Hub of package goodplug 1; "
            "problem 'bowl': class goodplug.Bowl of package goodplug 1; "
            "strategy 'mine': class goodplug.Mine of package goodplug 1; "
            "collective 'circle': function goodplug.circle of package goodplug 1"
        )
        elsewhere = varsim(packages / "nothing", "check", str(packages / "out/scenario.yaml"))
        assert elsewhere.returncode == 2
        assert elsewhere.stderr.count(": error: ") == 5  # a line each, and no more
        assert (
            "strategies[0]: strategy 'mine' is not known here: it is class goodplug.Mine of "
            "package goodplug 1; install goodplug 1\n" in elsewhere.stderr
        )

    def test_of_two_packages_with_one_name_neither_is_guessed(self, packages: Path) -> None:
        other = packages / "third-2.dist-info"
        other.mkdir()
        (other / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 2\n")
        (other / "entry_points.txt").write_text("[varsim.strategies]\nmine = third:Mine\n")
        done = self.check(packages, "{kind: mine}")
        assert done.returncode == 2
        assert "have one of that name; uninstall all but one" in done.stderr


def table(name: str, value: str) -> Models:
    """A table with one entry point."""
    made = Models("strategies", "strategy", {"none": NoSynchronization}, "nowhere", Strategy)
    made.entries = {name: [EntryPoint(name, value, "varsim.strategies")]}
    return made


class TestOneOfATable:
    def test_it_gives_the_strategy_itself(self, packages: Path) -> None:
        made = table("mine", "goodplug:Mine")
        any_of: TypeAdapter[Any] = TypeAdapter(made.type())
        strategy = any_of.validate_python({"kind": "mine", "every": 5})
        assert type(strategy) is made["mine"]
        assert any_of.dump_python(strategy)["every"] == 5
        assert any_of.validate_python(strategy) is strategy
        with pytest.raises(ValidationError) as caught:
            any_of.validate_python({"kind": "mine", "every": "x"})
        assert caught.value.errors()[0]["loc"] == ("mine", "every")

    def test_quantities_are_read_with_their_units(self, packages: Path) -> None:
        any_of: TypeAdapter[Any] = TypeAdapter(table("mine", "goodplug:Mine").type())
        text = '{"kind": "mine", "pause": "3 ms", "every": 2}'
        for found in (
            any_of.validate_python(json.loads(text), context={"text": True}),
            any_of.validate_json(text, context={"text": True}),
        ):
            assert (found.pause, found.every) == (0.003, 2)

    @pytest.mark.parametrize(
        ("name", "value", "why"),
        [
            ("bad", "badplug:Nope", "RuntimeError: broken plugin"),
            ("gone", "no_such_module:Nope", "ModuleNotFoundError: No module named"),
            ("mine", "goodplug:Nope", "AttributeError: "),
            ("mine", "goodplug:Other", "it is not a class of strategies"),
            ("mine", "goodplug:Bowl", "it is not a class of strategies"),
            ("other", "goodplug:Mine", "its kind is 'mine', not 'other'"),
            ("vague", "goodplug:Vague", "it does not define .*round, sends"),
        ],
    )
    def test_what_is_none_is_refused_with_the_reason(
        self, packages: Path, name: str, value: str, why: str
    ) -> None:
        with pytest.raises(ValueError, match=f"cannot be imported from {value}: {why}"):
            table(name, value)[name]

    def test_it_is_the_same_table_in_another_process(self) -> None:
        assert pickle.loads(pickle.dumps(LAWS)) is LAWS


def test_many_scenarios_need_what_any_of_them_does(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = scenario({"kind": "none"}), scenario({"kind": "none"}, name="other")
    found = {first.name: ["law 'a'"], other.name: ["law 'a'", "law 'b'"]}
    monkeypatch.setattr(
        provenance, "needs", lambda one: [Need(said, said) for said in found[one.name]]
    )
    assert provenance.provenance_of_many([first, other])["needs"] == "law 'a'; law 'b'"
    assert provenance.provenance_of_many([first])["needs"] == "law 'a'"
