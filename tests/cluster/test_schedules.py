"""Schedules move the right data to the right place, each contribution once."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.building import run
from varsim.cluster.collectives import algorithms
from varsim.cluster.collectives.choice import Choice
from varsim.cluster.collectives.collective import Vector
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.copies.averaged import AveragedReplicas
from varsim.cluster.network.topology import ByNode
from varsim.cluster.workers.job import Job

# What a rank has: for each block how often the contribution of every rank is in it.
Blocks = dict[int, NDArray[np.int64]]


def all_reduces(ranks: int) -> Iterator[Schedule]:
    """Every all-reduce, with all group sizes, and some numbers of segments, nodes and cards."""
    yield algorithms.ring_all_reduce(ranks)
    yield algorithms.recursive_doubling(ranks)
    yield algorithms.halving_doubling(ranks)
    yield algorithms.binomial_tree(ranks)
    yield from (algorithms.double_binary_tree(ranks, segments) for segments in (1, 2, 7))
    for group in (number for number in range(1, ranks + 1) if ranks % number == 0):
        yield algorithms.hierarchical_all_reduce(ranks, group)
    for size in (2, 3, 4, 8):
        nodes = tuple(tuple(range(ranks)[at : at + size]) for at in range(0, ranks, size))
        for cards in {1, len(nodes[-1])} if len(nodes) > 1 else ():
            yield algorithms.binomial_tree(ranks, ByNode(nodes, cards))
            for segments in (1, 7):
                yield algorithms.double_binary_tree(ranks, segments, ByNode(nodes, cards))


def own(schedule: Schedule, rank: int) -> NDArray[np.int64]:
    return np.array([int(one == rank) for one in range(schedule.ranks)])


def moved(schedule: Schedule, start: Callable[[int], Blocks]) -> list[Blocks]:
    """What every rank has at the end; what is sent is what the source surely has by then.

    In a round an agent sends once and receives once. Agents but ranks have nothing of their own.
    """
    ranks = range(schedule.ranks)
    nothing = dict.fromkeys(range(schedule.cut), np.zeros(schedule.ranks, dtype=np.int64))
    past = [[*map(start, ranks), *(nothing for _ in range(schedule.ranks, schedule.everybody))]]
    for number, transfers in enumerate(schedule.rounds):
        now = [dict(blocks) for blocks in past[-1]]
        assert len({one.source for one in transfers}) == len(transfers)
        assert len({one.target for one in transfers}) == len(transfers)
        for one in transfers:
            assert one.source != one.target
            assert len(one.blocks) > 0
            source = past[max(0, number - one.slack)][one.source]
            for block in one.blocks:
                before = now[one.target][block] if one.adds else 0
                now[one.target][block] = source[block] + before
        past.append(now)
    return past[-1][: schedule.ranks]


@pytest.mark.parametrize("ranks", range(1, 18))
def test_after_an_all_reduce_all_have_everything_once(ranks: int) -> None:
    for schedule in all_reduces(ranks):
        blocks = range(schedule.cut)
        found = moved(schedule, lambda rank: dict.fromkeys(blocks, own(schedule, rank)))  # noqa: B023
        assert all((end[block] == 1).all() for end in found for block in blocks)


def test_halves_of_an_all_reduce() -> None:
    for ranks in range(1, 18):
        scattered = algorithms.reduce_scatter(ranks)
        found = moved(scattered, lambda rank: dict.fromkeys(range(ranks), own(scattered, rank)))  # noqa: B023
        assert all((end[rank] == 1).all() for rank, end in enumerate(found))
        gathered = algorithms.all_gather(ranks)
        for end in moved(gathered, lambda rank: {rank: own(gathered, rank)}):  # noqa: B023
            assert all((end[rank] == own(gathered, rank)).all() for rank in range(ranks))


def test_the_first_ranks_are_folded_into_their_neighbours() -> None:
    # MPICH's rule, 6 ranks: 4 take part to the end, so of the first 4 ranks the even ones send to
    # the next. Of the others, 1, 3, 4, 5 are numbers 0 to 3: partners at distance 1, then 2.
    for make, number in ((algorithms.recursive_doubling, 4), (algorithms.halving_doubling, 6)):
        rounds = [[(one.source, one.target) for one in each] for each in make(6).rounds]
        assert rounds[0] == [(0, 1), (2, 3)]
        assert rounds[1] == [(1, 3), (3, 1), (4, 5), (5, 4)]
        assert rounds[2] == [(1, 4), (3, 5), (4, 1), (5, 3)]
        assert rounds[-1] == [(1, 0), (3, 2)]
        assert len(rounds) == number


def test_double_trees_are_those_of_nccl() -> None:
    # The drawings in NCCL's src/graph/trees.cc: 14 ranks, 12 mirrored, 13 shifted.
    first, _ = algorithms.double_tree(14)
    assert first == [None, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]
    _, mirrored = algorithms.double_tree(12)
    assert mirrored == [1, 3, 1, 11, 5, 7, 5, 3, 9, 7, 9, None]
    _, shifted = algorithms.double_tree(13)
    assert shifted == [9, None, 3, 5, 3, 9, 7, 5, 7, 1, 11, 0, 11]
    # Nobody passes on in both, but for a root, who has one child.
    for ranks in range(2, 70):
        pair = algorithms.double_tree(ranks)
        children = [[tree.count(rank) for tree in pair] for rank in range(ranks)]
        roots = {tree.index(None) for tree in pair}
        assert max(sum(counts) for counts in children) <= 2
        assert all(0 in counts for rank, counts in enumerate(children) if rank not in roots)


def test_what_a_group_meets_for_last_is_what_its_rounds_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = run({"kind": "local_sgd", "period": 1}, stop={"global_steps": 5})
    begin = AveragedReplicas.__init__

    def halved(copies: AveragedReplicas, job: Job, *, choice: Choice, **more: Any) -> None:
        begin(copies, job, choice=choice, **more)
        network, size = job.cluster.network, job.workload.size() / 2
        copies.group.meet_for(
            lambda ranks: [Vector(choice.schedule_on(network, ranks, size), size)]
        )

    monkeypatch.setattr(AveragedReplicas, "__init__", halved)
    half = run({"kind": "local_sgd", "period": 1}, stop={"global_steps": 5})
    assert [2 * link.moved for link in half.links] == [link.moved for link in whole.links]
    assert any(link.moved for link in half.links)
