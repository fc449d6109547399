"""The all-reduces that a scenario can name: their schedules, and roughly how long they take."""

import math
from typing import Final, Literal, NamedTuple, TypeAlias

from varsim.cluster.collectives import double_tree, doubling, hierarchy, ring, tree
from varsim.cluster.collectives.schedule import Schedule
from varsim.units import format_bytes

Algorithm: TypeAlias = Literal[
    "ring",
    "recursive_doubling",
    "halving_doubling",
    "binomial_tree",
    "double_binary_tree",
    "hierarchical",
    "hierarchical_leader",
]

# A slot of NCCL's buffers: 4 MiB in 8 steps (NCCL_BUFFSIZE, NCCL_STEPS).
SEGMENT: Final = 512 * 1024
# Of either half: what more of them gain is nothing beside what they cost to simulate.
MOST_SEGMENTS: Final = 2_000


class Hop(NamedTuple):
    """What a message costs: seconds whatever its size, per byte, and per byte to be added."""

    latency: float
    per_byte: float
    adding: float


class Choice(NamedTuple):
    """An all-reduce; `ranks_per_group` of hierarchical ones, `segment_size` of the double tree."""

    collective: Algorithm = "ring"
    ranks_per_group: int | None = None
    segment_size: float | None = None

    def check_settings(self) -> None:
        """Raise ValueError where a setting is missing or has no effect."""
        name = self.collective
        if name in ("hierarchical", "hierarchical_leader"):
            if self.ranks_per_group is None:
                raise ValueError(f"collective {name} needs ranks_per_group (for example 4)")
        elif self.ranks_per_group is not None:
            raise ValueError(f"ranks_per_group has no effect: collective {name} has no groups")
        if self.segment_size is not None and name != "double_binary_tree":
            raise ValueError(f"segment_size has no effect: collective {name} has no segments")

    def check_ranks(self, ranks: int) -> None:
        """Raise ValueError if it is not defined for so many ranks."""
        if self.ranks_per_group is not None:
            hierarchy.check(ranks, self.ranks_per_group)

    def check_size(self, size: float) -> None:
        """Raise ValueError if vectors of `size` bytes would have too many segments."""
        if self.segment_size is not None and size / 2 / self.segment_size > MOST_SEGMENTS:
            least = format_bytes(1.01 * size / 2 / MOST_SEGMENTS)  # whatever way it is rounded
            raise ValueError(
                f"segment_size is too small: either half of {format_bytes(size)} may have at most "
                f"{MOST_SEGMENTS:,} segments; write {least} or more"
            )

    def schedule(self, ranks: int, size: float) -> Schedule:
        """For vectors of `size` bytes."""
        if self.collective == "ring":
            return ring.all_reduce(ranks)
        if self.collective == "recursive_doubling":
            return doubling.recursive_doubling(ranks)
        if self.collective == "halving_doubling":
            return doubling.halving_doubling(ranks)
        if self.collective == "binomial_tree":
            return tree.all_reduce(ranks)
        if self.collective == "double_binary_tree":
            return double_tree.all_reduce(ranks, self._segments(size))
        assert self.ranks_per_group is not None
        if self.collective == "hierarchical":
            return hierarchy.all_reduce(ranks, self.ranks_per_group)
        return hierarchy.leader_all_reduce(ranks, self.ranks_per_group)

    def duration(self, ranks: int, size: float, hop: Hop) -> float:
        """Seconds that it takes on equal, idle links when all enter at once.

        The formulas of the schedules, but for the rounding of times to whole ns. With other than a
        power of two of ranks in a tree or in doublings, an upper bound; the double tree roughly.
        """
        if self.collective == "ring":
            return _ring(ranks, size, hop)
        if self.collective == "binomial_tree":
            return _tree(ranks, size, hop)
        if self.collective == "double_binary_tree":
            return _double_tree(ranks, size, hop, self._segments(size))
        if self.collective in ("recursive_doubling", "halving_doubling"):
            return _doubling(ranks, size, hop, halves=self.collective == "halving_doubling")
        group = self.ranks_per_group
        assert group is not None
        if self.collective == "hierarchical":
            return _ring(group, size, hop) + _ring(ranks // group, size / group, hop)
        return _tree(group, size, hop) + _ring(ranks // group, size, hop)

    def _segments(self, size: float) -> int:
        """Of either half of a vector."""
        number = math.ceil(size / 2 / (self.segment_size or SEGMENT))
        return max(1, min(number, MOST_SEGMENTS))


def _message(size: float, hop: Hop) -> float:
    return hop.latency + size * hop.per_byte


def _ring(ranks: int, size: float, hop: Hop) -> float:
    return (ranks - 1) * (2 * _message(size / ranks, hop) + size / ranks * hop.adding)


def _tree(ranks: int, size: float, hop: Hop) -> float:
    return _levels(ranks) * (2 * _message(size, hop) + size * hop.adding)


def _doubling(ranks: int, size: float, hop: Hop, *, halves: bool) -> float:
    rounds = ranks.bit_length() - 1
    members = 1 << rounds
    folded = 0.0 if members == ranks else 2 * _message(size, hop) + size * hop.adding
    if halves:
        share = size * (members - 1) / members
        return folded + 2 * rounds * hop.latency + share * (2 * hop.per_byte + hop.adding)
    return folded + rounds * (_message(size, hop) + size * hop.adding)


def _double_tree(ranks: int, size: float, hop: Hop, segments: int) -> float:
    """The first segment up and down, then what takes longest of each that follows.

    In all levels but the top one, a rank has two children. Per segment, the busiest rank sends up
    to four messages and adds two; and a message waits for another one five rounds before it or a
    little more, of four rounds per segment.
    """
    if ranks == 1:
        return 0.0
    segment = size / 2 / segments
    alone, pair = _message(segment, hop), _message(2 * segment, hop)
    first = 2 * (alone + (_levels(ranks) - 1) * pair) + _levels(ranks) * segment * hop.adding
    each = max(
        min(ranks, 4) * segment * hop.per_byte,
        min(ranks - 1, 2) * segment * hop.adding,
        min(ranks, 3) / 4 * (alone + segment * hop.adding),
    )
    return first + (segments - 1) * each


def _levels(ranks: int) -> int:
    """The binary logarithm, rounded up."""
    return (ranks - 1).bit_length()
