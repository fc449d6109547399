"""Batches over routes of any links: alone they never queue; by hand, what they take."""

from typing import Any

import pytest

from tests.building import MS, NEEDED, life, run
from varsim.cluster.batch import Message, MessageBatch, Schedule
from varsim.cluster.link import Link
from varsim.cluster.topology import TOPOLOGIES

MORE: dict[str, dict[str, Any]] = {
    "plain": {},
    "overhead": {"message_overhead": 1e-3},
    "flows": {"flows": 2, "flow_bandwidth": 2e4},
}


def link(name: str, bandwidth: float = 1e9, latency: int = 0, overhead: int = 0) -> Link:
    """1 ns per byte, unless it is said otherwise."""
    return Link(name, bandwidth, latency=latency, overhead=overhead)


def starts(batch: MessageBatch, now: int) -> list[int]:
    """When it would start on each link (ns)."""
    return batch.schedule.starts(now, [link.free_at for link in batch.links])


def arrivals(batch: MessageBatch, now: int) -> list[int]:
    """When each item would be there (ns)."""
    return batch.schedule.arrivals(starts(batch, now), now)


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_a_worker_that_is_alone_does_not_queue(kind: str, more: str, sharing: str) -> None:
    settings = {"kind": kind, "bandwidth": 1e5, "latency": 1e-3, **NEEDED[kind], **MORE[more]}
    for on, servers in (("dedicated", 1), ("workers", 1)):
        trace = run(
            {"kind": "none"},
            network={**settings, "sharing": sharing},
            cluster={"workers": 1, "parameter_servers": servers, "servers_on": on},
            problem={"kind": "digits", "model": "mlp", "hidden": 4},
        )
        spans = life(trace, 0)
        queued = sum(end - start for phase, start, end in spans if phase == "queue")
        moved = sum(end - start for phase, start, end in spans if phase in ("read", "write"))
        # A flow that is limited at its end, and the rounding of every message.
        assert queued <= 1e-3
        inside = on == "workers" and kind != "nodes"
        assert (moved == 0) == inside


class TestCutThrough:
    def test_messages_over_links_of_different_rates(self) -> None:
        # 100 and 50 bytes; the middle link is half as fast. It starts at once, and has passed the
        # first at 200, the second at 300; 5 + 7 + 11 on the way.
        route = (link("a", latency=5), link("b", 5e8, latency=7), link("c", latency=11))
        batch = MessageBatch([Message(0, route, 100.0), Message(1, route, 50.0)])
        assert arrivals(batch, 1_000) == [1_223, 1_323]
        assert batch.alone == 323

    def test_a_busy_link_makes_those_behind_it_wait(self) -> None:
        route = (link("a"), link("b"), link("c"))
        batch = MessageBatch([Message(0, route, 100.0)])
        route[1].free_at, route[2].free_at = 70, 30
        assert starts(batch, 0) == [0, 70, 70]
        assert arrivals(batch, 0) == [170]

    def test_the_overhead_of_every_message_is_on_its_first_link(self) -> None:
        # 40 each: a has passed them at 140 and 230; b starts at 40, and is done at 140 and 190.
        route = (link("a", overhead=40), link("b", overhead=40))
        batch = MessageBatch([Message(0, route, 100.0), Message(1, route, 50.0)])
        assert arrivals(batch, 0) == [140, 230]

    def test_routes_that_part(self) -> None:
        # The first link carries both, one after the other; the others start at once.
        first, near, far = link("a"), link("b", 5e8), link("c")
        batch = MessageBatch(
            [Message(0, (first, near), 100.0), Message(1, (first, near, far), 50.0)],
        )
        assert not batch.schedule.even
        assert arrivals(batch, 0) == [200, 300]

    def test_what_crosses_no_link_is_there_at_once(self) -> None:
        batch = MessageBatch([Message(0, (), 100.0), Message(1, (link("a"), link("b")), 50.0)])
        assert arrivals(batch, 7) == [7, 57]
        assert batch.alone == 50

    def test_a_star_without_anything_else_takes_the_short_way(self) -> None:
        route = (link("a", latency=5), link("b", latency=6))
        batch = MessageBatch([Message(0, route, 100.0)])
        assert batch.links == route
        schedule = batch.schedule
        assert schedule.even
        assert schedule.pair == (100, 100, 11)
        assert batch.alone == 111


class TestSharedSchedules:
    def test_equal_batches_share_one(self) -> None:
        known: dict[object, Schedule] = {}
        routes = [(link(name, latency=5), link("z")) for name in "abc"]
        slow = (link("d", 5e8, latency=5), link("z"))
        one, two, longer, slower = (
            MessageBatch([Message(0, route, size)], known=known)
            for route, size in ((routes[0], 9.0), (routes[1], 9.0), (routes[2], 8.0), (slow, 9.0))
        )
        assert one.schedule is two.schedule
        assert len({id(batch.schedule) for batch in (one, longer, slower)}) == len(known) == 3

    def test_each_has_links_and_a_time_of_its_own(self) -> None:
        # Both want the second link: 100 ns of it each.
        known: dict[object, Schedule] = {}
        middle = link("m")
        first, second = (
            MessageBatch([Message(0, (link(name), middle, link("z")), 100.0)], known=known)
            for name in "ab"
        )
        assert (first.hand_over(0), second.hand_over(10)) == (100, 200)
        assert starts(second, 300) == [300, 300, 300]


@pytest.mark.parametrize(
    ("oversubscription", "served"), [(1.0, 1.2 + 0.1 + 1.2), (2.0, 1.6 + 0.1 + 1.6)]
)
def test_what_an_oversubscribed_core_costs(oversubscription: float, served: float) -> None:
    # 4 workers with a server each, 2 racks, 1,600 bytes of parameters, 1 kB/s. Every worker reads
    # 400 from each other: 1.2 s on its link. An uplink has 2 x 2 such messages: 1.6 s at 1 kB/s,
    # 0.8 s at 2 kB/s. A ring crosses it once: 6 rounds of 0.4 s, whatever it carries.
    settings: dict[str, Any] = {
        "network": {
            "kind": "racks",
            "hosts_per_rack": 2,
            "oversubscription": oversubscription,
            "bandwidth": 1e3,
            "latency": 0.0,
        },
        "problem": {"kind": "timing", "size": 1_600.0},
        "workload": {"optimizer": None},
        "stop": {"global_steps": 1},
    }
    on_workers = {"workers": 4, "parameter_servers": 4, "servers_on": "workers"}
    strategy = {"kind": "sync_replicas", "replicas_to_aggregate": 4}
    assert run(strategy, cluster=on_workers, **settings).end == round(served * 1_000) * MS
    assert run("on_write", cluster={"workers": 4}, **settings).end == 2_500 * MS
