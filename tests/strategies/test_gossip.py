"""Gossip by hand: 100 ms a step, 40 bytes of parameters that take 100 ms on a link."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import Model, gradient_rows, kill, mean, run, scenario, slow
from tests.seams import Run, run_one, simulate, trained

WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
FAIR = {**WIRE, "sharing": "fair"}
HALVES = ((0.5, 0.0, 0.5), (0.5, 0.5, 0.0), (0.0, 0.5, 0.5))


def gossip(**settings: Any) -> dict[str, Any]:
    return {"kind": "gossip", **settings}


def test_how_much_of_it_hides_is_said() -> None:
    made = scenario(gossip(), cluster={"workers": 4}, network=WIRE, stop={"global_steps": 2})
    assert simulate(made).table()["sending hidden"].tolist() == ["50 %"]


class TestValues:
    def model(self, made: Any) -> Any:
        _, model = trained(Run(made, 0, 0))
        return model[0]

    def test_the_rounds_of_d_psgd(self) -> None:
        made = scenario(
            gossip(),
            cluster={"workers": 4},
            problem={"noise": 1.0},
            network=FAIR,
            stop={"global_steps": 5},
        )
        model = Model(made)
        weights = [{to: 1 / 3, (to - 1) % 4: 1 / 3, (to + 1) % 4: 1 / 3} for to in range(4)]
        x = [model.start[0]] * 4
        for step in range(5):
            gradients = [model.gradient((x[rank],), rank, step)[0] for rank in range(4)]
            mixed = [sum(part * x[one] for one, part in weights[to].items()) for to in range(4)]
            x = [mixed[rank] - 0.1 * gradients[rank] for rank in range(4)]
        np.testing.assert_allclose(self.model(made), mean(x), rtol=1e-13, atol=1e-15)

    @pytest.mark.parametrize("mode", ["synchronous", "push_sum"])
    def test_all_averaged_with_all_is_on_write(self, mode: str) -> None:
        # Push-sum averages updated copies; D-PSGD the copies before: a step of gradients behind,
        # which does not matter to their mean as long as a gradient is linear.
        everybody = (((0.25,) * 4,) * 4,)
        changes: dict[str, Any] = {"cluster": {"workers": 4}, "stop": {"global_steps": 10}}
        one = self.model(scenario(gossip(mode=mode, matrices=everybody), **changes))
        other = self.model(scenario({"kind": "on_write"}, **changes))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)

    def test_what_a_copy_lacks_is_what_has_not_come_around(self) -> None:
        # A ring of six: what the opposite worker has learnt comes three rounds later.
        made = scenario(gossip(), cluster={"workers": 6}, stop={"global_steps": 10})
        trace = run_one(Run(made, 0, 0))
        assert trace.copy_staleness.reshape(-1, 6).tolist()[:5] == [
            [lacking] * 6 for lacking in (0, 5, 8, 9, 9)
        ]

    def test_a_gradient_is_as_stale_as_others_have_changed_the_copy(self) -> None:
        cluster = {"workers": 2, "slow_workers": (slow(1, 4.5),)}
        trace = run(gossip(mode="asynchronous"), cluster=cluster, stop={"time": 1.0})
        stale = {(row.worker, row.applied_step - row.read_step) for row in gradient_rows(trace)[:7]}
        assert stale == {(0, 0), (0, 1), (1, 4)}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"matrices": (((0.5, 0.0, 0.5), (0.25, 0.5, 0.0), (0.25, 0.5, 0.5)),)},
            r"matrices: number 0 row 1 must add up to 1",
        ),
        ({"matrices": (HALVES, HALVES[:2])}, "matrices: number 1 must have 3 rows of 3 numbers"),
        (
            {"mode": "push_sum", "matrices": (((0.5, 0.0, 0.5),) * 3,)},
            r"column 0 must add up to 1 \(what each worker hands out, \[to\]\[from\]\), not to 1.5",
        ),
        ({"matrices": (((1.5, -0.5, 0.0),) * 3,)}, "no weight below 0"),
        (
            {"mode": "push_sum", "matrices": (((1.0, 1.0, 1.0), (0.0,) * 3, (0.0,) * 3),)},
            "row 1 must not be all 0: worker 1 would be left nothing",
        ),
        (
            {"mode": "asynchronous", "partners": ((1,), (2,))},
            "must be 3 lists, one of every worker",
        ),
        (
            {"mode": "asynchronous", "partners": ((1,), (1,), (0,))},
            "1 of worker 1 is that worker itself; others are 0 to 2",
        ),
        ({"mode": "asynchronous", "partners": ((1,), (3,), (0,))}, "3 of worker 1 does not exist"),
        ({"mode": "asynchronous", "partners": ((1,), (), (0,))}, "at least 1 item"),
        ({"mode": "asynchronous", "matrices": (HALVES,)}, "matrices has no effect"),
        ({"partners": ((1,), (2,), (0,))}, "partners has no effect with mode synchronous"),
        ({"graph": "ring", "matrices": (HALVES,)}, "graph has no effect with matrices"),
        ({"graph": "tree"}, "'ring' or 'exponential'"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        scenario(gossip(**settings))


def test_a_ring_of_one_and_deaths_are_refused() -> None:
    with pytest.raises(ValidationError, match="at least 2 workers: one alone has no neighbour"):
        scenario(gossip(), cluster={"workers": 1})
    with pytest.raises(ValidationError, match="gossip does not go with events"):
        scenario(gossip(), events=(kill(1.0, 1),))
