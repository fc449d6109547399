"""Books of a run: events that are put in, gradients that end, steps, spans, who waits."""

import math

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.layout import Ints
from varsim.cluster.trace import PHASE_BITS, Outcome, Phase

_READ = int(Phase.READ)
_QUEUE = int(Phase.QUEUE)
_APPLIED = int(Outcome.APPLIED)
_DROPPED = int(Outcome.DROPPED)
_PARTLY = int(Outcome.PARTLY)


def put(m: Ints, heap: Ints, time: int, what: int, priority: int = at.NORMAL) -> int:
    """Put an event on the heap; its order."""
    number = m[at.NUMBER]
    m[at.NUMBER] = number + 1
    order = priority + number
    if m[at.HOLE]:  # in the place of the event that is being served
        m[at.HOLE] = 0
        sink(heap, m[at.EVENTS], time, order, what)
    else:
        m[at.EVENTS] += 1
        rise(heap, m[at.EVENTS] - 1, time, order, what)
        if m[at.EVENTS] > m[at.HEAP_ROOM] and m[at.HALT] == 0:
            m[at.HALT] = at.FULL
    return order


def close(m: Ints, heap: Ints) -> None:
    """Take the event that has been served off the heap."""
    last = 3 * (m[at.EVENTS] - 1)
    m[at.EVENTS] -= 1
    m[at.HOLE] = 0
    sink(heap, m[at.EVENTS], heap[last], heap[last + 1], heap[last + 2])


def sink(heap: Ints, size: int, time: int, order: int, what: int, first: int = 0) -> None:
    """Put an event in at the first place of a heap of that size, and from there where it belongs.

    Its children are at 2 n + 1 and 2 n + 2, three integers each, from `first` on.
    """
    place, child, after = first, first + 3, first + 3 * size
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
        child = 2 * place + 3 - first
    heap[place] = time
    heap[place + 1] = order
    heap[place + 2] = what


def rise(heap: Ints, last: int, time: int, order: int, what: int, first: int = 0) -> None:
    """Put an event in at the last place of a heap, and from there where it belongs."""
    place = first + 3 * last
    while place > first:
        above = first + (place - first - 3) // 6 * 3
        if heap[above] < time or (heap[above] == time and heap[above + 1] < order):
            break
        heap[place] = heap[above]
        heap[place + 1] = heap[above + 1]
        heap[place + 2] = heap[above + 2]
        place = above
    heap[place] = time
    heap[place + 1] = order
    heap[place + 2] = what


def stop(m: Ints, reason: int) -> None:
    """End the run, for the first reason that is given."""
    if m[at.STOPPED_BY] == 0:
        m[at.STOPPED_BY] = reason
        m[at.HALT] = at.OVER


def apply(m: Ints, log: Ints, gradient: int) -> None:
    """A part of a gradient is applied."""
    m[gradient + at.PARTS_APPLIED] += 1
    m[gradient + at.OPEN] -= 1
    if m[gradient + at.OPEN] == 0:
        end(m, log, gradient)


def end(m: Ints, log: Ints, gradient: int) -> None:
    """A gradient has been applied, or dropped, for every variable."""
    applied = m[gradient + at.PARTS_APPLIED]
    if applied:
        m[at.AGGREGATED] += 1
        m[at.PARTS] += applied
    if applied == m[at.VARIABLES]:
        m[gradient + at.OUTCOME] = _APPLIED
    else:
        m[gradient + at.OUTCOME] = _PARTLY if applied else _DROPPED
    m[gradient + at.APPLIED] = m[at.NOW]
    m[gradient + at.APPLIED_STEP] = m[at.STEP]
    place, column = m[at.ENDED], m[at.MOST_ENDED]
    m[at.ENDED] = place + 1
    for field in range(at.FIELDS):
        log[field * column + place] = m[gradient + field]
    m[gradient + at.HAS_ENDED] = 1
    if m[gradient + at.LOOSE] == 0:
        give_back(m, gradient)


def new_row(m: Ints) -> int:
    """A row for another gradient."""
    row = m[at.FREE_ROW]
    if row:
        m[at.FREE_ROW] = m[row + at.NEWER]
    else:
        row = m[at.NEW_ROW]
        m[at.NEW_ROW] = row + m[at.ROW]
        if row > m[at.ROWS_ROOM] and m[at.HALT] == 0:
            m[at.HALT] = at.FULL
    for field in range(at.FIELDS, m[at.ROW]):
        m[row + field] = 0
    m[at.BEGUN] += 1
    m[row + at.COUNT] = m[at.BEGUN]
    return row


def give_back(m: Ints, row: int) -> None:
    """A row is free for another gradient."""
    m[row] = -1
    m[row + at.NEWER] = m[at.FREE_ROW]
    m[at.FREE_ROW] = row


def loosen(m: Ints, gradient: int) -> None:
    """An event of a gradient has been served."""
    m[gradient + at.LOOSE] -= 1
    if m[gradient + at.LOOSE] == 0 and m[gradient + at.HAS_ENDED]:
        give_back(m, gradient)


def count_step(m: Ints, log: Ints) -> None:
    """The model has been updated once more; ends the run if that was enough."""
    step = m[at.STEP] + 1
    m[at.STEP] = step
    note(m, log, m[at.NOW], at.STEPS)
    examples = m[at.PARTS] * m[at.BATCH_SIZE] / m[at.VARIABLES]
    if examples >= m[at.NEXT_LOOK]:
        look(m, log)
        m[at.NEXT_LOOK] = (math.floor(examples / m[at.EVERY]) + 1) * m[at.EVERY]
    if step >= m[at.MOST_STEPS]:
        stop(m, at.BY_STEPS)
    elif examples >= m[at.MOST_EXAMPLES]:
        stop(m, at.BY_EXAMPLES)


def look(m: Ints, log: Ints) -> None:
    """Write down that the model is looked at."""
    note(m, log, m[at.NOW], at.LOOKS)
    note(m, log, m[at.STEP], at.LOOKS)
    note(m, log, m[at.PARTS], at.LOOKS)


def note(m: Ints, log: Ints, value: int, code: int) -> None:
    """Write into the log."""
    place = m[at.LOG]
    log[place] = value
    log[place + 1] = code
    m[at.LOG] = place + 2


def span(m: Ints, log: Ints, w: int, end: int, phase: int) -> None:
    """Write down what a worker did until `end`, from its previous span on."""
    m[w + at.READY] = end
    note(m, log, end, m[w + at.MARK] + (m[w + at.ITERATION] << PHASE_BITS) + phase)


def transferred(m: Ints, log: Ints, w: int, phase: int, end: int, alone: int) -> None:
    """Write down a transfer that ends at `end`; beyond `alone` ns it was queueing."""
    code = m[w + at.MARK] + (m[w + at.ITERATION] + (phase == _READ) << PHASE_BITS)
    if end - alone > m[w + at.READY]:
        note(m, log, end - alone, code + _QUEUE)
    note(m, log, end, code + phase)
    m[w + at.READY] = end


def is_in_line(m: Ints, w: int) -> int:
    """A worker waits; how many there are then."""
    m[m[at.RING] + (m[at.RING_AT] + m[at.WAITING]) % m[at.WORKER_COUNT]] = w
    m[at.WAITING] += 1
    return m[at.WAITING]


def next_in_line(m: Ints) -> int:
    """Who waited longest, and waits no more."""
    w = m[m[at.RING] + m[at.RING_AT]]
    m[at.RING_AT] = (m[at.RING_AT] + 1) % m[at.WORKER_COUNT]
    m[at.WAITING] -= 1
    return w
