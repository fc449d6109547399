"""Bytes and values of runs against formulas; points with an id are exact expectations.

What is random is compared within four standard errors of the estimate, with the seed fixed.
"""

import math
from typing import Any

import pytest

from tests.building import (
    Model,
    gradient_rows,
    losses,
    run,
    scenario,
)

TINY = {"dimension": 1}


class TestMessages:
    """102,228,128 bytes are the parameters of ResNet-50."""

    RESNET = {
        "problem": TINY,
        "workload": {"model": "resnet50"},
        "cluster": {"workers": 8, "compute": {"kind": "constant", "value": 0.25}},
        "network": {"bandwidth": 1.25e9, "latency": 50e-6, "sharing": "fair"},
    }

    def test_weak_scaling_efficiency(self) -> None:
        # weak-scaling-eff-01: alpha 50 us, beta 0.8 ns.
        trace = run("on_write", **self.RESNET, stop={"global_steps": 5})

        assert 5 * 0.25 / (trace.end / 1e9) == pytest.approx(0.6348087808879468, rel=1e-7)

    def test_bytes_per_worker_and_step(self) -> None:
        # vol-bytes-01, -02, -03: ring, parameter server, ring every 16 steps.
        def per_step(strategy: dict[str, Any], steps: int) -> float:
            trace = run(strategy, **self.RESNET, stop={"global_steps": steps})
            (up,) = (link.moved for link in trace.links if link.name == "worker 3 up")
            return up / steps

        assert per_step({"kind": "on_write"}, 3) == pytest.approx(178899224.0, rel=1e-12)
        every = {"kind": "on_read", "read_every": 16}
        # The 33rd step ends after the second meeting.
        assert per_step(every, 33) * 33 / 32 == pytest.approx(11181201.5, rel=1e-12)
        synchronous = {
            "kind": "sync_replicas",
            "replicas_to_aggregate": 8,
            "initial_tokens": 0,
        }
        assert per_step(synchronous, 3) == pytest.approx(102228128.0, rel=1e-12)

    @pytest.mark.parametrize(
        ("compute", "average", "every", "expected"),
        [(0.1, 0.1, 4, 1.6), (0.25, 0.5, 16, 2.6666666666666665), (0.05, 0.2, 2, 5 / 3)],
    )
    def test_averaging_less_often_saves_messages(
        self, compute: float, average: float, every: int, expected: float
    ) -> None:
        # local-comm-saving-01 to -03: (tc + tm) / (tc + tm / H). 2 workers: a ring takes as long
        # as the whole vector of 100 bytes on one link.
        def time(read_every: int) -> int:
            trace = run(
                {"kind": "on_read", "read_every": read_every, "write_back": True},
                network={"bandwidth": 100 / average, "latency": 0.0, "sharing": "fair"},
                problem={"dimension": 25},
                cluster={"workers": 2, "compute": {"kind": "constant", "value": compute}},
                stop={"global_steps": 4 * every + 1},
            )
            # Until the step that follows 4 meetings of the longer kind, less that step.
            return trace.end - round(compute * 1e9)

        assert time(1) / time(every) == pytest.approx(expected, rel=1e-8)

    @pytest.mark.parametrize(
        ("workers", "shards", "size", "worker_rate", "server_rate", "expected"),
        [
            # ps-dedicated-sync-01 and -02, Jiang et al., 2020 (BytePS): max(M/B, w M/(k B)).
            (8, 8, 100e6, 1.25e9, 1.25e9, 0.08),
            (16, 4, 102e6, 1.25e9, 1.25e9, 0.3264),
            # ps-incast-01 to -03: M max(1/b, w/(k B)).
            (16, 2, 100e6, 1.25e9, 3.125e9, 0.256),
            (32, 16, 100e6, 1.25e9, 3.125e9, 0.08),
            (10, 3, 102e6, 1.25e9, 12.5e9, 0.0816),
        ],
    )
    def test_all_push_at_once_to_several_servers(
        self,
        workers: int,
        shards: int,
        size: float,
        worker_rate: float,
        server_rate: float,
        expected: float,
    ) -> None:
        # A thousandth of the bytes at a thousandth of the rates. Read, compute 1, push.
        trace = run(
            "none",
            network={
                "bandwidth": worker_rate / 1e3,
                "server_bandwidth": server_rate / 1e3,
                "latency": 0.0,
                "sharing": "fair",
            },
            problem={"dimension": round(size / 4e3)},
            cluster={
                "workers": workers,
                "parameter_servers": shards,
                "compute": {"kind": "constant", "value": 1.0},
            },
            stop={"global_steps": workers},
        )

        for row in gradient_rows(trace)[:workers]:
            assert row.compute_start / 1e9 == pytest.approx(expected, rel=1e-7)
            assert (row.arrived - row.computed) / 1e9 == pytest.approx(expected, rel=1e-7)


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
