"""Sets of times as sorted intervals that do not overlap: union, difference, length, overlap."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Intervals: TypeAlias = list[tuple[float, float]]


def union(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """All of them, those that touch or overlap joined."""
    joined: Intervals = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def clipped(intervals: Sequence[tuple[float, float]], start: float, end: float) -> Intervals:
    """What of a union lies between two times."""
    first = bisect_right(intervals, start, key=lambda one: one[1])
    last = bisect_left(intervals, end, key=lambda one: one[0])
    return [(max(a, start), min(b, end)) for a, b in intervals[first:last]]


def without(
    intervals: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]
) -> Intervals:
    """What of a union is not in another."""
    left: Intervals = []
    for start, end in intervals:
        for a, b in clipped(others, start, end):
            if a > start:
                left.append((start, a))
            start = b
        if start < end:
            left.append((start, end))
    return left


def length(intervals: Sequence[tuple[float, float]]) -> float:
    """How long they are together."""
    return sum(end - start for start, end in intervals)


def overlap(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """How long both are, of two unions."""
    total, i, j = 0.0, 0, 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        total += max(0.0, end - start)
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return total
