"""The all-reduces that a scenario can name, and their schedules."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from varsim.cluster.collectives import algorithms
from varsim.cluster.collectives.schedule import Schedule, flaw
from varsim.cluster.network.topology import ByNode, Topology
from varsim.core.refusal import Refusal, no_effect, refused
from varsim.core.table import Functions
from varsim.core.units import format_bytes

# Of so many ranks; hierarchical ones also of the ranks per group, some of their segments, and
# trees of the ranks by node.
ALL_REDUCES: Final[dict[str, Callable[..., Schedule]]] = {
    "ring": algorithms.ring_all_reduce,
    "recursive_doubling": algorithms.recursive_doubling,
    "halving_doubling": algorithms.halving_doubling,
    "binomial_tree": algorithms.binomial_tree,
    "double_binary_tree": algorithms.double_binary_tree,
    "hierarchical": algorithms.hierarchical_all_reduce,
}
# And others' functions, of the ranks and of the bytes of a vector.
COLLECTIVES: Final = Functions(
    "collectives", "collective", ALL_REDUCES, __name__, also=("push_pull",)
)

if TYPE_CHECKING:
    AnyCollective: TypeAlias = str
else:
    AnyCollective = COLLECTIVES.type()

# A slot of NCCL's buffers: 4 MiB in 8 steps (NCCL_BUFFSIZE, NCCL_STEPS).
SEGMENT: Final = 512 * 1024
# What is looked at of others' schedules: blocks that are sent.
_MOST_BLOCKS: Final = 200_000
# Of either half: what more of them gain is nothing beside what they cost to simulate.
MOST_SEGMENTS: Final = 2_000


class Choice(NamedTuple):
    """Algorithm of an all-reduce.

    Hierarchical ones go by groups of `ranks_per_group` neighbouring ranks, the double binary tree
    by segments of `segment_size` (default: 512 KiB, or what makes 2,000 segments of either half).
    With it `hierarchical` is a pipeline, too: what is inside groups and what is between them goes
    on side by side. Whatever it is, the gradients are added in the order of the ranks.
    """

    collective: str = "ring"
    ranks_per_group: int | None = None
    segment_size: float | None = None

    @property
    def has_agents(self) -> bool:
        """Whether ranks send inside and between groups side by side."""
        return self.collective == "hierarchical" and self.segment_size is not None

    def check_ranks(self, ranks: int) -> None:
        """Raise RefusalError if it is not defined for so many ranks, or no all-reduce of them."""
        if self.ranks_per_group is not None:
            algorithms.check_groups(ranks, self.ranks_per_group)
        if self.collective in ALL_REDUCES:
            return
        try:
            made = self.schedule(ranks, SEGMENT)
            small = sum(len(t.blocks) * n for n, ts in made.patterns for t in ts) <= _MOST_BLOCKS
            wrong = flaw(made, ranks) if small else ""
        except Exception as error:  # whatever another's function raises
            wrong = " ".join(f"{type(error).__name__}: {error}".split())
        if wrong:
            raise refused("collective", f"{self.collective} of {ranks} ranks: {wrong}")

    def check_size(self, size: float) -> None:
        """Raise RefusalError if vectors of `size` bytes would have too many segments."""
        part, whose = self._cut(size)
        if self.segment_size is not None and part / self.segment_size > MOST_SEGMENTS:
            least = format_bytes(1.01 * part / MOST_SEGMENTS)  # whatever way it is rounded
            raise refused(
                "segment_size",
                f"is too small: {whose}{format_bytes(size)} may have at most {MOST_SEGMENTS:,} "
                f"segments; write {least} or more",
            )

    def schedule_on(self, network: Topology, workers: Sequence[int], size: float) -> Schedule:
        """For vectors of `size` bytes of these workers, wherever they are on a network."""
        return self.schedule(len(workers), size, network.by_node(workers))

    def schedule(self, ranks: int, size: float, nodes: ByNode | None = None) -> Schedule:
        """For vectors of `size` bytes; trees go by `nodes`, where there are any."""
        settings: list[object] = []
        if self.collective == "double_binary_tree":
            settings = [self._segments(size / (nodes.cards if nodes else 1)), nodes]
        elif self.collective == "binomial_tree":
            settings = [nodes]
        elif self.ranks_per_group is not None:
            settings = [self.ranks_per_group]
            if self.has_agents:
                settings.append(self._segments(size))
        elif self.collective not in ALL_REDUCES:
            settings = [size]
        made: Schedule = COLLECTIVES[self.collective](ranks, *settings)
        return made

    def halves(self, ranks: int) -> tuple[Schedule, Schedule]:
        """Its reduce-scatter and its all-gather; of the ring's and `hierarchical`'s."""
        group = self.ranks_per_group
        return algorithms.reduce_scatter(ranks, group), algorithms.all_gather(ranks, group)

    def _segments(self, size: float) -> int:
        """Of a vector, or of either half of it."""
        number = math.ceil(self._cut(size)[0] / (self.segment_size or SEGMENT))
        return max(1, min(number, MOST_SEGMENTS))

    def _cut(self, size: float) -> tuple[float, str]:
        """The bytes that are cut in segments, and whose they are, in words."""
        return (size, "") if self.collective == "hierarchical" else (size / 2, "either half of ")


# What a strategy that names its all-reduce cannot say of it.
OF_ALL_REDUCES: Final[Sequence[Refusal]] = (
    Refusal("collective: hierarchical", "no ranks_per_group", write="for example 4", says="needs"),
    no_effect("ranks_per_group", "collective: not hierarchical", "it has no groups"),
    no_effect(
        "segment_size", "collective: not double_binary_tree | hierarchical", "it has no segments"
    ),
)
