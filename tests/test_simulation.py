"""The two verbs of the package: what they refuse, and how many processes they start."""

from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

import varsim

SMALL = Path(__file__).parent / "small.yaml"


def test_a_path_is_not_a_scenario() -> None:
    with pytest.raises(TypeError, match=r"load one with varsim\.load_scenario\(path\)"):
        varsim.simulate(str(SMALL))  # type: ignore[arg-type]


@pytest.mark.parametrize("jobs", [0, -1])
def test_without_a_process_nothing_runs(jobs: int) -> None:
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        varsim.simulate(varsim.load_scenario(SMALL), jobs=jobs)


def test_changes_are_a_list() -> None:
    with pytest.raises(TypeError, match=r"list of changes: .*\['replications=3'\]"):
        varsim.load_scenario(SMALL, "replications=3")
    assert varsim.load_scenario(SMALL, ["replications=3"]).replications == 3


def test_no_more_processes_than_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Executor:
        def submit(self, function: object, run: object) -> None:
            raise InterruptedError

        def shutdown(self, **_: object) -> None:
            pass

    def executor(max_workers: int, **_: object) -> Executor:
        asked.append(max_workers)
        return Executor()

    monkeypatch.setattr("loky.get_reusable_executor", executor)
    scenario = varsim.load_scenario(SMALL)
    for jobs in (2, 1000):
        with pytest.raises(InterruptedError):
            varsim.simulate(scenario, jobs=jobs)
    # Two strategies and the yardstick, in two replications.
    assert asked == [2, 6]


def test_threads_of_blas_change_no_bit() -> None:
    """Two threads cut a long sum in two, and round otherwise."""
    training = varsim.load(
        {
            "name": "quadratic",
            "cluster": {
                "workers": 1,
                "compute": {"kind": "constant", "value": "1 s"},
                "network": {"kind": "star", "bandwidth": "1 Gbit/s", "latency": "0 s"},
            },
            "workload": {
                "problem": {"kind": "quadratic", "dimension": 60_000},
                "optimizer": {"kind": "sgd", "learning_rate": 0.1},
                "evaluate_every": 32,
            },
            "strategies": [{"kind": "on_write"}],
            "stop": {"global_steps": 8},
        }
    )
    losses = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            losses.append(training.run().evaluations["loss"].to_list())
    assert losses[0] == losses[1]
