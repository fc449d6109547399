"""All-reduce over two binary trees at once, each for one half of the vector, in segments.

Every rank but a root is a leaf in one tree and passes on in the other, so that all links are
busy both ways (Sanders, Speck and Träff, 2009). The trees are NCCL's (src/graph/trees.cc): ranks
lie in order, leaves alternate with others, and rank 0 stands above it all; the second tree is the
first one mirrored where the number of ranks is even, shifted by one rank where it is odd.

Segments go up to the roots, being added, and down again at the same time. The links from parents
to children can be painted in two colours such that no rank has two links of one colour to its
children, nor to its parents. So a period of four rounds moves one segment of both halves over all
of them: up over the links of one colour, down over them, up over the others, down over these; no
rank sends or receives twice in a round. What came up or down a link is planned to go on one period
later than it could: as ranks send in the order of the rounds, a message that is on its way for
longer would else hold up all others.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from varsim.cluster.collectives.schedule import Schedule, Stage, Transfer

_PERIOD = 4  # rounds
_SPARE = _PERIOD


def all_reduce(ranks: int, segments: int) -> Schedule:
    """Two binary trees, half the bytes each, cut in `segments`; any number of ranks."""
    if segments < 1:
        raise ValueError(f"each half needs at least one segment, not {segments}")
    hops = sorted(_hops(ranks), key=lambda hop: hop.first)
    rounds = 1 + hops[-1].first + _PERIOD * (segments - 1) if hops else 0
    by_phase = [[hop for hop in hops if hop.first % _PERIOD == phase] for phase in range(_PERIOD)]
    firsts = [[hop.first for hop in there] for there in by_phase]
    patterns = [[hop.transfer(0, segments, rounds) for hop in there] for there in by_phase]

    @cache
    def pattern(phase: int, begin: int, end: int) -> list[Transfer]:
        return patterns[phase][begin:end]

    def step(index: int) -> Stage:
        phase = index % _PERIOD
        begin, end = (
            bisect_right(firsts[phase], one) for one in (index - _PERIOD * segments, index)
        )

        def transfers(_: int) -> list[Transfer]:
            return [
                hop.transfer((index - hop.first) // _PERIOD, segments, rounds)
                for hop in by_phase[phase][begin:end]
            ]

        return Stage(1, transfers, pattern(phase, begin, end))

    stages = tuple(step(index) for index in range(rounds))
    return Schedule("an all-reduce", ranks, 2 * segments, stages)


class _Hop(NamedTuple):
    """A link of a tree in one direction: each segment passes it a period after the one before.

    `first` and `needed`: the rounds in which the first segment passes it, and in which the source
    gets the last thing that it needs for that (-1: nothing).
    """

    half: int
    source: int
    target: int
    up: bool
    first: int
    needed: int

    def transfer(self, segment: int, segments: int, rounds: int) -> Transfer:
        block = self.half * segments + segment
        slack = rounds if self.needed < 0 else self.first - 1 - self.needed
        return Transfer(self.source, self.target, range(block, block + 1), self.up, slack)


def _hops(ranks: int) -> Iterator[_Hop]:
    """Up and down both trees."""
    trees = double_tree(ranks)
    colours = _colours(trees)
    for half, parents in enumerate(trees):
        (root,) = (rank for rank, parent in enumerate(parents) if parent is None)
        children: list[list[int]] = [[] for _ in parents]
        for rank, parent in enumerate(parents):
            if parent is not None:
                children[parent].append(rank)
        downwards = [root]  # parents before their children
        for rank in downwards:
            downwards += children[rank]
        gathered = [-1] * ranks  # the round after which a rank has its subtree's first segment
        for rank in reversed(downwards):
            parent = parents[rank]
            if parent is not None:
                first = _next(gathered[rank], 2 * colours[half, rank])
                yield _Hop(half, rank, parent, True, first, gathered[rank])
                gathered[parent] = max(gathered[parent], first)
        done = {root: gathered[root]}
        for rank in downwards[1:]:
            parent = parents[rank]
            assert parent is not None
            done[rank] = _next(done[parent], 2 * colours[half, rank] + 1)
            yield _Hop(half, parent, rank, False, done[rank], done[parent])


def double_tree(ranks: int) -> tuple[list[int | None], list[int | None]]:
    """The parent of every rank in the first and in the second tree; None for the root."""
    first = [_parent(rank, ranks) for rank in range(ranks)]
    if ranks % 2:
        moved = [first[rank - 1] for rank in range(ranks)]
        return first, [None if parent is None else (parent + 1) % ranks for parent in moved]
    turned = reversed(first)
    return first, [None if parent is None else ranks - 1 - parent for parent in turned]


def _parent(rank: int, ranks: int) -> int | None:
    """Ranks in order, from 1: leaves are odd, those above them divisible by 2, 4, 8, ..."""
    if rank == 0:
        return None
    bit = rank & -rank
    parent = rank ^ bit | bit << 1
    return parent if parent < ranks else rank ^ bit


def _colours(trees: tuple[list[int | None], ...]) -> dict[tuple[int, int], int]:
    """A colour, 0 or 1, of the link to its parent, for each half and rank.

    A rank has at most two links to children and two to parents. Going from a link to the other one
    of the same parent, then to the other one of the same child, and so on, the colours alternate.
    """
    below: dict[int, list[tuple[int, int]]] = {}
    for half, parents in enumerate(trees):
        for rank, parent in enumerate(parents):
            if parent is not None:
                below.setdefault(parent, []).append((half, rank))
    colours: dict[tuple[int, int], int] = {}

    def other_below(link: tuple[int, int]) -> tuple[int, int] | None:
        parent = trees[link[0]][link[1]]
        assert parent is not None
        return next((one for one in below[parent] if one != link), None)

    def other_above(link: tuple[int, int]) -> tuple[int, int] | None:
        half, rank = link
        return None if trees[1 - half][rank] is None else (1 - half, rank)

    for start in (link for links in below.values() for link in links):
        for ways in ((other_below, other_above), (other_above, other_below)):
            link, colour, turn = start, colours.get(start, 0), 0
            while True:
                colours[link] = colour
                following = ways[turn](link)
                if following is None or following in colours:
                    break
                link, colour, turn = following, 1 - colour, 1 - turn
    return colours


def _next(needed: int, phase: int) -> int:
    """A round of this phase for what was needed in that round; -1: for what is there."""
    earliest = needed + 1 + _SPARE if needed >= 0 else 0
    return earliest + (phase - earliest) % _PERIOD
