"""DiLoCo by hand: 100 ms a step, 40 bytes of parameters, all-reduced in 100 ms by two workers."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.building import assert_same, life, losses, milliseconds, run, scenario, slow
from varsim.cluster.outer import cut
from varsim.values.gradient_form import rounded

WIRE = {"bandwidth": 400.0, "latency": 0.0, "sharing": "first_come"}
FAIR = {**WIRE, "sharing": "fair"}
SLOWER = {**WIRE, "bandwidth": 200.0}
NOISY = {"noise": 1.0}
BOTH = pytest.mark.parametrize("network", [WIRE, FAIR], ids=["first_come", "fair"])
PLAIN = {"kind": "sgd", "learning_rate": 1.0}


def diloco(**settings: Any) -> dict[str, Any]:
    return {"kind": "diloco", **settings}


@BOTH
class TestTimes:
    def test_without_a_delay_a_sync_is_waited_for(self, network: dict[str, Any]) -> None:
        trace = run(
            diloco(inner_steps=2), cluster={"workers": 2}, network=network, stop={"global_steps": 5}
        )

        assert life(trace, 0) == life(trace, 1)
        assert life(trace, 0) == [
            *(("compute", 0, 100), ("compute", 100, 200), ("write", 200, 300)),
            *(("compute", 300, 400), ("compute", 400, 500), ("write", 500, 600)),
            ("compute", 600, 700),
        ]
        assert [row.global_step for row in trace.evaluations] == [0, 2, 4, 5]
        assert trace.hidden == 0
        assert trace.sending == 4 * 100e6

    def test_a_delay_hides_it(self, network: dict[str, Any]) -> None:
        # Sent after step 1 of 2, at 100; there at 200, just as it is applied.
        trace = run(
            diloco(inner_steps=2, delay=1),
            cluster={"workers": 2},
            network=network,
            stop={"global_steps": 6},
        )

        assert milliseconds(trace.steps) == [100, 200, 300, 400, 500, 600]
        assert {name for name, *_ in life(trace, 0)} == {"compute"}
        assert trace.hidden == trace.sending > 0

    def test_what_a_delay_does_not_hide_is_waited_for(self, network: dict[str, Any]) -> None:
        # At half the bandwidth it takes 200 ms: from 100 to 300, 100 of them seen.
        network = {**network, "bandwidth": 200.0}
        trace = run(
            diloco(inner_steps=2, delay=1),
            cluster={"workers": 2},
            network=network,
            stop={"global_steps": 4},
        )

        assert life(trace, 0)[:5] == [
            *(("compute", 0, 100), ("compute", 100, 200), ("write", 200, 300)),
            *(("compute", 300, 400), ("compute", 400, 500)),
        ]
        assert 2 * trace.hidden == trace.sending == 2 * 200e6

    def test_the_slowest_is_waited_for_where_it_is_applied(self, network: dict[str, Any]) -> None:
        # Worker 1 takes 150 ms a step: it sends at 150, and all have the mean at 250. Worker 0 is
        # back at 200: it waits for 50 ms, which worker 1's step hides until 300.
        cluster = {"workers": 2, "slow_workers": (slow(1, 1.5),)}
        trace = run(
            diloco(inner_steps=2, delay=1),
            cluster=cluster,
            network=network,
            stop={"global_steps": 2},
        )

        assert life(trace, 0)[:4] == [
            *(("compute", 0, 100), ("compute", 100, 200), ("write", 200, 250)),
            ("compute", 250, 300),
        ]
        assert life(trace, 1) == [("compute", 0, 150), ("compute", 150, 300)]

    def test_fragments_take_turns_on_the_links(self, network: dict[str, Any]) -> None:
        # Half the model, 50 ms, after every second step.
        trace = run(
            diloco(inner_steps=4, fragments=2),
            cluster={"workers": 2},
            network=network,
            stop={"global_steps": 5},
        )

        assert milliseconds(trace.steps) == [100, 200, 350, 450, 600]
        assert [row.global_step for row in trace.evaluations] == [0, 2, 4, 5]

    @pytest.mark.parametrize(("precision", "sent"), [("int8", 25), ("fp4_e3m0", 12.5)])
    def test_fewer_bits_take_less(
        self, network: dict[str, Any], precision: str, sent: float
    ) -> None:
        strategy = diloco(inner_steps=2, outer_precision=precision)
        trace = run(strategy, cluster={"workers": 2}, network=network, stop={"global_steps": 3})

        assert milliseconds(trace.steps) == [100, 200, 300 + sent]

    def test_another_all_reduce(self, network: dict[str, Any]) -> None:
        # Up the tree and down again: the whole vector twice.
        strategy = diloco(inner_steps=2, collective="binomial_tree")
        trace = run(strategy, cluster={"workers": 2}, network=network, stop={"global_steps": 3})

        assert milliseconds(trace.steps) == [100, 200, 500]

    def test_half_the_bits_take_half_the_time(self, network: dict[str, Any]) -> None:
        strategy = diloco(inner_steps=2, outer_precision="bf16")
        trace = run(strategy, cluster={"workers": 2}, network=network, stop={"global_steps": 3})

        assert milliseconds(trace.steps) == [100, 200, 350]

    def test_all_reduces_go_one_after_the_other(self, network: dict[str, Any]) -> None:
        # As the paper counts, and at a quarter of the bandwidth: half the model is sent after every
        # step, takes 200 ms, and is applied a step later. From 100 to 300, from 300 (sent at 200)
        # to 500, from 500 (sent at 400) on.
        network = {**network, "bandwidth": 100.0}
        strategy = diloco(inner_steps=2, fragments=2, delay=1, convention="paper")
        trace = run(strategy, cluster={"workers": 2}, network=network, stop={"global_steps": 4})

        assert life(trace, 0) == [
            *(("compute", 0, 100), ("compute", 100, 200), ("write", 200, 300)),
            *(("compute", 300, 400), ("write", 400, 500), ("compute", 500, 600)),
        ]


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
        assert rounded(np.array([1.001]), "bf16") == 1.0

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
        ("sizes", "fragments", "lengths"),
        [((10,), 1, [10]), ((10,), 3, [4, 3, 3]), ((2, 1), 2, [2, 1]), ((1, 5, 2), 4, [2] * 4)],
    )
    def test_fragments_are_of_equal_length(
        self, sizes: tuple[int, ...], fragments: int, lengths: list[int]
    ) -> None:
        found = cut(sizes, fragments)
        assert [sum(piece.stop - piece.start for piece in one) for one in found] == lengths
        numbers = [(p.variable, n) for one in found for p in one for n in range(p.start, p.stop)]
        assert numbers == [(v, n) for v, size in enumerate(sizes) for n in range(size)]


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

    def test_layers_are_sent_in_the_backward_pass_before_a_sync(self) -> None:
        # Every second step: at 150 - 180, 180 - 190 and 200 - 205; then again 205 ms later.
        trace = self.trace({"inner_steps": 2, "overlap": True}, stop={"global_steps": 5})

        assert life(trace, 0) == life(trace, 1)
        assert life(trace, 0) == [
            *(("compute", 0, 100), ("compute", 100, 200), ("write", 200, 205)),
            *(("compute", 205, 305), ("compute", 305, 405), ("write", 405, 410)),
            ("compute", 410, 510),
        ]
        assert (trace.sending, trace.hidden) == (4 * 45e6, 4 * 40e6)

    def test_latency_is_one_of_each_round_of_each_layer(self) -> None:
        # Two rounds of 5 ms: layers 3 and 2 take 40 and 20 ms, 150 - 190 - 210, and layer 1 15 ms.
        network = {"bandwidth": 1e9, "latency": 5e-3, "sharing": "first_come"}
        trace = self.trace({"inner_steps": 2, "overlap": True}, network, stop={"global_steps": 2})

        assert life(trace, 0)[1:] == [("compute", 100, 200)]
        trace = self.trace({"inner_steps": 2, "overlap": True}, network, stop={"global_steps": 3})
        assert life(trace, 0)[2:] == [("write", 200, 225), ("compute", 225, 325)]

    def test_the_slowest_is_waited_for_layer_by_layer(self) -> None:
        # Worker 1 takes twice as long: its layers are ready at 100, 140 and 200.
        cluster = {"slow_workers": (slow(1, 2.0),)}
        settings = {"inner_steps": 1, "overlap": True}
        trace = self.trace(settings, cluster=cluster, stop={"global_steps": 2})

        assert life(trace, 0)[:3] == [
            *(("compute", 0, 100), ("write", 100, 130), ("barrier", 130, 140)),
        ]
        assert life(trace, 1)[:2] == [("compute", 0, 200), ("write", 200, 205)]

    def test_with_a_delay_layers_are_sent_earlier_too(self) -> None:
        # Sent in step 1 of 2: there before it is applied, at any time after 105.
        settings = {"inner_steps": 2, "delay": 1, "overlap": True}
        trace = self.trace(settings, stop={"global_steps": 6})

        assert {name for name, *_ in life(trace, 0)} == {"compute"}
        assert trace.hidden == trace.sending == 2 * 3 * 45e6

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
            ({"fragments": 2}, {}, "overlap does not go with 2 fragments"),
            ({}, {"optimizer_time": 0.01}, "does not go with cluster.optimizer_time"),
            ({}, {"overlap_pace": 0.5}, "cluster.overlap_pace"),
        ],
    )
    def test_what_cannot_be_sent_in_a_step_is_refused(
        self, settings: Any, cluster: Any, why: str
    ) -> None:
        with pytest.raises(ValidationError, match=why):
            self.trace({"inner_steps": 2, "overlap": True, **settings}, cluster=cluster)
