"""What is measured when workers are dead: the copies that are there, and nothing without any."""

from typing import Any

import numpy as np
import pytest

from tests.building import kill, restart, run, scenario
from tests.seams import Trace, simulate

COPIES: list[dict[str, Any]] = [
    {"kind": "on_read", "read_every": 9},
    {"kind": "on_write"},
    {"kind": "on_write", "on_death": "continue_with_fewer"},
    {"kind": "local_sgd", "period": 9},
    {"kind": "local_sgd", "period": 9, "on_death": "continue_with_fewer"},
    {"kind": "diloco", "inner_steps": 9},
]


def read(aggregation: str) -> dict[str, Any]:
    return {"kind": "on_read", "read_every": 9, "aggregation": aggregation}


def with_deaths(strategy: Any, *deaths: Any, **changes: Any) -> Trace:
    """A run of 3 workers and 650 ms, a step of 100 ms."""
    stop = {"stop": {"time": 0.65}}
    return run(strategy, **{"cluster": {"workers": 3}, "events": deaths, **stop, **changes})


@pytest.mark.parametrize("strategy", COPIES)
def test_without_a_copy_there_is_nothing(strategy: dict[str, Any]) -> None:
    everybody = [kill(0.25 + rank / 10, rank) for rank in range(3)]
    trace = with_deaths(strategy, *everybody)
    known = with_deaths(strategy, *everybody[:2])

    assert (trace.model_lost, known.model_lost) == (True, False)
    assert all(row.time < trace.end for row in trace.evaluations)
    assert known.evaluations[-1].time == known.end


@pytest.mark.parametrize("kind", ["easgd", "none"])
def test_servers_outlive_their_workers(kind: str) -> None:
    trace = with_deaths({"kind": kind}, *(kill(0.25, rank) for rank in range(3)))

    assert (trace.model_lost, trace.evaluations[-1].time) == (False, trace.end)


def test_the_first_replica_is_worker_0s() -> None:
    gone = with_deaths(read("only_first_replica"), kill(0.25, 0))
    back = with_deaths(read("only_first_replica"), kill(0.25, 0), restart(0.45, 0))

    assert (gone.model_lost, back.model_lost) == (True, False)


def test_a_loss_that_is_waited_for_is_none_of_the_dead() -> None:
    # Steps of all end at 200 and 400, by the slow worker 2; by then worker 0 has made others.
    slow = {"workers": 3, "slow_workers": ({"rank": 2, "factor": 2.0},)}
    waited = {"cluster": slow, "stop": {"time": 0.65, "loss": 0.19}}
    alive = with_deaths(read("only_first_replica"), **waited)
    dead = with_deaths(read("only_first_replica"), kill(0.15, 0), **waited)

    assert (alive.stopped_by, dead.stopped_by) == ("loss", "time")


def test_a_run_says_so_and_leaves_the_cell_empty() -> None:
    result = simulate(
        scenario(
            {"kind": "none"},
            strategies=({**read("sum"), "name": "gone"}, {"kind": "none"}),
            cluster={"workers": 2},
            events=(kill(0.15, 0), kill(0.25, 1)),
            stop={"time": 0.5},
        )
    )
    for one in (result,):
        assert np.isnan(one.estimate("gone", "final_loss").mean)
        assert not np.isnan(one.estimate("none", "final_loss").mean)
        (note,) = (note for note in one.report.notes if note.code == "model-lost")
        assert note.values == {"who": ("gone",)}
