"""The clock counts 146 years: what goes on for longer is said; what is stopped before is not."""

from typing import Any

import pytest

from tests.building import run
from tests.seams import TooLongError

HOUR = 3600 * 10**9  # ns
both = pytest.mark.parametrize("sharing", ["fair", "first_come"])


def slow_network(sharing: str) -> dict[str, Any]:
    """Of 4 parameters, 16 bytes, each takes 1.3e9 s: 42 years."""
    return {"bandwidth": 3e-9, "latency": 0.0, "sharing": sharing}


@both
@pytest.mark.parametrize("strategy", ["on_write", "none", "on_read"])
def test_a_run_that_is_not_over_then_says_so(sharing: str, strategy: str) -> None:
    described = {"kind": strategy, **({"read_every": 1} if strategy == "on_read" else {})}
    with pytest.raises(TooLongError, match=f"^{strategy}: after 146 years .* is not over"):
        run(described, network=slow_network(sharing), problem={"dimension": 4})


@pytest.mark.parametrize("strategy", ["on_write", "none"])
def test_what_is_stopped_before_is_on_its_way_until_then(strategy: str) -> None:
    network = slow_network("fair")
    trace = run(strategy, network=network, problem={"dimension": 4}, stop={"time": 3600.0})
    assert (trace.stopped_by, trace.standstill, trace.end) == ("time", None, HOUR)


def test_a_time_limit_beyond_it_is_not_reached() -> None:
    with pytest.raises(TooLongError, match="and is not over"):
        run("none", network=slow_network("fair"), problem={"dimension": 4}, stop={"time": 1e10})


def test_what_stands_still_without_a_limit_does_so_when_it_did() -> None:
    settings = {
        "kind": "sync_replicas",
        "replicas_to_aggregate": 6,
        "total_num_replicas": 6,
        "initial_tokens": 0,
    }
    trace = run(settings)
    assert trace.standstill is not None
    assert trace.standstill.time == trace.end == HOUR // 36_000
    with pytest.raises(TooLongError, match="made 0 updates"):
        run(settings, stop={"time": 1e10})
