"""Messages alone and against each other, over networks made from their descriptions."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from validation.peers.table import Got, Measured
from varsim.cluster.clock import Clock
from varsim.cluster.network import network
from varsim.cluster.topology import AnyTopology, Topology
from varsim.values.schema import Model

NODES: Final = 16
MESSAGE: Final = 2.0**20
# 50 GiB/s per direction and 500 ns per hop; the latency of a star is that of its two hops.
LINK: Final[dict[str, Any]] = {"bandwidth": 50 * 2.0**30, "latency": 500e-9}
HOP_BY_HOP: Final = {
    "ring": {"kind": "ring", **LINK},
    "full mesh": {"kind": "full_mesh", **LINK},
    "switch": {"kind": "star", **LINK, "latency": 1000e-9},
}


class _Described(Model):
    """A network as it stands in a scenario."""

    network: AnyTopology


class Message(NamedTuple):
    """So many bytes from one node to another, sent at a time (s)."""

    source: int
    target: int
    size: float
    start: float = 0.0


def single_messages() -> Measured:
    """One message from node 1 to node 4 of 16.

    A full mesh has one link from one to the other: nothing is stored, or cut through, on the way.
    """
    found = {}
    for kind, described in HOP_BY_HOP.items():
        for way in ("store_and_forward", "cut_through"):
            forwarding = {} if kind == "full mesh" else {"forwarding": way}
            made = {**described, **forwarding, "sharing": "first_come"}
            (time,) = arrivals(made, NODES, [Message(1, 4, MESSAGE)])
            name = f"{kind}, 1 to 4, {way.replace('_', ' ')}"
            found[name, "arrival"] = Got(time)
    return found


def all_to_all() -> Measured:
    """Every node of the ring sends to every other one at 0, by ascending number of the target.

    The shortest way, halfway around clockwise; each link serves messages in the order in which they
    come to it. A clockwise link has 36 of them, 703,116 ns in all. It has its own 8 at once; of the
    last one, which goes 8 hops, the last hop alone waits for the one before, 500 ns in which
    the link idles: 704,116 with the latency of that hop.
    """
    made = {**HOP_BY_HOP["ring"], "forwarding": "store_and_forward", "sharing": "first_come"}
    nodes = range(NODES)
    messages = [Message(one, other, MESSAGE) for one in nodes for other in nodes if one != other]
    last = max(arrivals(made, NODES, messages))
    return {("ring, every node to every other", "last arrival"): Got(last)}


def fair_sharing() -> Measured:
    """Flows that meet in one link."""
    star = {"kind": "star", "bandwidth": 1.25e9, "latency": 0.0, "sharing": "fair"}
    cases = {
        ("two equal flows on one link", "flow"): (
            star,
            [Message(source, 2, 1.25e9) for source in range(2)],
        ),
        ("4 workers push at once", "worker"): (
            {**star, "latency": 10e-6},
            [Message(source, 4, 100e6) for source in range(4)],
        ),
        ("pushes that start one after the other", "worker"): (
            star,
            [Message(rank, 4, 100e6 * (rank + 1), 0.05 * rank) for rank in range(4)],
        ),
    }
    found = {}
    for (name, what), (described, messages) in cases.items():
        ends = arrivals(described, messages[0].target + 1, messages)
        for number, end in enumerate(ends):
            found[name, f"end of {what} {number}"] = Got(end / 1e9)
    return found


def arrivals(described: dict[str, Any], hosts: int, messages: Sequence[Message]) -> list[int]:
    """When each message is there (ns)."""
    clock = Clock()
    topology: Topology = _Described.model_validate({"network": described}).network
    links = network(clock, topology)
    places = [links.routing.worker(rank) for rank in range(hosts)]
    times = [-1] * len(messages)

    def arrived(number: int) -> None:
        times[number] = clock.time

    for number, one in enumerate(messages):
        route = links.route(places[one.source], places[one.target])
        send = partial(links.pass_on, route, one.size, _nothing, partial(arrived, number))
        clock.call_at(round(one.start * 1e9), send)
    clock.run_until_stopped()
    return times


def _nothing() -> None:
    """Nobody waits for links that are free again."""
