"""Protocols of collectives: less latency at less of the rate, each time the fastest."""

import re
from typing import Any

import pytest

from tests.building import run, scenario
from tests.living import job, play
from varsim.cluster.clock import Activity
from varsim.cluster.collective import Collective
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.job import Job
from varsim.cluster.topology.nodes import Nodes

# 1 ns per byte and 500 ns; by the protocol 2 ns per byte and 100 ns.
WIRES = {"bandwidth": 1e9, "latency": 5e-7}
SHORT = {"latency": 1e-7, "payload": 0.5}
RANKS = 4


def took(size: float, by_message: bool | None = None, **network: Any) -> tuple[int, Job]:
    """How long a ring of four takes (ns)."""
    made = job(network={**WIRES, **network}, cluster={"workers": RANKS})
    schedule = Choice("ring").schedule(RANKS, size)
    collective = Collective(made, schedule, size, by_message=by_message)

    def take_part(rank: int) -> Activity[None]:
        yield from collective.take_part(made.workers[rank])

    play(made, *map(take_part, range(RANKS)))
    return made.clock.time, made


def sent(made: Job) -> float:
    made.network.carried(made.clock.time)
    return made.network.sent()


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("by_message", [None, True])
class TestTheFastestIsTaken:
    def test_of_a_short_vector_the_protocol(self, by_message: bool | None, sharing: str) -> None:
        # 6 rounds of 100 bytes: 100 + 500 ns each, or 200 + 100. Half of what is sent is flags.
        assert took(400, by_message, sharing=sharing)[0] == 6 * (100 + 500)
        short, made = took(400, by_message, sharing=sharing, protocols=(SHORT,))
        assert short == 6 * (200 + 100)
        assert sent(made) == pytest.approx(2 * 6 * 400)

    def test_of_a_long_one_the_network_as_it_is(
        self, by_message: bool | None, sharing: str
    ) -> None:
        # Both take as long where a block takes the 400 ns that are saved: 1,600 bytes.
        long, made = took(1_604, by_message, sharing=sharing, protocols=(SHORT,))
        assert long == 6 * (401 + 500)
        assert sent(made) == pytest.approx(6 * 1_604)
        just, _ = took(1_596, by_message, sharing=sharing, protocols=(SHORT,))
        assert just == 6 * (2 * 399 + 100)

    def test_of_those_between_another_one(self, by_message: bool | None, sharing: str) -> None:
        # NCCL has three: 80 % data and 200 ns is the fastest of blocks of 134 to 1,199 bytes.
        middle = {"latency": 2e-7, "payload": 0.8}
        for block, per_byte, latency in ((132, 2, 100), (136, 1.25, 200), (1_204, 1, 500)):
            more = {"sharing": sharing, "protocols": (SHORT, middle)}
            time, _ = took(4 * block, by_message, **more)
            assert time == 6 * (per_byte * block + latency)


def test_inside_a_node_it_has_another_latency() -> None:
    # 2 nodes of 2: a block passes 6 hops, 3 or 4 of them outside: 3 for the ranks that begin there.
    inside = {"bandwidth": 1e9, "latency": 2e-7}
    nodes: dict[str, Any] = {"kind": "nodes", "workers_per_node": 2, "inside": inside}
    assert took(400, **nodes)[0] == 3 * (100 + 500) + 3 * (100 + 200)
    protocols = ({**SHORT, "inside_latency": 5e-8},)
    assert took(400, **nodes, protocols=protocols)[0] == 3 * (200 + 100) + 3 * (200 + 50)


def test_outside_it_may_be_later_and_what_stays_on_a_rank_is_at_once() -> None:
    # Of 4 ranks on 2 nodes: up and down a chain inside, at 50 ns, and once across, at 600.
    inside = {"bandwidth": 1e15, "latency": 2e-6}
    nodes = {"kind": "nodes", "workers_per_node": 2, "inside": inside, "bandwidth": 1e15}
    protocol = {"latency": 6e-7, "inside_latency": 5e-8, "payload": 0.5}
    made = job(network={**WIRES, **nodes, "protocols": (protocol,)}, cluster={"workers": RANKS})
    choice = Choice("double_binary_tree")
    schedule = choice.schedule_on(made.cluster.network, range(RANKS), 4.0)
    collective = Collective(made, schedule, 4.0)

    def take_part(rank: int) -> Activity[None]:
        yield from collective.take_part(made.workers[rank])

    play(made, *map(take_part, range(RANKS)))
    assert made.clock.time == 2 * (50 + 600)


def test_every_bucket_has_its_own() -> None:
    # 3 layers of 16 bytes, and one of 6,400 bytes: 6 rounds each, the latter as the network is.
    sizes = (16, 16, 16, 6_400)
    layers = tuple({"backward": 1.0, "size": float(size)} for size in sizes)
    ends = {}
    for protocols in (None, (SHORT,)):
        trace = run(
            {"kind": "on_write", "bucketing": "layers"},
            network={**WIRES, "protocols": protocols},
            cluster={"workers": RANKS},
            problem={"kind": "timing"},
            workload={"optimizer": None, "layers": layers},
            stop={"global_steps": 1},
        )
        ends[protocols is None] = int(trace.steps[0]) - 100_000_000
    assert ends[True] == 6 * (3 * (4 + 500) + 1_600 + 500)
    assert ends[False] == 6 * (3 * (8 + 100) + 1_600 + 500)


@pytest.mark.parametrize("sharding", ["optimizer", "gradients", "parameters"])
def test_halves_of_all_reduces_have_them_too(sharding: str) -> None:
    ends = []
    for protocols in (None, ({"latency": 1e-7, "payload": 0.99},)):
        trace = run(
            {"kind": "on_write", "sharding": sharding},
            network={"bandwidth": 1e9, "latency": 1e-3, "protocols": protocols},
            cluster={"workers": RANKS},
            workload={"model": "resnet50"},
            stop={"global_steps": 1},
        )
        ends.append(int(trace.steps[0]))
    assert ends[1] < ends[0]


class TestWhatHasNoEffectIsRefused:
    def refused(self, strategy: dict[str, Any], **network: Any) -> str:
        with pytest.raises(ValueError) as raised:
            scenario(strategy, network={**WIRES, "protocols": (SHORT,), **network})
        return str(raised.value)

    def test_a_protocol_that_is_no_sooner(self) -> None:
        why = "its latency is not below the network's, and more is not sent in less time"
        slower = {"latency": 5e-7, "payload": 1.0}
        told = self.refused({"kind": "on_write"}, protocols=(SHORT, slower))
        assert f"protocols[1] has no effect: {why}" in told

    def test_a_protocol_that_is_no_sooner_outside_may_be_so_inside(self) -> None:
        nodes: dict[str, Any] = {"kind": "nodes", "workers_per_node": 2, **WIRES}
        inside = {"bandwidth": 1e9, "latency": 2e-7}
        for latency, taken in ((1e-7, True), (2e-7, False)):
            protocol = {"latency": 5e-7, "payload": 0.5, "inside_latency": latency}
            described = {**nodes, "inside": inside, "protocols": (protocol,)}
            if taken:
                assert Nodes.model_validate(described).protocols is not None
            else:
                with pytest.raises(ValueError, match=re.escape("protocols[0] has no effect")):
                    Nodes.model_validate(described)

    @pytest.mark.parametrize("kind", ["none", "gossip", "single"])
    def test_where_workers_reduce_nothing(self, kind: str) -> None:
        told = self.refused({"kind": kind})
        assert "cluster.network.protocols has no effect: in none of the strategies do" in told

    def test_on_the_network_of_such_a_strategy(self) -> None:
        on = {"network": {"kind": "star", **WIRES, "protocols": (SHORT,)}}
        told = self.refused({"kind": "none", "on": on}, protocols=None)
        assert "on.network.protocols has no effect: the strategy reduces nothing" in told

    def test_a_choice_of_strategies_leaves_them_out(self) -> None:
        both = ({"kind": "none"}, {"kind": "on_write"})
        network = {**WIRES, "protocols": (SHORT,)}
        whole = scenario({"kind": "on_write"}, strategies=both, network=network)
        served, reduced = (whole.with_only((one,)) for one in whole.strategies)
        assert served.cluster.network.protocols is None
        assert reduced.cluster.network.protocols is not None


def test_they_are_told() -> None:
    told = Nodes.model_validate(
        {
            **{"kind": "nodes", "workers_per_node": 2, **WIRES},
            "inside": {"bandwidth": 1e9, "latency": 2e-7},
            "protocols": ({**SHORT, "inside_latency": 5e-8},),
        }
    ).lines()
    assert told[-1] == (
        "collectives may send with latency 100 ns, inside a node 50 ns, 0.5 of the bytes for data"
    )
