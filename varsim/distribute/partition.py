"""How many shards a variable is cut into (tensorflow/python/ops/partitioned_variables.py)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil, prod


class Partitioner(ABC):
    """Says how many shards a value of some shape gets; it cuts along the first axis."""

    @abstractmethod
    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        """The number wanted; the strategy never makes more shards than rows."""


@dataclass(frozen=True, slots=True)
class FixedShardsPartitioner(Partitioner):
    """Always the same number."""

    num_shards: int

    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        """The given number."""
        return self.num_shards


@dataclass(frozen=True, slots=True)
class MinSizePartitioner(Partitioner):
    """As many as the bytes fill at the minimum size, rounded up: shards may be smaller than it."""

    min_shard_bytes: int = 256 << 10
    max_shards: int = 1

    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        """max(1, min(rows, max_shards, ceil(bytes / minimum)))."""
        size = prod(shape) * itemsize
        return max(1, min(shape[0], self.max_shards, ceil(size / self.min_shard_bytes)))


@dataclass(frozen=True, slots=True)
class MaxSizePartitioner(Partitioner):
    """As few as keep each shard below a size, in whole rows."""

    max_shard_bytes: int
    max_shards: int | None = None

    def shards(self, shape: tuple[int, ...], itemsize: int) -> int:
        """ceil(rows / max(1, floor(limit / bytes per row))), at most max_shards."""
        row = prod(shape[1:]) * itemsize
        rows = max(1, self.max_shard_bytes // row) if row else shape[0]
        number = ceil(shape[0] / rows) if rows else 1
        return number if self.max_shards is None else min(number, self.max_shards)
