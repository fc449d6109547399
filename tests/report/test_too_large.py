"""What does not fit the memory of its device is not named as the best without a word of that."""

from typing import Any

import pytest

import varsim
from varsim.study.grid import SweepTable as Table
from varsim.study.plan import Plan
from varsim.study.result import Result
from varsim.study.why.account import Why


@pytest.fixture
def settings() -> dict[str, Any]:
    """Adam keeps 108 GB of a 7B model, where they are not sharded; the device has 80."""
    return {
        "name": "large",
        "replications": 2,
        "cluster": {
            "workers": 2,
            "device": "h100_sxm",
            "network": {"kind": "star", "bandwidth": "400 Gbit/s", "latency": "5 us"},
        },
        "workload": {
            "problem": {"kind": "timing"},
            "model": "llama2_7b",
            "bytes_per_parameter": 2,
            "batch_size": 1,
            "optimizer": {"kind": "adam", "learning_rate": 0.001},
        },
        "strategies": [
            {"kind": "on_write", "name": "plain"},
            {"kind": "on_write", "name": "all", "sharding": "parameters"},
        ],
        "stop": {"global_steps": 4},
        "memory": {"exceeded": "mark"},
    }


def test_a_run_does_not_rank_it(settings: dict[str, Any]) -> None:
    found = varsim.run(settings)
    assert isinstance(found, Result)
    assert found.estimate("plain", "examples_per_s").mean > 0
    (first,) = found.report.headline
    assert (first.code, first.values["best"]) == ("alone", "all")
    assert found.report.table.rows == ("all", "plain")
    (note,) = (note for note in found.report.notes if note.code == "memory")
    assert note.values["who"] == ("plain",)
    alone = varsim.run(settings, strategies=["plain"])
    assert [note.code for note in alone.report.headline] == ["none-fits"]


def test_sweep(settings: dict[str, Any]) -> None:
    found = varsim.sweep(settings, ["cluster.workers=2,3"], most_replications=3)
    assert isinstance(found, Table)
    (first,) = found.report.headline
    assert (first.code, first.values["best"]) == ("alone", "all at workers = 3")
    (note,) = (note for note in found.report.notes if note.code == "memory-rows")
    assert note.values["who"] == ("plain",)


def test_plan(settings: dict[str, Any]) -> None:
    block = {"minimize": "workers", "space": {"cluster.workers": [2, 3]}, "most_replications": 4}
    targets = {"throughput": "0.1 examples/s"}
    found = varsim.plan(settings | {"targets": targets, "plan": block})
    assert isinstance(found, Plan)
    assert found.best is not None
    assert found.best.strategy == "plain"
    assert found.report.headline[0].values["large"] == "device"
    (marked,) = (note for note in found.report.notes if note.code == "memory-marked")
    assert marked.values["who"] == ("plain",)


@pytest.mark.slow
@pytest.mark.product
def test_explain(settings: dict[str, Any]) -> None:
    found = varsim.explain(settings)
    assert isinstance(found, Why)
    (note,) = (note for note in found.report.notes if note.code == "memory")
    assert note.values["who"] == ("plain",)
