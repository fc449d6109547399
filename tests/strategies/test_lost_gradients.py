"""A gradient that was lost has no staleness: no update took place, and no copy was read then."""

from typing import Any

import pytest

from tests.building import kill, restart, scenario, slow
from tests.seams import Result, simulate

KINDS: dict[str, dict[str, Any]] = {
    "on_read": {"kind": "on_read", "read_every": 4},
    "on_write": {"kind": "on_write"},
    "none": {"kind": "none"},
    "sync_replicas": {"kind": "sync_replicas", "replicas_to_aggregate": 3},
    "single": {"kind": "single"},
}


@pytest.fixture(params=KINDS)
def result(request: pytest.FixtureRequest) -> Result:
    """Worker 0 is killed at 350 ms, computing for the fourth time at most; worker 2 is slow.

    In `on_read` it has made three updates of its copy by then, while all have made one.
    """
    return simulate(
        scenario(
            KINDS[request.param],
            cluster={"slow_workers": (slow(2, 3.0),)},
            stop={"time": 1.0},
            events=(kill(0.35, 0), restart(0.4, 0)),
        )
    )


def test_it_has_neither_step_nor_staleness(result: Result) -> None:
    updates = result.updates
    lost = updates[updates.outcome == "lost"]
    assert len(lost) == 1
    assert lost.ended_s.tolist() == [0.35]
    assert lost.ended_step.isna().all()
    assert lost.staleness.isna().all()
    ended = updates[updates.outcome.isin(["applied", "dropped"])]
    assert len(ended) >= 3
    assert (ended.staleness >= 0).all()
    assert (ended.ended_step == ended.read_step + ended.staleness).all()
