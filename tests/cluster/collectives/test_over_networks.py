"""Collectives over every kind of network: by message and by the recurrence, inside and outside."""

from typing import Any

import pytest
from building import declared, example, job, play, run, slow
from network_cases import NEEDED
from walking import walked

from varsim.cluster.clock import Activity
from varsim.cluster.collective import Collective, own_links
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.plan import Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.job import Job

CHOICES = (
    Choice("ring"),
    Choice("halving_doubling"),
    Choice("recursive_doubling"),
    Choice("double_binary_tree", segment_size=200.0),
    Choice("hierarchical", 2),
    Choice("hierarchical_leader", 3),
)
MORE: dict[str, dict[str, Any]] = {
    "plain": {},
    "overhead": {"message_overhead": 3e-7, "efficiency": 0.5},
    "flows": {"flows": 2, "flow_bandwidth": 2e8},
    "stored": {"forwarding": "store_and_forward", "message_overhead": 3e-7},
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
    if (kind, more) == ("full_mesh", "stored"):
        return
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
