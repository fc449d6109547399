"""Binomial trees with rank 0 as the root: reduce and broadcast.

The parent of a rank is the rank without its lowest bit; distances rise on the way to the root and
fall on the way back (MPICH, reduce_intra_binomial and bcast_intra_binomial; Thakur, Rabenseifner
and Gropp, 2005). Any number of ranks: ceil(log2 p) rounds. The times are those of p a power of two;
else less of the latency adds up.
"""

from collections.abc import Sequence

from varsim.cluster.collectives.schedule import Schedule, Stage, Transfer, once


def all_reduce(ranks: int) -> Schedule:
    """Reduce, then broadcast: 2 ceil(log2 p) (latency + n / bandwidth)."""
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
