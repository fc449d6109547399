"""EASGD by hand: 100 ms a step, 40 bytes of parameters that take 100 ms on a link."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import (
    Model,
    gradient_rows,
    kill,
    losses,
    run,
    scenario,
)
from tests.seams import Run, trained

WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
EXPONENTIAL = {"kind": "exponential", "mean": 0.1}


def easgd(**settings: Any) -> dict[str, Any]:
    return {"kind": "easgd", "period": 1, **settings}


class TestValues:
    def test_the_papers_steps(self) -> None:
        # Equal workers in rank order: x_i moves to the centre, and it to x_i, by a = 1/4.
        made = scenario(easgd(moving_rate=0.25), problem={"noise": 1.0}, stop={"global_steps": 9})
        _, ends_with = trained(Run(made, 0, 0))
        model = Model(made)
        copies, centre = [model.start[0]] * 3, model.start[0]
        for step in range(3):
            for rank in range(3):
                x = copies[rank]
                gradient = model.gradient((x,), rank, step)[0]
                difference = 0.25 * (x - centre)
                copies[rank] = x - difference - 0.1 * gradient
                centre = centre + difference
        np.testing.assert_allclose(ends_with[0], centre, rtol=1e-14)

    def test_without_a_force_everybody_trains_alone(self) -> None:
        changes: dict[str, Any] = {"problem": {"noise": 1.0}, "stop": {"global_steps": 12}}
        trace = run(easgd(moving_rate=0.0), **changes)
        made = scenario(easgd(), **changes)
        model = Model(made)
        copies = [model.start] * 3
        for step in range(4):
            for rank in range(3):
                copies[rank] = model.step(copies[rank], model.gradient(copies[rank], rank, step))
        assert set(losses(trace)) == {model.loss(model.start)}  # the centre stays
        apart = max(float(np.linalg.norm(a[0] - b[0])) for a in copies for b in copies)
        assert trace.evaluations[-1].divergence == pytest.approx(apart, rel=1e-12)
        # Nobody learns anything of the 2 others: 0, 2, 4, ... updates are missing.
        assert trace.copy_staleness.max() >= 6

    def test_a_gradient_is_never_stale_but_a_copy_is(self) -> None:
        trace = run(
            easgd(period=2),
            cluster={"workers": 4, "compute": EXPONENTIAL},
            stop={"global_steps": 60},
        )
        assert all(row.applied_step == row.read_step for row in gradient_rows(trace))
        assert trace.copy_staleness.max() > 3
        # Once all are in the centre, an exchange brings a copy up to date.
        assert trace.copy_staleness[30:].min() < trace.copy_staleness[30:].max()

    def test_the_centre_is_measured_as_often_as_is_asked_for(self) -> None:
        trace = run(easgd(), workload={"evaluate_every": 2}, stop={"global_steps": 8})
        assert [row.global_step for row in trace.evaluations] == [0, 2, 4, 6, 8]
        assert trace.evaluations[-1].divergence > 0


class TestDeaths:
    def test_what_was_on_its_way_is_lost(self) -> None:
        # Worker 1 dies while its difference is on the links; the centre never gets it.
        def centre(*events: Any) -> Any:
            made = scenario(
                easgd(moving_rate=0.5),
                cluster={"workers": 2},
                network=WIRE,
                problem={"noise": 1.0},
                events=events,
                stop={"time": 0.75},
            )
            _, model = trained(Run(made, 0, 0))
            return model[0]

        # The second differences are there at 600 (worker 0) and 700 ms (worker 1).
        assert not np.array_equal(centre(), centre(kill(0.65, 1)))
        np.testing.assert_array_equal(centre(kill(0.65, 1)), centre(kill(0.55, 1)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"moving_rate": 1.5}, "less than or equal to 1"),
        ({"moving_rate": -0.1}, "greater than or equal to 0"),
        ({"period": 0}, "greater than 0"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        scenario(easgd(**settings))
