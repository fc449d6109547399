"""All-reduces: rings, exchanges at doubling distances, and two levels.

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
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from varsim.cluster.collectives.schedule import (
    Round,
    Schedule,
    ScheduledTransfer,
    Stage,
    Times,
    once,
)
from varsim.core.refusal import refused


def ring_all_reduce(ranks: int) -> Schedule:
    """Reduce-scatter, then all-gather, both around a ring; every rank gets the sum of all."""
    whole = [range(ranks)]
    stages = (reduce_scatter_stage(whole), all_gather_stage(whole))
    return Schedule("an all-reduce", ranks, ranks, stages, ends=ring_ends, side_by_side=True)


def ring_reduce_scatter(ranks: int) -> Schedule:
    """Rank r gets block r of the sum."""
    stages = (reduce_scatter_stage([range(ranks)]),)
    return Schedule("a reduce-scatter", ranks, ranks, stages, side_by_side=True)


def ring_all_gather(ranks: int) -> Schedule:
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


def hierarchical_reduce_scatter(ranks: int, group: int) -> Schedule:
    """The first half: each rank gets a block of the sum."""
    return Schedule("a reduce-scatter", ranks, ranks, _stages(ranks, group)[:2])


def hierarchical_all_gather(ranks: int, group: int) -> Schedule:
    """The second half: each rank has that block at the start; every rank gets all blocks."""
    return Schedule("an all-gather", ranks, ranks, _stages(ranks, group)[2:])


def _stages(ranks: int, group: int) -> tuple[Stage, ...]:
    """Scattered inside groups, then between them; gathered between them, then inside."""
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
