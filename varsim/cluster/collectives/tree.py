"""Binomial trees with rank 0 as the root: reduce and broadcast.

The parent of a rank is the rank without its lowest bit; distances rise on the way to the root and
fall on the way back (MPICH, reduce_intra_binomial and bcast_intra_binomial; Thakur, Rabenseifner
and Gropp, 2005). Any number of ranks: ceil(log2 p) rounds. The times are those of p a power of two;
else less of the latency adds up.

On nodes there is a tree inside every node and one of the nodes, and all of this once per network
card, side by side, with an equal share of the bytes: the ranks of a node are turned by one place
from tree to tree, so that each tree leaves the node at another rank (as NCCL's trees of different
channels do; src/graph/search.cc).
"""

from collections.abc import Sequence

from varsim.cluster.collectives.schedule import Schedule, Stage, Transfer, once
from varsim.cluster.network.topology.base import ByNode


def all_reduce(ranks: int, nodes: ByNode | None = None) -> Schedule:
    """Reduce, then broadcast: 2 ceil(log2 p) (latency + n / bandwidth)."""
    if nodes is not None:
        return Schedule("an all-reduce", ranks, nodes.cards, tuple(_by_node(nodes)))
    trees, whole = [range(ranks)], range(1)
    stages = (*reduce_stages(trees, whole), *broadcast_stages(trees, whole))
    return Schedule("an all-reduce", ranks, 1, stages)


def reduce_stages(trees: Sequence[Sequence[int]], blocks: range) -> tuple[Stage, ...]:
    """Side by side in trees of equally many ranks: the first rank of each gets the sum."""
    return tuple(
        once([Transfer(tree[child], tree[parent], blocks, adds=True)
              for tree in trees for parent, child in _pairs(len(tree), distance)])
        for distance in distances(len(trees[0]))
    )  # fmt: skip


def broadcast_stages(trees: Sequence[Sequence[int]], blocks: range) -> tuple[Stage, ...]:
    """Side by side in trees of equally many ranks: all get what the first rank of each has."""
    return tuple(
        once([Transfer(tree[parent], tree[child], blocks)
              for tree in trees for parent, child in _pairs(len(tree), distance)])
        for distance in reversed(distances(len(trees[0])))
    )  # fmt: skip


def distances(ranks: int) -> list[int]:
    """Between parents and children: 1, 2, 4, ... as long as it is below the number of ranks."""
    return [1 << bit for bit in range((ranks - 1).bit_length())]


def _pairs(ranks: int, distance: int) -> list[tuple[int, int]]:
    """Parents and their children at this distance."""
    return [(child - distance, child) for child in range(distance, ranks, 2 * distance)]


def _by_node(nodes: ByNode) -> list[Stage]:
    """Up inside nodes, up and down between them, down inside; block i is that of tree i."""
    inside = [
        [up for ranks in nodes.ranks for up in _turned(ranks, nodes.cards, distance)]
        for distance in distances(max(map(len, nodes.ranks)))
    ]
    between = [
        [
            Transfer(nodes.ranks[child][tree], nodes.ranks[parent][tree], (tree,), adds=True)
            for parent, child in _pairs(len(nodes.ranks), distance)
            for tree in range(nodes.cards)
        ]
        for distance in distances(len(nodes.ranks))
    ]
    upwards = [*inside, *between]
    downwards = [
        [Transfer(parent, child, blocks) for child, parent, blocks, *_ in each]
        for each in reversed(upwards)
    ]
    return [once(transfers) for transfers in (*upwards, *downwards)]


def _turned(ranks: Sequence[int], trees: int, distance: int) -> list[Transfer]:
    """What a node's ranks send at this distance, in all trees: tree i has its root at place i."""
    number = len(ranks)
    sent = list[Transfer]()
    for place, rank in enumerate(ranks):
        blocks = tuple(
            tree for tree in range(trees) if (place - tree) % number % (2 * distance) == distance
        )
        if blocks:
            sent.append(Transfer(rank, ranks[(place - distance) % number], blocks, adds=True))
    return sent
