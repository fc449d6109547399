"""Bytes and values of runs against formulas; points with an id are exact expectations.

What is random is compared within four standard errors of the estimate, with the seed fixed.
"""

import math
from typing import Any

import pytest

from tests.building import (
    Model,
    losses,
    run,
    scenario,
)


class TestValues:
    """Quadratic bowls, noise added to every gradient (Bottou, Curtis, Nocedal, 2018)."""

    @pytest.mark.parametrize(
        ("workers", "rate", "variance", "steps", "expected"),
        [
            # quad-sgd-moment-01 and -03, quad-sgd-floor-01
            (1, 0.1, 1.0, 20, 0.06663452068135912),
            (4, 1.5, 0.2, 10, 0.15000081062316895),
            (1, 0.1, 1.0, 200, 0.052631578947368425),
        ],
    )
    @pytest.mark.parametrize("strategy", ["on_write", "sync_replicas"])
    def test_second_moment_of_synchronous_sgd(
        self,
        workers: int,
        rate: float,
        variance: float,
        steps: int,
        expected: float,
        strategy: str,
    ) -> None:
        # Curvature 1 in all directions, x0 = 1 in each: as many independent runs as dimensions.
        dimension = 20_000
        trace = run(
            {"kind": strategy}
            if strategy == "on_write"
            else {"kind": strategy, "replicas_to_aggregate": workers},
            cluster={"workers": workers},
            problem={
                "dimension": dimension,
                "condition_number": 1.0,
                "noise": math.sqrt(variance),
                "distance": math.sqrt(dimension),
            },
            optimizer={"learning_rate": rate},
            stop={"global_steps": steps},
        )
        moment = losses(trace)[-1] * 2 / dimension

        # x is normal: the error of its mean square is at most sqrt(2 / n) of it (plus the mean's).
        assert abs(moment - expected) <= 4 * math.sqrt(4 / dimension) * expected

    def test_gradients_of_a_batch_average_its_noise(self) -> None:
        # quad-sgd-floor with a batch of 16: a sixteenth.
        dimension = 20_000
        trace = run(
            "single",
            problem={"dimension": dimension, "condition_number": 1.0, "noise": 1.0},
            workload={"batch_size": 16},
            stop={"global_steps": 200},
        )
        moment = losses(trace)[-1] * 2 / dimension

        assert moment == pytest.approx(0.052631578947368425 / 16, rel=4 * math.sqrt(4 / dimension))

    @pytest.mark.parametrize("write_back", [False, True])
    def test_the_mean_of_local_copies_is_synchronous_sgd_on_a_quadratic(
        self, write_back: bool
    ) -> None:
        # Gradients are linear: the mean of the copies takes the mean of the gradients, however
        # far they are apart and however seldom they meet (local-quad-spread).
        changes: dict[str, Any] = {
            "cluster": {"workers": 4},
            "problem": {"noise": 1.0},
            "stop": {"global_steps": 41},
        }
        together = losses(run("on_write", **changes, workload={"evaluate_every": 40}))
        alone = run({"kind": "on_read", "read_every": 10, "write_back": write_back}, **changes)

        assert losses(alone)[:5] == pytest.approx(together[:5], rel=1e-9)
        assert max(row.divergence for row in alone.evaluations) > 0.1

    def test_spread_of_local_copies(self) -> None:
        # local-quad-spread-01: 4 workers, 8 steps, eta 0.1: E (x_i - mean)^2 = 0.032159. The
        # distance of two copies is that of two such deviations, 2 / (1 - 1/n) times as much
        # squared, and the largest of 6 distances is no further off than their error in so many
        # dimensions.
        dimension = 50_000
        trace = run(
            {"kind": "on_read", "read_every": 8},
            cluster={"workers": 4},
            problem={"dimension": dimension, "condition_number": 1.0, "noise": 1.0},
            stop={"global_steps": 9},
        )
        squared = trace.evaluations[1].divergence ** 2 / dimension

        expected = 0.032159130833479585 * 2 / (1 - 1 / 4)
        assert squared == pytest.approx(expected, rel=4 * math.sqrt(2 / dimension))

    def test_values_do_not_depend_on_the_network(self) -> None:
        # The barrier decides what is averaged, the network only when.
        changes: dict[str, Any] = {"problem": {"kind": "digits"}, "stop": {"global_steps": 20}}
        fast = run("on_write", **changes)
        slow_one = run(
            "on_write",
            **changes,
            network={"bandwidth": 1e4, "latency": 0.1, "sharing": "fair"},
        )

        assert losses(fast) == losses(slow_one)
        assert slow_one.end > fast.end
        model = Model(scenario({"kind": "on_write"}, **changes))
        assert losses(fast)[0] == model.loss(model.start)
