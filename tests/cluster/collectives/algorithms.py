"""All schedules for a number of ranks, by name."""

from collections.abc import Iterator

from validation.points.schedules import (
    binomial_broadcast,
    chain,
    leader_all_reduce,
    pairwise,
    scatter_all_gather,
)
from varsim.cluster.collectives import (
    double_tree,
    doubling,
    hierarchy,
    ring,
    tree,
)
from varsim.cluster.collectives.schedule import Schedule
from varsim.cluster.topology.base import ByNode


def all_reduces(ranks: int) -> dict[str, Schedule]:
    """Every all-reduce, with all group sizes and some numbers of segments."""
    found = {
        "ring": ring.all_reduce(ranks),
        "recursive doubling": doubling.recursive_doubling(ranks),
        "halving-doubling": doubling.halving_doubling(ranks),
        "binomial tree": tree.all_reduce(ranks),
    }
    for segments in (1, 2, 7):
        found[f"double tree, {segments}"] = double_tree.all_reduce(ranks, segments)
    for group in (number for number in range(1, ranks + 1) if ranks % number == 0):
        found[f"hierarchical, {group}"] = hierarchy.all_reduce(ranks, group)
        found[f"leaders, {group}"] = leader_all_reduce(ranks, group)
    for nodes in by_node(ranks):
        of = f"of nodes of {len(nodes.ranks[0])}, {nodes.cards} cards"
        found[f"binomial tree {of}"] = tree.all_reduce(ranks, nodes)
        for segments in (1, 7):
            made = double_tree.all_reduce(ranks, segments, nodes)
            found[f"double tree {of}, {segments}"] = made
    return found


def by_node(ranks: int) -> Iterator[ByNode]:
    """Ranks on nodes of some sizes, the last of which may have fewer, and of some cards."""
    for size in (2, 3, 4, 8):
        nodes = tuple(tuple(range(ranks)[at : at + size]) for at in range(0, ranks, size))
        for cards in {1, len(nodes[-1])} if len(nodes) > 1 else ():
            yield ByNode(nodes, cards)


def broadcasts(ranks: int) -> dict[str, Schedule]:
    """Every broadcast from rank 0."""
    found = {
        "binomial broadcast": binomial_broadcast(ranks),
        "scatter and all-gather": scatter_all_gather(ranks),
    }
    for segments in (1, 3, 20):
        found[f"chain, {segments}"] = chain(ranks, segments)
    return found


def schedules(ranks: int) -> dict[str, Schedule]:
    """All there are."""
    return {
        **all_reduces(ranks),
        **broadcasts(ranks),
        "reduce-scatter": ring.reduce_scatter(ranks),
        "all-gather": ring.all_gather(ranks),
        "all-to-all": pairwise(ranks),
    }
