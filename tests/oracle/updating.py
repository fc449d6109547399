"""What applying gradients takes on servers: every server a queue, first come, first served.

A variable's gradient comes to all servers that hold some of it at once: when all of it is there. A
server draws a time for each that comes to it, in that order, and is at so many of them at a time as
it has threads; the variable is done when the last of its servers is.
"""

from fractions import Fraction

from tests.oracle.links import Part, nearest
from tests.oracle.setting import Update


class Handling:
    """One gradient on the servers: when what has come of it is done, and what it takes alone."""

    def __init__(self) -> None:
        self.end = 0  # ns
        self.holds: dict[int, list[int]] = {}  # by server, in order


class Updates:
    """The servers at work."""

    def __init__(self, update: Update, parts: list[list[Part]]) -> None:
        self._update = update
        self._parts = parts
        servers = sorted({server for variable in parts for server, _ in variable})
        self._free = {server: [0] * update.threads for server in servers}
        self._seconds = {}
        if update.seconds is not None:
            # The n-th server that holds anything draws from the n-th stream.
            self._seconds = {server: update.seconds(n) for n, server in enumerate(servers)}

    def handle(self, variable: int, now: int, handling: Handling) -> int:
        """A variable's gradient is there: when it is done (ns)."""
        end = now
        for server, size in self._parts[variable]:
            seconds = Fraction(0)
            if self._seconds:
                seconds += Fraction(next(self._seconds[server]))
            if self._update.rate is not None:
                seconds += size / Fraction(self._update.rate)
            hold = nearest(seconds, Fraction(10**9))
            handling.holds.setdefault(server, []).append(hold)
            end = max(end, _queued(self._free[server], now, hold))
        handling.end = max(handling.end, end)
        return end

    def alone(self, handling: Handling) -> int:
        """How long servers would be at a gradient that comes all at once, with no other (ns)."""
        longest = 0
        for holds in handling.holds.values():
            free = [0] * self._update.threads
            for hold in holds:
                longest = max(longest, _queued(free, 0, hold))
        return longest


def _queued(free: list[int], now: int, hold: int) -> int:
    """The end of what comes now to threads that are free at these times (ns)."""
    thread = free.index(min(free))
    free[thread] = max(now, free[thread]) + hold
    return free[thread]
