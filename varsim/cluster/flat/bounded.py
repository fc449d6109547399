"""Servers that apply gradients by rank, and workers none of whom may be too far ahead."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import apply, count_step, is_in_line, put
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.worker import compute, read
from varsim.cluster.trace import Phase

_BARRIER = int(Phase.BARRIER)


def await_others(m: Ints, heap: Ints, gradient: int, item: int) -> None:
    """A part of a gradient is there; it is taken in when all is that comes at this moment."""
    if m[at.LEFT] == 0:
        put(m, heap, m[at.NOW], at.TAKES_IN, at.SETTLED)
    place, rank = m[at.KEPT] + m[at.LEFT], m[gradient]
    while place > m[at.KEPT]:
        before = m[place - 1]
        other = m[before // m[at.VARIABLES]]
        if other < rank or (other == rank and before % m[at.VARIABLES] < item):
            break
        m[place] = before
        place -= 1
    m[place] = gradient * m[at.VARIABLES] + item
    m[at.LEFT] += 1


def take_in(m: Ints, log: Ints, heap: Ints) -> None:
    """What has come at this moment is applied, by rank, until that ends the run."""
    left, m[at.LEFT] = m[at.LEFT], 0
    for place in range(m[at.KEPT], m[at.KEPT] + left):
        if m[at.STOPPED_BY]:
            return
        gradient = m[place] // m[at.VARIABLES]
        rank = m[gradient]
        apply(m, log, gradient)
        if m[gradient + at.PARTS_APPLIED] == m[at.VARIABLES]:
            count_step(m, log)
            tick(m, heap, m[at.WORKERS] + rank * at.WORKER_SIZE)


def tick(m: Ints, heap: Ints, w: int) -> None:
    """A worker has done another iteration; if it was the slowest, others may go on."""
    m[w + at.CLOCK] += 1
    if not slowest_moves(m, w):
        return
    released = m[at.WAITING] - m[at.SERVED]
    m[at.SERVED] += released
    put(m, heap, m[at.NOW], released << at.BITS | at.STEP_ENDS)


def slowest_moves(m: Ints, w: int) -> bool:
    """Whether the slowest clock moves as a worker has done another iteration."""
    if m[w + at.CLOCK] != m[at.SLOWEST] + 1:
        return False
    m[at.SLOWEST_COUNT] -= 1
    if m[at.SLOWEST_COUNT]:
        return False
    m[at.SLOWEST] += 1
    for place in range(m[at.WORKER_COUNT]):
        other = m[at.WORKERS] + place * at.WORKER_SIZE
        if m[other + at.CLOCK] == m[at.SLOWEST]:
            m[at.SLOWEST_COUNT] += 1
    return True


def suffices(m: Ints, w: int, stamp: int) -> bool:
    """Whether what contains all iterations up to a stamp is new enough for a worker."""
    return stamp >= m[w + at.CLOCK] - m[at.BOUND]


def looks(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A worker goes on if it is not too far ahead, else it waits."""
    if suffices(m, w, m[at.SLOWEST]):
        fetch_if_stale(m, reals, log, heap, w)
    else:
        m[w + at.PHASE] = _BARRIER
        is_in_line(m, w)


def fetch_if_stale(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A worker goes on with what it has read, if it keeps that and it is new enough."""
    if m[at.KEEPS] == 0 or m[w + at.ITERATION] < 0 or not suffices(m, w, m[w + at.STAMP]):
        m[w + at.STAMP] = m[at.SLOWEST]
        read(m, reals, log, heap, w)
        return
    start = max(m[w + at.READY], m[at.NOW])
    compute(m, reals, log, heap, w, start, m[w + at.COPY_AT], m[w + at.COPY_STEP])
