"""Books of a run: events that are put in, gradients that end, steps, spans, who waits."""

import math
from heapq import heappush

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.layout import Agenda, Ints
from varsim.cluster.trace import PHASE_BITS, Outcome, Phase

_READ = int(Phase.READ)
_QUEUE = int(Phase.QUEUE)
_APPLIED = int(Outcome.APPLIED)
_DROPPED = int(Outcome.DROPPED)
_PARTLY = int(Outcome.PARTLY)


def put(m: Ints, heap: Agenda, time: int, what: int, priority: int = at.NORMAL) -> int:
    """Put an event on the heap; its order."""
    number = m[at.NUMBER]
    m[at.NUMBER] = number + 1
    if number == m[at.MOST_NUMBER]:
        stop(m, at.BY_EVENTS)
    order = priority + number
    heappush(heap, (time, order, what))
    return order


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
    note(m, log, gradient, at.ENDS)


def count_step(m: Ints, log: Ints) -> None:
    """The model has been updated once more; ends the run if that was enough."""
    step = m[at.STEP] + 1
    m[at.STEP] = step
    note(m, log, m[at.NOW], at.STEPS)
    examples = m[at.PARTS] * m[at.BATCH_SIZE] / m[at.VARIABLES]
    if examples >= m[at.NEXT_LOOK]:
        note(m, log, m[at.PARTS], at.LOOKS)
        m[at.NEXT_LOOK] = (math.floor(examples / m[at.EVERY]) + 1) * m[at.EVERY]
    if step >= m[at.MOST_STEPS]:
        stop(m, at.BY_STEPS)
    elif examples >= m[at.MOST_EXAMPLES]:
        stop(m, at.BY_EXAMPLES)


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
