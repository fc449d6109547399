"""The rates of the scenarios that come along are those that the command finds."""

from pathlib import Path

import pytest

from tests.seams import load_scenario
from varsim import Scenario
from varsim.study.pool import Pool
from varsim.study.runs import Runs
from varsim.study.store import Store
from varsim.study.tune import BestRates

SCENARIOS = Path(__file__).parents[2] / "scenarios"
TUNED = ("heavy_tail", "k_of_n", "more_gradients_than_workers", "quickstart", "read_every",
         "slow_network", "slow_worker", "sparse_rows", "tokens_or_textbook")  # fmt: skip
# One rate for all, for a reason that the file tells.
ONE_RATE = ("server_bottleneck",)


def loaded(name: str) -> Scenario:
    scenario = load_scenario(SCENARIOS / f"{name}.yaml")
    assert isinstance(scenario, Scenario)
    return scenario


@pytest.mark.parametrize("name", TUNED)
def test_each_strategy_has_a_rate_of_its_own(name: str) -> None:
    assert all(strategy.optimizer is not None for strategy in loaded(name).strategies)


@pytest.mark.parametrize("name", ONE_RATE)
def test_one_rate_for_all_is_that_of_the_workload(name: str) -> None:
    assert all(strategy.optimizer is None for strategy in loaded(name).strategies)
    assert "# One rate for all: " in (SCENARIOS / f"{name}.yaml").read_text()


@pytest.mark.slow
def test_the_quickstarts_are_what_tune_finds(tmp_path: Path) -> None:
    scenario = loaded("quickstart")
    with Store(tmp_path) as store, Pool(2) as backend:
        found = BestRates(scenario).run(Runs(store, backend))
    for one in found.tuned:
        as_good = {one.best.rate, *(tie.rate for tie in one.ties)}
        assert one.before in as_good, f"{one.label} is best at {one.best.rate:g}"
        assert one.edge == ""
