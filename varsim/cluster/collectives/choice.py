"""The all-reduces that a scenario can name, and their schedules."""

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

    def _segments(self, size: float) -> int:
        """Of either half of a vector."""
        number = math.ceil(size / 2 / (self.segment_size or SEGMENT))
        return max(1, min(number, MOST_SEGMENTS))
