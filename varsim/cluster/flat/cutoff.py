"""Steps that end before all workers have come; the others give up what they are at."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import (
    apply,
    count_step,
    end,
    give_back,
    next_in_line,
    note,
    put,
    span,
)
from varsim.cluster.flat.bounded import fetch_if_stale
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.worker import read
from varsim.cluster.trace import TAKEN_BACK, Phase

_BARRIER, _READ = int(Phase.BARRIER), int(Phase.READ)


def is_given_up(m: Ints, gradient: int) -> bool:
    """Whether a gradient was given up while parts of it were on their way."""
    if m[at.STRATEGY] != at.BACKUP:
        return False
    w = m[at.WORKERS] + m[gradient] * at.WORKER_SIZE
    return bool(m[w + at.GRADIENT] != gradient)


def gather(m: Ints, reals: Floats, log: Ints, heap: Ints, gradient: int) -> None:
    """A part of a gradient is there; with the last one that is needed, the step ends."""
    w = m[at.WORKERS] + m[gradient] * at.WORKER_SIZE
    m[w + at.UNSENT] -= 1
    if m[w + at.UNSENT]:
        return
    keep(m, gradient)
    m[w + at.COME] = 1
    if m[at.LEFT] < m[at.NEEDED] or m[at.SETTLING]:
        return
    waits = 0
    for place in range(m[at.WORKER_COUNT]):
        other = m[at.WORKERS] + place * at.WORKER_SIZE
        if m[other + at.COME] == 0:
            m[at.SETTLING] |= m[other + at.READY] == m[at.NOW]
            waits |= m[other + at.READY] < m[at.NOW]
    if m[at.SETTLING] or (waits and more_now(m, heap)):
        m[at.SETTLING] = 1
        put(m, heap, m[at.NOW], at.SETTLES, at.SETTLED)
    else:
        end_step(m, reals, log, heap)


def more_now(m: Ints, heap: Ints) -> bool:
    """Whether something else is to happen at this moment."""
    for place in range(3 * m[at.HOLE], 3 * m[at.EVENTS], 3):
        if heap[place] == m[at.NOW]:
            kind, who = heap[place + 2] & at.KINDS, heap[place + 2] >> at.BITS
            if kind > at.ANSWERED or m[who + at.AWAITED] == heap[place + 1]:
                return True
    return False


def keep(m: Ints, gradient: int) -> None:
    """A gradient is one for this step; of those of one moment the lower rank comes first."""
    if m[at.LEFT] == 0 or m[at.LATEST] < m[at.NOW]:
        m[at.LATEST], m[at.FIRST_NOW] = m[at.NOW], m[at.LEFT]
    place = m[at.KEPT] + m[at.LEFT]
    first = m[at.KEPT] + m[at.FIRST_NOW]
    while place > first and m[m[place - 1]] > m[gradient]:
        m[place] = m[place - 1]
        place -= 1
    m[place] = gradient
    m[at.LEFT] += 1


def end_step(m: Ints, reals: Floats, log: Ints, heap: Ints) -> None:
    """The first gradients make an update, and everybody goes on."""
    left, m[at.LEFT], m[at.SETTLING] = m[at.LEFT], 0, 0
    for place in range(m[at.NEEDED]):
        for _ in range(m[at.VARIABLES]):
            apply(m, log, m[m[at.KEPT] + place])
    count_step(m, log)
    for place in range(m[at.NEEDED], left):
        end(m, log, m[m[at.KEPT] + place])
    for place in range(m[at.WORKER_COUNT]):
        other = m[at.WORKERS] + place * at.WORKER_SIZE
        if m[other + at.COME]:
            m[other + at.COME] = 0
        else:
            call_off(m, reals, log, heap, other)
    released = m[at.WAITING] - m[at.SERVED]
    m[at.SERVED] += released
    put(m, heap, m[at.NOW], released << at.BITS | at.STEP_ENDS)


def begin_anew(m: Ints, reals: Floats, log: Ints, heap: Ints, number: int) -> None:
    """Those who waited for the end of a step, so many of them, go on."""
    m[at.SERVED] -= number
    for _ in range(number):
        w = next_in_line(m)
        span(m, log, w, m[at.NOW], _BARRIER)
        if m[at.STRATEGY] == at.BOUNDED:
            fetch_if_stale(m, reals, log, heap, w)
        else:
            read(m, reals, log, heap, w)


def call_off(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A worker gives up the gradient that it is at, and begins anew."""
    now, gradient = m[at.NOW], m[w + at.GRADIENT]
    computes = m[w + at.UNSENT] < 0
    dropped = m[w + at.UNSENT] != 0
    note(m, log, now, m[w + at.MARK] + TAKEN_BACK)
    if m[w + at.READY] < now:
        m[w + at.ITERATION] += m[w + at.PHASE] == _READ  # which is for the next gradient
        span(m, log, w, now, m[w + at.PHASE])
        m[w + at.ITERATION] -= m[w + at.PHASE] == _READ
    if computes and m[gradient + at.BEGUN_AT] >= now:
        give_back(m, gradient)
        m[w + at.ITERATION] -= 1
        m[w + at.DRAWN] -= 1
        dropped = False
    elif computes and m[gradient + at.COMPUTED_AT] > now:
        m[gradient + at.COMPUTED_AT] = -1
    if dropped:
        end(m, log, gradient)
    m[w + at.READY] = now
    m[w + at.UNSENT], m[w + at.GRADIENT] = 0, -1
    m[at.STALE] += m[w + at.TRANSFER] == 0  # else what it waits for is not on the heap
    m[w + at.TRANSFER], m[w + at.AWAITED] = 0, -1
    read(m, reals, log, heap, w)
