"""The two verbs of the package: what they refuse, and how many processes they start."""

from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

import varsim
from tests.seams import load_scenario, simulate

SMALL = Path(__file__).parent / "small.yaml"
PLAN = Path(__file__).parent.parent / "scenarios" / "plan_resnet50.yaml"


def test_a_path_is_not_a_scenario() -> None:
    with pytest.raises(TypeError, match=r"load one with varsim\.load\(path\)"):
        simulate(str(SMALL))


@pytest.mark.parametrize("jobs", [0, -1])
def test_without_a_process_nothing_runs(jobs: int) -> None:
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        simulate(load_scenario(SMALL), jobs=jobs)


@pytest.mark.parametrize("run", [varsim.run, varsim.sweep, varsim.plan])
def test_processes_are_counted_in_whole_numbers(run: Any) -> None:
    file = PLAN if run is varsim.plan else SMALL
    sets = ["stop.time=1 s,2 s"] if run is varsim.sweep else []
    for jobs in ("2", 1.5, True):
        with pytest.raises(TypeError, match=f"jobs is a number of processes, not {jobs!r}"):
            run(file, sets, jobs=jobs)
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        run(file, sets, jobs=0)


def test_a_run_is_asked_for_by_its_replication() -> None:
    result = varsim.run(SMALL, ["replications=2"])
    label = result.strategies[-1]
    assert [result.trace(label, number).replication for number in (0, 1)] == [0, 1]
    for number in (2, -1):
        with pytest.raises(ValueError, match=f"no replication {number}; there are 0 and 1"):
            result.trace(label, number)


def test_changes_are_a_list() -> None:
    with pytest.raises(TypeError, match=r"list of changes: .*\['replications=3'\]"):
        load_scenario(SMALL, "replications=3")
    assert load_scenario(SMALL, ["replications=3"]).replications == 3


def test_no_more_processes_than_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class NoPool:
        def __init__(self, jobs: int) -> None:
            asked.append(jobs)
            raise InterruptedError

    monkeypatch.setattr("varsim.study.pool.Pool", NoPool)
    scenario = load_scenario(SMALL)
    for jobs in (2, 1000):
        with pytest.raises(InterruptedError):
            simulate(scenario, jobs=jobs)
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
