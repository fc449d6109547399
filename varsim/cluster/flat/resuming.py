"""The event loop on arrays, between which and a heap of its own it goes on: what is compiled."""

from typing import Any

import numpy as np

from varsim.cluster.flat.core import advance
from varsim.cluster.flat.layout import Floats, Ints


def resume(m: Ints, reals: Floats, log: Ints, agenda: Any) -> Any:
    """Carry a run on; what is left on the heap, as it was given: (events, 3)."""
    heap = [(agenda[place, 0], agenda[place, 1], agenda[place, 2]) for place in range(len(agenda))]
    advance(m, reals, log, heap)
    left = np.empty((len(heap), 3), dtype=np.int64)
    for place, (time, order, what) in enumerate(heap):
        left[place, 0] = time
        left[place, 1] = order
        left[place, 2] = what
    return left
