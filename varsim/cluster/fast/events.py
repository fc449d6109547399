"""Heap of the events of a run, three integers each: time, order, what."""

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.tables import Run, Table


def put(r: Run, time: int, kind: int, who: int = 0, priority: int = at.NORMAL) -> int:
    """Put an event on the heap; its order."""
    s = r.state
    order: int = priority + s.number
    s.number += 1
    if s.hole:  # in the place of the event that is being served
        s.hole = 0
        sink(r.heap, s.events, time, order, who << at.BITS | kind)
    else:
        s.events += 1
        rise(r.heap, s.events - 1, time, order, who << at.BITS | kind)
        if s.events > s.most_events and s.halt == 0:
            s.halt = at.FULL
    return order


def close(r: Run) -> None:
    """Take the event that has been served off the heap."""
    s, heap = r.state, r.heap
    s.events -= 1
    s.hole = 0
    last = 3 * s.events
    sink(heap, s.events, heap[last], heap[last + 1], heap[last + 2])


def sink(heap: Table, size: int, time: int, order: int, what: int) -> None:
    """Put an event in at the first place of a heap of that size, and from there where it belongs.

    Its children are at 2 n + 1 and 2 n + 2, three integers each.
    """
    place, child, after = 0, 3, 3 * size
    while child < after:
        other = child + 3
        if other < after:
            # Which of the two is sooner nobody can foresee: machine code without a jump.
            child += 3 * (
                (heap[other] < heap[child])
                | ((heap[other] == heap[child]) & (heap[other + 1] < heap[child + 1]))
            )
        if time < heap[child] or (time == heap[child] and order < heap[child + 1]):
            break
        heap[place] = heap[child]
        heap[place + 1] = heap[child + 1]
        heap[place + 2] = heap[child + 2]
        place = child
        child = 2 * place + 3
    heap[place] = time
    heap[place + 1] = order
    heap[place + 2] = what


def rise(heap: Table, last: int, time: int, order: int, what: int) -> None:
    """Put an event in at the last place of a heap, and from there where it belongs."""
    place = 3 * last
    while place > 0:
        above = (place - 3) // 6 * 3
        if heap[above] < time or (heap[above] == time and heap[above + 1] < order):
            break
        heap[place] = heap[above]
        heap[place + 1] = heap[above + 1]
        heap[place + 2] = heap[above + 2]
        place = above
    heap[place] = time
    heap[place + 1] = order
    heap[place + 2] = what
