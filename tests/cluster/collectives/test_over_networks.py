"""Collectives over every kind of network: by message and by the recurrence, inside and outside."""

from typing import Any

import pytest

from tests.building import NEEDED, declared, example, kill, restart, run, slow
from tests.cluster.collectives.walking import walked
from tests.living import job, play
from varsim.cluster.clock import Activity
from varsim.cluster.collective import Collective, own_links
from varsim.cluster.collectives import hierarchy, ring
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.plan import Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.job import Job
from varsim.cluster.topology.base import ByNode

CHOICES = (
    Choice("ring"),
    Choice("halving_doubling"),
    Choice("recursive_doubling"),
    Choice("double_binary_tree", segment_size=200.0),
    Choice("hierarchical", 2),
)
# Of nodes of so many: agents for inside and for between.
PIPELINES = (Choice("hierarchical", 2, 2_000.0), Choice("hierarchical", 3, 700.0))
MORE: dict[str, dict[str, Any]] = {
    "plain": {},
    "overhead": {"message_overhead": 3e-7, "efficiency": 0.5},
    "flows": {"flows": 2, "flow_bandwidth": 2e8},
}
INSIDE = {"bandwidth": 4e9, "latency": 1e-7}
RANKS, SIZE = 6, 6_000.0
WAITS = [[0, 10, 500, 3, 0, 77], [5, 0, 900, 0, 1, 100], [0] * RANKS]


def a_job(kind: str, sharing: str, **more: Any) -> Job:
    """6 workers; 1 ns per byte, 500 ns."""
    described = {"kind": kind, **NEEDED[kind], "sharing": sharing, "bandwidth": 1e9}
    if kind == "nodes":
        described["inside"] = INSIDE
    return job(network={**described, "latency": 5e-7, **more}, cluster={"workers": RANKS})


def a_plan(made: Job, choice: Choice) -> Plan:
    return Plan(choice.schedule(RANKS, SIZE), SIZE, own_links(made))


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("kind", NEEDED)
def test_where_no_link_is_shared_the_recurrence_gives_the_same_times(
    kind: str, more: str, sharing: str
) -> None:
    compared = 0
    for choice in CHOICES:
        made = a_job(kind, sharing, **MORE[more])
        plan = a_plan(made, choice)
        if not plan.exclusive:
            continue
        entered, done = walked(made, plan, WAITS)
        recurrence = Recurrence(plan)
        assert [recurrence.ends(entries) for entries in entered] == done
        compared += 1
    # Of one card per node, and of neighbours in a ring, only some have a link to themselves.
    assert compared >= (len(CHOICES) if kind in ("star", "full_mesh") else 1)


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("choice", PIPELINES, ids=str)
def test_agents_of_a_rank_send_side_by_side(choice: Choice, more: str, sharing: str) -> None:
    cards = {"workers_per_node": choice.ranks_per_group, "nics": choice.ranks_per_group}
    made = a_job("nodes", sharing, **cards, **MORE[more])
    plan = a_plan(made, choice)
    assert plan.exclusive
    entered, done = walked(made, plan, WAITS)
    recurrence = Recurrence(plan)
    assert [recurrence.ends(entries) for entries in entered] == done


def ends(made: Job, collective: Collective) -> list[int]:
    """When each rank is done with one all-reduce that all enter at 0."""
    done = [0] * RANKS

    def take_part(rank: int) -> Activity[None]:
        yield from collective.take_part(made.workers[rank])
        done[rank] = made.clock.time

    play(made, *map(take_part, range(RANKS)))
    return done


def test_a_group_goes_over_the_links_inside_its_node() -> None:
    # 6,000 bytes, nodes of 2, 2 cards. Inside: 3,000 bytes at 4 GB/s and 100 ns, there and back.
    # Between the 3 nodes: 4 rounds of 1,000 bytes at 1 GB/s and 500 ns.
    made = a_job("nodes", "fair", nics=2)
    collective = Collective(made, Choice("hierarchical", 2).schedule(RANKS, SIZE), SIZE)
    assert ends(made, collective) == [2 * (750 + 100) + 4 * (1_000 + 500)] * RANKS
    moved = {link.name: link.moved for link in made.network.carried(made.clock.time)}
    assert moved["inside worker 0 up"] == 2 * 3_000
    assert moved["card 0 of node 0 up"] == 4 * 1_000


class TestRingsPerCard:
    """2 nodes of 3: rounds of 1,000 bytes, 250 + 100 ns inside, 500 ns and so many cards outside.

    A ring per card sends its share of the 1,000 bytes by a card of its own, all at the same time.
    """

    def ends(self, kind: str, sharing: str = "fair", **more: Any) -> tuple[list[int], Job]:
        made = a_job("nodes", sharing, **{"workers_per_node": 3, **more})
        collective = Collective(made, getattr(ring, kind)(RANKS), SIZE)
        return ends(made, collective), made

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize(
        ("kind", "rounds"), [("all_reduce", 10), ("reduce_scatter", 5), ("all_gather", 5)]
    )
    def test_each_carries_its_share(
        self, kind: str, rounds: int, shared: bool, sharing: str
    ) -> None:
        inside = {"bandwidth": 1e13, "latency": 0.0, "shared": shared}
        for cards in (1, 2, 3):
            done, made = self.ends(kind, sharing, nics=cards, inside=inside, latency=0.0)
            assert max(done) == rounds * round(1_000 / cards)
            moved = {link.name: link.moved for link in made.network.carried(made.clock.time)}
            name = {1: "node 0 up", 2: "cards of node 0 up", 3: "cards of node 0 up"}[cards]
            assert moved[name] == pytest.approx(rounds * 1_000, rel=1e-3)
            assert made.network.sent() == pytest.approx(2 * rounds * 1_000, rel=1e-3)

    def test_links_inside_bound_what_more_cards_gain(self) -> None:
        # Of three cards, a block passes 10 hops, 4 of them outside. Of one, its next block is not
        # through the card when the last one is there: 10 rounds of that.
        assert max(self.ends("all_reduce", nics=3)[0]) == 4 * (333 + 500) + 6 * (250 + 100)
        assert max(self.ends("all_reduce", nics=1)[0]) == 10 * 1_000 + 500

    def test_the_slowest_card_of_all_rings_decides(self) -> None:
        fast = {"inside": {"bandwidth": 1e13, "latency": 0.0}, "latency": 0.0, "nics": 3}
        done, _ = self.ends("all_reduce", **fast, slow_links=(slow(1, 4.0),))
        assert max(done) == pytest.approx(10 * 1_333, abs=12)

    def test_a_card_more_than_another_node_has_ranks_takes_no_part(self) -> None:
        # 6 workers in nodes of 4: two in the last, so two rings, and its third card has nothing.
        fast = {"inside": {"bandwidth": 1e13, "latency": 0.0}, "latency": 0.0}
        done, made = self.ends("all_reduce", **fast, workers_per_node=4, nics=3)
        assert max(done) == pytest.approx(10 * 500, abs=12)
        names = {link.name for link in made.network.routing.links}
        assert {"cards 0, 1 of node 0 up", "cards 0, 1 of node 1 up"} <= names

    def test_a_ring_of_the_workers_that_are_left_uses_their_cards(self) -> None:
        made = a_job("nodes", "fair", workers_per_node=3, nics=3)
        paths = own_links(made, [0, 1, 4, 5], side_by_side=True)
        assert [link.name for link in paths(1, 2).route] == [
            "cards 0, 1 of node 0 up",
            "cards 1, 2 of node 1 down",
        ]
        assert paths(1, 2).route[0].bandwidth == 2e9
        alone = own_links(made, [0, 4], side_by_side=True)(0, 1).route
        assert [link.name for link in alone] == ["card 0 of node 0 up", "card 1 of node 1 down"]

    def test_each_ring_has_flows_of_its_own(self) -> None:
        made = a_job("nodes", "fair", workers_per_node=3, nics=2, flows=2, flow_bandwidth=2e8)
        paths = own_links(made, list(range(RANKS)), side_by_side=True)
        assert [link.bandwidth for link in paths(2, 3).route] == [2e9, 2e9, 8e8]


def test_segments_overlap_what_is_inside_and_what_is_between() -> None:
    # As before in 3 segments of 2,000 bytes: 250 + 100 ns to scatter one, and to gather it, inside,
    # 4 rounds of 333 + 500 ns between. While one is between, others are inside, in 700 ns.
    made = a_job("nodes", "fair", nics=2)
    schedule = Choice("hierarchical", 2, 2_000.0).schedule(RANKS, SIZE)
    collective = Collective(made, schedule, SIZE)
    assert ends(made, collective) == [350 + 3 * 4 * (333 + 500) + 350] * RANKS
    moved = {link.name: link.moved for link in made.network.carried(made.clock.time)}
    assert moved["inside worker 0 up"] == pytest.approx(2 * 3_000)
    assert moved["card 0 of node 0 up"] == pytest.approx(4 * 1_000)
    messages, sent = hierarchy.all_reduce(RANKS, 2).traffic(SIZE, 1_000)
    assert schedule.traffic(SIZE, 1_000) == (3 * messages, sent)


def test_segments_that_are_shorter_between_wait_for_what_is_inside() -> None:
    # Between, 50 ns a round; inside, 25 us to scatter a segment, and to gather it.
    slow_inside = {"bandwidth": 4e7, "latency": 0.0}
    fast = {"bandwidth": 1e13, "latency": 5e-8}
    made = a_job("nodes", "fair", nics=2, inside=slow_inside, **fast)
    collective = Collective(made, Choice("hierarchical", 2, 2_000.0).schedule(RANKS, SIZE), SIZE)
    assert ends(made, collective) == [3 * 2 * 25_000] * RANKS


class TestTreesPerCard:
    """A tree, or a pair of them, per card; of nodes, with a tree or a chain inside each."""

    def all_reduced(self, choice: Choice, sharing: str = "fair", **more: Any) -> tuple[int, Job]:
        made = a_job("nodes", sharing, **more)
        schedule = choice.schedule_on(made.cluster.network, range(RANKS), SIZE)
        return max(ends(made, Collective(made, schedule, SIZE))), made

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_binomial_trees_counted_by_hand(self, sharing: str) -> None:
        # 3 nodes of 2. Two trees: the first rank of a node has half of the bytes from the second
        # and gives it the other half, both at once: 3,000 bytes, 750 + 100 ns. The nodes' trees go
        # by a card each: node 0 gets 3,000 bytes from node 1, then from node 2: 6,000 + 500 ns.
        two, made = self.all_reduced(Choice("binomial_tree"), sharing, nics=2)
        assert two == 2 * (750 + 100 + 2 * 3_000 + 500)
        moved = {link.name: link.moved for link in made.network.carried(made.clock.time)}
        assert {moved[f"card {card} of node 0 up"] for card in (0, 1)} == {2 * 3_000}
        assert {moved[f"inside worker {rank} up"] for rank in range(RANKS)} == {2 * 3_000}
        # One tree, as of ranks in their order: all of the bytes everywhere.
        one, _ = self.all_reduced(Choice("binomial_tree"), sharing, nics=1)
        assert one == 2 * (1_500 + 100 + 2 * 6_000 + 500)

    @pytest.mark.parametrize(("size", "depth"), [(1, 3), (2, 2), (3, 1)])
    def test_a_short_vector_goes_down_a_chain_and_up_a_tree_of_nodes(
        self, size: int, depth: int
    ) -> None:
        # NCCL's own latency of a tree: 2 ((g - 1) inside + its depth between).
        # With one rank on each node, no agent hands anything over: six in a tree, 3 deep.
        inside = {"bandwidth": 1e15, "latency": 1e-7}
        more = {"workers_per_node": size, "bandwidth": 1e15, "inside": inside}
        for cards in range(1, size + 1):
            done, _ = self.all_reduced(Choice("double_binary_tree"), nics=cards, **more)
            assert done == 2 * ((size - 1) * 100 + depth * 500)

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    def test_many_segments_leave_by_all_cards_at_once(self, sharing: str) -> None:
        # Of two nodes either one is the root of one tree: half of the bytes there, half back, each
        # way, as fast as the cards are together; all but the first and the last segments at once.
        inside = {"bandwidth": 1e13, "latency": 0.0}
        more = {"workers_per_node": 3, "inside": inside, "latency": 0.0}
        for cards in (1, 2, 3):
            choice = Choice("double_binary_tree", segment_size=60.0 / cards)
            done, made = self.all_reduced(choice, sharing, nics=cards, **more)
            assert done == pytest.approx(SIZE / cards, rel=0.03)
            moved = {link.name: link.moved for link in made.network.carried(made.clock.time)}
            name = "node 0 up" if cards == 1 else "cards of node 0 up"
            assert moved[name] == pytest.approx(SIZE)

    @pytest.mark.parametrize("sharing", ["first_come", "fair"])
    @pytest.mark.parametrize("more", MORE)
    @pytest.mark.parametrize("choice", [Choice("binomial_tree"), CHOICES[3]], ids=str)
    def test_by_message_and_by_recurrence(self, choice: Choice, more: str, sharing: str) -> None:
        for size in (2, 3, 4):
            made = a_job("nodes", sharing, workers_per_node=size, nics=2, **MORE[more])
            schedule = choice.schedule_on(made.cluster.network, range(RANKS), SIZE)
            plan = Plan(schedule, SIZE, own_links(made, side_by_side=schedule.side_by_side))
            assert plan.exclusive
            entered, done = walked(made, plan, WAITS)
            recurrence = Recurrence(plan)
            assert [recurrence.ends(entries) for entries in entered] == done

    def test_of_those_who_are_left_the_first_of_each_node_have_cards_of_their_own(self) -> None:
        # Workers 0 and 2 of a node of 4 have the same one of its two cards, 1 and 3 the other.
        network = a_job("nodes", "fair", workers_per_node=4, nics=2).cluster.network
        assert network.by_node([0, 2, 3, 4, 5]) == ByNode(((0, 2, 1), (3, 4)), 2)
        assert network.by_node([0, 2, 4, 5]) == ByNode(((0, 1), (2, 3)), 1)
        assert network.by_node([0, 1, 2, 3]) is None
        assert network.by_node([0, 4]) is None

    @pytest.mark.parametrize("collective", ["binomial_tree", "double_binary_tree"])
    @pytest.mark.parametrize("fewer", [False, True])
    def test_after_a_death_they_are_of_those_who_are_there(
        self, fewer: bool, collective: str
    ) -> None:
        # Message by message, as somebody may come back; most ranks have no agent for between.
        strategy: dict[str, Any] = {"kind": "on_write", "collective": collective}
        if fewer:
            strategy["on_death"] = "continue_with_fewer"
        nodes = {"kind": "nodes", "workers_per_node": 2, "nics": 2, "inside": INSIDE}
        back = (kill(0.15, 1), restart(0.35, 1))
        for events in (back, (kill(0.25, 2),)) if fewer else (back,):
            trace = run(
                strategy,
                network={**nodes, "bandwidth": 1e4, "latency": 1e-3},
                cluster={"workers": RANKS},
                events=events,
                stop={"global_steps": 6},
            )
            assert trace.stopped_by == "global_steps"
            assert len(trace.steps) == 6

    @pytest.mark.parametrize("collective", ["binomial_tree", "double_binary_tree"])
    def test_a_run_has_them(self, collective: str) -> None:
        # Inside costs nothing: with two cards a step's all-reduce takes half as long.
        took = {}
        for cards in (1, 2):
            inside = {"bandwidth": 1e15, "latency": 0.0}
            network = {"kind": "nodes", "workers_per_node": 2, "nics": cards, "inside": inside}
            trace = run(
                {"kind": "on_write", "collective": collective},
                network={**network, "bandwidth": 10.0, "latency": 0.0},
                cluster={"workers": 4},
                stop={"global_steps": 1},
            )
            took[cards] = int(trace.steps[0]) - 100_000_000
        assert took[2] == pytest.approx(took[1] / 2, rel=1e-6)


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_one_card_for_two_takes_twice_as_long(sharing: str) -> None:
    # As before, but the two of a node send over one card: 2,000 ns a round. First come, one of them
    # is done 1,000 ns sooner in the last round, and inside with what it has.
    made = a_job("nodes", sharing)
    collective = Collective(made, Choice("hierarchical", 2).schedule(RANKS, SIZE), SIZE)
    last = max(ends(made, collective))
    fair = 2 * (750 + 100) + 4 * (2_000 + 500)
    assert last == fair if sharing == "fair" else 2 * 850 + 4 * 2_000 <= last <= fair


def heap_events(kind: str, choice: Choice, **more: Any) -> int:
    made = a_job(kind, "fair", **more)
    ends(made, Collective(made, choice.schedule(RANKS, SIZE), SIZE))
    return made.clock.heap_events


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: str(choice.collective))
def test_links_of_their_own_need_no_messages_and_shared_ones_do(choice: Choice) -> None:
    messages = sum(len(transfers) for transfers in choice.schedule(RANKS, SIZE).rounds)
    nodes = {"workers_per_node": 3, "nics": 3}
    assert heap_events("nodes", choice, **nodes) < 6 * RANKS
    assert heap_events("nodes", choice, **nodes, slow_links=(slow(1, 2.0),)) > messages
    bus = {"workers_per_node": 6, "inside": {**INSIDE, "shared": True}}
    assert heap_events("nodes", choice, **bus) > messages


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
    if declared(strategy).uses_servers:
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
