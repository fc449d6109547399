"""What is counted of a run in which updates were undone: what was kept; by hand, times in s."""

import pytest

from tests.cluster.test_interruptions import NEVER, NS
from tests.cluster.test_saving import fail, struck
from varsim.study.gradients import Gradients
from varsim.study.measure import measure, worker_time


def test_a_run_ends_with_so_many_updates_that_were_kept() -> None:
    # Nine are made by 5.5, one of which is undone; the twelfth that is kept comes at 11.25.
    trace = struck("none", fail((5.5, NEVER)), stop={"global_steps": 12})
    values = measure(trace, Gradients.of(trace), worker_time(trace), None, trace.end)

    assert (trace.global_step, len(trace.steps), trace.end / NS) == (12, 13, 11.25)
    assert values["updates"] == 12
    assert values["examples_per_s"] == pytest.approx(12 * trace.batch_size / 11.25)
    # Both workers compute to 5.5 and from 9.25 on, the chief half a second less for checkpoints.
    # The other one's update of 5, and what both were at for 1 s and 0.5 s at 5.5, are in vain.
    assert [values[f"gradients_{what}"] for what in ("produced", "applied", "dropped")] == [
        *(15, 12, 3)
    ]
    assert values["wasted_compute"] == pytest.approx((1 + 1 + 0.5) / (5 + 5.5 + 2 + 2))
    assert values["step_time_mean"] == pytest.approx((11.25 - 1) / 11)


def test_a_loss_is_reached_by_the_updates_that_the_model_is_made_of() -> None:
    trace = struck("none", fail((5.5, NEVER)), stop={"global_steps": 12})
    rows, split = Gradients.of(trace), worker_time(trace)
    seventh, *_, last = (row.loss for row in trace.evaluations if row.global_step >= 7)
    found = [measure(trace, rows, split, loss, trace.end) for loss in (seventh, last)]

    assert [(one["updates_to_target"], one["time_to_target"]) for one in found] == [
        (7, 4),
        (12, 11.25),
    ]
    # Against updates the model is looked at once after each: what was undone is no part of it.
    kept = [(row.global_step, row.time / NS) for row in trace.kept_evaluations]
    assert [step for step, _ in kept] == [*range(9), 8, *range(9, 13)]
    assert kept[7:11] == [(7, 4.0), (8, 4.25), (8, 9.25), (9, 10.25)]
    assert (9, 5.0) in [(row.global_step, row.time / NS) for row in trace.evaluations]
