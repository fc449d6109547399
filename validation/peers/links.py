"""Messages alone and against each other, over networks made from their descriptions."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from validation.networks.ring import Ring
from validation.peers.table import Got, Measured
from varsim.cluster.clock import Clock
from varsim.cluster.network.network import network
from varsim.cluster.network.topologies import TOPOLOGIES

NODES: Final = 16
MESSAGE: Final = 2.0**20
# 50 GiB/s per direction and 500 ns per hop; the latency of a star is that of its two hops.
LINK: Final[dict[str, Any]] = {"bandwidth": 50 * 2.0**30, "latency": 500e-9}
ONE_BY_ONE: Final = {
    "ring": {"kind": "ring", **LINK},
    "full mesh": {"kind": "full_mesh", **LINK},
    "switch": {"kind": "star", **LINK, "latency": 1000e-9},
}


class Message(NamedTuple):
    """So many bytes from one node to another, sent at a time (s)."""

    source: int
    target: int
    size: float
    start: float = 0.0


def single_messages() -> Measured:
    """One message from node 1 to node 4 of 16, over links that cut through."""
    found = {}
    for kind, described in ONE_BY_ONE.items():
        made = {**described, "sharing": "first_come"}
        (time,) = arrivals(made, NODES, [Message(1, 4, MESSAGE)])
        found[f"{kind}, 1 to 4, cut through", "arrival"] = Got(time)
    return found


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
    topology = Ring if described["kind"] == "ring" else TOPOLOGIES[described["kind"]]
    links = network(clock, topology.model_validate(described))
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
