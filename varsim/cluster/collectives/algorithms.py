"""All-reduces: rings, exchanges at doubling distances, two levels, and trees.

Rings: every rank sends one block to the next rank in every round. All-reduce of n bytes over p
ranks (Patarasuk and Yuan, 2009): the vector is cut in p blocks; in p - 1 rounds the blocks are
added up on their way around (reduce-scatter), in p - 1 more the sums go around (all-gather):
2(p - 1) (latency + n / p / bandwidth). Any number of ranks.

Doubling: ranks exchange with partners at distance 1, 2, 4, ... They need a power of two of ranks.
Of any other number p, q = 2^floor(log2 p) take part: of the first 2(p - q) ranks those with an even
number first send all they have to the next rank, who adds it, and get the result from there at the
end (the rule of MPICH, allreduce_intra_recursive_doubling and
allreduce_intra_reduce_scatter_allgather; Thakur, Rabenseifner and Gropp, 2005).

Hierarchical: k groups of g ranks each, say the accelerators of k machines. Ranks 0 to g - 1 are the
first group, and so on; the ranks must divide evenly.

Trees: all-reduces over trees: a binomial one, and two binary ones at once.

**Binomial**, with rank 0 as the root: reduce and broadcast.
The parent of a rank is the rank without its lowest bit; distances rise on the way to the root and
fall on the way back (MPICH, reduce_intra_binomial and bcast_intra_binomial; Thakur, Rabenseifner
and Gropp, 2005). Any number of ranks: ceil(log2 p) rounds. The times are those of p a power of two;
else less of the latency adds up.

On nodes there is a tree inside every node and one of the nodes, and all of this once per network
card, side by side, with an equal share of the bytes: the ranks of a node are turned by one place
from tree to tree, so that each tree leaves the node at another rank (as NCCL's trees of different
channels do; src/graph/search.cc).

**Two binary trees**, each for one half of the vector, in segments.
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

On nodes the trees are of nodes, and the ranks of a node are a chain below the first of them, as
NCCL has it (src/graph/connect.cc; twice as many bytes would cross between two nodes if they were of
ranks). There is a pair of trees for every network card, side by side, with equal shares of the
bytes, in each of which the ranks of a node are turned by one place. As every rank but the ends of
the chain sends and receives as much in all of them, one pair stands for all: a segment is one of
each, and leaves a node by all these cards at once. Each rank has an agent for inside and one for
between, and a period has four rounds more, in which the first of a chain hands over what it has.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from varsim.cluster.collectives.schedule import (
    Round,
    Schedule,
    ScheduledTransfer,
    Stage,
    Times,
    once,
)
from varsim.cluster.network.topology import ByNode
from varsim.core.refusal import refused


def ring_all_reduce(ranks: int) -> Schedule:
    """Reduce-scatter, then all-gather, both around a ring; every rank gets the sum of all."""
    stages = _stages(ranks, 1)
    return Schedule(
        "an all-reduce", ranks, ranks, stages, ends=ring_ends, sent=ring_sent, side_by_side=True
    )


def reduce_scatter(ranks: int, group: int | None = None) -> Schedule:
    """Each rank gets a block of the sum, of a ring rank r block r; or hierarchical, in groups."""
    stages = _stages(ranks, group or 1)[:2]
    return Schedule("a reduce-scatter", ranks, ranks, stages, side_by_side=group is None)


def all_gather(ranks: int, group: int | None = None) -> Schedule:
    """Each rank has that block at the start; every rank gets all blocks."""
    stages = _stages(ranks, group or 1)[2:]
    return Schedule("an all-gather", ranks, ranks, stages, side_by_side=group is None)


def reduce_scatter_stage(
    rings: Sequence[Sequence[int]], part: Callable[[int, int], range]
) -> Stage:
    """Side by side in rings of equal length: place i of a ring gets part i of the sum.

    `part(ring, i)`: the blocks that are part i of what is summed in this ring.
    """
    return _around(rings, part, 1, adds=True)


def all_gather_stage(rings: Sequence[Sequence[int]], part: Callable[[int, int], range]) -> Stage:
    """Side by side in rings of equal length: what place i has of part i goes to the whole ring."""
    return _around(rings, part, 0, adds=False)


def _around(
    rings: Sequence[Sequence[int]], part: Callable[[int, int], range], lead: int, *, adds: bool
) -> Stage:
    """In round s place i sends part i - lead - s to the next place."""
    length = len(rings[0])

    def transfers(index: int) -> list[ScheduledTransfer]:
        return [
            ScheduledTransfer(
                ring[place],
                ring[(place + 1) % length],
                part(number, (place - lead - index) % length),
                adds,
            )
            for number, ring in enumerate(rings)
            for place in range(length)
        ]

    return Stage(length - 1, transfers)


def ring_ends(entries: Sequence[int] | Times, hold: int, latency: int) -> Times:
    """When each rank of a ring over equal, idle links is done (ns), given when each entered.

    A rank's end is the latest, over all ranks j, of: j's entry, plus m rounds passed on along the
    ring to this rank (hold + latency each), plus the other 2(p - 1) - m rounds spent sending
    (hold each); m is the longest way around, at most 2(p - 1).
    """
    ranks = len(entries)
    rounds = 2 * (ranks - 1)
    entered: Times = np.asarray(entries, dtype=np.int64)
    if not latency:
        return np.full(ranks, entered.max() + rounds * hold)
    position = np.arange(ranks, dtype=np.int64)
    # With m = ranks + (rank - j) for j up to this rank, and one lap more for j after the next.
    sooner = entered - latency * position
    behind = np.maximum.accumulate(sooner) + latency * (position + ranks)
    # Rank 0 is the next of the last, so not a lap and more behind it.
    behind[-1] = sooner[1:].max() + latency * (2 * ranks - 1)
    lapped = entered - latency * (position - ranks)
    ahead = np.maximum.accumulate(lapped[::-1])[::-1] + latency * ranks
    following = np.roll(entered, -1) + latency * (ranks - 1)
    ends = np.maximum(behind, following)
    ends[: ranks - 2] = np.maximum(ends[: ranks - 2], ahead[2:] + latency * position[: ranks - 2])
    return ends + rounds * hold


def ring_sent(entries: Times, hold: int, latency: int, until: int) -> tuple[Times, Times]:
    """How many messages each rank of such a ring has sent off by a moment; and when the next (ns).

    Message r of a rank sets off at the latest, over m from 0 to r, of: the entry of the rank m
    places before, plus m rounds passed on to this rank, plus the other r - m rounds spent sending.
    """
    ranks, rank = len(entries), np.arange(len(entries))
    windows = [entries]  # the latest of 1, 2, 4, ... ranks up to each, but for time spent sending
    while 1 << len(windows) <= 2 * (ranks - 1):
        length, latest = 1 << len(windows) - 1, windows[-1]
        windows.append(np.maximum(latest, np.roll(latest, length) + latency * length))
    sent, latest = np.zeros((2, ranks), dtype=np.int64)
    for length, window in reversed([(1 << power, each) for power, each in enumerate(windows)]):
        more = sent + length
        then = np.maximum(latest, window[(rank - sent) % ranks] + latency * sent)
        goes = (more <= 2 * (ranks - 1)) & (then + hold * (more - 1) <= until)
        sent, latest = np.where(goes, more, sent), np.where(goes, then, latest)
    then = np.maximum(latest, entries[(rank - sent) % ranks] + latency * sent)
    return sent, then + hold * sent


def recursive_doubling(ranks: int) -> Schedule:
    """All bytes in each of log2 p rounds: log2 p (latency + n / bandwidth)."""
    members = _Members(ranks, cut=1)
    rounds = [
        once([members.transfer(one, one ^ distance, range(1), adds=True) for one in members.all])
        for distance in members.distances
    ]
    return Schedule("an all-reduce", ranks, 1, members.folded(rounds))


def halving_doubling(ranks: int) -> Schedule:
    """A reduce-scatter by halves, an all-gather by doubles: Rabenseifner's.

    2 log2 p latency + 2 (p - 1) / p n / bandwidth, p a power of two.
    """
    members = _Members(ranks, cut=_power_of_two(ranks))
    mine = [range(len(members.all)) for _ in members.all]
    halving, doubling = list[Stage](), list[Stage]()
    for distance in members.distances:
        kept = [_half(mine[one], upper=bool(one & distance)) for one in members.all]
        sent = [_half(mine[one], upper=not one & distance) for one in members.all]
        halving.append(once(_exchange(members, distance, sent, adds=True)))
        doubling.append(once(_exchange(members, distance, kept, adds=False)))
        mine = kept
    stages = members.folded(halving + doubling[::-1])
    return Schedule("an all-reduce", ranks, len(members.all), stages)


class _Members:
    """Those of the ranks, a power of two, that take part to the end, numbered from 0."""

    def __init__(self, ranks: int, cut: int) -> None:
        count = _power_of_two(ranks)
        self.all = range(count)
        self.distances = [1 << bit for bit in range(count.bit_length() - 1)]
        self._over = ranks - count
        self._cut = cut

    def transfer(self, one: int, other: int, blocks: range, *, adds: bool) -> ScheduledTransfer:
        """From one member to another."""
        return ScheduledTransfer(self._rank(one), self._rank(other), blocks, adds)

    def folded(self, rounds: list[Stage]) -> tuple[Stage, ...]:
        """With a round before and one after for those that do not take part."""
        if not self._over:
            return tuple(rounds)
        whole, others = range(self._cut), range(0, 2 * self._over, 2)
        before = once([ScheduledTransfer(rank, rank + 1, whole, adds=True) for rank in others])
        after = once([ScheduledTransfer(rank + 1, rank, whole) for rank in others])
        return (before, *rounds, after)

    def _rank(self, member: int) -> int:
        return 2 * member + 1 if member < self._over else member + self._over


def _exchange(
    members: _Members, distance: int, sent: list[range], *, adds: bool
) -> list[ScheduledTransfer]:
    return [members.transfer(one, one ^ distance, sent[one], adds=adds) for one in members.all]


def _half(blocks: range, *, upper: bool) -> range:
    middle = (blocks.start + blocks.stop) // 2
    return range(middle, blocks.stop) if upper else range(blocks.start, middle)


def _power_of_two(number: int) -> int:
    """The largest that is not above the number."""
    return 1 << number.bit_length() - 1


def hierarchical_all_reduce(ranks: int, group: int, segments: int = 0) -> Schedule:
    """Reduce-scatter inside, a ring all-reduce of n / g between, all-gather inside.

    2(g - 1) (latency + n / g / bandwidth) inside, 2(k - 1) (latency + n / (g k) / bandwidth)
    between the groups, in which every rank takes part with the same place in its group.
    (Horovod, hierarchical all-reduce.) In `segments` it is a pipeline: while one segment is between
    the groups, the one before it is gathered inside, and the one after it scattered; each rank has
    an agent for inside and one for between. n / segments more of what is shorter, inside or between
    (NCCL, src/device/all_reduce.h: chunks go through both at once).
    """
    if segments:
        return _pipeline(ranks, group, segments)
    return Schedule("an all-reduce", ranks, ranks, _stages(ranks, group))


def _stages(ranks: int, group: int) -> tuple[Stage, ...]:
    """Scattered inside groups, then between them; gathered between them, then inside.

    In groups of one it is all between them, around one ring.
    """
    count = _groups(ranks, group)
    inside = [range(first, first + group) for first in range(0, ranks, group)]
    between = [range(place, ranks, group) for place in range(group)]

    def share(_: int, place: int) -> range:
        return range(place * count, (place + 1) * count)

    def part(place: int, number: int) -> range:
        return range(place * count + number, place * count + number + 1)

    return (
        reduce_scatter_stage(inside, share),
        reduce_scatter_stage(between, part),
        all_gather_stage(between, part),
        all_gather_stage(inside, share),
    )


def _pipeline(ranks: int, group: int, segments: int) -> Schedule:
    """Segment by segment: blocks of a segment lie together, as in the whole without segments."""
    count = _groups(ranks, group)
    inside = [range(first, first + group) for first in range(0, ranks, group)]
    between = [range(ranks + place, 2 * ranks, group) for place in range(group)]
    patterns: dict[int, Round] = {}

    def alike(which: int, stage: Stage) -> Stage:
        pattern = patterns.setdefault(which, stage.transfers(0))
        return Stage(stage.rounds, stage.transfers, pattern)

    def handed(first: int, *, on: bool) -> Stage:
        """Of each rank, what it has the sum of: on to the agent for between, or back."""
        shares = [range(first + i * count, first + (i + 1) * count) for i in range(group)]
        return once(
            [
                ScheduledTransfer(
                    *((rank, ranks + rank) if on else (ranks + rank, rank)), shares[rank % group]
                )
                for rank in range(ranks)
            ]
        )

    def within(first: int) -> Callable[[int, int], range]:
        return lambda _, place: range(first + place * count, first + (place + 1) * count)

    def part(first: int) -> Callable[[int, int], range]:
        return lambda place, number: range(at := first + place * count + number, at + 1)

    def scattered(first: int) -> Iterator[Stage]:
        yield alike(0, reduce_scatter_stage(inside, within(first)))
        yield alike(1, handed(first, on=True))

    stages = list(scattered(0))
    for first in range(0, segments * ranks, ranks):
        stages.append(alike(2, reduce_scatter_stage(between, part(first))))
        stages.append(alike(3, all_gather_stage(between, part(first))))
        if first + ranks < segments * ranks:
            stages += scattered(first + ranks)
        stages.append(alike(4, handed(first, on=False)))
        stages.append(alike(5, all_gather_stage(inside, within(first))))
    return Schedule("an all-reduce", ranks, segments * ranks, tuple(stages), agents=2)


def check_groups(ranks: int, group: int) -> None:
    """Raise RefusalError if the ranks do not divide evenly."""
    if ranks % group:
        raise refused("ranks_per_group", f"{group} does not divide {ranks} workers evenly")


def _groups(ranks: int, group: int) -> int:
    check_groups(ranks, group)
    return ranks // group


def binomial_tree(ranks: int, nodes: ByNode | None = None) -> Schedule:
    """Reduce, then broadcast: 2 ceil(log2 p) (latency + n / bandwidth).

    Up inside nodes, up and down between them, down inside; block i is that of tree i.
    """
    nodes = nodes or ByNode(tuple((rank,) for rank in range(ranks)), 1)
    inside = [
        [up for within in nodes.ranks for up in _turned(within, nodes.cards, distance)]
        for distance in distances(max(map(len, nodes.ranks)))
    ]
    between = [
        [
            ScheduledTransfer(
                nodes.ranks[child][tree], nodes.ranks[child - distance][tree], (tree,), adds=True
            )
            for child in range(distance, len(nodes.ranks), 2 * distance)
            for tree in range(nodes.cards)
        ]
        for distance in distances(len(nodes.ranks))
    ]
    upwards = [*inside, *between]
    downwards = [
        [ScheduledTransfer(parent, child, blocks) for child, parent, blocks, *_ in each]
        for each in reversed(upwards)
    ]
    stages = tuple(once(transfers) for transfers in (*upwards, *downwards))
    return Schedule("an all-reduce", ranks, nodes.cards, stages)


def distances(ranks: int) -> list[int]:
    """Between parents and children: 1, 2, 4, ... as long as it is below the number of ranks."""
    return [1 << bit for bit in range((ranks - 1).bit_length())]


def _turned(ranks: Sequence[int], trees: int, distance: int) -> list[ScheduledTransfer]:
    """What a node's ranks send at this distance, in all trees: tree i has its root at place i."""
    number = len(ranks)
    sent = list[ScheduledTransfer]()
    for place, rank in enumerate(ranks):
        blocks = tuple(
            tree for tree in range(trees) if (place - tree) % number % (2 * distance) == distance
        )
        if blocks:
            sent.append(
                ScheduledTransfer(rank, ranks[(place - distance) % number], blocks, adds=True)
            )
    return sent


# The parent of every rank or agent in a tree; the root has none, and is none of the keys.
Tree: TypeAlias = Mapping[int, int]
# By half and rank: which of the pairs of rounds of a period the link to its parent has.
Turns: TypeAlias = Mapping[tuple[int, int], int]


def double_binary_tree(ranks: int, segments: int, nodes: ByNode | None = None) -> Schedule:
    """Two binary trees, half the bytes each, cut in `segments`; any number of ranks."""
    if segments < 1:
        raise ValueError(f"each half needs at least one segment, not {segments}")
    if nodes is None:
        trees = _trees(ranks)
        hops = _hops(trees, _colours(trees), period=4)
    else:
        hops = _hops(*_double_by_node(ranks, nodes), period=8)
    stages = tuple(_in_turns(hops, segments, 4 if nodes is None else 8))
    return Schedule(
        "an all-reduce",
        ranks,
        2 * segments,
        stages,
        side_by_side=nodes is not None,
        agents=1 if nodes is None else 2,
    )


def _in_turns(hops: Iterable["_Hop"], segments: int, period: int) -> Iterator[Stage]:
    """Round by round; those of one period after the other share what they can."""
    in_turn = sorted(hops, key=lambda hop: hop.first)
    rounds = 1 + in_turn[-1].first + period * (segments - 1) if in_turn else 0
    by_phase = [[hop for hop in in_turn if hop.first % period == phase] for phase in range(period)]
    firsts = [[hop.first for hop in there] for there in by_phase]
    patterns = [[hop.transfer(0, segments, rounds) for hop in there] for there in by_phase]

    @cache
    def pattern(phase: int, begin: int, end: int) -> list[ScheduledTransfer]:
        return patterns[phase][begin:end]

    def step(index: int) -> Stage:
        phase = index % period
        begin, end = (
            bisect_right(firsts[phase], one) for one in (index - period * segments, index)
        )

        def transfers(_: int) -> list[ScheduledTransfer]:
            return [
                hop.transfer((index - hop.first) // period, segments, rounds)
                for hop in by_phase[phase][begin:end]
            ]

        return Stage(1, transfers, pattern(phase, begin, end))

    return map(step, range(rounds))


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

    def transfer(self, segment: int, segments: int, rounds: int) -> ScheduledTransfer:
        block = self.half * segments + segment
        slack = rounds if self.needed < 0 else self.first - 1 - self.needed
        return ScheduledTransfer(self.source, self.target, range(block, block + 1), self.up, slack)


def _hops(trees: Sequence[Tree], turns: Turns, period: int) -> Iterator[_Hop]:
    """Up and down both trees."""
    for half, parents in enumerate(trees):
        children: dict[int, list[int]] = {}
        for rank, parent in parents.items():
            children.setdefault(parent, []).append(rank)
        downwards = list(set(parents.values()) - parents.keys())  # parents before their children
        for rank in downwards:
            downwards += children.get(rank, [])
        gathered = dict.fromkeys(downwards, -1)  # the round after which it has all from below
        for rank in reversed(downwards[1:]):
            parent = parents[rank]
            first = _next(gathered[rank], 2 * turns[half, rank], period)
            yield _Hop(half, rank, parent, True, first, gathered[rank])
            gathered[parent] = max(gathered[parent], first)
        done = {rank: gathered[rank] for rank in downwards[:1]}
        for rank in downwards[1:]:
            parent = parents[rank]
            done[rank] = _next(done[parent], 2 * turns[half, rank] + 1, period)
            yield _Hop(half, parent, rank, False, done[rank], done[parent])


def _double_by_node(ranks: int, nodes: ByNode) -> tuple[list[Tree], Turns]:
    """Both trees of the agents of ranks: a chain inside each node, below its first for between.

    The chain has the first two turns of a period, as the trees of nodes do, of others' agents; what
    is handed over has the last two.
    """
    firsts = [ranks + chain[0] for chain in nodes.ranks]
    of_nodes = _trees(len(firsts))
    colours = _colours(of_nodes)
    turns = {(half, firsts[node]): colour for (half, node), colour in colours.items()}
    trees = list[Tree]()
    for half, parents in enumerate(of_nodes):
        tree = {firsts[node]: firsts[parent] for node, parent in parents.items()}
        for first, chain in zip(firsts, nodes.ranks, strict=True):
            tree |= dict(zip(chain, (first, *chain), strict=False))
            turns |= {(half, rank): half for rank in chain} | {(half, chain[0]): 2 + half}
        trees.append(tree)
    return trees, turns


def _trees(ranks: int) -> list[Tree]:
    """See `double_tree`."""
    return [
        {rank: parent for rank, parent in enumerate(parents) if parent is not None}
        for parents in double_tree(ranks)
    ]


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


def _colours(trees: Sequence[Tree]) -> dict[tuple[int, int], int]:
    """A colour, 0 or 1, of the link to its parent, for each half and rank.

    A rank has at most two links to children and two to parents. Going from a link to the other one
    of the same parent, then to the other one of the same child, and so on, the colours alternate.
    """
    below: dict[int, list[tuple[int, int]]] = {}
    for half, parents in enumerate(trees):
        for rank, parent in parents.items():
            below.setdefault(parent, []).append((half, rank))
    colours: dict[tuple[int, int], int] = {}

    def other_below(link: tuple[int, int]) -> tuple[int, int] | None:
        parent = trees[link[0]][link[1]]
        return next((one for one in below[parent] if one != link), None)

    def other_above(link: tuple[int, int]) -> tuple[int, int] | None:
        half, rank = link
        return (1 - half, rank) if rank in trees[1 - half] else None

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


def _next(needed: int, phase: int, period: int) -> int:
    """A round of this phase for what was needed in that round; -1: for what is there."""
    earliest = needed + 1 + period if needed >= 0 else 0
    return earliest + (phase - earliest) % period
