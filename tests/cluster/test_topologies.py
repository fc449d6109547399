"""What messages take on every kind of network, by hand, and over which links they go."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.building import MS, NEEDED, declared, example, run, scenario, slow
from validation.peers import Message, arrivals

both = pytest.mark.parametrize("sharing", ["first_come", "fair"])
# Of links on which 1 kB takes 1 s.
KB = {"bandwidth": 1e3, "latency": 0.0}
RACKS = {"kind": "racks", **KB, "hosts_per_rack": 2}
NODES = {
    "kind": "nodes",
    **KB,
    "latency": 0.1,
    "workers_per_node": 2,
    "inside": {"bandwidth": 4e3, "latency": 0.01},
}


def seconds(settings: dict[str, Any], hosts: int, messages: Sequence[Message]) -> list[float]:
    """When each message is there."""
    return [time / 1e9 for time in arrivals(settings, hosts, messages)]


SLOW = {"slow_links": (slow(3, 4.0),)}
CARDS = {**NODES, "nics": 2, "workers_per_node": 4, "latency": 0.0, **SLOW}
ALONE: list[tuple[dict[str, Any], Message, float]] = [
    ({"kind": "star", **KB}, Message(0, 2, 1e3), 1.0),
    ({"kind": "star", **KB}, Message(1, 1, 1e3), 0.0),
    ({"kind": "ring", "bandwidth": 1e3, "latency": 1.0}, Message(0, 2, 0.0), 2.0),  # of 4: per hop
    ({"kind": "ring", "bandwidth": 1e3, "latency": 1.0}, Message(3, 0, 0.0), 1.0),
    ({**RACKS, "oversubscription": 4.0}, Message(0, 3, 1e3), 2.0),
    ({**RACKS, "oversubscription": 4.0}, Message(0, 1, 1e3), 1.0),
    ({**RACKS, "uplink_bandwidth": 3e3}, Message(0, 3, 1e3), 1.0),
    ({**RACKS, "uplink_bandwidth": 2e2, "efficiency": 0.5}, Message(0, 3, 1e3), 10.0),
    ({"kind": "star", **KB, **SLOW}, Message(0, 3, 1e3), 4.0),
    ({"kind": "full_mesh", **KB, **SLOW}, Message(3, 0, 1e3), 4.0),
    ({**RACKS, "oversubscription": 1.0, **SLOW}, Message(2, 3, 1e3), 4.0),
    # Ranks 1 and 3 share a card of their node, 0 and 2 the other one.
    (CARDS, Message(1, 4, 1e3), 4.0),
    (CARDS, Message(3, 4, 1e3), 4.0),
    (CARDS, Message(2, 4, 1e3), 1.0),
]


class TestMessages:
    """Sizes in bytes of 1 ms; see KB."""

    @both
    @pytest.mark.parametrize(("settings", "message", "there"), ALONE)
    def test_alone(
        self, settings: dict[str, Any], message: Message, there: float, sharing: str
    ) -> None:
        hosts = 4 if settings["kind"] == "ring" else 8
        assert seconds({**settings, "sharing": sharing}, hosts, [message]) == [there]

    @both
    def test_two_that_meet_in_an_uplink(self, sharing: str) -> None:
        # The example in the head of `network`, a thousand times smaller.
        racks = {**RACKS, "uplink_bandwidth": 1e3, "sharing": sharing}
        done = seconds(racks, 4, [Message(0, 2, 1e3), Message(1, 3, 1e3)])
        assert done == ([1.0, 2.0] if sharing == "first_come" else [2.0, 2.0])

    @both
    def test_an_uplink_that_no_message_fills_alone(self, sharing: str) -> None:
        # 1.5 kB/s: it limits the first message only from when the second one is sent.
        racks = {**RACKS, "uplink_bandwidth": 1.5e3, "sharing": sharing}
        done = seconds(racks, 4, [Message(0, 2, 1e3), Message(1, 3, 1e3)])
        assert done == pytest.approx([1.0, 5 / 3] if sharing == "first_come" else [4 / 3, 4 / 3])

    @both
    def test_max_min_over_whole_routes(self, sharing: str) -> None:
        # 0 -> 2 and 1 -> 3 share an uplink of 1 kB/s, 0 -> 1 has the rest of the link of 0.
        # Fair: all have 0.5 kB/s until 2 s. First come: 0 -> 1 stands behind 0 -> 2 on the link
        # of 0.
        racks = {**RACKS, "uplink_bandwidth": 1e3, "sharing": sharing}
        done = seconds(racks, 4, [Message(0, 2, 1e3), Message(1, 3, 1e3), Message(0, 1, 1e3)])
        assert done == ([1.0, 2.0, 2.0] if sharing == "first_come" else [2.0, 2.0, 2.0])

    @both
    def test_latencies_of_racks(self, sharing: str) -> None:
        racks = {**RACKS, "uplink_bandwidth": 1e3, "latency": 0.1, "sharing": sharing}
        pairs = [Message(0, 1, 1e3), Message(2, 3, 0.0), Message(1, 2, 0.0)]
        assert seconds(racks, 4, pairs) == [1.1, 0.1, 0.2]
        longer = {**racks, "uplink_latency": 0.5}
        assert seconds(longer, 4, [Message(1, 2, 0.0)]) == [0.6]

    @both
    def test_an_overhead_holds_the_link_of_the_sender(self, sharing: str) -> None:
        # 0.5 s besides 1 s. Worker 0 sends two: its link is busy for 3 s. The link down to worker 2
        # is not: 0 and 1 send 1 s each to it; first come, it starts at 0.5 and again at 1.5.
        star = {"kind": "star", **KB, "message_overhead": 0.5, "sharing": sharing}
        assert seconds(star, 2, [Message(0, 1, 1e3)]) == [1.5]
        two = seconds(star, 3, [Message(0, 1, 1e3), Message(0, 2, 1e3)])
        assert two == ([1.5, 3.0] if sharing == "first_come" else [3.0, 3.0])
        meeting = seconds(star, 3, [Message(0, 2, 1e3), Message(1, 2, 1e3)])
        assert meeting == ([1.5, 2.5] if sharing == "first_come" else [2.5, 2.5])

    @both
    def test_flows_limit_a_route_and_leave_the_rest_to_others(self, sharing: str) -> None:
        # 2 flows of 0.2 kB/s: 1 kB takes 2.5 s. What worker 0 sends to 2 has its own 0.4 kB/s;
        # first come, it waits for 1 s, which the first holds the link of worker 0.
        star = {"kind": "star", **KB, "flows": 2, "flow_bandwidth": 200.0, "sharing": sharing}
        assert seconds(star, 2, [Message(0, 1, 1e3)]) == [2.5]
        two = seconds(star, 3, [Message(0, 1, 1e3), Message(0, 2, 1e3)])
        assert two == ([2.5, 3.5] if sharing == "first_come" else [2.5, 2.5])

    @both
    def test_inside_and_outside_a_node(self, sharing: str) -> None:
        # 0.25 s and 10 ms inside, 1 s and 100 ms outside, at the same time.
        nodes = {**NODES, "sharing": sharing}
        messages = [Message(0, 1, 1e3), Message(0, 2, 1e3)]
        assert seconds(nodes, 4, messages) == [0.26, 1.1]
        # Two workers and one card: they share it; with a card each they do not.
        messages = [Message(0, 2, 1e3), Message(1, 3, 1e3)]
        shared = [1.1, 2.1] if sharing == "first_come" else [2.1, 2.1]
        assert seconds(nodes, 4, messages) == shared
        assert seconds({**nodes, "nics": 2}, 4, messages) == [1.1, 1.1]

    @both
    def test_a_bus_carries_one_way_or_the_other(self, sharing: str) -> None:
        inside = {"bandwidth": 4e3, "latency": 0.01, "shared": True}
        nodes = {**NODES, "sharing": sharing, "inside": inside}
        both_ways = seconds(nodes, 2, [Message(0, 1, 1e3), Message(1, 0, 1e3)])
        assert both_ways == ([0.26, 0.51] if sharing == "first_come" else [0.51, 0.51])
        assert seconds({**nodes, "inside": {**inside, "shared": False}}, 2, [
            Message(0, 1, 1e3), Message(1, 0, 1e3)
        ]) == [0.26, 0.26]  # fmt: skip


class TestServers:
    def links(self, kind: str, on: str) -> dict[str, float]:
        """The bytes that links carried: 44 bytes, half on each server, read twice, pushed once."""
        trace = run(
            {"kind": "none"},
            network={"kind": kind, "bandwidth": 1e6, "latency": 0.0, **NEEDED[kind]},
            cluster={"workers": 4, "parameter_servers": 2, "servers_on": on},
            problem={"kind": "linear_regression"},
            stop={"time": 0.15},
        )
        return {link.name: link.moved for link in trace.links if link.moved}

    def test_what_stays_on_a_machine_costs_nothing(self) -> None:
        # Up from worker 0: 2 replies to 3 others, its own push to server 1. Down: 3 pushes to
        # server 0, its own 2 reads of server 1.
        with_server = {"up": 6 * 22 + 22, "down": 3 * 22 + 2 * 22}
        without = {"up": 44, "down": 88}
        assert self.links("star", "workers") == {
            f"worker {rank} {way}": size
            for rank in range(4)
            for way, size in (with_server if rank < 2 else without).items()
        }

    def test_on_a_node_it_goes_over_the_links_inside(self) -> None:
        moved = self.links("nodes", "workers")
        # Server 0 and the two workers of its node; then what goes to and comes from the other.
        assert (moved["inside ps 0 up"], moved["inside ps 0 down"]) == (4 * 22, 2 * 22)
        assert (moved["inside worker 1 up"], moved["inside worker 1 down"]) == (22, 44)
        assert moved["node 0 up"] == moved["node 0 down"] == 4 * 22 + 2 * 22

    def test_alone_on_its_machine_a_worker_needs_no_network(self) -> None:
        trace = run(
            {"kind": "none"},
            network={"kind": "star", "bandwidth": 1.0, "latency": 1.0},
            cluster={"workers": 1, "servers_on": "workers"},
        )
        assert trace.steps.tolist() == [100 * MS, 200 * MS, 300 * MS]

    def test_they_may_have_links_of_their_own(self) -> None:
        for kind in ("star", "racks", "nodes"):
            trace = run(
                {"kind": "none"},
                network={**NEEDED[kind], "kind": kind, **KB, "server_bandwidth": 2e3}
                | {"efficiency": 0.5},
                stop={"time": 0.1},
            )
            (rate,) = {link.bandwidth for link in trace.links if link.name.startswith("ps")}
            assert rate == 1e3

    @pytest.mark.parametrize("kind", NEEDED)
    def test_on_machines_of_their_own(self, kind: str) -> None:
        # The links next to the servers carry 2 reads and 1 push of 4 workers, all others no more.
        moved = self.links(kind, "dedicated")
        sent = {name: size for name, size in moved.items() if name.startswith("ps")}
        if kind == "full_mesh":
            assert list(sent.values()) == [44.0] * 8
        else:
            assert sum(sent.values()) == 2 * (4 * 44 + 4 * 22)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no rate of flows": ({"kind": "star", "flows": 2}, "flows needs flow_bandwidth"),
    "no number of flows": ({"kind": "star", "flow_bandwidth": 1e3}, "flow_bandwidth needs flows"),
    "no uplink": ({"kind": "racks", "hosts_per_rack": 2}, "give either oversubscription"),
    "two uplinks": (
        {"kind": "racks", "hosts_per_rack": 2, "oversubscription": 2.0, "uplink_bandwidth": 1e3},
        "give either oversubscription",
    ),
    "idle cards": (
        {"kind": "nodes", "workers_per_node": 2, "nics": 3, "inside": KB},
        "nics 3: with 2 workers per node the others would have no effect",
    ),
    "each of a star as much as a node": (
        {"bandwidth": None, "preset": "efa_v2_p5"},
        "efa_v2_p5 is what all network cards of a node have .*bandwidth: 3.2 Tbit/s",
    ),
    "each of two cards as much as a node": (
        {
            **{"kind": "nodes", "workers_per_node": 2, "nics": 2, "inside": KB},
            **{"bandwidth": None, "preset": "dgx_h100"},
        },
        "nodes and nics 1",
    ),
    "a node without an inside": ({"kind": "nodes", "workers_per_node": 2}, "inside\n"),
    "no latency inside": (
        {"kind": "nodes", "workers_per_node": 2, "inside": {"bandwidth": 1e3}},
        "latency is missing",
    ),
    "a kind that is not there": ({"kind": "torus"}, "'star', 'full_mesh'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        scenario({"kind": "none"}, network={**KB, **settings})


def test_one_card_may_stand_for_all_of_a_node() -> None:
    preset = {"bandwidth": None, "preset": "dgx_h100"}
    nodes = {"kind": "nodes", "workers_per_node": 8, "inside": KB, **KB, **preset}
    assert arrivals(nodes, 16, [Message(0, 8, 4e11)]) == [10**9]


def test_more_servers_than_machines_are_refused() -> None:
    for cluster, kind, machines in (
        ({"workers": 3, "parameter_servers": 4}, "star", 3),
        ({"workers": 6, "parameter_servers": 4}, "nodes", 3),
    ):
        with pytest.raises(ValueError, match=f"one on each machine of workers, .* {machines}"):
            scenario(
                {"kind": "none"},
                network={"kind": kind, **KB, **NEEDED[kind]},
                cluster={**cluster, "servers_on": "workers"},
            )


def test_links_that_servers_do_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="server_bandwidth has no effect: with servers_on workers"):
        scenario(
            {"kind": "none"},
            network={**KB, "server_bandwidth": 1e4},
            cluster={"servers_on": "workers"},
        )
    with pytest.raises(ValueError, match=r"cluster\.servers_on has no effect"):
        scenario({"kind": "on_write"}, cluster={"servers_on": "workers"})


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("kind", ["none", "sync_replicas", "on_read"])
def test_switches_in_series_that_cost_nothing_change_nothing(kind: str, sharing: str) -> None:
    # Every host in a rack of its own, on uplinks without end: 4 links instead of 2.
    strategy = example(kind, 6)
    settings: dict[str, Any] = {
        "cluster": {"workers": 6, "compute": {"kind": "exponential", "mean": 0.02}},
        "problem": {"kind": "digits", "model": "mlp", "hidden": 4},
        "stop": {"global_steps": 8},
    }
    if declared(strategy).traits.uses_servers:
        settings["cluster"] |= {"parameter_servers": 3, "placement": "round_robin"}
    wires = {"bandwidth": 1e5, "latency": 1e-3, "sharing": sharing}
    far = {"kind": "racks", "hosts_per_rack": 1, "uplink_bandwidth": 1e15, "uplink_latency": 0.0}
    star = run(strategy, network=wires, **settings)
    racks = run(strategy, network={**wires, **far}, **settings)

    def compared(trace: Any) -> list[Any]:
        ports = [(link.name, link.moved) for link in trace.links if "rack" not in link.name]
        return [trace.steps.tolist(), sorted(ports)]

    steps, carried = compared(star)
    joined = {name: moved for name, moved in carried if ".." not in name and "," not in name}
    for name, moved in compared(racks)[1]:
        if name in joined:
            assert moved == pytest.approx(joined[name])
    # Rates of flows that share several links are worked out in another order: the last bit.
    rounding = 0 if sharing == "first_come" else 2
    assert compared(racks)[0] == pytest.approx(steps, abs=rounding, rel=0)
