"""Accumulators, the chief that takes from them, and the queue of its tokens."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import apply, count_step, end, next_in_line, put, span
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.worker import goes_on
from varsim.cluster.trace import Phase

_TOKEN = int(Phase.TOKEN)


def accumulate(m: Ints, log: Ints, heap: Ints, gradient: int, item: int) -> None:
    """A part of a gradient goes into its accumulator, unless it is stale."""
    inside = m[at.ACCUMULATORS] + item * at.ACCUMULATOR
    if m[gradient + at.LABELLED] < m[inside + at.TAKE_STEP]:
        m[gradient + at.OPEN] -= 1
        if m[gradient + at.OPEN] == 0:
            end(m, log, gradient)
        return
    if m[inside + at.INSIDE]:
        m[m[inside + at.LAST] + at.NEXT + item] = gradient
    else:
        m[inside + at.FIRST] = gradient
    m[inside + at.LAST] = gradient
    m[inside + at.INSIDE] += 1
    serve(m, log, heap, inside, item)


def take(m: Ints, log: Ints, heap: Ints) -> None:
    """The chief takes from every accumulator."""
    m[at.LEFT] = m[at.VARIABLES]
    for item in range(m[at.VARIABLES]):
        inside = m[at.ACCUMULATORS] + item * at.ACCUMULATOR
        m[inside + at.TAKE] = 1
        serve(m, log, heap, inside, item)


def serve(m: Ints, log: Ints, heap: Ints, inside: int, item: int) -> None:
    """A take that waits gets all gradients inside, if they are enough."""
    if m[inside + at.TAKE] == 0 or m[inside + at.INSIDE] < m[at.NEEDED]:
        return
    gradient, number = m[inside + at.FIRST], m[inside + at.INSIDE]
    m[inside + at.TAKE] = m[inside + at.INSIDE] = 0
    m[inside + at.TAKE_STEP] += 1
    for _ in range(number):
        after = m[gradient + at.NEXT + item]
        apply(m, log, gradient)
        gradient = after
    m[at.LEFT] -= 1
    if m[at.LEFT] == 0:
        put(m, heap, m[at.NOW], at.CHIEF_WAKES)


def count_update(m: Ints, log: Ints, heap: Ints) -> None:
    """The chief counts the step, puts tokens into the queue, and takes again."""
    count_step(m, log)
    m[at.LAST_STEP] = m[at.STEP]
    if m[at.HEAD_LEFT] == 0:
        m[at.HEAD_STEP], m[at.HEAD_LEFT] = m[at.STEP], m[at.TOKENS]
    if m[at.WAITING] > m[at.SERVED]:
        while m[at.WAITING] > m[at.SERVED] and m[at.HEAD_LEFT]:
            place = (m[at.RING_AT] + m[at.SERVED]) % m[at.WORKER_COUNT]
            m[m[m[at.RING] + place] + at.LABEL] = token(m)
            m[at.SERVED] += 1
        if m[at.WOKEN] == 0:
            m[at.WOKEN] = 1
            put(m, heap, m[at.NOW], at.TOKENS_COME)
    take(m, log, heap)


def token(m: Ints) -> int:
    """The step of the oldest token, which is taken."""
    step = m[at.HEAD_STEP]
    m[at.HEAD_LEFT] -= 1
    if m[at.HEAD_LEFT] == 0 and step < m[at.LAST_STEP]:
        m[at.HEAD_STEP], m[at.HEAD_LEFT] = step + 1, m[at.TOKENS]
    return step


def hand_over_tokens(m: Ints, reals: Floats, log: Ints, heap: Ints) -> None:
    """Those for whom there is a token go on, in the order in which they came."""
    served, m[at.SERVED], m[at.WOKEN] = m[at.SERVED], 0, 0
    for _ in range(served):
        w = next_in_line(m)
        span(m, log, w, m[at.NOW], _TOKEN)
        goes_on(m, reals, log, heap, w, _TOKEN)
