"""Replicas that all-reduce message by message: their gradients, or copies of their own.

The rules are those of `accumulation`, `exchange.AllReduce`, `collective` and `replicas`.
"""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.asynchronous import work_out_ahead
from varsim.cluster.flat.books import (
    close,
    count_step,
    end,
    end_at,
    is_in_line,
    look,
    next_in_line,
    note,
    put,
    span,
    stop,
)
from varsim.cluster.flat.bounded import slowest_moves
from varsim.cluster.flat.hub import give_up
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.links import end_of
from varsim.cluster.flat.sharing import begin_flow, collect, see_to_mesh
from varsim.cluster.flat.sums import (
    add_piece,
    await_sums,
    begin_pushing,
    leave_line,
    piece_arrives,
    push_pieces,
)
from varsim.cluster.flat.walk import (
    begin_walk,
    count_passed,
    enter_walk,
    leave_at_its_pace,
    message_added,
    message_arrives,
    message_comes,
    message_leaves,
)
from varsim.cluster.flat.worker import begin_gradient, leave_for_later, next_work
from varsim.cluster.trace import PHASE_BITS, Phase

_COMPUTE, _BARRIER, _WRITE = int(Phase.COMPUTE), int(Phase.BARRIER), int(Phase.WRITE)


def reduce_on(m: Ints, reals: Floats, log: Ints, heap: Ints) -> None:
    """Serve events until the run is over, wants more draws or more room, or for some time."""
    while m[at.HALT] == 0 and m[at.PATIENCE] > 0:
        m[at.PATIENCE] -= 1
        if m[at.HOLE]:
            close(m, heap)
        now, what = heap[0], heap[2]
        m[at.HOLE], m[at.NOW] = 1, now
        kind, who = what & at.KINDS, what >> at.BITS
        if kind == at.MESSAGE_PASSES:
            passes(m, reals, heap, who)
        elif kind == at.FLOWS_PASS:
            flows_pass(m, reals, heap)
        elif kind == at.MESSAGE_ARRIVES:
            if m[at.PIECES]:
                piece_arrives(m, reals, heap, who)
            else:
                message_arrives(m, reals, heap, who)
        elif kind == at.MESSAGE_LEAVES:
            message_leaves(m, reals, heap, who)
        elif kind == at.MESSAGE_COMES:
            message_comes(m, reals, heap, who)
        elif kind == at.MESSAGE_ADDED:
            message_added(m, reals, heap, who)
        elif kind == at.COMPUTED:
            has_computed(m, reals, log, heap, who)
        elif kind == at.REDUCED:
            overhead = m[plan_of(m, m[m[who + at.REPLICA] + at.AT_BUCKET]) + at.PLAN_OVERHEAD]
            if overhead:
                put(m, heap, now + overhead, who << at.BITS | at.REDUCED_AT_LAST)
            else:
                is_reduced(m, reals, log, heap, who)
        elif kind == at.REDUCED_AT_LAST:
            is_reduced(m, reals, log, heap, who)
        elif kind == at.COPY_UPDATED:
            is_updated(m, reals, log, heap, who)
        elif kind == at.ALL_HAVE_MET:
            while m[at.WAITING]:
                is_read(m, reals, log, heap, next_in_line(m))
        elif kind == at.STREAM_STARTS:
            await_bucket(m, reals, log, heap, who)
        elif kind == at.BUCKET_READY:
            join(m, reals, log, heap, who)
        elif kind == at.STREAM_ENDS:
            r = m[who + at.REPLICA]
            m[r + at.STREAM_DONE] = 1
            if m[r + at.SEEN]:
                update_copy(m, reals, log, heap, who)
        elif kind == at.PIECES_READY:
            push_pieces(m, reals, heap, who)
        elif kind == at.PIECE_ADDED:
            add_piece(m, reals, heap, who)
        elif kind == at.SUMS_THERE:
            has_sums(m, reals, log, heap, who)
        elif kind == at.CAUGHT_UP:
            if m[at.PIECES]:
                await_sums(m, log, who)
            elif m[m[who + at.REPLICA] + at.STREAM_DONE]:
                update_copy(m, reals, log, heap, who)
            else:
                await_stream(m, who)
        elif kind == at.STARTS:
            begin_step(m, reals, log, heap, who)
        elif kind == at.TIME_IS_UP:
            stop(m, at.BY_TIME)
        elif kind == at.CLOCK_ENDS:
            m[at.HALT] = at.STANDSTILL


def flows_pass(m: Ints, reals: Floats, heap: Ints) -> None:
    """Messages have passed links that are shared, in the order in which they began to."""
    if m[at.NOW] != m[at.WAKE_AT]:
        return
    number = collect(m, reals, heap)
    for place in range(m[at.TOLD], m[at.TOLD] + 2 * number, 2):
        flow = m[place]
        message, connection = m[flow + at.TRANSFER_OF], m[flow + at.CONNECTION_OF]
        give_up(m, at.FREE_FLOW, flow)
        if m[connection + at.THEN]:
            begin_flow(m, reals, heap, message, m[connection + at.THEN])
        else:
            passes(m, reals, heap, message)
    see_to_mesh(m, reals, heap)


def passes(m: Ints, reals: Floats, heap: Ints, message: int) -> None:
    """A message has passed its links; over those that are shared it arrives a latency later."""
    if m[at.FAIR] == 0:
        count_passed(m, reals, message)
    if m[at.PIECES]:
        leave_line(m, reals, heap, message)
    else:
        leave_at_its_pace(m, reals, heap, message)
    if m[at.FAIR]:
        end = m[at.NOW] + m[m[message + at.SENT_AS] + at.SEND_LATENCY]
        put(m, heap, end, message << at.BITS | at.MESSAGE_ARRIVES)


def plan_of(m: Ints, bucket: int) -> int:
    """The record of how a bucket is all-reduced."""
    return m[at.PLANS] + bucket * at.PLAN


def begin_step(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A replica begins a step with its own copy."""
    r = m[w + at.REPLICA]
    m[w + at.COPY_AT], m[w + at.COPY_STEP] = m[w + at.READY], m[w + at.CLOCK]
    m[r + at.BATCHES_LEFT] = m[at.MICRO_BATCHES]
    m[r + at.DEADLINE] = at.FOREVER
    if m[at.THRESHOLD] < at.FOREVER:
        m[r + at.DEADLINE] = max(m[w + at.READY], m[at.NOW]) + m[at.THRESHOLD]
    m[r + at.OFFERED + m[w + at.CLOCK] % 2] = 0
    if m[at.READ_EVERY]:
        note(m, log, m[at.AGGREGATED] - m[r + at.CONTAINED], at.STALENESS)
    compute_next(m, reals, log, heap, w)


def compute_next(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """It computes its next micro-batch, unless there is none, or the rest of them is given up."""
    r = m[w + at.REPLICA]
    left = m[r + at.BATCHES_LEFT]
    if left == 0 or m[at.NOW] >= m[r + at.DEADLINE]:
        give_up_rest(m, w)
        exchange(m, reals, log, heap, w)
        return
    m[r + at.BATCHES_LEFT] = left - 1
    start, work = max(m[w + at.READY], m[at.NOW]), next_work(m, w, m[at.PASSED_OVER])
    done = end_of(m, reals, w, start, work)
    gradient = begin_gradient(m, w, start, done, m[w + at.COPY_AT], m[w + at.COPY_STEP])
    span(m, log, w, min(done, m[r + at.DEADLINE]) if m[at.BREAKS_OFF] else done, _COMPUTE)
    if m[at.READ_EVERY]:
        leave_for_later(m, gradient)
    if left > 1 or m[at.OVERLAPS] == 0 or m[at.BREAKS_OFF]:
        put(m, heap, m[w + at.READY], w << at.BITS | at.COMPUTED)
        return
    offer(m, w, gradient)
    for bucket in range(m[at.BUCKETS]):
        share = round(work * reals[m[at.SHARES] + bucket])
        m[r + at.MOMENTS + bucket] = min(done, end_of(m, reals, w, start, share))
    exchange(m, reals, log, heap, w)


def has_computed(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A micro-batch has been computed, or broken off."""
    gradient = m[w + at.GRADIENT]
    if m[gradient + at.COMPUTED_AT] > m[at.NOW]:
        m[gradient + at.COMPUTED_AT] = -1
        end_at(m, log, gradient, m[w + at.COPY_STEP])
        give_up_rest(m, w)
        exchange(m, reals, log, heap, w)
    elif m[at.READ_EVERY]:
        update_copy(m, reals, log, heap, w)
    else:
        offer(m, w, gradient)
        compute_next(m, reals, log, heap, w)


def give_up_rest(m: Ints, w: int) -> None:
    """The micro-batches that are left are for nobody; what is sent is ready."""
    r = m[w + at.REPLICA]
    m[w + at.DRAWN] += m[r + at.BATCHES_LEFT]
    for bucket in range(m[at.BUCKETS]):
        m[r + at.MOMENTS + bucket] = m[w + at.READY]


def offer(m: Ints, w: int, gradient: int) -> None:
    """A gradient is one of those that a replica sends."""
    r = m[w + at.REPLICA]
    first = r + at.OFFERED + m[w + at.CLOCK] % 2
    m[gradient + at.NEXT] = 0
    if m[first]:
        m[m[r + at.LAST_OFFERED] + at.NEXT] = gradient
    else:
        m[first] = gradient
    m[r + at.LAST_OFFERED] = gradient


def exchange(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """Its gradients are all-reduced: by servers, its stream meanwhile, or by itself."""
    if m[at.PIECES]:
        begin_pushing(m, log, heap, w)
        return
    r = m[w + at.REPLICA]
    m[r + at.AT_BUCKET], m[r + at.STREAM_DONE] = 0, 0
    m[r + at.SEEN] = 1 - m[at.OVERLAPS]
    if m[at.OVERLAPS] == 0:
        join(m, reals, log, heap, w)
        return
    m[at.COMPUTED_BY] = max(m[at.COMPUTED_BY], m[w + at.READY])
    put(m, heap, m[at.NOW], w << at.BITS | at.STREAM_STARTS, at.URGENT)
    if m[w + at.READY] > m[at.NOW]:
        put(m, heap, m[w + at.READY], w << at.BITS | at.CAUGHT_UP)
    else:
        await_stream(m, w)


def await_stream(m: Ints, w: int) -> None:
    """A worker has computed, and waits for its stream."""
    r = m[w + at.REPLICA]
    m[r + at.SEEN] = 1
    if m[r + at.STREAM_WAITS]:
        m[w + at.PHASE] = m[r + at.STREAM_PHASE]


def await_bucket(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A stream waits until its next bucket is ready."""
    r = m[w + at.REPLICA]
    moment = m[r + at.MOMENTS + m[r + at.AT_BUCKET]]
    if moment > m[at.NOW]:
        put(m, heap, moment, w << at.BITS | at.BUCKET_READY)
    else:
        join(m, reals, log, heap, w)


def join(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A replica takes part in the next all-reduce (Collective.take_part)."""
    r, number = m[w + at.REPLICA], m[at.WORKER_COUNT]
    m[r + at.STREAM_WAITS], m[r + at.STREAM_PHASE] = 1, _BARRIER
    if m[r + at.SEEN]:
        m[w + at.PHASE] = _BARRIER
    m[r + at.JOINED_AT] = m[at.NOW]
    if m[at.FORESEEN] == 0:
        if m[at.WALK] == 0:
            m[at.WALK] = begin_walk(m, plan_of(m, m[at.BUCKET]))
        enter_walk(m, reals, heap, m[at.WALK] + m[w + at.RANK] * at.MEMBER)
    m[at.JOINED] += 1
    if m[at.JOINED] < number:
        return
    m[at.WALK_BEFORE], m[at.WALK] = m[at.WALK], 0
    if m[at.FORESEEN] == 0:
        m[at.JOINED] = 0
    elif m[at.HALT] == 0:
        m[at.HALT] = at.ASKS_FOR_ENDS
    m[at.BUCKET] = (m[at.BUCKET] + 1) % m[at.BUCKETS]
    m[at.MOVED_AT] = m[at.NOW]
    for place in range(number):
        other = m[at.WORKERS] + place * at.WORKER_SIZE
        r = m[other + at.REPLICA]
        m[r + at.STREAM_PHASE] = _WRITE
        if m[r + at.SEEN]:
            span(m, log, other, m[at.NOW], m[other + at.PHASE])
            m[other + at.PHASE] = _WRITE


def let_end(m: Ints, heap: Ints, ends: Ints) -> None:
    """A reduction that all have joined ends for each rank then (ns)."""
    m[at.JOINED] = 0
    for rank in range(m[at.WORKER_COUNT]):
        w = m[at.WORKERS] + rank * at.WORKER_SIZE
        m[m[w + at.REPLICA] + at.JOINED_AT] = -1
        put(m, heap, ends[rank], w << at.BITS | at.REDUCED)


def is_reduced(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A replica has the mean of a bucket."""
    r, now = m[w + at.REPLICA], m[at.NOW]
    m[r + at.STREAM_WAITS] = 0
    if m[r + at.SEEN]:
        span(m, log, w, now, m[w + at.PHASE])
    if m[at.READ_EVERY]:
        end_read(m, reals, log, heap, w)
        return
    m[r + at.AT_BUCKET] += 1
    last = m[r + at.AT_BUCKET] == m[at.BUCKETS]
    if m[at.OVERLAPS] == 0:
        if last:
            update_copy(m, reals, log, heap, w)
        else:
            join(m, reals, log, heap, w)
        return
    has_sent(m, log, w)
    if last:
        put(m, heap, now, w << at.BITS | at.STREAM_ENDS)
        put(m, heap, now, w << at.BITS | at.STREAM_GONE)
    else:
        await_bucket(m, reals, log, heap, w)


def has_sent(m: Ints, log: Ints, w: int) -> None:
    """A bucket was sent beside computation (Ledger.has_sent)."""
    begun, now = m[at.MOVED_AT], m[at.NOW]
    m[at.SENDING_TIME] += now - begun
    m[at.HIDDEN_TIME] += max(0, min(now, m[m[w + at.GRADIENT] + at.COMPUTED_AT]) - begun)
    note_sent(m, log, w, begun)


def note_sent(m: Ints, log: Ints, w: int, begun: int) -> None:
    """Write down what a worker sent beside computation, from then to now."""
    if m[at.RECORDS_SENDS] and m[at.NOW] > begun:
        note(m, log, begun, at.SENT)
        note(m, log, m[at.NOW], at.SENT)
        note(m, log, m[w + at.MARK] + (m[w + at.ITERATION] << PHASE_BITS) + _WRITE, at.SENT)


def has_sums(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A replica has the sums of all pieces."""
    span(m, log, w, m[at.NOW], m[w + at.PHASE])
    if m[at.SENDS_EARLY]:
        note_sent(m, log, w, m[m[w + at.REPLICA] + at.MOMENTS])
    update_copy(m, reals, log, heap, w)


def update_copy(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """Its copy is updated, if that takes time."""
    update = m[m[w + at.REPLICA] + at.UPDATE]
    if update == 0:
        is_updated(m, reals, log, heap, w)
        return
    start = max(m[w + at.READY], m[at.NOW])
    span(m, log, w, end_of(m, reals, w, start, update), _COMPUTE)
    put(m, heap, m[w + at.READY], w << at.BITS | at.COPY_UPDATED)


def is_updated(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """Its copy is updated: with its own gradient, or the mean of all."""
    if m[at.READ_EVERY]:
        apply_own(m, reals, log, heap, w)
    else:
        apply_mean(m, reals, log, heap, w)


def apply_own(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A step counts when all have made it; after so many of them all meet to be read."""
    gradient, step = m[w + at.GRADIENT], m[w + at.CLOCK]
    work_out_ahead(m, gradient)
    m[gradient + at.ARRIVED], m[gradient + at.PARTS_APPLIED] = m[at.NOW], m[at.VARIABLES]
    end_at(m, log, gradient, step)
    m[m[w + at.REPLICA] + at.CONTAINED] += 1
    m[w + at.CLOCK] = step + 1
    if slowest_moves(m, w):
        count_step(m, log)
    if (step + 1) % m[at.READ_EVERY]:
        begin_step(m, reals, log, heap, w)
    elif m[at.WAITING] + 1 < m[at.WORKER_COUNT]:
        m[w + at.PHASE] = _BARRIER
        is_in_line(m, w)
    else:
        put(m, heap, m[at.NOW], at.ALL_HAVE_MET)
        is_read(m, reals, log, heap, w)


def is_read(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A replica has met the others, and its copy is all-reduced with theirs."""
    span(m, log, w, m[at.NOW], _BARRIER)
    join(m, reals, log, heap, w)


def end_read(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """A replica has what was read, which rank 0 measures; it goes on."""
    if m[w + at.RANK] == 0:
        look(m, log)
    if m[at.WRITES_BACK]:
        m[m[w + at.REPLICA] + at.CONTAINED] = m[w + at.CLOCK] * m[at.WORKER_COUNT]
    begin_step(m, reals, log, heap, w)


def apply_mean(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """Its copy is that of the next step, which counts when those of all are; it goes on."""
    odd = m[w + at.CLOCK] % 2
    if m[at.APPLIED_BY + odd] == 0:
        m[at.EVALUATED] += offered(m, log, odd, 0)
    m[w + at.CLOCK] += 1
    m[at.APPLIED_BY + odd] += 1
    if m[at.APPLIED_BY + odd] == m[at.WORKER_COUNT]:
        m[at.APPLIED_BY + odd] = 0
        offered(m, log, odd, 1)
        count_step(m, log)
    begin_step(m, reals, log, heap, w)


def offered(m: Ints, log: Ints, odd: int, applied: int) -> int:
    """How many gradients all have offered for a step; these are applied, or not yet."""
    number = 0
    for place in range(m[at.WORKER_COUNT]):
        gradient = m[m[m[at.WORKERS] + place * at.WORKER_SIZE + at.REPLICA] + at.OFFERED + odd]
        while gradient:
            after, number = m[gradient + at.NEXT], number + 1
            if applied:
                m[gradient + at.ARRIVED] = m[at.NOW]
                m[gradient + at.PARTS_APPLIED] = m[at.VARIABLES]
                end(m, log, gradient)
            gradient = after
    return number
