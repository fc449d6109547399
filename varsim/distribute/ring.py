"""The ring all-reduce: in which order it adds, and what it sends.

n ranks cut a vector in n chunks. In n - 1 rounds each rank sends a chunk on, added up on the way;
in n - 1 more the sums go round. So chunk c is added starting from rank c. Chunks are a multiple of
64 bytes, hence a short vector is one chunk, and the last chunks may be empty
(tensorflow/core/common_runtime: ring_reducer.cc, base_collective_executor.cc AlignedChunkElts).
"""

from collections.abc import Sequence

import numpy as np

from varsim.distribute.tensor import Values, add_in_order
from varsim.values.operation import Device, Movement, Transfer, movement

ALIGNMENT = 64  # bytes; EIGEN_MAX_ALIGN_BYTES


def chunk_length(count: int, itemsize: int, ranks: int) -> int:
    """Elements per chunk of a vector of `count` elements."""
    base = -(-count // ranks)
    if itemsize >= ALIGNMENT:
        return base
    return (base * itemsize // ALIGNMENT + 1) * ALIGNMENT // itemsize


def ring_sum(values: Sequence[Values]) -> Values:
    """The sum over ranks with the ring's order of additions; shape and dtype of each value."""
    ranks, first = len(values), values[0]
    length = chunk_length(first.size, first.itemsize, ranks)
    if first.size <= length or any(value.shape != first.shape for value in values):
        return add_in_order(values)
    flat = [value.ravel() for value in values]
    parts = [
        add_in_order([value[begin : begin + length] for value in flat[rank:] + flat[:rank]])
        for rank, begin in enumerate(range(0, first.size, length))
    ]
    return np.concatenate(parts).reshape(first.shape)


def ring_movement(
    devices: Sequence[Device], values: Sequence[Values], parties: int
) -> list[Movement]:
    """What the ring sends for values reduced together, round by round."""
    ranks = len(devices)
    if ranks == 1:
        return []
    chunks = [0] * ranks
    for value in values:
        length = chunk_length(value.size, value.itemsize, ranks)
        for chunk in range(ranks):
            part = min(max(value.size - chunk * length, 0), length)
            chunks[chunk] += part * value.itemsize
    rounds = [
        [
            Transfer(devices[rank], devices[(rank + 1) % ranks], chunks[(rank - step) % ranks])
            for rank in range(ranks)
        ]
        for step in range(2 * (ranks - 1))
    ]
    return movement("ring all-reduce", *rounds, parties=parties)
