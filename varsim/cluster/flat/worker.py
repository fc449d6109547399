"""Workers: they read the variables, compute a gradient, and are told to go on."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import new_row, put, span, transferred
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.links import end_of, enqueue, hand_over, keep_starts
from varsim.cluster.flat.sharing import transfer
from varsim.cluster.trace import Phase

_COMPUTE, _READ = int(Phase.COMPUTE), int(Phase.READ)


def read(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A worker begins an iteration, once the clock has reached its own time."""
    kind = at.ASKS if m[at.HANDLING] else at.FETCHES
    if m[w + at.READY] > m[at.NOW]:
        m[w + at.AWAITED] = put(m, heap, m[w + at.READY], w << at.BITS | kind)
    elif m[at.HANDLING]:
        ask(m, reals, log, heap, w)
    else:
        fetch(m, reals, log, heap, w)


def ask(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """Its request waits in the queues of all servers."""
    end = longest = 0
    for queue in range(m[at.QUEUES]):
        hold = m[m[at.READ_HOLDS] + queue]
        end = max(end, enqueue(m, queue, hold))
        longest = max(longest, hold)
    if end > m[at.NOW]:
        transferred(m, log, w, _READ, end, longest)
        m[w + at.AWAITED] = put(m, heap, end, w << at.BITS | at.FETCHES)
    else:
        fetch(m, reals, log, heap, w)


def fetch(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """It is sent the variables, and computes a gradient when they are there."""
    now, batch = m[at.NOW], m[w + at.PULL]
    if m[at.FAIR]:
        m[w + at.PHASE] = _READ
        m[w + at.COPY_AT], m[w + at.COPY_STEP] = now, m[at.STEP]
        transfer(m, reals, heap, w, batch, -1)
        return
    if m[w + at.PULL_DUE] > now:
        keep_starts(m, log, w, at.PULL, at.PULL_STARTS)
    start = hand_over(m, w, batch, m[w + at.PULL_STARTS], now)
    m[w + at.PULLED] += 1
    m[w + at.PULL_DUE] = start
    transferred(m, log, w, _READ, start, m[batch + at.ALONE])
    m[w + at.COPY_AT], m[w + at.COPY_STEP] = now, m[at.STEP]
    compute(m, reals, log, heap, w, start, now, m[at.STEP])


def compute(
    m: Ints, reals: Floats, log: Ints, heap: Ints, w: int, start: int, read_at: int, read_step: int
) -> None:
    """It computes a gradient from a moment on, of what it read at another."""
    end = end_of(m, reals, w, start, next_work(m, w))
    begin_gradient(m, w, start, end, read_at, read_step)
    m[w + at.UNSENT] = -1
    span(m, log, w, end, _COMPUTE)
    m[w + at.AWAITED] = put(m, heap, end, w << at.BITS | at.COMPUTED)


def next_work(m: Ints, w: int) -> int:
    """A worker's next compute time (ns)."""
    draw = m[w + at.DRAWN]
    m[w + at.DRAWN] = draw + 1
    if draw + 1 >= m[w + at.DRAWS] and m[at.HALT] == 0:
        m[at.HALT] = at.DRY
    place = m[w + at.TIMES] + (draw & m[at.WITHIN])
    if draw & (m[at.WITHIN] + 1):  # of every other block
        place += m[at.PLANE]
    return m[place]


def begin_gradient(m: Ints, w: int, start: int, end: int, read_at: int, read_step: int) -> None:
    """A worker's next gradient is computed from a moment to another."""
    nth = m[w + at.ITERATION] + 1
    m[w + at.ITERATION] = nth
    gradient = new_row(m)
    if (m[at.LOG] > m[at.LOG_ROOM] or m[at.ENDED] > m[at.ENDED_ROOM]) and m[at.HALT] == 0:
        m[at.HALT] = at.FULL
    m[w + at.GRADIENT] = gradient
    m[gradient] = m[w + at.RANK]
    m[gradient + at.NTH] = nth
    m[gradient + at.READ_AT] = read_at
    m[gradient + at.READ_STEP] = read_step
    m[gradient + at.BEGUN_AT] = start
    m[gradient + at.COMPUTED_AT] = end
    m[gradient + at.ARRIVED] = -1
    m[gradient + at.LABELLED] = m[w + at.LABEL]
    m[gradient + at.OPEN] = -1
    m[gradient + at.PARTS_APPLIED] = 0


def is_answered(m: Ints, log: Ints, heap: Ints, w: int, phase: int) -> bool:
    """Whether a worker is told to go on at this moment; else it waits for that."""
    end = enqueue(m, 0, m[at.ANSWER])
    if end <= m[at.NOW]:
        return True
    transferred(m, log, w, phase, end, m[at.ANSWER])
    m[w + at.AWAITED] = put(m, heap, end, w << at.BITS | at.ANSWERED)
    return False


def goes_on(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int, phase: int) -> None:
    """It begins anew, once a server has told it to."""
    if m[at.HANDLING] == 0 or is_answered(m, log, heap, w, phase):
        read(m, reals, log, heap, w)
