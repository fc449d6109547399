"""Builder of a run's memory: records one after the other, each known by its address."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from varsim.cluster.flat import layout as at

Ints: TypeAlias = NDArray[np.int64]

# As large as any time of a run may be, so that sums of many stay within 64 bits (ns).
_LONGEST: Final = 1 << 58


class NotCoveredError(Exception):
    """Run that only the engine on SimPy can make."""


def check_sums(longest: float) -> None:
    """NotCoveredError if a run has times so long (ns) that 64 bits are too few for their sums."""
    if not longest <= _LONGEST:
        raise NotCoveredError("its times are too long for sums of 64 bits")


def keep_memory() -> None:
    """Let glibc keep freed memory for the next run, as new pages take long to get.

    When it frees a block of up to 32 MB that had a mapping of its own, glibc takes blocks up to
    that size from its heap from then on, and keeps up to twice that size free at the heap's end.
    """
    np.empty(31 << 20, dtype=np.uint8)


class Building:
    """Memory as it is built; the first `scalars` integers are for scalars."""

    def __init__(self, scalars: int) -> None:
        self.scalars = np.zeros(scalars, dtype=np.int64)
        self.size = scalars
        self.largest = 0  # of what was added
        self._parts: list[Ints] = [self.scalars]

    def add(self, values: Sequence[int] | Ints) -> int:
        """Add integers; the address of the first."""
        address, part = self.size, np.asarray(values, dtype=np.int64).ravel()
        self._parts.append(part)
        self.size += part.size
        self.largest = max(self.largest, int(part.max(initial=0)))
        return address

    def room(self, size: int) -> int:
        """Add zeros; the address of the first."""
        return self.add(np.zeros(size, dtype=np.int64))

    def built(self, more: int) -> Ints:
        """All of it, and room for so many integers more."""
        whole = np.zeros(self.size + more, dtype=np.int64)
        np.concatenate(self._parts, out=whole[: self.size])
        return whole


def records(m: Any) -> Ints:
    """The records of workers in a memory, (workers, WORKER_SIZE)."""
    first, number = m[at.WORKERS], m[at.WORKER_COUNT]
    size = number * at.WORKER_SIZE
    return np.array(m[first : first + size], dtype=np.int64).reshape(-1, at.WORKER_SIZE)


def enlarged(values: Any, more: int) -> Any:
    """An array, or a list, with so many zeros after it."""
    if isinstance(values, list):
        return values + [0] * more
    return np.concatenate((values, np.zeros(more, dtype=values.dtype)))
