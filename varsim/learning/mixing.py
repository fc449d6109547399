"""Mixing matrices: what part of each replica's model goes into whose next one."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

# M[to][from]: the weight of the copy of `from` in what `to` has next.
Matrix: TypeAlias = tuple[tuple[float, ...], ...]
# The same without zeros: for every `to` the weights by `from`, in order of rank.
Shares: TypeAlias = Sequence[Mapping[int, float]]
Graph: TypeAlias = Literal["ring", "exponential"]

# Sums of weights such as 1/3 are off by no more than that.
_ROUNDING: Final = 1e-9


def hops(graph: Graph, workers: int) -> list[int]:
    """How many ranks further each neighbour is, in the order of their turns.

    In a ring the next and the one before; in an exponential graph 1, 2, 4, ... further, as long as
    that is no whole circle (Assran et al., 2019).
    """
    if graph == "ring":
        return [1, workers - 1][: workers - 1]
    return [1 << power for power in range((workers - 1).bit_length())]


def undirected_ring(workers: int) -> Shares:
    """Equal weights for a replica and its neighbours on both sides (Lian et al., 2017)."""
    return _circulant(workers, [0, *hops("ring", workers)])


def one_peer(graph: Graph, workers: int) -> list[Shares]:
    """Rounds in which each keeps half and sends half to one peer: the next, or 1, 2, 4, ... on."""
    peers = [1] if graph == "ring" else hops(graph, workers)
    return [_circulant(workers, [0, hop]) for hop in peers]


def shares(matrix: Matrix) -> Shares:
    """A matrix without its zeros."""
    return [{source: share for source, share in enumerate(row) if share} for row in matrix]


def check_matrix(matrix: Matrix, workers: int, *, doubly: bool) -> None:
    """Raise ValueError where columns, `doubly` also rows, are no shares of 1 of so many workers."""
    if len(matrix) != workers or any(len(row) != workers for row in matrix):
        raise ValueError(f"must have {workers} rows of {workers} numbers, one of every worker")
    if any(weight < 0 for row in matrix for weight in row):
        raise ValueError("must have no weight below 0")
    _check_sums("column", list(zip(*matrix, strict=True)), "what each worker hands out, [to][from]")
    if doubly:
        _check_sums("row", matrix, "what each worker gets; push_sum does without that")
    for rank, row in enumerate(matrix):
        if not any(row):
            raise ValueError(f"row {rank} must not be all 0: worker {rank} would be left nothing")


def _check_sums(what: str, lines: Sequence[Sequence[float]], which: str) -> None:
    for number, line in enumerate(lines):
        if abs(sum(line) - 1.0) > _ROUNDING:
            raise ValueError(f"{what} {number} must add up to 1 ({which}), not to {sum(line):.10g}")


def _circulant(workers: int, sent: Sequence[int]) -> Shares:
    """Each replica's model goes in equal parts so many ranks further."""
    share = 1.0 / len(sent)
    return [
        dict.fromkeys(sorted((to - hop) % workers for hop in sent), share) for to in range(workers)
    ]
