"""Throughput between whole rounds is told where it is not that of the whole run."""

import math
from typing import Any

from building import scenario
from handmade import a_trace

from varsim.result.measure import Gradients
from varsim.result.rounds import between_rounds
from varsim.simulation import simulate

ON_WRITE = {"kind": "on_write"}
# No transfer takes time: batches of one example take 100 ms.


def told(strategy: dict[str, Any], **changes: Any) -> list[str]:
    notes = simulate(scenario(strategy, **changes)).notes
    return [note for note in notes if note.startswith("Between whole rounds")]


def test_a_run_that_ends_in_the_middle_of_a_step() -> None:
    """Three workers make a step of 3 examples in 100 ms: 6 in 690 ms, which is 26.1 in a second."""
    (said,) = told(ON_WRITE, stop={"time": 0.69})
    assert said == (
        "Between whole rounds of all workers, from the end of the second to that of the last: "
        "'on_write' 30 examples/s, 15.0 % more than over its whole run. What a long run comes to "
        "is mostly nearer to that."
    )
    assert told(ON_WRITE, stop={"time": 0.7}) == []  # 7 whole steps
    assert told(ON_WRITE, stop={"time": 0.49}) == []  # 4 rounds: too few to say
    assert told(ON_WRITE, stop={"time": 7.05}) == []  # less than 1 % off


def test_with_a_warm_up_given_or_an_event_nothing_is_said() -> None:
    assert told(ON_WRITE, stop={"time": 0.69}, report={"measure_after": 0.1}) == []
    slow = ({"rank": 1, "factor": 3.0, "after": 0.3, "until": 0.4},)
    assert told(ON_WRITE, stop={"time": 0.69}, cluster={"slow_workers": slow}) == []


def test_a_round_of_on_read_is_that_of_its_reads() -> None:
    """Worker 2 takes 300 ms to a step; every 2 steps all meet: 6 examples in 600 ms."""
    slow = ({"rank": 2, "factor": 3.0},)
    (said,) = told(
        {"kind": "on_read", "read_every": 2},
        stop={"time": 3.25},
        cluster={"slow_workers": slow},
    )
    # Two have made their 4 steps of the sixth round already, in 250 of its 600 ms.
    assert "'on_read' 10 examples/s, 4.4 % less than over its whole run" in said


def test_by_hand() -> None:
    """Updates at 3, 5 and 10 s: of so few rounds nothing is said."""
    trace = a_trace()
    assert math.isnan(between_rounds(trace, Gradients.of(trace), 1))
