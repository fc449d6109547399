import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varsim.cluster import fair, maxmin
from varsim.cluster.clock import Clock
from varsim.cluster.fair import FairShare
from varsim.cluster.link import Link
from varsim.cluster.maxmin import max_min_rates

MS = 1_000_000  # ns

# A flow to be: its start (ns), its route, its marks (bytes).
Plan = tuple[int, tuple[Link, ...], Sequence[float]]
# The same with links as indices, after their bandwidths.
Traffic = tuple[list[int], list[tuple[int, list[int], list[int]]]]

both = pytest.mark.parametrize("hubs", [True, False], ids=["hubs", "mesh"])


def times(plans: Sequence[Plan], hubs: bool = True) -> list[list[int]]:
    """When each mark of each flow is reached, in ns."""
    clock = Clock()
    share = FairShare(clock, hubs=hubs)
    seen: list[list[int]] = [[] for _ in plans]

    def note(own: list[int], index: int) -> None:
        assert index == len(own)
        own.append(clock.time)

    for (start, route, marks), own in zip(plans, seen, strict=True):
        clock.call_at(start, partial(share.start, route, marks, partial(note, own)))
    clock.run_until_stopped()
    assert [len(own) for own in seen] == [len(marks) for _, _, marks in plans]
    return seen


def ends(plans: Sequence[Plan], hubs: bool = True) -> list[int]:
    return [own[-1] for own in times(plans, hubs)]


def links(*bandwidths: float) -> list[Link]:
    return [Link(str(bandwidth), bandwidth) for bandwidth in bandwidths]


@pytest.fixture
def fillings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of flows of which the mesh has worked out the rates: empty where hubs do."""
    numbers, rates = list[int](), maxmin.Mesh._rates

    def counting(mesh: maxmin.Mesh) -> maxmin.Floats:
        numbers.append(len(found := rates(mesh)))
        return found

    monkeypatch.setattr(maxmin.Mesh, "_rates", counting)
    return numbers


# --- Worked out by hand, or printed by SimGrid for the same assumptions


@both
def test_flows_that_start_one_after_the_other(hubs: bool) -> None:
    # First the example of the module's docstring.
    (link,) = links(1e9)
    plans: list[Plan] = [(0, (link,), (300e6,)), (100 * MS, (link,), (100e6,))]
    assert ends(plans, hubs) == [400 * MS, 300 * MS]
    *up, server = links(*[1.25e9] * 5)
    plans = [(50 * MS * r, (up[r], server), (100e6 * (r + 1),)) for r in range(4)]
    assert ends(plans, hubs) == [115_000_000, 487_500_000, 697_500_000, 800_000_000]


@both
def test_flows_that_start_at_once_share_evenly(hubs: bool) -> None:
    *up, server = links(*[1.25e9] * 5)
    assert ends([(0, (server,), (1.25e9,))] * 2, hubs) == [2_000 * MS] * 2
    pushes: list[Plan] = [(0, (link, server), (100e6,)) for link in up]
    assert [end + 10_000 for end in ends(pushes, hubs)] == [320_010_000] * 4  # latency 10 us


@both
def test_a_flow_held_up_elsewhere_leaves_its_share_to_the_others(hubs: bool) -> None:
    # The server's 10 GB/s: the slow worker takes 1, the other two 4.5 each; after the end of
    # one, at 2 s, the other is held up by its own 5. 9 GB + 5 GB/s x 1 s = 14 GB.
    server, *up = links(10e9, 1e9, 5e9, 5e9)
    sizes = (6e9, 9e9, 14e9)
    plans: list[Plan] = [(0, (link, server), (size,)) for link, size in zip(up, sizes, strict=True)]
    assert ends(plans, hubs) == [6_000 * MS, 2_000 * MS, 3_000 * MS]


@both
def test_a_flow_over_two_shared_links(hubs: bool) -> None:
    # The textbook's line of two links, here of 1 and 2 GB/s: the long flow and the first short
    # one get 0.5 each, the second short one the rest of the second link, 1.5.
    one, two = links(1e9, 2e9)
    plans: list[Plan] = [(0, (one, two), (1e9,)), (0, (one,), (1e9,)), (0, (two,), (3e9,))]
    assert ends(plans, hubs) == [2_000 * MS] * 3


def served(compute: list[int], steps: int, quorum: int, hubs: bool) -> tuple[list[list[int]], int]:
    """When each worker's pushes reach the server, which answers `quorum` at once; the end."""
    clock = Clock()
    share = FairShare(clock, hubs=hubs)
    server_up, server_down, *host = links(*[1.25e9] * 10)
    pushes: list[list[int]] = [[] for _ in compute]
    waiting: list[int] = []

    def step(rank: int) -> None:
        def push() -> None:
            share.start((host[rank], server_down), (125e6,), lambda _: arrive(rank))

        if len(pushes[rank]) < steps:
            clock.call_at(clock.time + compute[rank] * MS, push)

    def arrive(rank: int) -> None:
        pushes[rank].append(clock.time)
        waiting.append(rank)
        if len(waiting) == quorum:
            while waiting:
                answer(waiting.pop(0))

    def answer(rank: int) -> None:
        share.start((server_up, host[4 + rank]), (125e6,), lambda _: step(rank))

    for rank in range(len(compute)):
        step(rank)
    clock.run_until_stopped()
    return pushes, clock.time


@both
def test_a_synchronous_server(hubs: bool) -> None:
    # Push and answer take 0.4 s each: updates are at 0.9 s and every 1.3 s from there.
    pushes, end = served([500] * 4, 3, 4, hubs)
    assert pushes == [[900 * MS, 2_200 * MS, 3_500 * MS]] * 4
    assert end == 3_900 * MS


@both
def test_an_asynchronous_server(hubs: bool) -> None:
    pushes, end = served([500, 500, 500, 1_000], 5, 1, hubs)
    assert pushes[:3] == [[800 * MS, 1_900 * MS, 3_000 * MS, 4_100 * MS, 5_200 * MS]] * 3
    assert pushes[3] == [1_100 * MS, 2_300 * MS, 3_500 * MS, 4_700 * MS, 5_900 * MS]
    assert end == 6_000 * MS


@both
@pytest.mark.parametrize(("workers", "end"), [(4, 12_318_000), (16, 15_510_000)])
def test_a_ring_all_reduce(workers: int, end: int, hubs: bool) -> None:
    # 102.4 MB in chunks of 1/n; a worker sends its next chunk when it has the one before.
    clock = Clock()
    share = FairShare(clock, hubs=hubs)
    host = links(*[12.5e9] * 2 * workers)

    def send(rank: int, steps: int) -> None:
        to = (rank + 1) % workers

        def reached(_: int) -> None:
            if steps > 1:
                clock.call_at(clock.time + 5_000, lambda: send(to, steps - 1))

        share.start((host[rank], host[workers + to]), (102.4e6 / workers,), reached)

    for rank in range(workers):
        send(rank, 2 * (workers - 1))
    clock.run_until_stopped()
    assert clock.time + 5_000 == end


# --- Marks, ties and instants


@both
def test_marks_are_reached_on_the_way(hubs: bool) -> None:
    # 1 GB/s alone until 2 ms (2 MB), then half of it: 3 MB at 4 ms; alone again from 6 ms on.
    (link,) = links(1e9)
    plans: list[Plan] = [(0, (link,), (0.0, 1e6, 1e6, 3e6, 5e6)), (2 * MS, (link,), (2e6,))]
    assert times(plans, hubs) == [[0, MS, MS, 4 * MS, 7 * MS], [6 * MS]]


@both
def test_nothing_is_reached_inside_start(hubs: bool) -> None:
    clock = Clock()
    share = FairShare(clock, hubs=hubs)
    (link,) = links(1e9)
    seen: list[tuple[str, int, int]] = []

    def start() -> None:
        share.start((link,), (0.0, 0.0), lambda index: seen.append(("empty", index, clock.time)))
        share.start((link,), (0.0, 1e6), lambda index: seen.append(("full", index, clock.time)))
        assert seen == []

    clock.call_at(5, start)
    clock.run_until_stopped()
    assert seen == [("empty", 0, 5), ("empty", 1, 5), ("full", 0, 5), ("full", 1, 5 + MS)]


@both
def test_an_empty_flow_takes_nothing_from_the_others(hubs: bool, fillings: list[int]) -> None:
    one, two = links(1e9, 1e9)
    empty: Plan = (MS, (one, two), (0.0,))
    plans: list[Plan] = [(0, (one,), (2e6,)), (0, (two,), (2e6,)), empty, empty]
    assert ends(plans, hubs) == [2 * MS, 2 * MS, MS, MS]
    assert not (hubs and fillings)


@both
def test_an_empty_flow_after_the_last_one(hubs: bool) -> None:
    clock = Clock()
    share = FairShare(clock, hubs=hubs)
    seen: list[int] = []
    route = (Link("link", 1e9),)
    empty = partial(share.start, route, (0.0,), lambda _: seen.append(clock.time))
    share.start(route, (1e6,), lambda _: empty())
    clock.run_until_stopped()
    assert seen == [MS]


@both
def test_a_flow_may_start_as_another_ends(hubs: bool, fillings: list[int]) -> None:
    # The clock knew of the starts before it knew of the ends, and serves them first.
    one, two = links(1e9, 1e9)
    plans: list[Plan] = [(MS * number, (one, two), (1e6,)) for number in range(3)]
    assert ends(plans, hubs) == [MS, 2 * MS, 3 * MS]
    assert not (hubs and fillings)


@both
def test_two_marks_in_one_place_are_told_one_after_the_other(hubs: bool) -> None:
    clock = Clock()
    share = FairShare(clock, hubs=hubs)
    route = (Link("link", 1e9),)
    told: list[tuple[str, int]] = []
    share.start(route, (1e6, 1e6, 2e6), lambda index: told.append(("first", index)))
    share.start(route, (1e6,), lambda index: told.append(("second", index)))
    clock.run_until_stopped()
    assert told == [("first", 0), ("first", 1), ("second", 0), ("first", 2)]


def test_a_flow_costs_few_events_of_the_clock() -> None:
    # The n-th flow would end at 1/n s if no other came: each start asks for an earlier call.
    clock = Clock()
    share = FairShare(clock)
    route = (Link("link", 1e9),)
    flows = 200
    for number in range(1, flows + 1):
        share.start(route, (1e9 / number / number,), lambda _: None)
    clock.run_until_stopped()
    assert clock.heap_events <= 3 * flows


@both
def test_what_is_reached_together_is_told_in_the_order_of_the_starts(hubs: bool) -> None:
    # Three lone flows, two on one link and two that share two links, all end at 4 ms.
    clock = Clock()
    share = FairShare(clock, hubs=hubs)
    a, b, c, d, e, f = links(*[1e9] * 6)
    routes = {6: (c,), 2: (e, f), 0: (a,), 1: (d,), 4: (d,), 5: (e, f), 3: (b,)}
    told: list[int] = []
    for number, route in routes.items():
        size = 4e6 if number in (0, 3, 6) else 2e6
        share.start(route, (size,), partial(lambda number, _: told.append(number), number))
    clock.run_until_stopped()
    assert told == list(routes)
    assert clock.time == 4 * MS


@both
def test_a_long_run_stays_exact(hubs: bool) -> None:
    # Far from the clock's zero, one long flow and 2,000 short ones, each of which has half the
    # link for 600 ns and ends as the next one starts: the link is never idle.
    begin = 10_000 * 86_400_000 * MS
    (link,) = links(1.25e9)
    long: Plan = (begin, (link,), (375.0 * 2_000,))
    short: list[Plan] = [(begin + 600 * number, (link,), (375.0,)) for number in range(2_000)]
    end, *others = ends([long, *short], hubs)
    assert end == begin + 600 * 2_000
    assert others == [start + 600 for start, _, _ in short]


# --- Hubs and the mesh


def test_a_hub_needs_no_filling(fillings: list[int]) -> None:
    *up, server = links(*[1.25e9] * 4)
    plans: list[Plan] = [(MS * r, (up[r], server), (10e6, 20e6 + r)) for r in range(3)]
    seen = times(plans)
    assert fillings == []
    assert seen == times(plans, hubs=False)


def test_a_lone_flow_can_become_a_hub_at_either_end(fillings: list[int]) -> None:
    # The lone flow is held to 1 GB/s by its first link; when another one joins it at the second
    # one, of 3 GB/s, that one has the other 2. At the first link they have 0.5 each.
    first, second, third = links(1e9, 3e9, 5e9)
    lone: Plan = (0, (first, second), (2e6,))
    assert ends([lone, (MS, (third, second), (2e6,))]) == [2 * MS, 2 * MS]
    assert ends([lone, (MS, (first, third), (1e6,))]) == [3 * MS, 3 * MS]
    assert fillings == []


def test_a_hub_that_another_flow_ties_up_goes_on_in_the_mesh(fillings: list[int]) -> None:
    # At 1 ms each flow has 0.5 MB of its 1 MB; then a third one on the first flow's other link
    # leaves its rate as it is (0.5 GB/s) and gets the other 0.5; from 2 ms on it has 1 GB/s.
    *up, server = links(*[1e9] * 3)
    hub: list[Plan] = [(0, (link, server), (1e6,)) for link in up]
    assert ends([*hub, (MS, (up[0],), (1.5e6,))]) == [2 * MS, 2 * MS, 3 * MS]
    assert fillings[0] == 3


def test_links_that_the_mesh_has_left_can_be_hubs_again(fillings: list[int]) -> None:
    *up, server = links(*[1e9] * 3)
    tangle: list[Plan] = [(0, (up[0], server), (1e6,))] * 2
    hub: list[Plan] = [(3 * MS, (link, server), (1e6,)) for link in up]
    assert ends([*tangle, *hub]) == [2 * MS, 2 * MS, 5 * MS, 5 * MS]
    assert fillings == [2, 0]


def test_a_hub_with_too_many_groups_moves_to_the_mesh(fillings: list[int]) -> None:
    # Every worker has another bandwidth and fills it for 1 s.
    workers = fair.MOST_GROUPS + 3
    server, *up = links(1e15, *[1e9 * rank for rank in range(1, workers + 1)])
    plans: list[Plan] = [(0, (link, server), (link.bandwidth,)) for link in up]
    assert ends(plans) == [1_000 * MS] * workers
    assert fillings == [workers, 0]


# --- Against a reference on random topologies


def filled(routes: Sequence[Sequence[int]], bandwidth: Sequence[int]) -> list[Fraction]:
    """Progressive filling as the textbook has it, exactly: one bottleneck at a time."""
    left = [Fraction(value) for value in bandwidth]
    rates: dict[int, Fraction] = {}
    while len(rates) < len(routes):
        waiting = [flow for flow in range(len(routes)) if flow not in rates]
        crossing = [link for flow in waiting for link in routes[flow]]
        shares = {link: left[link] / crossing.count(link) for link in crossing}
        bottleneck = min(shares, key=lambda link: shares[link])
        for flow in waiting:
            if bottleneck in routes[flow]:
                rates[flow] = shares[bottleneck]
                for link in routes[flow]:
                    left[link] -= rates[flow]
    return [rates[flow] for flow in range(len(routes))]


def exact_times(traffic: Traffic) -> list[list[Fraction]]:
    """When each mark of each flow is reached, in ns."""
    bandwidth, flows = traffic
    now = Fraction(0)
    passed: dict[int, Fraction] = {}
    reached: list[list[Fraction]] = [[] for _ in flows]
    starts = sorted(range(len(flows)), key=lambda flow: flows[flow][0])
    while starts or passed:
        rates = filled([flows[flow][1] for flow in passed], bandwidth)
        steps = [flows[starts[0]][0] - now] if starts else []
        for flow, rate in zip(passed, rates, strict=True):
            steps.append((flows[flow][2][len(reached[flow])] - passed[flow]) * 10**9 / rate)
        now += min(steps)
        for flow, rate in zip(list(passed), rates, strict=True):
            passed[flow] += rate * min(steps) / 10**9
            marks = flows[flow][2]
            if passed[flow] == marks[len(reached[flow])]:
                reached[flow].append(now)
            if len(reached[flow]) == len(marks):
                del passed[flow]
        while starts and flows[starts[0]][0] == now:
            passed[starts.pop(0)] = Fraction(0)
    return reached


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    """Bandwidths of some links, and flows over them; often many over link 0 and one other."""
    number = draw(st.integers(1, 6))
    rates = st.sampled_from([100, 250, 250, 700, 1000]).map(lambda value: value * 10**6)
    bandwidth = draw(st.lists(rates, min_size=number, max_size=number))
    link = st.integers(0, number - 1)
    anywhere = st.lists(link, min_size=1, max_size=3, unique=True)
    hub = link.map(lambda other: [other, 0] if other else [0])
    size = st.integers(1, 40).map(lambda value: value * 50_000)
    marks = st.lists(size, min_size=1, max_size=3, unique=True).map(sorted)
    start = st.integers(0, 30).map(lambda value: value * 250_000)
    routes = draw(st.sampled_from([anywhere, hub]))
    return bandwidth, draw(st.lists(st.tuples(start, routes, marks), min_size=1, max_size=9))


def planned(traffic: Traffic) -> list[Plan]:
    own = links(*traffic[0])
    return [(start, tuple(own[i] for i in route), marks) for start, route, marks in traffic[1]]


@settings(max_examples=150, deadline=None)
@given(traffics())
def test_times_are_those_of_progressive_filling(traffic: Traffic) -> None:
    exact = exact_times(traffic)
    for hubs in (True, False):
        for own, expected in zip(times(planned(traffic), hubs), exact, strict=True):
            assert all(abs(a - b) <= 1 for a, b in zip(own, expected, strict=True))


@settings(max_examples=60, deadline=None)
@given(traffics(), st.booleans())
def test_no_link_passes_more_than_its_bandwidth(traffic: Traffic, hubs: bool) -> None:
    # Of what surely passed between two moments: from one mark of a flow to a later one of it.
    bandwidth, flows = traffic
    curves = [
        (route, [(start, 0), *zip(own, marks, strict=True)])
        for (start, route, marks), own in zip(flows, times(planned(traffic), hubs), strict=True)
    ]
    moments = sorted({time for _, curve in curves for time, _ in curve})
    for begin in moments:
        for end in moments[moments.index(begin) + 1 :]:
            total = [0] * len(bandwidth)
            for route, curve in curves:
                inside = [size for time, size in curve if begin <= time <= end] or [0]
                for link in route:
                    total[link] += inside[-1] - inside[0]
            for link, size in enumerate(total):
                assert size <= bandwidth[link] * (end - begin + 2) / 1e9


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_rates_are_max_min_fair(data: st.DataObject) -> None:
    bandwidth = data.draw(st.lists(st.integers(1, 1000), min_size=1, max_size=6))
    route = st.lists(st.integers(1, len(bandwidth)), min_size=1, max_size=3, unique=True)
    routes = data.draw(st.lists(route, min_size=1, max_size=15))
    hops = np.array([[*route, 0, 0][:3] for route in routes]).T
    rates = max_min_rates(hops, np.array([math.inf, *bandwidth])).tolist()
    exact = filled([[link - 1 for link in route] for route in routes], bandwidth)
    assert rates == pytest.approx([float(rate) for rate in exact], rel=1e-12)
    flows = list(zip(rates, routes, strict=True))
    full: set[int] = set()
    highest: dict[int, float] = {}
    for link, limit in enumerate(bandwidth, 1):
        crossing = [rate for rate, own in flows if link in own]
        assert sum(crossing) <= limit * (1 + 1e-12)
        if sum(crossing) >= limit * (1 - 1e-12):
            full.add(link)
        highest[link] = max(crossing, default=0)
    for rate, own in flows:  # a full link on which nobody has more
        assert any(link in full and highest[link] <= rate * (1 + 1e-12) for link in own)
