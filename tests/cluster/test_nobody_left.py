"""Copies of workers of whom nobody is left inside a run: all begin from the start; times in s."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import NO_TIME, scenario
from tests.cluster.test_interruptions import NEVER, NS, fails, lived, struck
from tests.lives import ELASTIC
from tests.seams import GradientRow, Outcome, Trace

COPIES: dict[str, dict[str, Any]] = {
    "on_write": {"kind": "on_write", **ELASTIC},
    "local_sgd": {"kind": "local_sgd", "period": 2, **ELASTIC},
    "diloco": {"kind": "diloco", "inner_steps": 2},
}
ALL = fails((5.5, NEVER), (5.5, NEVER))


def losses(trace: Trace) -> list[tuple[float, int, float]]:
    return [(row.time / NS, row.global_step, row.loss) for row in trace.evaluations]


@pytest.mark.parametrize("kind", COPIES)
def test_all_begin_from_the_start(kind: str) -> None:
    trace = struck(COPIES[kind], ALL, checkpoint=None, stop={"time": 12.0})

    assert lived(trace)[0]["lost"] == 5.5
    assert losses(trace)[-1][1] == 3


def test_a_synchronous_gradient_is_not_stale_afterwards() -> None:
    trace = struck(COPIES["on_write"], ALL, checkpoint=None, stop={"time": 14.0}, network=NO_TIME)
    of = GradientRow._fields.index
    rows = trace.gradients[trace.gradients[:, of("outcome")] == Outcome.APPLIED]
    assert (rows[:, of("applied_step")] == rows[:, of("read_step")]).all()


@pytest.mark.parametrize("kind", COPIES)
def test_they_are_not_saved_there(kind: str) -> None:
    settings = {
        "failures": {"of": ({"domain": "worker", "mtbf": 9.0},)},
        "checkpoint": {"every": 2.0, "write": 0.25},
    }
    with pytest.raises(ValidationError, match="checkpoint has no effect: inside a run"):
        scenario(COPIES[kind], **settings)
