"""All-reduces in which ranks exchange with partners at distance 1, 2, 4, ...

They need a power of two of ranks. Of any other number p, q = 2^floor(log2 p) take part: of the
first 2(p - q) ranks those with an even number first send all they have to the next rank, who adds
it, and get the result from there at the end (the rule of MPICH, allreduce_intra_recursive_doubling
and allreduce_intra_reduce_scatter_allgather; Thakur, Rabenseifner and Gropp, 2005).
"""

from varsim.cluster.collectives.schedule import Schedule, ScheduledTransfer, Stage, once


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
