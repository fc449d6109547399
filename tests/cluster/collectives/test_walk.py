"""Schedules over links: by hand, and by message as by the recurrence, whatever happens."""

import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.building import MS, slow
from tests.cluster.collectives.algorithms import broadcasts, schedules
from tests.cluster.collectives.walking import a_job, both_ways, walked
from tests.living import ports
from validation.points.schedules import pairwise
from varsim.cluster.collective import own_links
from varsim.cluster.collectives import doubling, ring, tree
from varsim.cluster.collectives.plan import Path, Plan
from varsim.cluster.collectives.recurrence import Recurrence
from varsim.cluster.collectives.schedule import Schedule, Stage, Transfer, once
from varsim.cluster.network import network
from varsim.cluster.topology import Star

SHARING = pytest.mark.parametrize("sharing", ["first_come", "fair"])


def meets(name: str) -> bool:
    """Whether no rank is done before all have entered."""
    return not name.startswith(("binomial broadcast", "chain"))


def in_ms(made: Any, schedule: Schedule, size: float, entries: list[int], **more: Any) -> list[int]:
    """When each rank is done; everything in ms."""
    done = both_ways(made, schedule, size, [entry * MS for entry in entries], **more)
    assert all(time % MS == 0 for time in done)
    return [time // MS for time in done]


@SHARING
class TestByHand:
    """A byte takes 1 ms on a link; latency in ms."""

    def job(self, sharing: str, ranks: int = 4, latency: int = 0, **more: Any) -> Any:
        return a_job(ranks, 1e3, latency * MS, sharing, **more)

    def test_recursive_doubling_with_a_late_rank(self, sharing: str) -> None:
        # 10 bytes, latency 2; rank 3 comes at 100. 0 and 1 have each other's at 12, and 2 has 3's
        # at 112; 3, who has 2's already, has sent its own at 110.
        # Then 0 sends to 2 as 2 has received from 3, at 110: there at 122. 2 sends to 0 at 112:
        # there at 124. 1 sends to 3 from 12 to 22, 3 to 1 from 110 to 120: there at 122.
        done = in_ms(
            self.job(sharing, latency=2), doubling.recursive_doubling(4), 10.0, [0, 0, 0, 100]
        )

        assert done == [124, 122, 122, 120]

    def test_a_tree_over_a_slow_link(self, sharing: str) -> None:
        # 10 bytes; 20 ms from and to rank 2. Up: 1 to 0 until 10, 3 to 2 until 20, 2 to 0 from 20
        # to 40. Down: 0 to 2 until 60; 0 to 1 from 60 to 70, 2 to 3 from 60 to 80, when 2 is done.
        made = self.job(sharing, slow_links=(slow(2, 2.0),))

        assert in_ms(made, tree.all_reduce(4), 10.0, [0] * 4) == [70, 70, 80, 80]

    def test_a_rank_receives_in_the_order_of_the_rounds(self, sharing: str) -> None:
        # 10 bytes up a tree of 4: rank 0 receives from 1, then from 2. Rank 1 comes at 100, so 2
        # sends from 110 to 120 only, though it has what 3 sent since 10.
        up = Schedule("a reduce", 4, 1, tree.reduce_stages([range(4)], range(1)))

        assert in_ms(self.job(sharing), up, 10.0, [0, 100, 0, 0]) == [120, 110, 120, 10]

    def test_what_is_added_is_sent_on_later(self, sharing: str) -> None:
        # 10 bytes up a tree of 4, 5 ms to add them. At 15 ranks 0 and 2 have added; 2 sends until
        # 25, and 0 has added it at 30.
        up = Schedule("a reduce", 4, 1, tree.reduce_stages([range(4)], range(1)))

        assert in_ms(self.job(sharing), up, 10.0, [0] * 4, rate=2e3) == [30, 10, 25, 10]

    def test_one_thing_is_added_after_the_other_and_not_before_one_has_come(
        self, sharing: str
    ) -> None:
        # As above, but rank 0 comes at 100 and takes 20 ms to add: 1's is there at 10, 2's waits
        # for 3's to be added until 30 and is there at 40. It adds both by 140.
        up = Schedule("a reduce", 4, 1, tree.reduce_stages([range(4)], range(1)))

        assert in_ms(self.job(sharing), up, 10.0, [100, 0, 0, 0], rate=500.0) == [140, 10, 40, 10]

    def test_a_chain_over_a_slow_link(self, sharing: str) -> None:
        # 30 bytes in 3 segments over 4 ranks, latency 1; the links of rank 2 take 20 ms a segment.
        # 0 -> 1: 0 to 10, 20, 30. 1 -> 2: 11 to 31, 51, 71. 2 -> 3: 32 to 52, 72, 92; there at 93.
        made = self.job(sharing, latency=1, slow_links=(slow(2, 2.0),))

        assert in_ms(made, broadcasts(4)["chain, 3"], 30.0, [0] * 4) == [30, 71, 92, 93]

    def test_an_all_to_all_with_a_late_rank(self, sharing: str) -> None:
        # 30 bytes over 3 ranks, 10 for each; rank 1 comes at 50. Round 1: 0 -> 1 until 10, 2 -> 0
        # until 10, 1 -> 2 from 50 to 60. Round 2: 0 -> 2, who then is free to receive, and 2 -> 1,
        # who then has what it needs, from 60 to 70; 1 -> 0 from 60 to 70.
        done = in_ms(self.job(sharing, 3), pairwise(3), 30.0, [0, 50, 0])

        assert done == [70, 70, 70]

    def test_links_that_two_ranks_share(self, sharing: str) -> None:
        # Ranks 0, 1 and 2, 3 behind one network card each way; 10 bytes, round 1 inside the nodes
        # over links of their own, 10 ms. Round 2: 0 <-> 2 and 1 <-> 3 share both cards.
        # Fair: both take 20 ms. First come: 1 and 3, who had theirs first, until 20, then 0 and 2.
        made = self.job(sharing)
        cards = [made.network.host(f"card {node}", 1e3) for node in range(2)]

        def path(source: int, target: int) -> Path:
            up, down = ports(made, source)[0], ports(made, target)[1]
            if source // 2 == target // 2:
                return Path(made.network, (up, down))
            return Path(made.network, (cards[source // 2][0], cards[target // 2][1]))

        plan = Plan(doubling.recursive_doubling(4), 10.0, path)
        _, (done,) = walked(made, plan, [[0] * 4])

        assert not plan.uniform
        second = [30, 20] * 2 if sharing == "first_come" else [30, 30] * 2
        assert [time // MS for time in done] == second

    def test_of_two_networks_the_slower_may_be_overtaken(self, sharing: str) -> None:
        # Rank 0 is sent 10 bytes by 1, 50 ms on their way, then 10 by 2, 0 ms. It has the first at
        # 60; what came at 20 is added after it, 5 ms each.
        made = self.job(sharing, 3)
        far = network(made.clock, Star(bandwidth=1e3, latency=0.05, sharing=sharing))
        wire = far.host("far", 1e3)
        up = Schedule(
            "a reduce",
            3,
            1,
            tuple(once([Transfer(source, 0, range(1), adds=True)]) for source in (1, 2)),
        )

        def path(source: int, target: int) -> Path:
            if source == 1:
                return Path(far, wire)
            return Path(made.network, (ports(made, source)[0], ports(made, target)[1]))

        assert in_ms(made, up, 10.0, [0] * 3, rate=2e3, paths=path) == [70, 10, 20]

    def test_a_message_may_need_less_than_all_before_it(self, sharing: str) -> None:
        # Rank 1 is sent 10 bytes by 0, who comes at 100, then sends its own 10 to 2, whether it
        # needs what comes from 0 or not.
        for slack, expected in ((0, [110, 120, 120]), (1, [110, 110, 10])):
            stages = tuple(
                once([transfer])
                for transfer in (Transfer(0, 1, range(1)), Transfer(1, 2, range(1), slack=slack))
            )
            schedule = Schedule("two messages", 3, 1, stages)
            assert in_ms(self.job(sharing, 3), schedule, 10.0, [100, 0, 0]) == expected

    def test_bytes_of_the_header_keep_both_ports_busy(self, sharing: str) -> None:
        # 3 ranks in a chain, 2 segments of 5 bytes and 7 more each: (p - 2 + m) (7 + 5).
        made = self.job(sharing, 3)

        def path(source: int, target: int) -> Path:
            return Path(made.network, (ports(made, source)[0], ports(made, target)[1]), 7.0)

        done = in_ms(made, broadcasts(3)["chain, 3"], 15.0, [0] * 3, paths=path)
        assert done[-1] == (3 - 2 + 3) * (7 + 5)


# A byte takes 1 ns, and links are slower by whole factors, so that nothing has to be rounded: a
# half may go one way on a first-come link and the other way where the rate is shared.
@pytest.mark.slow
@pytest.mark.product
@settings(max_examples=400, deadline=None)
@given(st.data())
def test_by_message_as_by_the_recurrence(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, 17), "ranks")
    name = data.draw(st.sampled_from(list(schedules(ranks))), "schedule")
    schedule = schedules(ranks)[name]
    latency = data.draw(st.sampled_from([0, 700, 20_000]), "latency")
    sharing = data.draw(st.sampled_from(["first_come", "fair"]), "sharing")
    slowed = data.draw(st.lists(st.integers(0, ranks - 1), max_size=3, unique=True), "slow")
    slow_links = tuple(slow(rank, 2.0 + index) for index, rank in enumerate(slowed))
    block = data.draw(st.sampled_from([1, 1000, 33_333]), "block")
    rate = data.draw(st.sampled_from([None, 0.25e9, 1e9]), "rate of adding")
    spread = data.draw(st.sampled_from([1, 1000, 100_000, 3_000_000]), "spread")
    rounds = data.draw(st.integers(1, 3), "rounds") if meets(name) else 1
    source = random.Random(data.draw(st.integers(0, 10**6), "waits"))
    waits = [[source.randrange(spread) for _ in range(ranks)] for _ in range(rounds)]

    made = a_job(ranks, 1e9, latency, sharing, slow_links=slow_links)
    plan = Plan(schedule, float(block * schedule.cut), own_links(made), rate)
    # Two trees of nodes may meet on a link: then collectives go message by message.
    assume(plan.uniform or plan.exclusive or "of nodes" not in name)
    entered, done = walked(made, plan, waits)

    recurrence = Recurrence(plan)
    assert [recurrence.ends(entries) for entries in entered] == done


@pytest.mark.parametrize("ranks", range(2, 18))
def test_whoever_comes_last_is_waited_for_by_all_that_meet(ranks: int) -> None:
    made = a_job(ranks, 1e9, 1000, "first_come")
    for name, schedule in schedules(ranks).items():
        for late in range(ranks):
            entries = [10**9 if rank == late else 0 for rank in range(ranks)]
            ends = Recurrence(Plan(schedule, 1e3, own_links(made))).ends(entries)
            assert (min(ends) >= 10**9) == (meets(name) or late == 0), name


@pytest.mark.parametrize("ranks", range(2, 14))
def test_a_ring_has_a_formula_for_its_recurrence(ranks: int) -> None:
    source = random.Random(ranks)
    made = a_job(ranks, 1e9, 700, "first_come")
    plan = Plan(ring.all_reduce(ranks), ranks * 1000.0, own_links(made))
    without = Schedule("an all-reduce", ranks, ranks, plan.schedule.stages)
    for spread in (1, 1000, 10_000, 10**6):
        entries = [source.randrange(spread) for _ in range(ranks)]
        by_rounds = Recurrence(Plan(without, ranks * 1000.0, own_links(made))).ends(entries)
        assert Recurrence(plan).ends(entries) == by_rounds


@SHARING
def test_what_was_sent_before_is_received_first(sharing: str) -> None:
    # 10 bytes, 1 ms each: rank 1 is sent them by 0, then by 2, who comes at 100; twice. Rank 0 is
    # done at 10 and begins anew, but sends from 110 to 120 only, and rank 2 from 120 to 130.
    stages = tuple(once([Transfer(source, 1, range(1))]) for source in (0, 2))
    made = a_job(3, 1e3, 0, sharing)
    plan = Plan(Schedule("two sends", 3, 1, stages), 10.0, own_links(made))
    entered, done = walked(made, plan, [[0, 0, 100 * MS], [0, 0, 0]])

    assert done == [[10 * MS, 110 * MS, 110 * MS], [120 * MS, 130 * MS, 130 * MS]]
    recurrence = Recurrence(plan)
    assert [recurrence.ends(entries) for entries in entered] == done


def test_several_rounds_of_a_stage_are_as_many_stages_of_one() -> None:
    made = a_job(6, 1e9, 500, "fair")
    schedule = ring.all_reduce(6)
    apart = tuple(Stage(1, lambda _, one=one: one) for one in schedule.rounds)
    entries = [0, 4_000, 100, 0, 9_000, 77]
    for rate in (None, 1e8):
        together = both_ways(made, schedule, 6e3, entries, rate)
        made = a_job(6, 1e9, 500, "fair")
        assert both_ways(made, Schedule("", 6, 6, apart), 6e3, entries, rate) == together
        made = a_job(6, 1e9, 500, "fair")
