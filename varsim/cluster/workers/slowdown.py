"""Slowdown of workers for some of the time, and of messages while workers compute."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from varsim.cluster.description.cluster import Cluster, SlowWorker


def windows(slow_workers: Sequence[SlowWorker], rank: int) -> list[tuple[int, float]]:
    """The factors of a worker's compute time: (from ns, factor), in order, the first from 0."""
    slow = [entry for entry in slow_workers if entry.rank == rank]
    bounds = {0}
    for entry in slow:
        bounds.add(round(entry.after * 1e9))
        if entry.until is not None:
            bounds.add(round(entry.until * 1e9))
    found = []
    for bound in sorted(bounds):
        factor = 1.0
        for entry in slow:
            until = math.inf if entry.until is None else round(entry.until * 1e9)
            if round(entry.after * 1e9) <= bound < until:
                factor *= entry.factor
        found.append((bound, factor))
    return found


def end_of(windows: Sequence[tuple[int, float]], start: int, work: int) -> int:
    """When `work` ns of normal compute that start at `start` end; a factor holds until the next."""
    index = len(windows) - 1
    while windows[index][0] > start:
        index -= 1
    left, time = float(work), start
    while index + 1 < len(windows):
        until = windows[index + 1][0]
        possible = (until - time) / windows[index][1]
        if possible >= left:
            break
        left -= possible
        time = until
        index += 1
    return time + round(left * windows[index][1])


def slowed(
    windows: Sequence[tuple[int, float]], start: int, end: int, factor: float
) -> list[tuple[int, float]]:
    """Windows that are slower by a factor between two moments (ns)."""

    def at(time: int) -> float:
        return next(factor for since, factor in reversed(windows) if since <= time)

    bounds = sorted({*(since for since, _ in windows), start, end})
    return [(one, at(one) * (factor if start <= one < end else 1.0)) for one in bounds]


class Slowed(NamedTuple):
    """Slowdown to a `share` of the usual pace `until` a moment.

    Work is counted in time at the usual pace, such that both are equal from that moment on.
    """

    until: float
    share: float

    def work_at(self, time: float) -> float:
        """The work that is done at a time."""
        return time if time >= self.until else self.until - (self.until - time) * self.share

    def time_of(self, work: float) -> float:
        """When so much work is done."""
        return work if work >= self.until else self.until - (self.until - work) / self.share

    def done_at(self, begun: float, duration: float) -> float:
        """When something ends that would take so long at the usual pace."""
        return self.time_of(self.work_at(begun) + duration)


def shares_of_compute(cluster: Cluster, ready: Sequence[float]) -> list[float]:
    """Shares of the backward pass as shares of a whole compute time, of which it is the end."""
    backward = cluster.share_of_backward
    return [1.0 - backward * (1.0 - share) for share in ready]
