"""Servers that apply gradients as they come, or under a lock."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import apply, count_step, next_in_line, put, span
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.links import update
from varsim.cluster.flat.worker import goes_on
from varsim.cluster.trace import Phase

_WRITE = int(Phase.WRITE)


def locked(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A worker has the lock, and all variables are updated."""
    end = now = m[at.NOW]
    m[w + at.PHASE] = _WRITE
    if m[at.THREADS]:
        for item in range(m[at.VARIABLES]):
            for queue in range(m[at.QUEUES]):
                if m[m[at.PUSH_HOLDS] + item * m[at.QUEUES] + queue] >= 0:
                    end = max(end, update(m, reals, queue, item, now, -1))
    if end > now:
        put(m, heap, end, w << at.BITS | at.UPDATED)
    else:
        commit(m, reals, log, heap, w)


def commit(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """The update is made known."""
    if m[at.COMMIT]:
        put(m, heap, m[at.NOW] + m[at.COMMIT], w << at.BITS | at.LOCK_COMMITS)
    else:
        update_locked(m, reals, log, heap, w)


def update_locked(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """The update is seen, and the lock left to the next."""
    gradient = m[w + at.GRADIENT]
    span(m, log, w, m[at.NOW], _WRITE)
    for _ in range(m[at.VARIABLES]):
        apply(m, log, gradient)
    count_step(m, log)
    next_in_line(m)
    if m[at.WAITING]:
        put(m, heap, m[at.NOW], m[m[at.RING] + m[at.RING_AT]] << at.BITS | at.LOCKS)
    goes_on(m, reals, log, heap, w, _WRITE)
