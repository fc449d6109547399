"""Messages over first-come and fair links, the ports of servers, and what is said to be carried."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.building import (
    MS,
    at,
    gradient_rows,
    job,
    milliseconds,
    play,
    ports,
    run,
    slow,
    span_rows,
)
from tests.seams import Phase
from varsim.cluster.batch import Message
from varsim.cluster.job import Job
from varsim.cluster.link import Link
from varsim.cluster.placement import bytes_per_port
from varsim.cluster.worker import Worker

both = pytest.mark.parametrize("sharing", ["first_come", "fair"])


class Content:
    """Something to send."""

    arrived = -1


def cluster(workers: int, bandwidth: float, latency: float = 0.0, **network: Any) -> Job:
    """Workers on a network, and nobody doing anything yet."""
    network = {"sharing": "first_come", "bandwidth": bandwidth, "latency": latency, **network}
    return job(cluster={"workers": workers}, network=network)


def sent(
    made: Job, starts: Sequence[int], messages: Sequence[Sequence[tuple[int, Link, float]]]
) -> list[list[int]]:
    """When each item of each worker arrives (ns); messages: (item, down link, bytes)."""
    times: list[list[int]] = [[] for _ in messages]

    def process(worker: Worker) -> Iterator[Any]:
        own = messages[worker.rank]
        batch = made.network.batch(
            [Message(item, (ports(made, worker.rank)[0], down), size) for item, down, size in own]
        )
        times[worker.rank] = [-1] * batch.items

        def arrived(item: int, content: Content) -> None:
            assert content.arrived == made.clock.time
            assert times[worker.rank][item] == -1, "an item arrives once"
            times[worker.rank][item] = made.clock.time

        yield from at(
            made,
            worker,
            starts[worker.rank],
            lambda: made.network.send(worker, batch, Content(), arrived),
        )
        # Sending takes until the last of it is there.
        assert made.clock.time == max(times[worker.rank])

    play(made, *map(process, made.workers))
    return times


def to_one_server(
    sharing: str, starts: Sequence[float], sizes: Sequence[float], bandwidth: float, latency: float
) -> list[float]:
    """When the single messages of some workers are all at one server, in seconds."""
    made = cluster(len(starts), bandwidth, latency, sharing=sharing)
    _, down = made.network.host("ps", bandwidth)
    times = sent(made, [round(s * 1e9) for s in starts], [[(0, down, size)] for size in sizes])
    return [time / 1e9 for (time,) in times]


@pytest.mark.parametrize(("sharing", "expected"), [("first_come", [1, 2]), ("fair", [2, 2])])
def test_two_messages_to_one_server(sharing: str, expected: list[float]) -> None:
    assert to_one_server(sharing, [0, 0], [1e6, 1e6], 1e6, 0) == expected


def test_first_come_first_served() -> None:
    # 1 s each. Worker 1 sends at 0.2: served 0.2 .. 1.2. Worker 0 at 0.5: 1.2 .. 2.2. Worker 2 at
    # 3: the link has been free since 2.2. 10 ms on the way.
    seen = to_one_server("first_come", [0.5, 0.2, 3.0], [1e6] * 3, 1e6, 0.01)

    assert seen == [2.21, 1.21, 4.01]


def test_at_one_instant_the_lower_rank_goes_first() -> None:
    assert to_one_server("first_come", [1, 1, 1], [1e6, 2e6, 1e6], 1e6, 0) == [2, 4, 5]


@pytest.mark.parametrize(
    ("latency", "expected"),
    # ASTRA-sim, 1 MiB at 50 GiB/s: one hop of 500 ns; two hops of 500 ns cut through.
    [(500e-9, 20_031), (1000e-9, 20_531)],
)
@both
def test_astra_sim_single_messages(sharing: str, latency: float, expected: int) -> None:
    (seen,) = to_one_server(sharing, [0], [2.0**20], 50 * 2.0**30, latency)

    assert round(seen * 1e9) == expected


@pytest.mark.parametrize(
    ("starts", "sizes", "bandwidth", "latency", "expected"),
    [
        # SimGrid. Two equal flows of 10 Gbit on a link of 10 Gbit/s.
        ([0, 0], [1.25e9] * 2, 1.25e9, 0, [2.0, 2.0]),
        # 4 workers push 100 MB at once.
        ([0] * 4, [1e8] * 4, 1.25e9, 10e-6, [0.320010] * 4),
        # Worker r starts at 0.05 r s with 100 (r + 1) MB. In units of 100 MB, 12.5 a second:
        # 0: alone until 0.05 (0.625 done), then half: 0.375 left at 6.25/s: 0.11, but worker 2
        # comes at 0.1 ... as SimGrid has it.
        ([0, 0.05, 0.1, 0.15], [1e8, 2e8, 3e8, 4e8], 1.25e9, 0, [0.115, 0.4875, 0.6975, 0.8]),
    ],
)
def test_simgrid_pushes_to_one_server(
    starts: list[float],
    sizes: list[float],
    bandwidth: float,
    latency: float,
    expected: list[float],
) -> None:
    seen = to_one_server("fair", starts, sizes, bandwidth, latency)

    assert seen == pytest.approx(expected, abs=1.5e-9)


@both
def test_one_connection_keeps_the_order(sharing: str) -> None:
    # 3 ms, 1 ms and 2 ms of bytes, 1 ms on the way.
    made = cluster(1, 1e6, 1e-3, sharing=sharing)
    _, down = made.network.host("ps", 1e6)

    assert sent(made, [5 * MS], [[(0, down, 3e3), (1, down, 1e3), (2, down, 2e3)]]) == [
        [9 * MS, 10 * MS, 12 * MS]
    ]


@both
def test_an_item_is_there_with_its_last_part(sharing: str) -> None:
    # Item 0 lies on two ports, item 1 on the first. The worker's link carries 2 + 4 + 2 ms.
    # First come: 0..2, 2..6, 6..8. Fair: two connections share the link until the one to port a
    # (item 0 and item 1, 4 ms) and the one to port b (4 ms) have both passed, at 8: the part of
    # item 0 on port a passes at 4.
    made = cluster(1, 1e6, sharing=sharing)
    _, a = made.network.host("a", 1e6)
    _, b = made.network.host("b", 1e6)
    times = sent(made, [0], [[(0, a, 2e3), (0, b, 4e3), (1, a, 2e3)]])

    assert times == [[6 * MS, 8 * MS] if sharing == "first_come" else [8 * MS, 8 * MS]]


def test_a_slow_server_port_is_shared_fairly_even_by_unlike_workers() -> None:
    # 100 bytes each to a port of 100 B/s; worker 0 has 25 B/s. Worker 0 gets 25, the other 75,
    # until 100/75 s, when worker 1 is done; worker 0 goes on alone, still at 25: 4 s.
    made = cluster(2, 100.0, sharing="fair", slow_links=(slow(0, 4.0),))
    _, down = made.network.host("ps", 100.0)
    times = sent(made, [0, 0], [[(0, down, 100.0)], [(0, down, 100.0)]])

    assert times == [[4_000_000_000], [round(1e9 * 100 / 75)]]


@pytest.mark.parametrize("shards", [2, 5])
def test_partitioned_ports_are_one_port_of_their_common_bandwidth(shards: int) -> None:
    # Fair links: a flow to each port, or one flow to all of them. Equal ports fill up equally.
    source = random.Random(shards)
    for _ in range(5):
        starts = [source.randrange(50 * MS) for _ in range(6)]
        sizes = [source.randrange(1, 40_000) * 1.0 for _ in range(6)]
        one = cluster(6, 1e6, 1e-3, sharing="fair")
        _, down = one.network.host("ps", 1e6, shards)
        together = sent(one, starts, [[(0, down, size)] for size in sizes])
        many = cluster(6, 1e6, 1e-3, sharing="fair")
        ports = [many.network.host(f"ps {port}", 1e6)[1] for port in range(shards)]
        apart = sent(many, starts, [[(0, port, size / shards) for port in ports] for size in sizes])
        # A rounding to whole ns at each end of a flow.
        for (time,), (other,) in zip(together, apart, strict=True):
            assert abs(time - other) <= 12


def test_partitioned_first_come_ports() -> None:
    # 4 shards together take a quarter of the time for each message; a worker's own link takes
    # 4 ms. Both workers at 0: the ports are busy 0..1 and 1..2, the workers' links 0..4.
    # 6 workers: the last is served 5..6.
    made = cluster(6, 1e6)
    _, down = made.network.host("ps", 1e6, 4)
    times = sent(made, [0] * 6, [[(0, down, 4e3)] for _ in range(6)])

    assert times == [[4 * MS], [4 * MS], [4 * MS], [4 * MS], [5 * MS], [6 * MS]]


def test_many_variables_find_the_ports_as_free_as_one() -> None:
    # As above with the bytes of a message in two variables, 99 : 1. The ports can take all six in
    # 6 ms, and no link is ever used by more than its share: nobody needs more than 1 ms longer
    # than with one variable.
    made = cluster(6, 1e6)
    _, down = made.network.host("ps", 1e6, 4)
    times = sent(made, [0] * 6, [[(0, down, 3.96e3), (1, down, 0.04e3)] for _ in range(6)])

    ends = [max(items) for items in times]
    alone = [4 * MS, 4 * MS, 4 * MS, 4 * MS, 5 * MS, 6 * MS]
    assert [max(0, end - least - MS) for end, least in zip(ends, alone, strict=True)] == [0] * 6


def test_a_free_port_serves_whoever_is_there() -> None:
    # Worker 0 has a tenth of the bandwidth: its two variables leave it in 0..10 and 10..20 ms and
    # take the server's port no time. Worker 1 sends at 1 ms and is done at 2 ms.
    made = cluster(2, 1e6, slow_links=(slow(0, 10.0),))
    _, down = made.network.host("ps", 1e15)
    two = [(0, down, 1e3), (1, down, 1e3)]

    assert sent(made, [0, MS], [two, [(0, down, 1e3)]]) == [[10 * MS, 20 * MS], [2 * MS]]


@both
def test_an_item_without_bytes_arrives_with_the_latency(sharing: str) -> None:
    made = cluster(1, 1e6, 1e-3, sharing=sharing)
    _, down = made.network.host("ps", 1e6)

    assert sent(made, [2 * MS], [[(0, down, 0.0)]]) == [[3 * MS]]
    assert sent(
        cluster(1, 1e6, 1e-3, sharing=sharing), [2 * MS], [[(0, down, 1e3), (1, down, 0.0)]]
    ) == [[4 * MS, 4 * MS]]


class TestPlacement:
    TENSORS = [[5, 3], [4, 1]]

    def placed(self, placement: str, shards: int = 2) -> list[list[float]]:
        made = job("none", cluster={"parameter_servers": shards, "placement": placement})
        return bytes_per_port(self.TENSORS, made.cluster)

    def test_partitioned_cuts_every_tensor_evenly(self) -> None:
        assert self.placed("partitioned") == [[4, 4], [2.5, 2.5]]

    def test_round_robin_deals_tensors_in_turn(self) -> None:
        # 5 to 0, 3 to 1, 4 to 0, 1 to 1.
        assert self.placed("round_robin") == [[5, 3], [4, 1]]

    def test_by_bytes_fills_the_emptiest_largest_first(self) -> None:
        # 5 to 0, 4 to 1, 3 to 1 (4 < 5), 1 to 0 (5 < 7).
        assert self.placed("by_bytes") == [[5, 3], [1, 4]]

    def test_more_shards_than_tensors(self) -> None:
        assert self.placed("by_bytes", 5) == [[5, 0, 3, 0, 0], [0, 4, 0, 1, 0]]

    @pytest.mark.parametrize(
        ("placement", "names", "bytes_each"),
        [
            ("partitioned", ["ps 0..2"], [100]),
            ("round_robin", ["ps 0", "ps 1"], [96, 4]),
            ("by_bytes", ["ps 0", "ps 1"], [96, 4]),
        ],
    )
    @both
    def test_ports_carry_what_lies_on_them(
        self, placement: str, names: list[str], bytes_each: list[int], sharing: str
    ) -> None:
        # weights 96 bytes, bias 4 bytes; a third shard without tensors has no traffic.
        trace = run(
            "none",
            network={"bandwidth": 1e3, "latency": 0.0, "sharing": sharing},
            problem={"kind": "linear_regression", "features": 24},
            cluster={"workers": 2, "parameter_servers": 3, "placement": placement},
            stop={"time": 10.05},
        )
        pushes = sum(row.arrived >= 0 for row in gradient_rows(trace))
        down = {link.name: link for link in trace.links if "ps" in link.name}

        assert list(down) == [f"{name} {way}" for name in names for way in ("up", "down")]
        for name, size in zip(names, bytes_each, strict=True):
            moved = down[f"{name} down"].moved
            # A push counts once all of it has arrived.
            assert (pushes - 2) * size <= moved <= pushes * size
            assert moved > 0
        shares = {"partitioned": 3e3}.get(placement, 1e3)
        assert {link.bandwidth for link in down.values()} == {shares}


@both
def test_a_link_is_not_said_to_carry_more_than_it_can(sharing: str) -> None:
    # 1 s on the port for every message, 8 workers, and the run ends after 3 s.
    trace = run(
        "none",
        network={"bandwidth": 40.0, "latency": 0.0, "sharing": sharing},
        cluster={"workers": 8},
        stop={"time": 3.0},
    )

    for link in trace.links:
        assert link.moved <= 3 * link.bandwidth * (1 + 1e-9), link


def test_queueing_is_what_goes_beyond_an_idle_route() -> None:
    # 3 workers read 10 ms each over the server's port, in order; then again after their push.
    trace = run(
        "none",
        network={"bandwidth": 4e3, "latency": 1e-3, "sharing": "first_come"},
        stop={"global_steps": 3},
    )
    first = [[s for s in span_rows(trace, worker) if s.iteration == 0] for worker in range(3)]
    queues = [sum(s.end - s.start for s in spans if s.phase == Phase.QUEUE) for spans in first]
    reads = [sum(s.end - s.start for s in spans if s.phase == Phase.READ) for spans in first]

    assert milliseconds(queues) == [0, 10, 20]
    assert milliseconds(reads) == [11, 11, 11]
