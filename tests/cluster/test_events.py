"""Which events may happen, in which order, and that those after the end of a run are not met."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import assert_same, kill, restart, run, scenario

SYNC = {"kind": "sync_replicas", "replicas_to_aggregate": 2}


def refusal(events: tuple[dict[str, Any], ...], **changes: Any) -> str:
    """Why a scenario of 3 workers does not take these events."""
    with pytest.raises(ValidationError) as caught:
        scenario(changes.pop("strategy", SYNC), events=events, **changes)
    return str(caught.value)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((kill(1.0, 3),), "worker 3 does not exist: ranks go from 0 to 2 (workers: 3)"),
        ((kill(2.0, 1), kill(1.0, 2)), "events.1: worker 2 is killed at 1 s, but comes after"),
        ((kill(1.0, 1), kill(1.5, 1)), "worker 1 is killed at 1.5 s, but is dead already"),
        ((restart(1.0, 1),), "worker 1 is restarted at 1 s, but is not dead then"),
        (
            (kill(1.0, 1), restart(2.0, 1), restart(3.0, 1)),
            "worker 1 is restarted at 3 s, but is not dead then",
        ),
        (
            ({"at": 1.0, "kill": "chief"}, kill(2.0, 0)),
            "worker 0 is killed at 2 s, but is dead already",
        ),
        (
            ({"at": 1.0, "stop": "chief"}, kill(2.0, 1)),
            "worker 1 is killed at 2 s, but the chief is stopped at 1 s, which ends the run",
        ),
        (({"at": 1.0},), "say what happens: one of kill, restart, stop"),
        (
            ({"at": 1.0, "kill": "chief", "stop": "chief"},),
            "say what happens: one of kill, restart, stop",
        ),
        (({"at": -1.0, "kill": "chief"},), "greater than or equal to 0"),
    ],
)
def test_what_cannot_happen_is_refused(events: tuple[dict[str, Any], ...], why: str) -> None:
    assert why in refusal(events)


def test_what_has_no_meaning_is_refused() -> None:
    chief = {"at": 1.0, "kill": "chief"}
    assert "'none' has no chief: name a worker" in refusal((chief,), strategy={"kind": "none"})
    stop = {"at": 1.0, "stop": "chief"}
    said = refusal((stop,), strategies=(SYNC, {"kind": "none"}))
    assert "'none' has no chief: leave that strategy out" in said
    said = refusal((kill(1.0, 1),), strategy={"kind": "single"})
    assert "takes part in none of the strategies" in said
    assert "when the run is over" in refusal((kill(2.0, 1),), stop={"time": 2.0})


def test_an_order_that_makes_sense_is_taken() -> None:
    events = (
        *(kill(0.0, 1), kill(1.0, 0), restart(1.0, 0), restart(1.0, 1), kill(1.5, 1)),
        *({"at": 2.0, "kill": "chief"}, {"at": 3.0, "restart": "chief"}),
        {"at": 4.0, "stop": "chief"},
    )
    made = scenario(SYNC, events=events)
    assert len(made.events) == 8


@pytest.mark.parametrize("more", [{}, {"on_death": "continue_with_fewer"}])
def test_who_dies_after_the_end_of_a_run_has_no_part_in_it(more: dict[str, Any]) -> None:
    """Not in its times, and all-reduces need no messages."""
    late = kill(1000.0, 1), restart(1001.0, 1)
    calm, disturbed = (
        run({"kind": "on_write", **own}, cluster={"workers": 8}, events=events)
        for own, events in (({}, ()), (more, late))
    )
    assert_same(calm, disturbed, but=("heap_events",))
    assert disturbed.heap_events < 2 * calm.heap_events + 10
