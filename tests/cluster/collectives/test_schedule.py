"""Schedules move the right data to the right place, each contribution once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cluster.collectives.algorithms import all_reduces, broadcasts, schedules
from validation.points.schedules import chain, leader_all_reduce, pairwise
from varsim.cluster.collectives import double_tree, doubling, hierarchy, ring
from varsim.cluster.collectives.schedule import Schedule

RANKS = pytest.mark.parametrize("ranks", range(1, 18))

# What a rank has: for each block how often the contribution of every rank is in it.
Blocks = dict[int, NDArray[np.int64]]


def own(schedule: Schedule, rank: int) -> NDArray[np.int64]:
    return np.eye(schedule.ranks, dtype=np.int64)[rank]


def moved(schedule: Schedule, start: Callable[[int], Blocks]) -> list[Blocks]:
    """What every rank has at the end; what is sent is what the source surely has by then.

    Other agents of a rank have nothing of their own.
    """
    ranks = range(schedule.ranks)
    nothing = dict.fromkeys(range(schedule.cut), np.zeros(schedule.ranks, dtype=np.int64))
    past = [[*map(start, ranks), *(nothing for _ in range(schedule.ranks, schedule.everybody))]]
    for number, transfers in enumerate(schedule.rounds):
        now = [dict(blocks) for blocks in past[-1]]
        for one in transfers:
            assert len(one.blocks) > 0
            source = past[max(0, number - one.slack)][one.source]
            for block in one.blocks:
                before = now[one.target][block] if one.adds else 0
                now[one.target][block] = source[block] + before
        past.append(now)
    return past[-1][: schedule.ranks]


def same(one: Blocks, other: Blocks) -> bool:
    return one.keys() == other.keys() and all((one[key] == other[key]).all() for key in one)


@RANKS
class TestData:
    def test_after_an_all_reduce_all_have_everything_once(self, ranks: int) -> None:
        for name, schedule in all_reduces(ranks).items():
            blocks = range(schedule.cut)
            ends = moved(schedule, lambda rank: dict.fromkeys(blocks, own(schedule, rank)))  # noqa: B023
            whole = dict.fromkeys(blocks, np.ones(ranks, dtype=np.int64))
            assert all(same(end, whole) for end in ends), name

    def test_after_a_broadcast_all_have_what_rank_0_had(self, ranks: int) -> None:
        for name, schedule in broadcasts(ranks).items():
            whole = {block: np.array([block]) for block in range(schedule.cut)}
            ends = moved(schedule, lambda rank: {} if rank else whole)  # noqa: B023
            assert all(same(end, whole) for end in ends), name

    def test_after_a_reduce_scatter_each_has_its_block_of_the_sum(self, ranks: int) -> None:
        schedule = ring.reduce_scatter(ranks)
        ends = moved(schedule, lambda rank: dict.fromkeys(range(ranks), own(schedule, rank)))
        assert all((end[rank] == 1).all() for rank, end in enumerate(ends))

    def test_after_an_all_gather_all_have_all_blocks(self, ranks: int) -> None:
        schedule = ring.all_gather(ranks)
        ends = moved(schedule, lambda rank: {rank: own(schedule, rank)})
        whole = {rank: own(schedule, rank) for rank in range(ranks)}
        assert all(same(end, whole) for end in ends)

    def test_after_an_all_to_all_each_has_its_block_of_everybody(self, ranks: int) -> None:
        schedule = pairwise(ranks)

        def block(source: int, target: int) -> int:
            return source * ranks + target

        ends = moved(
            schedule,
            lambda rank: {block(rank, to): np.array([rank, to]) for to in range(ranks)},
        )
        for rank, end in enumerate(ends):
            for source in range(ranks):
                assert end[block(source, rank)].tolist() == [source, rank]

    def test_a_rank_sends_once_and_receives_once_in_a_round(self, ranks: int) -> None:
        for name, schedule in schedules(ranks).items():
            for transfers in schedule.rounds:
                assert len({one.source for one in transfers}) == len(transfers), name
                assert len({one.target for one in transfers}) == len(transfers), name
                assert all(one.source != one.target for one in transfers), name

    def test_the_rounds_of_a_stage_differ_in_their_blocks_only(self, ranks: int) -> None:
        for name, schedule in schedules(ranks).items():
            for stage in schedule.stages:
                rounds = [stage.transfers(index) for index in range(stage.rounds)]
                patterns = [
                    [(one.source, one.target, len(one.blocks), one.adds) for one in transfers]
                    for transfers in rounds
                ]
                assert all(pattern == patterns[0] for pattern in patterns), name
                if len(rounds) > 1:
                    assert not any(one.slack for transfers in rounds for one in transfers), name


def edges(schedule: Schedule) -> list[list[tuple[int, int]]]:
    """From where to where, round by round."""
    return [[(one.source, one.target) for one in transfers] for transfers in schedule.rounds]


class TestNotAPowerOfTwo:
    @pytest.mark.parametrize("make", [doubling.recursive_doubling, doubling.halving_doubling])
    def test_the_first_ranks_are_folded_into_their_neighbours(
        self, make: Callable[[int], Schedule]
    ) -> None:
        # MPICH's rule, 6 ranks: 4 take part to the end, so of the first 4 ranks the even ones send
        # to the next. Of the others, 1, 3, 4, 5 are numbers 0 to 3: partners at distance 1, then 2.
        rounds = edges(make(6))

        assert rounds[0] == [(0, 1), (2, 3)]
        assert rounds[1] == [(1, 3), (3, 1), (4, 5), (5, 4)]
        assert rounds[2] == [(1, 4), (3, 5), (4, 1), (5, 3)]
        assert rounds[-1] == [(1, 0), (3, 2)]
        assert len(rounds) == (4 if make is doubling.recursive_doubling else 6)

    def test_a_tree_just_leaves_ranks_out(self) -> None:
        # 5 ranks: 4 has no bit lower than its own; ceil(log2 5) = 3 rounds each way.
        rounds = edges(all_reduces(5)["binomial tree"])

        assert rounds[:3] == [[(1, 0), (3, 2)], [(2, 0)], [(4, 0)]]
        assert rounds[3:] == [[(0, 4)], [(0, 2)], [(0, 1), (2, 3)]]

    def test_exchanges_go_round_instead_of_in_pairs(self) -> None:
        assert edges(pairwise(3)) == [[(0, 1), (1, 2), (2, 0)], [(0, 2), (1, 0), (2, 1)]]
        assert edges(pairwise(4))[2] == [(0, 3), (1, 2), (2, 1), (3, 0)]


class TestTheDoubleTree:
    def test_trees_are_those_of_nccl(self) -> None:
        # The drawings in NCCL's src/graph/trees.cc: 14 ranks, 12 mirrored, 13 shifted.
        first, _ = double_tree.double_tree(14)
        assert first == [None, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]
        _, mirrored = double_tree.double_tree(12)
        assert mirrored == [1, 3, 1, 11, 5, 7, 5, 3, 9, 7, 9, None]
        _, shifted = double_tree.double_tree(13)
        assert shifted == [9, None, 3, 5, 3, 9, 7, 5, 7, 1, 11, 0, 11]

    @pytest.mark.parametrize("ranks", range(2, 70))
    def test_nobody_passes_on_in_both_trees(self, ranks: int) -> None:
        # But for a root, who has one child; so nobody has more than two children in all.
        trees = double_tree.double_tree(ranks)
        children = [[tree.count(rank) for tree in trees] for rank in range(ranks)]
        roots = {tree.index(None) for tree in trees}

        assert max(sum(counts) for counts in children) <= 2
        assert all(0 in counts for rank, counts in enumerate(children) if rank not in roots)

    @pytest.mark.parametrize("ranks", [4, 7, 16, 33])
    def test_all_ports_are_busy_most_of_the_time(self, ranks: int) -> None:
        # Four messages a segment: twice the vector each way, as little as an all-reduce can do with
        # trees. All that is sent is spread over the rounds, up and down at the same time.
        segments = 100
        sent = np.zeros(ranks, dtype=int)
        rounds = double_tree.all_reduce(ranks, segments).rounds
        for transfers in rounds:
            sent[[one.source for one in transfers]] += 1

        assert sent.max() == 4 * segments
        assert len(rounds) < 4 * segments + 25 * ranks.bit_length()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: hierarchy.all_reduce(10, 4),
            "ranks_per_group 4 does not divide 10 workers evenly",
        ),
        (
            lambda: leader_all_reduce(3, 2),
            "ranks_per_group 2 does not divide 3 workers evenly",
        ),
        (lambda: chain(4, 0), "a chain needs at least one segment, not 0"),
        (lambda: double_tree.all_reduce(4, 0), "each half needs at least one segment, not 0"),
    ],
)
def test_what_is_not_defined_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "bytes_per_rank"),
    [
        # Of 8 ranks, 800 bytes: 2 (p - 1) / p n; log2 p n; (p - 1) / p n.
        ("ring", 1400),
        ("halving-doubling", 1400),
        ("recursive doubling", 2400),
        ("hierarchical, 4", 1400),
        ("reduce-scatter", 700),
        ("all-gather", 700),
        ("all-to-all", 700),
    ],
)
def test_traffic(name: str, bytes_per_rank: int) -> None:
    schedule = schedules(8)[name]
    messages, size = schedule.traffic(800.0, 200)

    assert size == pytest.approx(8 * bytes_per_rank)
    assert messages == sum(len(transfers) for transfers in schedule.rounds)
    # A vector of one parameter fills one block in so many.
    assert schedule.traffic(4.0, 1)[0] == pytest.approx(8 * bytes_per_rank / 800)


@pytest.mark.parametrize("name", schedules(8))
def test_patterns_are_the_rounds_but_for_their_blocks(name: str) -> None:
    schedule = schedules(8)[name]
    patterns = [transfers for rounds, transfers in schedule.patterns for _ in range(rounds)]
    assert len(patterns) == len(schedule.rounds)
    for pattern, transfers in zip(patterns, schedule.rounds, strict=True):
        for one, other in zip(pattern, transfers, strict=True):
            assert one._replace(blocks=other.blocks) == other
            assert len(one.blocks) == len(other.blocks)


def test_segments_of_a_double_tree_share_their_transfers() -> None:
    # 4 x 63 links up and down, however many segments pass them; once all move, 4 rounds repeat.
    schedule = double_tree.all_reduce(64, 500)
    kinds = {id(one) for _, transfers in schedule.patterns for one in transfers}
    assert len(schedule.rounds) > 4 * 500
    assert len(kinds) == 4 * 63
    assert len({id(transfers) for _, transfers in schedule.patterns}) < 400
