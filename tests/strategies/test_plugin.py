"""Strategies of other packages: nothing of them runs before it is named, and none breaks varsim."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from varsim.strategies.none import NoSynchronization
from varsim.strategies.plugin import real, stand_in
from varsim.values.schema import one_of

BROKEN = "print('plugin code ran')\nraise RuntimeError('broken\\nplugin')\n"
GOOD = """\
print('plugin code ran')
from typing import Literal
from varsim.strategies import Strategy
from varsim.strategies.none import NoSynchronization

class Mine(NoSynchronization):
    about = "as none, but mine"
    kind: Literal["mine"] = "mine"
    every: int = 3

class Vague(Strategy):
    kind: Literal["vague"] = "vague"

class Other:
    pass
"""
SCENARIO = """\
name: plugins
cluster:
  workers: 2
  parameter_servers: 1
  compute: {kind: constant, value: 10 ms}
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 50 us}
workload: {problem: {kind: timing, size: 1 MB}}
strategies: [STRATEGY]
stop: {global_steps: 10}
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a package that cannot be imported and one that can."""
    for name, code, entries in (
        ("badplug", BROKEN, "bad = badplug:Nope"),
        ("goodplug", GOOD, "mine = goodplug:Mine\\nnone = goodplug:Mine"),
    ):
        (tmp_path / f"{name}.py").write_text(code)
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(
            "[varsim.strategies]\n" + entries.replace("\\n", "\n") + "\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("badplug", "goodplug"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def varsim(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    return subprocess.run(
        [sys.executable, "-m", "varsim", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "varsim.strategies")


class TestOnTheCommandLine:
    def check(self, packages: Path, strategy: str) -> subprocess.CompletedProcess[str]:
        path = packages / "scenario.yaml"
        path.write_text(SCENARIO.replace("STRATEGY", strategy))
        return varsim(packages, "check", str(path))

    def test_nothing_runs_that_is_not_named(self, packages: Path) -> None:
        done = self.check(packages, "{kind: on_write}")
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

    def test_list_names_it_and_goes_on(self, packages: Path) -> None:
        done = varsim(packages, "list", "strategies")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert any(line.startswith("bad ") and "RuntimeError: broken" in line for line in lines)
        assert any(line.startswith("mine ") and "as none, but mine" in line for line in lines)
        assert "plugin code ran" not in done.stdout  # what it prints goes to stderr

    def test_the_schema_names_it_and_goes_on(self, packages: Path) -> None:
        done = varsim(packages, "schema")
        assert done.returncode == 0, done.stderr
        kinds = json.loads(done.stdout)["$defs"]
        assert kinds["Plugin_bad"]["description"].endswith("RuntimeError: broken plugin")
        assert kinds["Mine"]["properties"]["every"]["default"] == 3

    def test_a_wrong_key_is_told_from_its_own_fields(self, packages: Path) -> None:
        done = self.check(packages, "{kind: mine, evry: 3}")
        assert done.returncode == 2
        assert "unknown key 'evry'; did you mean 'every'?" in done.stderr


class TestTheStandIn:
    def test_it_gives_the_strategy_itself(self, packages: Path) -> None:
        table = {"none": NoSynchronization, "mine": stand_in(entry("mine", "goodplug:Mine"))}
        any_of = TypeAdapter(one_of(table))
        strategy = any_of.validate_python({"kind": "mine", "every": 5})
        assert type(strategy) is real(table["mine"])
        assert any_of.dump_python(strategy)["every"] == 5
        assert any_of.validate_python(strategy) is strategy
        with pytest.raises(ValidationError) as caught:
            any_of.validate_python({"kind": "mine", "every": "x"})
        assert caught.value.errors()[0]["loc"] == ("mine", "every")

    @pytest.mark.parametrize(
        ("name", "value", "why"),
        [
            ("bad", "badplug:Nope", "RuntimeError: broken plugin"),
            ("gone", "no_such_module:Nope", "ModuleNotFoundError: No module named"),
            ("mine", "goodplug:Nope", "AttributeError: "),
            ("mine", "goodplug:Other", "it is not a class of strategies"),
            ("other", "goodplug:Mine", "its kind is 'mine', not 'other'"),
            ("vague", "goodplug:Vague", "it does not define .*round, sends"),
        ],
    )
    def test_what_is_none_is_refused_with_the_reason(
        self, packages: Path, name: str, value: str, why: str
    ) -> None:
        with pytest.raises(ValueError, match=f"cannot be imported from {value}: {why}"):
            real(stand_in(entry(name, value)))
