"""DiLoCo by hand: 100 ms a step, 40 bytes of parameters, all-reduced in 100 ms by two workers."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import assert_same, losses, run, scenario

WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
FAIR = {**WIRE, "sharing": "fair"}
NOISY = {"noise": 1.0}
PLAIN = {"kind": "sgd", "learning_rate": 1.0}


def diloco(**settings: Any) -> dict[str, Any]:
    return {"kind": "diloco", **settings}


class TestValues:
    @pytest.mark.parametrize("every", [1, 3])
    def test_an_outer_rate_of_1_is_local_sgd(self, every: int) -> None:
        # No momentum, one fragment, no delay, no mixing: local SGD as torchft counts.
        changes: dict[str, Any] = {
            "cluster": {"workers": 4, "compute": {"kind": "exponential", "mean": 0.1}},
            "network": FAIR,
            "problem": NOISY,
            "optimizer": {"kind": "momentum", "learning_rate": 0.05},
            "stop": {"global_steps": 20},
        }
        one = run(diloco(inner_steps=every, outer=PLAIN), **changes)
        other = run({"kind": "local_sgd", "period": every}, **changes)

        assert_same(
            one,
            other,
            but=("strategy", "heap_events", "evaluations", "sending", "hidden", "span_rows"),
        )
        np.testing.assert_allclose(losses(one), losses(other), rtol=1e-12)

    def test_the_default_is_nesterov(self) -> None:
        changes: dict[str, Any] = {"problem": NOISY, "stop": {"global_steps": 9}}
        nesterov = {"kind": "momentum", "learning_rate": 0.7, "momentum": 0.9, "nesterov": True}

        assert losses(run(diloco(inner_steps=2), **changes)) == losses(
            run(diloco(inner_steps=2, outer=nesterov), **changes)
        )

    def test_mixing_1_never_changes_a_copy(self) -> None:
        changes: dict[str, Any] = {"problem": NOISY, "stop": {"global_steps": 8}}
        alone = run({"kind": "local_sgd", "period": 100}, **changes)
        mixed = run(diloco(inner_steps=2, mixing=1.0), **changes)

        assert losses(mixed)[-1] == losses(alone)[-1]
        assert mixed.evaluations[-1].divergence == alone.evaluations[-1].divergence

    def test_outer_gradients_are_rounded_before_they_are_averaged(self) -> None:
        changes: dict[str, Any] = {"problem": NOISY, "stop": {"global_steps": 5}}
        exact = run(diloco(inner_steps=2), **changes)
        coarse = run(diloco(inner_steps=2, outer_precision="bf16"), **changes)

        assert losses(exact)[0] == losses(coarse)[0]
        assert losses(exact)[1] != losses(coarse)[1]
        assert losses(coarse)[1] == pytest.approx(losses(exact)[1], rel=0.05)

    @pytest.mark.parametrize("precision", ["fp8_e4m3", "fp8_e5m2", "int8", "fp4_e2m1", "fp4_e3m0"])
    def test_few_bits_lose_little(self, precision: str) -> None:
        changes: dict[str, Any] = {"problem": NOISY, "stop": {"global_steps": 5}}
        exact = run(diloco(inner_steps=2, fragments=2), **changes)
        coarse = run(diloco(inner_steps=2, fragments=2, outer_precision=precision), **changes)

        assert losses(coarse)[1] != losses(exact)[1]
        assert losses(coarse)[1] == pytest.approx(losses(exact)[1], rel=0.2)

    def test_a_copy_misses_what_its_oldest_fragment_does_not_contain(self) -> None:
        # Two workers, fragments after every step in turn: after step 1 half the model has what the
        # other did in step 1, after step 2 the other half what it did in both, so all of it has 1.
        trace = run(
            diloco(inner_steps=2, fragments=2), cluster={"workers": 2}, stop={"global_steps": 4}
        )

        assert sorted(trace.copy_staleness.tolist()) == [0, 0, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"inner_steps": 10, "fragments": 3}, "fragments may be 1, 2, 5, 10"),
        ({"inner_steps": 10, "fragments": 20}, "fragments may be 1, 2, 5, 10"),
        ({"inner_steps": 10, "fragments": 2, "delay": 5}, "paper allows more"),
        ({"inner_steps": 10, "delay": 10}, r"below inner_steps / fragments \(10\), not 10 "),
        (
            {"inner_steps": 10, "fragments": 2, "delay": 10, "convention": "paper"},
            r"delay must be below inner_steps \(10\), not 10",
        ),
        ({"inner_steps": 100, "fragments": 20}, "fragments may be at most 10"),
        ({"mixing": 1.5}, "less than or equal to 1"),
        ({"outer": {"kind": "sgd", "learning_rate": -1.0}}, "greater than 0"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        scenario(diloco(**settings))


def test_a_precision_needs_numbers() -> None:
    with pytest.raises(
        ValidationError, match="outer_precision has no effect: sizes are given in bytes"
    ):
        scenario(
            diloco(outer_precision="fp16"),
            problem={"kind": "timing", "size": 1e6},
            workload={"optimizer": None},
        )


class TestOverlap:
    """Forward pass 40 ms; layers 3, 2, 1 are ready at 50, 70 and 100, and take 30, 10 and 5 ms."""

    LAYERS = tuple(
        {"backward": backward, "size": size}
        for backward, size in ((0.03, 5e6), (0.02, 10e6), (0.01, 30e6))
    )

    def trace(self, settings: Any, network: Any = None, **changes: Any) -> Any:
        wire = {"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"}
        phases = {"kind": "phases", "forward": 0.04, "backward": 0.06}
        return run(
            diloco(**settings),
            cluster={"workers": 2, "compute": phases, **changes.pop("cluster", {})},
            network=network or wire,
            workload={"layers": changes.pop("layers", self.LAYERS), "optimizer": None},
            problem={"kind": "timing"},
            **changes,
        )

    def test_a_synchronization_of_every_step_is_an_all_reduce_of_every_step(self) -> None:
        settings = {"inner_steps": 1, "overlap": True}
        one = self.trace(settings, stop={"global_steps": 9})
        mirrored = run(
            {"kind": "on_write", "bucketing": "layers", "overlap": True},
            cluster={
                "workers": 2,
                "compute": {"kind": "phases", "forward": 0.04, "backward": 0.06},
            },
            network={"bandwidth": 1e9, "latency": 0.0, "sharing": "first_come"},
            workload={"layers": self.LAYERS, "optimizer": None},
            problem={"kind": "timing"},
            stop={"global_steps": 9},
        )
        assert np.diff(one.steps).tolist() == np.diff(mirrored.steps).tolist()

    def test_values_are_those_without_overlap(self) -> None:
        changes: dict[str, Any] = {
            "cluster": {"workers": 3, "compute": {"kind": "exponential", "mean": 0.1}},
            "network": FAIR,
            "problem": {"kind": "digits", "model": "softmax"},
            "stop": {"global_steps": 9},
        }
        one = run(diloco(inner_steps=3, overlap=True), **changes)
        other = run(diloco(inner_steps=3), **changes)

        assert losses(one) == losses(other)
        assert one.end < other.end

    @pytest.mark.parametrize(
        ("settings", "cluster", "why"),
        [
            ({"fragments": 2}, {}, "overlap does not go with fragments"),
            ({}, {"optimizer_time": 0.01}, "does not go with cluster.optimizer_time"),
            ({}, {"overlap_pace": 0.5}, "cluster.overlap_pace"),
        ],
    )
    def test_what_cannot_be_sent_in_a_step_is_refused(
        self, settings: Any, cluster: Any, why: str
    ) -> None:
        with pytest.raises(ValidationError, match=why):
            self.trace({"inner_steps": 2, "overlap": True, **settings}, cluster=cluster)
