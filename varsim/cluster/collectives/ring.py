"""Rings: every rank sends one block to the next rank in every round.

All-reduce of n bytes over p ranks (Patarasuk and Yuan, 2009): the vector is cut in p blocks; in
p - 1 rounds the blocks are added up on their way around (reduce-scatter), in p - 1 more the sums
go around (all-gather): 2(p - 1) (latency + n / p / bandwidth). Any number of ranks.
"""

from collections.abc import Callable, Sequence

import numpy as np

from varsim.cluster.collectives.schedule import Schedule, ScheduledTransfer, Stage, Times


def all_reduce(ranks: int) -> Schedule:
    """Reduce-scatter, then all-gather, both around a ring; every rank gets the sum of all."""
    whole = [range(ranks)]
    stages = (reduce_scatter_stage(whole), all_gather_stage(whole))
    return Schedule("an all-reduce", ranks, ranks, stages, ends=ring_ends, side_by_side=True)


def reduce_scatter(ranks: int) -> Schedule:
    """Rank r gets block r of the sum."""
    stages = (reduce_scatter_stage([range(ranks)]),)
    return Schedule("a reduce-scatter", ranks, ranks, stages, side_by_side=True)


def all_gather(ranks: int) -> Schedule:
    """Rank r has block r at the start; every rank gets all blocks."""
    return Schedule(
        "an all-gather", ranks, ranks, (all_gather_stage([range(ranks)]),), side_by_side=True
    )


def reduce_scatter_stage(
    rings: Sequence[Sequence[int]], part: Callable[[int, int], range] | None = None
) -> Stage:
    """Side by side in rings of equal length: place i of a ring gets part i of the sum.

    `part(ring, i)`: the blocks that are part i of what is summed in this ring; by default block i.
    """
    return _around(rings, part or _block, 1, adds=True)


def all_gather_stage(
    rings: Sequence[Sequence[int]], part: Callable[[int, int], range] | None = None
) -> Stage:
    """Side by side in rings of equal length: what place i has of part i goes to the whole ring."""
    return _around(rings, part or _block, 0, adds=False)


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


def _block(_: int, index: int) -> range:
    return range(index, index + 1)


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
