"""Traffic is priced over the window of the rate: rounds whose bytes are counted by hand."""

from typing import Any

import pytest

from tests.building import scenario
from tests.seams import Run, run_one, simulate
from varsim import Scenario
from varsim.study.case import case_of, measured
from varsim.study.metrics import SENT
from varsim.study.result import costs

# 4 workers, 1 s a step; an all-reduce of 8 kB by a ring takes 6 messages of 2 ms each, and sends
# 2 (4 - 1) / 4 of 8 kB from each worker: 48 kB.
SYNC, ALL = 0.012, 48_000.0
GIGABYTE_A_SECOND = 1e9 / 3600  # with which a byte a second costs 1 an hour


def of_rounds(strategy: dict[str, Any], steps: int, **changes: Any) -> Scenario:
    return scenario(
        strategy,
        network={"bandwidth": 1e6, "latency": 0.0, "sharing": "first_come"},
        problem={"kind": "timing", "size": 8000.0},
        workload={"optimizer": None, "batch_size": 4},
        cluster={"workers": 4, "compute": {"kind": "constant", "value": 1.0}},
        prices={"gigabyte": GIGABYTE_A_SECOND},
        report={},
        **{"stop": {"global_steps": steps}, **changes},
    )


STRATEGIES: list[dict[str, Any]] = [
    {"kind": "diloco", "inner_steps": 8},
    {"kind": "diloco", "inner_steps": 8, "fragments": 4, "delay": 1},
    {"kind": "local_sgd", "period": 8},
    {"kind": "on_read", "read_every": 8, "write_back": True},
]


class TestARound:
    @pytest.mark.parametrize("rounds", [1, 2, 10])
    @pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: "-".join(map(str, one)))
    def test_of_a_run_sends_what_follows_its_last_update(
        self, strategy: dict[str, Any], rounds: int
    ) -> None:
        described = of_rounds(strategy, 8 * rounds)
        result = simulate(described)
        (label,) = result.strategies
        (a_second,) = costs(result, label)["cost_per_hour"]
        (examples,) = result.values(label, "examples_per_s")
        # An all-reduce for every 8 steps of 4 workers with 4 examples each.
        assert a_second / examples == pytest.approx(ALL / (8 * 4 * 4), rel=1e-9)

    @pytest.mark.parametrize(("rounds", "syncs"), [(1, 0), (2, 1), (10, 8)])
    def test_in_the_window_of_the_rate(self, rounds: int, syncs: int) -> None:
        """Of 10 rounds the rate is that of the last 8, of fewer that of all."""
        result = simulate(of_rounds(STRATEGIES[0], 8 * rounds))
        counted = rounds if rounds < 5 else rounds - 2
        (a_second,) = costs(result, "diloco")["cost_per_hour"]
        assert a_second == pytest.approx(counted * ALL / (8 * counted + syncs * SYNC), rel=1e-9)

    @pytest.mark.parametrize("strategy", [*STRATEGIES, {"kind": "on_write"}, {"kind": "none"}])
    def test_is_the_same_in_sweeps_and_plans(self, strategy: dict[str, Any]) -> None:
        described = of_rounds(strategy, 80)
        (label,) = [one.label for one in described.strategies]
        case = case_of(described, described.strategies[0]).scenario
        found = measured(case, run_one(Run(case, 0, 0)))[SENT]
        assert [found] == pytest.approx(costs(simulate(described), label)["cost_per_hour"])

    def test_that_time_ends_in_an_all_reduce_counts_whole_ones(self) -> None:
        result = simulate(of_rounds({"kind": "on_write"}, 80, stop={"time": 10.1}))
        (a_second,) = costs(result, "on_write")["cost_per_hour"]
        assert a_second == pytest.approx(ALL / (1 + SYNC), rel=1e-9)

    def test_of_readers_is_not_charged_what_the_next_ones_read(self) -> None:
        """A worker reads and pushes 8 kB for each update; those of the window alone count."""
        cluster = {"workers": 8, "parameter_servers": 1}
        described = of_rounds({"kind": "none"}, 83)
        described = described.model_copy(
            update={"cluster": described.cluster.model_copy(update=cluster)}
        )
        result = simulate(described)
        (a_second,) = costs(result, "none")["cost_per_hour"]
        (updates,) = result.values("none", "updates_per_s")
        assert a_second / updates == pytest.approx(16_000, rel=1e-9)
