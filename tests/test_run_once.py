"""What is called random, and that a strategy in which nothing is random is run once."""

from typing import Any

import pytest

from tests.building import scenario
from tests.reports import checked
from tests.seams import Result, Run, Trace, run_one, simulate
from tests.test_randomness import PLAYED, times, values
from varsim import Scenario
from varsim.scenario.training import times_are_random
from varsim.study import result as results
from varsim.study.beginning import gradients

UPDATE = {"time": {"kind": "exponential", "mean": 0.01}}


def test_a_loss_may_end_a_run_sooner_or_later() -> None:
    stop = {"global_steps": 50, "loss": 0.01}
    made = scenario({"kind": "on_write"}, problem={"noise": 1.0}, stop=stop)
    assert times_are_random(made, made.strategies[0])


def test_what_servers_do_may_be_random() -> None:
    both = ({"kind": "none"}, {"kind": "on_write"})
    made = scenario(both[0], cluster={"server_update": UPDATE}, strategies=both)
    assert [times_are_random(made, one) for one in made.strategies] == [True, False]


class TestWhatIsExactIsRunOnce:
    """A strategy in which nothing is random is run once, whatever `replications` says."""

    @staticmethod
    def made(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[Result, list[Run]]:
        runs: list[Run] = []

        def counted(run: Run, **how: Any) -> Trace:
            runs.append(run)
            return run_one(run, **how)

        monkeypatch.setattr(results, "run_one", counted)
        both = ({"kind": "none"}, {"kind": "on_write"})
        described = scenario(both[0], strategies=both, replications=4, **changes)
        return simulate(described), runs

    def test_of_all_one_replication_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        result, runs = self.made(monkeypatch)
        assert [run.strategy for run in runs] == [0, 1, None]
        assert result.replications == 1
        found = result.estimate("none", "examples_per_s")
        assert (found.low, found.high, found.replications) == (found.mean, found.mean, 1)
        assert "exact" in [note.code for note in result.report.notes]
        assert "too-few" not in [note.code for note in result.report.headline]
        curve = result.loss_curves()
        assert (curve["low"] == curve["high"]).all()

    def test_it_says_what_all_replications_would(self, monkeypatch: pytest.MonkeyPatch) -> None:
        result, _ = self.made(monkeypatch)
        every = [
            run_one(Run(result.scenario, strategy, number))
            for strategy in (0, 1, None)
            for number in range(4)
        ]
        whole = Result(result.scenario, every[:8], every[8:])
        assert result.answer() == whole.answer()

    def test_beside_a_random_one_it_counts_in_every_replication(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result, runs = self.made(monkeypatch, cluster={"server_update": UPDATE})
        assert [run.strategy for run in runs] == [0, 0, 0, 0, 1, None]
        assert result.replications == 4
        for number in range(4):
            own = result.trace("on_write", number)
            made = run_one(Run(result.scenario, 1, number))
            assert (own.replication, times(own), values(own)) == (number, times(made), values(made))

    def test_recorded_times_in_queues_are_run_once_but_not_called_exact(self) -> None:
        """Who comes first is decided by nanoseconds, and a slower read may be a faster run."""

        def made(seconds: float) -> Scenario:
            rows = (tuple(0.1 + 0.003 * (7 * n % 5) for n in range(9)), (seconds, 0.103, 0.108))
            played = {"compute": {"kind": "trace", "seconds": rows}, "workers": 4}
            network = {"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"}
            both = ({"kind": "none"}, {"kind": "on_write"})
            return scenario(
                both[0],
                strategies=both,
                replications=4,
                cluster=played,
                network=network,
                problem={"kind": "timing", "size": 2e7},
                workload={"batch_size": 1, "optimizer": None},
                stop={"global_steps": 300},
            )

        result = simulate(made(0.105))
        assert result.replications == 1
        (note,) = (note for note in result.report.notes if note.code == "recorded-order")
        assert note.values == {"who": ("async PS",)}
        alone = scenario(
            {"kind": "on_write"}, cluster={"compute": PLAYED}, stop={"global_steps": 8}
        )
        assert "exact" in [note.code for note in simulate(alone).report.notes]

    def test_check_foresees_it(self) -> None:
        one, four = (scenario({"kind": "none"}, replications=count) for count in (1, 4))
        assert gradients(one) == gradients(four)
        assert checked(four).report.headline[0].values["replications"] == 1
