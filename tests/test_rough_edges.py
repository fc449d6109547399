"""What is said where a command is given something that does not fit, to the letter."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.building import scenario
from tests.seams import app as cli
from tests.seams import simulate


def said(*arguments: object, code: int = 2) -> str:
    done = CliRunner().invoke(cli.app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return re.sub(r"[\s│]+", " ", done.output)


QUICKSTART = Path(__file__).parent.parent / "scenarios" / "quickstart.yaml"


def test_a_misspelt_strategy_gets_the_nearest() -> None:
    printed = said("check", QUICKSTART, "--set", "strategies.on_wirte.overlap=true")
    assert (
        "no strategy has the name or kind 'on_wirte'; did you mean strategies.on_write?" in printed
    )
    printed = said("check", QUICKSTART, "--set", "strategies.qqqq.overlap=true")
    assert "did you mean" not in printed


def test_a_folder_to_calibrate_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "varsim: .: a folder; name its files" in said("calibrate", ".")


def test_a_lead_is_told_once() -> None:
    """The first two are practically equal within a half, the first strategy is the next best."""
    cluster = {"workers": 3, "compute": {"kind": "uniform", "low": 0.08, "high": 0.12}}
    kinds = (
        {"kind": "single"},
        {"kind": "on_write"},
        {"kind": "backup_workers", "replicas_to_aggregate": 2},
    )
    made = scenario(
        kinds[0],
        strategies=kinds,
        cluster=cluster,
        replications=5,
        stop={"time": 5.0},
        report={"equal_within": 0.8},
    )
    first, *_ = simulate(made).report.headline
    assert first.code == "tie"
    assert "next" in first.values
