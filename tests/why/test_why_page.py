"""What is told and written: a row each, shares that add up, the same bytes every time."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.why.hand import saturated, timed
from varsim.cli import app as cli
from varsim.report.charts.looks import PARTS
from varsim.report.files.save import put_report
from varsim.report.screen import terminal
from varsim.report.told import Number, Report, Table
from varsim.scenario.loading import load_scenario
from varsim.scenario.training import Scenario
from varsim.study.why.account import why

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
BOTTLENECK = ["explain", str(SCENARIOS / "server_bottleneck.yaml"), "--strategy", "1 server"]


def explained(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def told(made: Scenario) -> Report:
    found: Report = why(made).report
    return found


def means(table: Table) -> list[float]:
    """The numbers of its last column."""
    return [cell.mean for cell in table.columns[-1].cells if isinstance(cell, Number)]


class TestTable:
    def test_shares_add_up_and_the_largest_gain_is_named(self) -> None:
        table = told(saturated()).table
        cells = {one.key: one.cells[0] for one in table.columns}
        shares = [one for one in cells.values() if isinstance(one, Number) and one.unit == "part"]
        # Of 420 ms the worker computes for 100, and its link carries for 200.
        assert [one.mean for one in shares[:3]] == pytest.approx([120 / 420, 200 / 420, 100 / 420])
        assert cells["helps"] == "infinite bandwidth 4.20x"

    def test_free_servers_help_where_servers_are_the_cause(self) -> None:
        # With 16 workers the port alone takes 3,000 of 3,200 ms or more.
        found = told(saturated(cluster={"workers": 16}, stop={"global_steps": 160}))
        (headline, help_) = found.headline
        assert (headline.code, headline.values["cause"]) == ("due-to", "servers")
        assert (help_.code, help_.values["change"]) == ("helps", "free servers")

    def test_who_is_slow_is_named(self) -> None:
        slow = {"workers": 3, "slow_workers": ({"rank": 2, "factor": 3.0},)}
        (headline, _) = told(timed("on_write", 1e6, cluster=slow)).headline
        assert headline.values["cause"] == "stragglers (worker 2)"

    def test_strategies_of_one_cause_share_a_sentence(self) -> None:
        pair = ({"kind": "on_write"}, {"kind": "on_write", "name": "again"})
        (headline,) = told(timed("on_write", 1e6, strategies=pair)).headline
        assert headline.values["who"] == ("all-reduce", "again")


class TestDetails:
    def test_the_busiest_come_first_and_the_chain_is_an_iteration(self) -> None:
        chain, spent, what_if, busy = told(saturated()).details
        assert busy.rows[:2] == (
            "the server's port (ps 0, sending)",
            "the server's port (ps 0, receiving)",
        )
        assert means(busy)[:2] == pytest.approx([1, 0.95], abs=0.01)
        assert chain.rows == (
            *("waiting for the server's port to read", "reading", "computing", "pushing"),
        )
        assert sum(means(chain)) == pytest.approx(1)
        assert "mean compute" in spent.rows
        assert "free servers" in what_if.rows

    def test_only_those_asked_for_have_them(self) -> None:
        found = told(saturated())
        assert "what if" not in terminal(found)
        assert "async PS: what if" in terminal(found, every=True)


class TestJson:
    def test_parts_add_up_to_the_step(self) -> None:
        data = json.loads(explained(*BOTTLENECK, "--format", "json"))
        (found,) = data["strategies"]
        total = sum(part["seconds"]["mean"] for part in found["parts"])
        assert total == pytest.approx(found["step_time"]["mean"], rel=1e-12)
        assert found["asynchronous"] is True
        assert found["parts"][0]["cause"] == "server"
        assert data["headline"][0]["cause"] == "servers"


class TestFiles:
    def test_are_written_the_same_every_time(self, tmp_path: Path) -> None:
        found = why(saturated())
        for name in ("a", "b"):
            put_report(found.report, tmp_path / name)
        names = {"why.html", "why.md", "why.json", "why.png"}
        assert {path.name for path in (tmp_path / "a").iterdir()} == names
        for name in names:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        html = (tmp_path / "a" / "why.html").read_text()
        assert "infinite bandwidth" in html
        assert "| async PS: what if |" in (tmp_path / "a" / "why.md").read_text()

    def test_out_says_where(self, tmp_path: Path) -> None:
        small = Path(__file__).parent.parent / "small.yaml"
        text = explained("explain", str(small), "--out", str(tmp_path / "out"), "--quiet")
        assert text.splitlines()[-1] == f"report: {tmp_path / 'out' / 'why.html'}"


def test_bars_are_as_long_as_the_parts() -> None:
    ((chart,),) = told(saturated()).drawn().values()
    found = dict(zip(chart.data["part"], chart.data["mean"], strict=True))
    expected = {"mean_compute": 0.1, "bandwidth": 0.2, "server": 0.12, "rest": 0}
    assert found == pytest.approx(expected, abs=1e-6)
    assert set(chart.data["who"]) == {"async PS"}
    assert chart.x == "time of an iteration of all workers (s)"
    assert set(found) <= set(PARTS)


def training(file: Path) -> bool:
    """Whether a file is one scenario of training: no sweep, no plan, no variables."""
    text = file.read_text(encoding="utf-8")
    return not re.search(r"^(sweep|plan|kind):", text, re.M)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", sorted(filter(training, SCENARIOS.glob("*.yaml"))), ids=lambda path: path.stem
)
def test_every_bundled_scenario_is_explained(file: Path) -> None:
    made = load_scenario(file)
    assert isinstance(made, Scenario)
    found = why(made)
    table = found.report.table
    assert len(table.rows) == len(made.strategies)
    assert table.columns[0].key == "step_time"
    assert 1 <= len(found.report.headline) <= 3
    for each in found.accounts:
        assert not each.stuck
        assert sum(each.share(part) for part in each.parts) == pytest.approx(1)
