"""All-to-all: every rank has a block for every rank."""

from varsim.cluster.collectives.schedule import Schedule, Transfer, once


def pairwise(ranks: int) -> Schedule:
    """In round s with the partner at distance s: (p - 1) (latency + n / p / bandwidth).

    n are the bytes of one rank. Block source * p + target goes from source to target. A power of
    two of ranks exchange in pairs (rank xor s); any other number sends to rank + s and receives
    from rank - s (MPICH, alltoall_intra_pairwise; Thakur, Rabenseifner and Gropp, 2005).
    """
    pairs = ranks & (ranks - 1) == 0
    stages = [
        once(
            [
                Transfer(rank, other, range(rank * ranks + other, rank * ranks + other + 1))
                for rank in range(ranks)
                for other in [rank ^ distance if pairs else (rank + distance) % ranks]
            ]
        )
        for distance in range(1, ranks)
    ]
    return Schedule("an all-to-all", ranks, ranks, tuple(stages))
