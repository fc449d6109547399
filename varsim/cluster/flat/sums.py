"""Sums of gradients by servers, piece by piece; the rules are those of `push_pull.PushPull`."""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.books import put, span
from varsim.cluster.flat.hub import give_up
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.links import update
from varsim.cluster.flat.walk import pass_on
from varsim.cluster.trace import Phase

_BARRIER, _WRITE = int(Phase.BARRIER), int(Phase.WRITE)


def begin_pushing(m: Ints, log: Ints, heap: Ints, w: int) -> None:
    """A worker pushes pieces of its gradient as they are ready, and waits for all sums."""
    r = m[w + at.REPLICA]
    m[r + at.SUMS_LEFT], m[r + at.AT_BUCKET] = m[at.PIECE_COUNT], 0
    for bucket in range(m[at.BUCKETS]):
        put(m, heap, m[r + at.MOMENTS + bucket], w << at.BITS | at.PIECES_READY)
    if m[w + at.READY] > m[at.NOW]:
        put(m, heap, m[w + at.READY], w << at.BITS | at.CAUGHT_UP)
    else:
        await_sums(m, log, w)


def await_sums(m: Ints, log: Ints, w: int) -> None:
    """A worker has computed; once all have, they wait for what is written."""
    m[w + at.PHASE] = _BARRIER
    m[at.JOINED] += 1
    if m[at.JOINED] < m[at.WORKER_COUNT]:
        return
    m[at.JOINED] = 0
    for place in range(m[at.WORKER_COUNT]):
        other = m[at.WORKERS] + place * at.WORKER_SIZE
        span(m, log, other, m[at.NOW], _BARRIER)
        m[other + at.PHASE] = _WRITE


def push_pieces(m: Ints, reals: Floats, heap: Ints, w: int) -> None:
    """The next pieces of a worker's gradient are ready."""
    r = m[w + at.REPLICA]
    groups = m[at.PIECES_BY] + m[r + at.AT_BUCKET]
    m[r + at.AT_BUCKET] += 1
    first = m[at.PUSHES] + m[w + at.RANK] * m[at.PIECE_COUNT] * m[at.SEND_SIZE]
    for piece in range(m[groups], m[groups + 1]):
        hand_in(m, reals, heap, first + piece * m[at.SEND_SIZE])


def hand_in(m: Ints, reals: Floats, heap: Ints, send: int) -> None:
    """A piece is in line for its connection (Outbox.send)."""
    line = m[send + at.CONNECTION_OF_SEND]
    m[send] = 0
    if m[line]:
        m[m[line + at.LAST_IN_LINE]] = m[line + at.LAST_IN_LINE] = send
    else:
        m[line] = m[line + at.LAST_IN_LINE] = send
        pass_on(m, reals, heap, line, send, 0)


def leave_line(m: Ints, reals: Floats, heap: Ints, message: int) -> None:
    """A piece has passed its links, and the next of its connection goes onto them."""
    line = m[message + at.SENT_BY]
    m[line] = m[m[line]]
    if m[line]:
        pass_on(m, reals, heap, line, m[line], 0)


def piece_arrives(m: Ints, reals: Floats, heap: Ints, message: int) -> None:
    """A piece is at its server, or its sum at a worker."""
    send = m[message + at.SENT_AS]
    give_up(m, at.FREE_MESSAGE, message)
    puller = m[send + at.PULLER]
    if puller == 0:
        come(m, reals, heap, m[send + at.PIECE])
        return
    w = m[at.WORKERS] + (puller - 1) * at.WORKER_SIZE
    left = m[w + at.REPLICA] + at.SUMS_LEFT
    m[left] -= 1
    if m[left] == 0:
        put(m, heap, m[at.NOW], w << at.BITS | at.SUMS_THERE)


def come(m: Ints, reals: Floats, heap: Ints, piece: int) -> None:
    """A piece of some worker is at its server, to be added."""
    if m[at.THREADS] == 0:
        add_piece(m, reals, heap, piece)
        return
    queues, end = m[at.PIECE_QUEUES] + 2 * piece, 0
    for queue in range(m[queues], m[queues + 1]):
        end = max(end, update(m, reals, queue, piece, m[at.NOW], -1))
    put(m, heap, end, piece << at.BITS | at.PIECE_ADDED)


def add_piece(m: Ints, reals: Floats, heap: Ints, piece: int) -> None:
    """A piece of some worker is in its sum; that of all goes to each of them, by rank."""
    summed, number = m[at.PIECES] + piece, m[at.WORKER_COUNT]
    m[summed] += 1
    if m[summed] < number:
        return
    m[summed] = 0
    first = m[at.PULLS] + piece * number * m[at.SEND_SIZE]
    for rank in range(number):
        hand_in(m, reals, heap, first + rank * m[at.SEND_SIZE])
