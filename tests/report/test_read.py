"""What was saved is read back: the same numbers, the same ranking, what was told."""

from pathlib import Path
from typing import Any

import pytest

import varsim
from tests.sweep.sweeping import SWEPT

LEARNS = """\
name: learns
replications: 2
cluster:
  workers: 2
  compute: {kind: exponential, mean: 100 ms}
  network: {kind: star, bandwidth: 10 Gbit/s, latency: 20 us}
workload:
  problem: {kind: quadratic, dimension: 4, noise: 0.1}
  optimizer: {kind: sgd, learning_rate: 0.1}
strategies: [{kind: on_write}, {kind: none, name: "None"}]
targets: {loss: 0.1}
stop: {time: 3 s}
"""
PLANNED = (
    SWEPT.partition("sweep:")[0]
    + """\
targets: {throughput: 60 examples/s}
prices: {device_hour: 2.0}
plan:
  minimize: cost_per_hour
  space: {cluster.workers: [2, 3, 4]}
  most_replications: 4
"""
)


def found(product: str) -> tuple[Any, str]:
    """A result of a product, and a metric by which it ranks."""
    if product == "sweep":
        return varsim.sweep(SWEPT), "examples_per_s"
    if product == "plan":
        return varsim.plan(PLANNED), "cost_per_hour"
    if product == "tune":
        return varsim.tune(LEARNS, rates=[0.1, 0.3]), "time_to_target"
    return varsim.run(LEARNS), "examples_per_s"


@pytest.mark.parametrize("product", ["run", "sweep", "plan", "tune"])
def test_what_was_saved_is_read(product: str, tmp_path: Path) -> None:
    result, metric = found(product)
    page = result.save(tmp_path / "out")
    assert page.exists()
    again = varsim.read(tmp_path / "out")
    assert again.answer() == result.answer()
    assert list(again.notes) == list(result.notes)
    assert again.frame().equals(result.frame())
    first, second = result.ranking(metric), again.ranking(metric)
    assert (first.best, len(first.rivals)) == (second.best, len(second.rivals))
    assert [one.said for one in first.rivals] == [one.said for one in second.rivals]
    assert set(result.runs.columns) <= {*again.runs.columns}
    assert len(again.runs) == len(result.runs)
    assert again.name if product != "sweep" else again.sha256 == result.sha256


def test_a_comparison_that_was_saved_is_read(tmp_path: Path) -> None:
    result = varsim.compare(LEARNS, LEARNS.replace("workers: 2", "workers: 3"))
    result.save(tmp_path / "out")
    again = varsim.read(tmp_path / "out")
    assert (again.kind, again.name) == ("compare", result.report.name)
    assert again.answer() == result.answer() != ""
    assert list(again.notes) == list(result.notes)
    assert again.frame().equals(result.frame())
    for what in ("scenario", "runs"):
        with pytest.raises(ValueError, match=r"a saved comparison has no .*: frame\(\) has"):
            getattr(again, what)


def test_where_nothing_was_saved_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="holds no results that were saved"):
        varsim.read(tmp_path)


def test_of_an_explanation_it_is_said_where_its_numbers_are(tmp_path: Path) -> None:
    varsim.explain(LEARNS).save(tmp_path / "out")
    with pytest.raises(FileExistsError, match=r"is not read back: its numbers are in why\.json"):
        varsim.read(tmp_path / "out")


def test_there_are_no_more_public_names_than_can_be_known() -> None:
    assert len({*varsim.__all__} - {"__version__"}) <= 14
