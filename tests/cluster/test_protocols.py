"""Protocols of collectives: less latency at less of the rate, and what has no effect of either."""

from typing import Any

import pytest

from tests.building import MS, run, scenario, slow
from tests.cluster.test_collectives import (
    NODES,
    PAIR,
    RING,
    WIRE,
    Case,
    ends,
    every_sharing,
    reduced,
)

PLAIN: Case = {"bandwidth": 1e9, "latency": 5e-7}
SHORT: Case = {"latency": 1e-7, "payload": 0.5}
MIDDLE: Case = {"latency": 2e-7, "payload": 0.8}


class TestProtocols:
    """Less latency at less of the rate, each time the fastest: of 4 ranks, 100 ns at the half."""

    @every_sharing
    @pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-9])  # the other one goes by message
    @pytest.mark.parametrize(
        ("size", "number", "end", "sent"),
        [
            (400, 0, 6 * (100 + 500), 1),
            (400, 1, 6 * (200 + 100), 2),  # half of it flags
            # Both take as long where a block takes the 400 ns that are saved: 1,600 bytes.
            (1_604, 1, 6 * (401 + 500), 1),
            (1_596, 1, 6 * (2 * 399 + 100), 2),
            # NCCL has three: 80 % data and 200 ns is the fastest of blocks of 134 to 1,199 bytes.
            (4 * 132, 2, 6 * (2 * 132 + 100), 2),
            (4 * 136, 2, 6 * (170 + 200), 1.25),
            (4 * 1_204, 2, 6 * (1_204 + 500), 1),
        ],
    )
    def test_the_fastest_is_taken(
        self, size: int, number: int, end: int, sent: float, factor: float, sharing: str
    ) -> None:
        protocols = (SHORT, MIDDLE)[:number] or None
        network = {**WIRE, "sharing": sharing, "protocols": protocols}
        network["slow_links"] = (slow(0, factor),)
        trace = reduced(RING, size, [0] * 4, network)
        assert max(ends(trace)) == end
        assert trace.sent == pytest.approx(6 * size * sent)

    def test_inside_a_node_it_has_another_latency(self) -> None:
        # 2 nodes of 2: a block passes 6 hops, 3 of them outside for the ranks that begin there.
        nodes = {**NODES, "inside": {"bandwidth": 1e9, "latency": 2e-7}}
        assert max(ends(reduced(RING, 400.0, [0] * 4, nodes))) == 3 * 600 + 3 * 300
        protocols = ({**SHORT, "inside_latency": 5e-8},)
        trace = reduced(RING, 400.0, [0] * 4, {**nodes, "protocols": protocols})
        assert max(ends(trace)) == 3 * (200 + 100) + 3 * (200 + 50)

    def test_outside_it_may_be_later_and_what_stays_on_a_rank_is_at_once(self) -> None:
        # Of 4 ranks on 2 nodes: up and down a chain inside, at 50 ns, and once across, at 600.
        inside = {"bandwidth": 1e15, "latency": 2e-6}
        protocol = {"latency": 6e-7, "inside_latency": 5e-8, "payload": 0.5}
        nodes = {**NODES, "inside": inside, "bandwidth": 1e15, "protocols": (protocol,)}
        assert max(ends(reduced(PAIR, 4.0, [0] * 4, nodes))) == 2 * (50 + 600)

    def test_every_bucket_has_its_own(self) -> None:
        # 3 layers of 16 bytes, and one of 6,400 bytes: 6 rounds each, the latter as the network is.
        layers = tuple({"backward": 1.0, "size": size} for size in (16.0, 16.0, 16.0, 6_400.0))
        for protocols, each in ((None, 4 + 500), ((SHORT,), 8 + 100)):
            trace = run(
                {"kind": "on_write", "bucketing": "layers"},
                network={**WIRE, "protocols": protocols},
                cluster={"workers": 4},
                problem={"kind": "timing"},
                workload={"optimizer": None, "layers": layers},
                stop={"global_steps": 1},
            )
            assert trace.steps[0] - 100 * MS == 6 * (3 * each + 1_600 + 500)

    @pytest.mark.parametrize("sharding", ["optimizer", "gradients", "parameters"])
    def test_halves_of_all_reduces_have_them_too(self, sharding: str) -> None:
        described = {"kind": "on_write", "sharding": sharding}
        network = {"bandwidth": 1e9, "latency": 1e-3}
        with_it = {**network, "protocols": ({"latency": 1e-7, "payload": 0.99},)}
        plain, sooner = (
            run(described, network=one, workload={"model": "resnet50"}, stop={"global_steps": 1})
            for one in (network, with_it)
        )
        assert sooner.steps[0] < plain.steps[0]


class TestWhatHasNoEffectIsRefused:
    def refused(self, strategy: dict[str, Any], **network: Any) -> str:
        with pytest.raises(ValueError) as raised:
            scenario(strategy, network={**PLAIN, "protocols": (SHORT,), **network})
        return str(raised.value)

    def test_a_protocol_that_is_no_sooner(self) -> None:
        why = "its latency is not below the network's, and more is not sent in less time"
        slower = {"latency": 5e-7, "payload": 1.0}
        told = self.refused({"kind": "on_write"}, protocols=(SHORT, slower))
        assert f"protocols.1 has no effect: {why}" in told

    def test_a_protocol_that_is_no_sooner_outside_may_be_so_inside(self) -> None:
        nodes: dict[str, Any] = {"kind": "nodes", "workers_per_node": 2, **PLAIN}
        inside = {"bandwidth": 1e9, "latency": 2e-7}
        for latency, taken in ((1e-7, True), (2e-7, False)):
            protocol = {"latency": 5e-7, "payload": 0.5, "inside_latency": latency}
            described = {**nodes, "inside": inside, "protocols": (protocol,)}
            if taken:
                assert scenario({"kind": "on_write"}, network=described)
            else:
                told = self.refused({"kind": "on_write"}, **described)
                assert "protocols.0 has no effect" in told

    @pytest.mark.parametrize("kind", ["none", "gossip", "single"])
    def test_where_workers_reduce_nothing(self, kind: str) -> None:
        told = self.refused({"kind": kind})
        assert "cluster.network.protocols has no effect: in none of the strategies do" in told

    def test_on_the_network_of_such_a_strategy(self) -> None:
        on = {"network": {"kind": "star", **PLAIN, "protocols": (SHORT,)}}
        told = self.refused({"kind": "none", "on": on}, protocols=None)
        assert "on.network.protocols has no effect: the strategy reduces nothing" in told

    def test_a_choice_of_strategies_leaves_them_out(self) -> None:
        both = ({"kind": "none"}, {"kind": "on_write"})
        network = {**PLAIN, "protocols": (SHORT,)}
        whole = scenario({"kind": "on_write"}, strategies=both, network=network)
        served, reduced = (whole.with_only((one,)) for one in whole.strategies)
        assert served.cluster.network.protocols is None
        assert reduced.cluster.network.protocols is not None


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"collective": "hierarchical"}, "needs ranks_per_group"),
        ({"collective": "hierarchical", "ranks_per_group": 0}, "greater than 0"),
        (
            {"collective": "hierarchical", "ranks_per_group": 2},
            "ranks_per_group 2 does not divide 3 workers evenly",
        ),
        ({"ranks_per_group": 3}, "ranks_per_group has no effect with collective ring"),
        (
            {"collective": "binomial_tree", "segment_size": 10.0},
            "segment_size has no effect with collective binomial_tree: it has no segments",
        ),
        ({"collective": "double_binary_tree", "segment_size": 0.0}, "greater than 0"),
        ({"collective": "tree"}, "collective"),
        (
            {"collective": "double_binary_tree", "segment_size": 9.9e-3},
            "segment_size is too small: either half of 40 B may have at most 2,000 segments",
        ),
    ],
)
def test_a_collective_that_makes_no_sense_is_refused(described: Case, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scenario({"kind": "on_write", **described})
