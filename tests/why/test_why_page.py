"""What is printed and written: the cause first, numbers that add up, the same bytes every time."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.why.hand import saturated, timed
from varsim.cli import app as cli
from varsim.report.files.keeping import put_report
from varsim.report.plots.figure import style
from varsim.report.plots.why import PLOT, draw, legend, seconds, title
from varsim.report.render import render
from varsim.report.why import report
from varsim.report.words import why as words
from varsim.scenario.loading import load_scenario
from varsim.scenario.training import Scenario
from varsim.study.why.account import Account, account, why

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
BOTTLENECK = ["explain", str(SCENARIOS / "server_bottleneck.yaml"), "--strategy", "1 server"]


def explained(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def told(made: Scenario) -> Account:
    return account(made, 0)


class TestTables:
    def test_parts_add_up_as_printed(self) -> None:
        cluster = {"compute": {"kind": "exponential", "mean": 0.1}}
        network = {"bandwidth": 1e9, "latency": 1e-3}
        found = told(timed("on_write", 7.3e7, cluster=cluster, network=network))
        *rows, whole = [float(time.split()[0]) for _, time, _ in words.parts_as_text(found)]
        assert sum(rows) == pytest.approx(whole, abs=1e-9)

    def test_the_busiest_comes_first(self) -> None:
        assert words.uses_as_text(told(saturated()))[:2] == [
            ("the server's port (ps 0, sending)", "100 %"),
            ("the server's port (ps 0, receiving)", "95 %"),
        ]


class TestJson:
    def test_parts_add_up_to_the_step(self) -> None:
        (found,) = json.loads(explained(*BOTTLENECK, "--format", "json"))["strategies"]
        total = sum(part["seconds"]["mean"] for part in found["parts"])
        assert total == pytest.approx(found["step_time"]["mean"], rel=1e-12)
        assert found["asynchronous"] is True
        assert found["parts"][0]["cause"] == "server"


class TestFiles:
    def test_are_written_the_same_every_time(self, tmp_path: Path) -> None:
        found = why(saturated())
        for name in ("a", "b"):
            put_report(report(found, "Why?"), tmp_path / name)
        names = {"why.html", "why.md", "why.json", "why.png", "why.svg"}
        assert {path.name for path in (tmp_path / "a").iterdir()} == names
        for name in names:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        html = (tmp_path / "a" / "why.html").read_text()
        assert "<svg" in html
        assert "Why?" in html
        assert "infinite bandwidth everywhere" in html
        assert "![Where the time" in (tmp_path / "a" / "why.md").read_text()

    def test_out_says_where(self, tmp_path: Path) -> None:
        small = Path(__file__).parent.parent / "small.yaml"
        text = explained("explain", str(small), "--out", str(tmp_path / "out"), "--quiet")
        assert text.splitlines()[-1] == f"report: {tmp_path / 'out' / 'why.html'}"


class TestFigure:
    def test_bars_are_as_long_as_the_parts(self) -> None:
        found = why(saturated())
        (made,) = found.accounts
        assert seconds(made) == pytest.approx(
            {"compute": 0.1, "bandwidth": 0.2, "server": 0.12, "rest": 0}, abs=1e-6
        )
        assert [each.get_label() for each in legend(found)] == [
            *("mean compute", "bandwidth of links", "servers (ports, handling)"),
        ]
        with style():
            from varsim.report.plots.figure import panels

            _, (axes,) = panels(PLOT.heights(found))
            draw(found, axes)
        assert [bar.get_width() for bar in axes.patches] == pytest.approx([100, 200, 120])
        assert title(found).startswith("In async PS an iteration takes 420 ms; 48 % of that: ")


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
    lines = render(report(found, figure=False), "table", width=80).splitlines()
    assert max(map(len, lines)) <= 100
    for each in found.accounts:
        assert not each.stuck
        assert sum(each.share(part) for part in each.parts) == pytest.approx(1)
        (strategy,) = each.scenario.strategies
        assert any(line.startswith(f"== {strategy.title} ") for line in lines)
