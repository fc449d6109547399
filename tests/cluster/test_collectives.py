"""All-reduces of a scenario: by hand, against a recurrence, message by message, and with deaths.

Points of closed forms, other collectives among them, are those of `validation`.
"""

import gc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building import MS, NEEDED, kill, life, losses, restart, run, slow
from tests.seams import Phase, Trace

Case = dict[str, Any]

US = 1000  # ns
CHOICES: dict[str, Case] = {
    "ring": {},
    "recursive_doubling": {},
    "halving_doubling": {},
    "binomial_tree": {},
    "double_binary_tree": {"segment_size": 200.0},
    "hierarchical": {"ranks_per_group": 3},
}
every_choice = pytest.mark.parametrize("name", CHOICES)
every_sharing = pytest.mark.parametrize("sharing", ["first_come", "fair"])
# A byte takes 1 ns on a link, and a message 500 ns.
WIRE: Case = {"bandwidth": 1e9, "latency": 5e-7, "sharing": "fair"}
NODES: Case = {**WIRE, "kind": "nodes", "workers_per_node": 2}
NODES["inside"] = {"bandwidth": 4e9, "latency": 1e-7}
FREE: Case = {"bandwidth": 1e15, "latency": 0.0}


def strategy(name: str, **more: Any) -> Case:
    return {"kind": "on_write", "collective": name, **CHOICES[name], **more}


def reduced(
    described: Case, size: float, entries: Sequence[int], network: Case, **cluster: Any
) -> Trace:
    """One all-reduce of so many bytes; the ranks come 1 us after these times (ns)."""
    seconds = tuple(((entry + US) / 1e9,) for entry in entries)
    return run(
        described,
        network=network,
        cluster={
            "workers": len(entries),
            "compute": {"kind": "trace", "seconds": seconds, "replay": "cycle"},
            **cluster,
        },
        problem={"kind": "timing", "size": size},
        workload={"optimizer": None},
        stop={"global_steps": 1},
    )


def ends(trace: Trace) -> list[int]:
    """When each rank is done, from that 1 us on."""
    rows = [row for row in trace.spans.tolist() if row[1] != Phase.COMPUTE and row[4] == 0]
    return [max(row[3] for row in rows if row[0] == rank) - US for rank in range(trace.workers)]


def carried(trace: Trace) -> dict[str, float]:
    """The bytes of each link."""
    return {link.name: link.moved for link in trace.links}


class TestByHand:
    """A byte takes 1 us, unless said."""

    SLOWLY: Case = {"bandwidth": 1e6, "latency": 0.0}

    def done(self, name: str, size: float, entries: list[int], **more: Any) -> list[float]:
        network = {**self.SLOWLY, **more.pop("network", {})}
        trace = reduced(strategy(name), size, [US * entry for entry in entries], network, **more)
        return [end / US for end in ends(trace)]

    @every_sharing
    def test_recursive_doubling_with_a_late_rank(self, sharing: str) -> None:
        # 10 bytes, latency 2; rank 3 comes at 100. 0 and 1 have each other's at 12, and 2 has 3's
        # at 112; 3, who has 2's already, has sent its own at 110.
        # Then 0 sends to 2 as 2 has received from 3, at 110: there at 122. 2 sends to 0 at 112:
        # there at 124. 1 sends to 3 from 12 to 22, 3 to 1 from 110 to 120: there at 122.
        late = {"network": {"latency": 2e-6, "sharing": sharing}}
        done = self.done("recursive_doubling", 10.0, [0, 0, 0, 100], **late)
        assert done == [124, 122, 122, 120]

    @every_sharing
    def test_a_tree_over_a_slow_link(self, sharing: str) -> None:
        # 10 bytes; 20 us from and to rank 2. Up: 1 to 0 until 10, 3 to 2 until 20, 2 to 0 from 20
        # to 40. Down: 0 to 2 until 60; 0 to 1 from 60 to 70, 2 to 3 from 60 to 80, when 2 is done.
        unequal = {"network": {"slow_links": (slow(2, 2.0),), "sharing": sharing}}
        assert self.done("binomial_tree", 10.0, [0] * 4, **unequal) == [70, 70, 80, 80]

    def test_what_is_added_is_sent_on_later(self) -> None:
        # 10 bytes up a tree of 4, 5 us to add them. At 15 ranks 0 and 2 have added; 2 sends until
        # 25, and 0 has added it at 30. Down: to 2 until 40, then to 1, and from 2 to 3, until 50.
        added = {"overheads": {"reduction": 2e6}}
        assert self.done("binomial_tree", 10.0, [0] * 4, **added) == [50, 50, 50, 50]

    def test_one_thing_is_added_after_the_other_and_not_before_one_has_come(self) -> None:
        # Rank 0 comes at 100 and takes 20 us to add: 1's is there at 10, 2's waits for 3's to be
        # added until 30 and is there at 40. It adds both by 140, and sends until 150 and 160.
        added = {"overheads": {"reduction": 5e5}}
        assert self.done("binomial_tree", 10.0, [100, 0, 0, 0], **added) == [160] * 4

    @every_sharing
    def test_a_ring_over_a_slow_link_goes_at_its_pace(self, sharing: str) -> None:
        # 3 ranks, chunks of 10, from rank 1 and to rank 1 20; all at 0; 4 rounds.
        # from->to   round 0   round 1   round 2   round 3
        # 0 -> 1     0 - 20    20 - 40   40 - 60   60 - 80    chunks come to 0 at 10, 30, 50, 70
        # 1 -> 2     0 - 20    20 - 40   40 - 60   60 - 80
        # 2 -> 0     0 - 10    20 - 30   40 - 50   60 - 70
        unequal = {"network": {"slow_links": (slow(1, 2.0),), "sharing": sharing}}
        assert self.done("ring", 30.0, [0] * 3, **unequal) == [80] * 3


# Of 6 ranks and 6,000 bytes: what, over which network, until when (ns), the bytes of some links.
GROUPS: Case = {"kind": "on_write", "collective": "hierarchical", "ranks_per_group": 2}
RING, TREE = strategy("ring"), strategy("binomial_tree")
PAIR: Case = {"kind": "on_write", "collective": "double_binary_tree"}
THREES: Case = {**NODES, "workers_per_node": 3}
SHORT: Case = {**NODES, "bandwidth": 1e15, "inside": {"bandwidth": 1e15, "latency": 1e-7}}
OVER_NODES: list[tuple[Case, Case, int, dict[str, float]]] = [
    # Nodes of 2, 2 cards. Inside: 3,000 bytes there and back. Between the 3 nodes: 4 rounds of
    # 1,000 bytes.
    (
        GROUPS,
        {**NODES, "nics": 2},
        2 * (750 + 100) + 4 * (1_000 + 500),
        {"inside worker 0 up": 6_000, "card 0 of node 0 up": 4_000},
    ),
    # But the two of a node send over one card.
    (GROUPS, NODES, 2 * (750 + 100) + 4 * (2_000 + 500), {"node 0 up": 8_000}),
    # In 3 segments of 2,000 bytes: 250 + 100 ns to scatter one, and to gather it, inside, 4 rounds
    # of 333 + 500 ns between. While one is between, others are inside, in 700 ns.
    (
        {**GROUPS, "segment_size": 2_000.0},
        {**NODES, "nics": 2},
        350 + 3 * 4 * (333 + 500) + 350,
        {"inside worker 0 up": 6_000, "card 0 of node 0 up": 4_000},
    ),
    # Between, 50 ns a round; inside, 25 us to scatter a segment, and to gather it.
    (
        {**GROUPS, "segment_size": 2_000.0},
        {**NODES, "nics": 2, "bandwidth": 1e13, "latency": 5e-8}
        | {"inside": {"bandwidth": 4e7, "latency": 0.0}},
        3 * 2 * 25_000,
        {},
    ),
    # A ring per card, in nodes of 3: of three cards, a block passes 10 hops, 4 of them outside. Of
    # one, its next block is not through the card when the last one is there: 10 rounds of that.
    (
        RING,
        {**THREES, "nics": 3},
        4 * (333 + 500) + 6 * (250 + 100),
        {"cards of node 0 up": 10_000},
    ),
    (RING, {**THREES, "nics": 1}, 10 * 1_000 + 500, {"node 0 up": 10_000}),
    # The slowest card of all rings decides.
    (
        RING,
        {**THREES, "nics": 3, "latency": 0.0, "inside": FREE, "slow_links": (slow(1, 4.0),)},
        10 * 1_333,
        {},
    ),
    # In nodes of 4: two in the last, so two rings, and its third card has nothing.
    (
        RING,
        {**NODES, "workers_per_node": 4, "nics": 3, "latency": 0.0, "inside": FREE},
        10 * 500,
        {"cards 0, 1 of node 0 up": 10_000, "cards 0, 1 of node 1 up": 10_000},
    ),
    # Two trees: the first rank of a node has half of the bytes from the second and gives it the
    # other half, both at once: 3,000 bytes. The nodes' trees go by a card each: node 0 gets 3,000
    # bytes from node 1, then from node 2. One tree has all of the bytes everywhere.
    (
        TREE,
        {**NODES, "nics": 2},
        2 * (750 + 100 + 2 * 3_000 + 500),
        {"card 0 of node 0 up": 6_000, "card 1 of node 0 up": 6_000, "inside worker 1 up": 6_000},
    ),
    (TREE, {**NODES, "nics": 1}, 2 * (1_500 + 100 + 2 * 6_000 + 500), {}),
    # NCCL's own latency of a tree: 2 ((g - 1) inside + its depth between), however many cards; with
    # one rank on each node, six in a tree, 3 deep.
    (PAIR, {**SHORT, "workers_per_node": 1}, 2 * 3 * 500, {}),
    (PAIR, {**SHORT, "workers_per_node": 2, "nics": 2}, 2 * (100 + 2 * 500), {}),
    (PAIR, {**SHORT, "workers_per_node": 3, "nics": 1}, 2 * (2 * 100 + 500), {}),
    (PAIR, {**SHORT, "workers_per_node": 3, "nics": 3}, 2 * (2 * 100 + 500), {}),
]


@pytest.mark.parametrize(("described", "network", "end", "bytes_"), OVER_NODES)
def test_over_nodes(described: Case, network: Case, end: int, bytes_: dict[str, float]) -> None:
    trace = reduced(described, 6_000.0, [0] * 6, network)
    assert max(ends(trace)) == pytest.approx(end, abs=12 if network["inside"] is FREE else 0)
    moved = carried(trace)
    assert {name: moved[name] for name in bytes_} == pytest.approx(bytes_)


@every_sharing
def test_segments_of_a_pair_of_trees_leave_by_all_cards_at_once(sharing: str) -> None:
    # Of two nodes either one is the root of one tree: half of the bytes there, half back, each way,
    # as fast as the cards are together; all but the first and the last segments at once.
    for cards in (1, 2, 3):
        network = {**THREES, "inside": FREE, "latency": 0.0, "nics": cards, "sharing": sharing}
        trace = reduced({**PAIR, "segment_size": 60.0 / cards}, 6_000.0, [0] * 6, network)
        assert max(ends(trace)) == pytest.approx(6_000 / cards, rel=0.03)


@pytest.mark.parametrize(
    ("name", "bytes_per_rank"),
    [
        # Of 8 ranks, 800 bytes: 2 (p - 1) / p n; log2 p n.
        ("ring", 1400),
        ("halving_doubling", 1400),
        ("recursive_doubling", 2400),
        ("hierarchical", 1400),
    ],
)
def test_traffic(name: str, bytes_per_rank: int) -> None:
    more = {"ranks_per_group": 4} if name == "hierarchical" else {}
    trace = reduced(strategy(name, **more), 800.0, [0] * 8, WIRE)
    assert [link.moved for link in trace.links] == pytest.approx([bytes_per_rank] * 16)


def recurrence(entries: list[int], holds: list[int], latency: int) -> list[int]:
    """When each rank of a ring is done; holds[r] is what a chunk takes from rank r to the next.

    Rank r sends in round s when it has entered, has sent in round s - 1 and has received in
    round s - 1; what it sends arrives when it is sent, plus the latency.
    """
    ranks = len(entries)
    sent, received = list(entries), list(entries)
    for _ in range(2 * (ranks - 1)):
        begun = [max(sent[rank], received[rank]) for rank in range(ranks)]
        sent = [begun[rank] + holds[rank] for rank in range(ranks)]
        received = [sent[rank - 1] + latency for rank in range(ranks)]
    return [max(pair) for pair in zip(sent, received, strict=True)]


@settings(max_examples=60, deadline=None)
@given(
    entries=st.lists(st.integers(0, 10**6), min_size=2, max_size=10),
    slowed=st.lists(st.tuples(st.integers(0, 9), st.integers(2, 4)), max_size=2),
    latency=st.sampled_from([0, 7, 20_000]),
    chunk=st.integers(1, 10_000),
    sharing=st.sampled_from(["fair", "first_come"]),
)
def test_a_ring_is_a_recurrence(
    entries: list[int], slowed: list[tuple[int, int]], latency: int, chunk: int, sharing: str
) -> None:
    ranks = len(entries)
    factors = {rank % ranks: factor for rank, factor in slowed}
    network = {"bandwidth": 1e9, "latency": latency / 1e9, "sharing": sharing}
    network["slow_links"] = tuple(slow(rank, float(factor)) for rank, factor in factors.items())
    holds = [
        chunk * max(factors.get(rank, 1), factors.get((rank + 1) % ranks, 1))
        for rank in range(ranks)
    ]
    trace = reduced(RING, float(chunk * ranks), entries, network)
    assert ends(trace) == recurrence(entries, holds, latency)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_message_by_message_as_by_rounds(data: st.DataObject) -> None:
    """A link that is slower by next to nothing makes an all-reduce a matter of messages."""
    name = data.draw(st.sampled_from(list(CHOICES)))
    kind = data.draw(st.sampled_from(list(NEEDED)))
    network = {"kind": kind, **NEEDED[kind], **WIRE}
    network["sharing"] = data.draw(st.sampled_from(["fair", "first_come"]))
    network |= data.draw(
        st.sampled_from(
            [{}, {"message_overhead": 3e-7}, {"flows": 2, "flow_bandwidth": 2.5e8}, {"latency": 0}]
        )
    )
    if kind == "nodes":
        cards = data.draw(st.integers(1, 3))
        network |= {"inside": NODES["inside"], "workers_per_node": 3, "nics": cards}
    cluster = data.draw(st.sampled_from([{}, {"overheads": {"reduction": 2.5e8}}]))
    spread = data.draw(st.sampled_from([1, 1000, 100_000]))
    entries = data.draw(st.lists(st.integers(0, spread), min_size=6, max_size=6))
    more = {"segment_size": 96_000.0} if name == "double_binary_tree" else {}
    almost = {**network, "slow_links": (slow(0, 1 + 1e-12),)}
    one, other = (
        reduced(strategy(name, **more), 1_152_000.0, entries, each, **cluster)
        for each in (network, almost)
    )
    assert ends(one) == ends(other)
    assert carried(one) == pytest.approx(carried(other))
    if name != "hierarchical":
        assert min(ends(one)) >= max(entries), "whoever comes last is waited for"


class TestDeaths:
    @pytest.mark.parametrize("slowed", [(), (slow(3, 2.0),)], ids=["equal", "unequal"])
    @every_choice
    def test_the_dead_are_waited_for_and_everything_is_sent_again(
        self, name: str, slowed: Any
    ) -> None:
        # Dead while it computes, while it waits and in the middle of an all-reduce.
        given: Case = {
            "strategy": strategy(name),
            "cluster": {"workers": 6, "slow_workers": (slow(5, 2.0),)},
            "network": {"bandwidth": 1e3, "latency": 1e-3, "slow_links": slowed},
            "problem": {"noise": 1.0},
        }
        whole = run(**given)
        start, end = 200 * MS, int(whole.steps[0])
        assert end > start + 10 * MS
        for at_ns in (50 * MS, 150 * MS, (start + end) // 2):
            at = at_ns / 1e9
            for victim in (0, 3):
                trace = run(**given, events=(kill(at, victim), restart(at + 1.0, victim)))
                assert trace.global_step == whole.global_step
                if at_ns > 100 * MS:  # else it has lost a gradient, and goes on with the next
                    assert losses(trace) == losses(whole)
                assert trace.steps[0] > at_ns + 1_000 * MS
                # A second, the model for who is back, and the all-reduce once more.
                assert (trace.steps - whole.steps < 1_100 * MS + end - start).all()
                stuck = run(**given, events=(kill(at, victim),))
                assert (stuck.global_step, stuck.stopped_by) == (0, "deadlock")

    @pytest.mark.parametrize("died", [0.15, 0.21], ids=["waiting", "in the all-reduce"])
    @every_choice
    def test_what_is_sent_again_takes_as_long_without_messages(
        self, name: str, died: float
    ) -> None:
        # Worker 3 is back before the all-reduce, from 200 on, would have ended; all enter the new
        # one at once.
        def durations(*slowed: Any) -> list[float]:
            trace = run(
                strategy(name),
                cluster={"workers": 6, "slow_workers": (slow(5, 2.0),)},
                problem={"dimension": 1_000},
                network={"bandwidth": 1e4, "latency": 1e-3, "slow_links": slowed},
                stop={"global_steps": 1},
                events=(kill(died, 3), restart(died + 0.01, 3)),
            )
            lives = (life(trace, rank) for rank in range(6))
            return [[end - at for what, at, end in one if what == "write"][-1] for one in lives]

        without = durations()
        assert min(without) > 100
        assert durations(slow(0, 1 + 1e-9)) == pytest.approx(without, rel=1e-6)

    def test_who_was_done_goes_on_when_the_all_reduce_before_is_repeated(self) -> None:
        # 40 ms for a copy, 200 ms to and from worker 3; 1 ms of compute. Workers 0 and 2 are done
        # at 241, 1 and 3 would be at 401. At 242 they begin anew, and wait for these to have
        # received; but worker 3 dies at 300. Back at 350, it gets the model, and all is sent again.
        given: Case = {
            "strategy": strategy("recursive_doubling"),
            "cluster": {"workers": 4, "compute": {"kind": "constant", "value": 1e-3}},
            "network": {"bandwidth": 1e3, "latency": 0.0, "slow_links": (slow(3, 5.0),)},
            "problem": {"noise": 1.0},
        }
        whole = run(**given)
        assert whole.steps[0] == 401 * MS
        trace = run(**given, events=(kill(0.3, 3), restart(0.35, 3)))
        assert losses(trace) == losses(whole)
        assert trace.steps[0] > 900 * MS

    @pytest.mark.parametrize("name", ["binomial_tree", "double_binary_tree"])
    @pytest.mark.parametrize("fewer", [False, True])
    def test_trees_of_nodes_are_of_those_who_are_there(self, fewer: bool, name: str) -> None:
        described = {"kind": "on_write", "collective": name}
        back = (kill(0.15, 1), restart(0.35, 1))
        for events in (back, (kill(0.25, 2),)) if fewer else (back,):
            trace = run(
                {**described, **({"on_death": "continue_with_fewer"} if fewer else {})},
                network={**NODES, "nics": 2, "bandwidth": 1e4, "latency": 1e-3},
                cluster={"workers": 6},
                events=events,
                stop={"global_steps": 6},
            )
            assert trace.stopped_by == "global_steps"


def test_segments_are_of_half_a_mebibyte_unless_said() -> None:
    default, ten, five = (
        max(ends(reduced({**PAIR, **segments}, 1e7, [0] * 4, WIRE)))
        for segments in ({}, {"segment_size": 5e5}, {"segment_size": 1e6})
    )
    assert default == ten != five


@every_choice
def test_times_differ_and_values_do_not(name: str) -> None:
    ring, other = (
        run(
            strategy(of),
            cluster={"workers": 6},
            network={"bandwidth": 1e5, "latency": 1e-3},
            problem={"noise": 1.0},
        )
        for of in ("ring", name)
    )
    assert losses(other) == losses(ring)
    assert (other.end == ring.end) == (name == "ring")


@every_choice
def test_additions_take_their_time(name: str) -> None:
    # Where messages follow each other, short additions may not count at all.
    without, quick, slower = (
        max(ends(reduced(strategy(name), 6_000.0, [0] * 6, {**WIRE, "bandwidth": 1e6}, **more)))
        for more in ({}, *({"overheads": {"reduction": rate}} for rate in (1e9, 1e5)))
    )
    assert without <= quick < slower
    assert quick - without < (slower - without) / 100


@every_choice
def test_no_garbage_is_left_behind(name: str) -> None:
    # While a run lasts, nobody looks for cycles.
    def left(steps: int) -> int:
        gc.collect()
        gc.disable()
        run(
            strategy(name),
            cluster={"workers": 6},
            network={**WIRE, "slow_links": (slow(1, 2.0),)},
            stop={"global_steps": steps},
        )
        return gc.collect()

    try:
        assert left(60) - left(10) < 50
    finally:
        gc.enable()
