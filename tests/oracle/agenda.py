"""What happens when: one heap of moments, and the flows of fair links beside it.

Order within one instant: first put down, first done. Flows have no place in that order: where
something else is to happen in the very nanosecond in which a flow gets somewhere, and neither
brought about the other, the rules do not say what comes first, and the run is given up as doubtful.
"""

import heapq
from collections.abc import Callable
from typing import Final, Protocol

NEVER: Final = 1 << 62  # ns


class DoubtfulError(Exception):
    """Exact arithmetic and a float may round to different ns here, or the rules give no order."""


class Flows(Protocol):
    """What is on its way over links that are shared evenly."""

    def due(self) -> int:
        """When one of them next gets somewhere (ns)."""

    def tell(self) -> None:
        """That moment has come."""


class Agenda:
    """The clock (`now`, ns) and what is still to happen."""

    def __init__(self) -> None:
        self.now = 0
        self.over = False
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._served = -1  # the latest instant in which something of the heap happened

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Put something down for a moment, now or later (ns)."""
        assert time >= self.now
        self._number += 1
        heapq.heappush(self._heap, (time, self._number, action))

    def run(self, flows: Flows | None, limit: int | None) -> str:
        """Until somebody sets `over`; else to the limit (ns), and say "time" or "deadlock"."""
        while not self.over:
            first = self._heap[0][0] if self._heap else NEVER
            passing = NEVER if flows is None else flows.due()
            if limit is not None and limit < min(first, passing) < NEVER:
                self.now = limit
                return "time"
            if min(first, passing) == NEVER:
                self.now = self.now if limit is None else limit
                return "deadlock"
            if flows is not None and passing <= first:
                if passing in (first, self._served):
                    raise DoubtfulError
                self.now = passing
                flows.tell()
            else:
                self.now, _, action = heapq.heappop(self._heap)
                self._served = self.now
                action()
        return ""
