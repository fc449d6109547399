"""Broadcasts of long messages from rank 0, for any number of ranks."""

from varsim.cluster.collectives.ring import all_gather_stage
from varsim.cluster.collectives.schedule import Schedule, Stage, Transfer, once
from varsim.cluster.collectives.tree import distances


def scatter_all_gather(ranks: int) -> Schedule:
    """Scatter the blocks along a binomial tree, then gather them all around a ring.

    (log2 p + p - 1) latency + 2 (p - 1) / p n / bandwidth, p a power of two. Barnett, Gupta, Payne,
    Shuler, van de Geijn and Watts, 1994; MPICH, bcast_intra_scatter_ring_allgather.
    """
    scatter = [
        once(
            [
                Transfer(child - distance, child, range(child, min(child + distance, ranks)))
                for child in range(distance, ranks, 2 * distance)
            ]
        )
        for distance in reversed(distances(ranks))
    ]
    stages = (*scatter, all_gather_stage([range(ranks)]))
    return Schedule("a broadcast", ranks, ranks, stages)


def chain(ranks: int, segments: int) -> Schedule:
    """Every rank passes each of the segments on to the next rank as it comes.

    (p - 1) latency + (p - 2 + m) n / m / bandwidth for m segments. Sanders, Speck and Träff, 2009.
    """
    if segments < 1:
        raise ValueError(f"a chain needs at least one segment, not {segments}")
    rounds = segments + ranks - 2 if ranks > 1 else 0
    stages = tuple(_step(ranks, segments, index) for index in range(rounds))
    return Schedule("a broadcast", ranks, segments, stages, meets=False)


def _step(ranks: int, segments: int, index: int) -> Stage:
    """The rank at place i of the chain passes on segment index - i."""
    places = range(max(0, index - segments + 1), min(index, ranks - 2) + 1)
    return once(
        [Transfer(place, place + 1, range(index - place, index - place + 1)) for place in places]
    )
