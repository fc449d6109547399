"""Event loop of the engine for times alone: what happens next, and to whom.

Everything in the modules of functions here is written in the part of Python that numba compiles;
tests interpret it, too.
"""

from varsim.cluster.flat import layout as at
from varsim.cluster.flat.accumulators import accumulate, count_update, hand_over_tokens, take, token
from varsim.cluster.flat.asynchronous import commit, locked, update_locked
from varsim.cluster.flat.books import (
    apply,
    close,
    count_step,
    is_in_line,
    loosen,
    put,
    span,
    stop,
    transferred,
)
from varsim.cluster.flat.bounded import await_others, looks, take_in
from varsim.cluster.flat.cutoff import begin_anew, end_step, gather, is_given_up
from varsim.cluster.flat.hub import give_up
from varsim.cluster.flat.layout import Floats, Ints
from varsim.cluster.flat.links import enqueue, hand_over, keep_starts, sort_items, update
from varsim.cluster.flat.sharing import is_last, reached, settle, transfer
from varsim.cluster.flat.worker import ask, compute, fetch, goes_on, is_answered, read
from varsim.cluster.trace import Phase

_READ = int(Phase.READ)
_WRITE = int(Phase.WRITE)
_BARRIER = int(Phase.BARRIER)
_TOKEN = int(Phase.TOKEN)
_LOCK = int(Phase.LOCK)


def advance(m: Ints, reals: Floats, log: Ints, heap: Ints) -> None:
    """Serve events until the run is over, wants more draws or more room, or for some time."""
    while m[at.HALT] == 0 and m[at.PATIENCE] > 0:
        m[at.PATIENCE] -= 1
        if m[at.HOLE]:
            close(m, heap)
        if m[at.EVENTS] == 0:
            m[at.HALT] = at.STANDSTILL
            return
        now, order, what = heap[0], heap[1], heap[2]
        m[at.HOLE] = 1
        kind, who = what & at.KINDS, what >> at.BITS
        if m[at.STALE] and kind <= at.ANSWERED and m[who + at.AWAITED] != order:
            m[at.STALE] -= 1
            continue
        m[at.NOW] = now
        if kind == at.COMPUTED:
            if m[at.FAIR]:
                push_fairly(m, reals, heap, who)
            else:
                push(m, log, heap, who)
        elif kind == at.ARRIVES:
            gradient = m[who + at.GRADIENT]
            m[gradient + at.LOOSE] += 1
            arrive(m, reals, log, heap, gradient, m[who + at.LAST_ITEM])
            sent(m, reals, log, heap, who)
            loosen(m, gradient)
        elif kind == at.ITEM_ARRIVES:
            arrive(m, reals, log, heap, who // m[at.VARIABLES], who % m[at.VARIABLES])
            loosen(m, who // m[at.VARIABLES])
        elif kind == at.FETCHES:
            fetch(m, reals, log, heap, who)
        elif kind == at.TOKENS_COME:
            hand_over_tokens(m, reals, log, heap)
        elif kind == at.CHIEF_WAKES:
            if m[at.COMMIT]:
                put(m, heap, now + m[at.COMMIT], at.COMMITS)
            else:
                count_update(m, log, heap)
        elif kind == at.COMMITS:
            count_update(m, log, heap)
        elif kind == at.ASKS:
            ask(m, reals, log, heap, who)
        elif kind == at.ITEM_HANDLED:
            receive(m, reals, log, heap, who // m[at.VARIABLES], who % m[at.VARIABLES])
            loosen(m, who // m[at.VARIABLES])
        elif kind == at.GRADIENT_HANDLED:
            handled(m, reals, log, heap, who)
        elif kind == at.ANSWERED:
            answered(m, reals, log, heap, who)
        elif kind == at.LOCKS:
            span(m, log, who, now, _LOCK)
            locked(m, reals, log, heap, who)
        elif kind == at.UPDATED:
            commit(m, reals, log, heap, who)
        elif kind == at.LOCK_COMMITS:
            update_locked(m, reals, log, heap, who)
        elif kind == at.LOOKS_AHEAD:
            looks(m, reals, log, heap, who)
        elif kind == at.TAKES_IN:
            take_in(m, log, heap)
        elif kind == at.STEP_ENDS:
            begin_anew(m, reals, log, heap, who)
        elif kind == at.SETTLES:
            end_step(m, reals, log, heap)
        elif kind == at.FLOWS_PASS:
            settle(m, reals, heap)
        elif kind == at.PART_PASSES:
            reached(m, heap, who // m[at.VARIABLES], who % m[at.VARIABLES], 0)
        elif kind == at.PART_ARRIVES:
            part_arrives(m, reals, log, heap, who // m[at.VARIABLES], who % m[at.VARIABLES])
        elif kind == at.ALL_IS_THERE:
            all_is_there(m, reals, log, heap, who)
        elif kind == at.STARTS:
            read(m, reals, log, heap, who)
        elif kind == at.CHIEF_STARTS:
            take(m, log, heap)
        elif kind == at.TIME_IS_UP and m[at.EVENTS] > m[at.STALE] + 1:
            stop(m, at.BY_TIME)
        else:  # nothing is left to happen, or the clock cannot count as far
            m[at.HALT] = at.STANDSTILL


def push(m: Ints, log: Ints, heap: Ints, w: int) -> None:
    """It sends its gradient, variable by variable."""
    now, batch, gradient = m[at.NOW], m[w + at.PUSH], m[w + at.GRADIENT]
    m[gradient + at.OPEN] = m[w + at.UNSENT] = m[at.VARIABLES]
    if m[w + at.PUSH_DUE] > now:
        keep_starts(m, log, w, at.PUSH, at.PUSH_STARTS)
    end = hand_over(m, w, batch, m[w + at.PUSH_STARTS], now)
    m[w + at.PUSHED] += 1
    m[w + at.PUSH_DUE] = end
    items = m[batch + at.ITEMS]
    if items > 1:
        sort_items(m, items, m[batch + at.PAIR])
        for place in range(items - 1):
            item = m[m[at.ORDER] + place]
            what = gradient * m[at.VARIABLES] + item << at.BITS | at.ITEM_ARRIVES
            put(m, heap, m[m[at.THERE] + item], what)
        m[gradient + at.LOOSE] += items - 1
    m[w + at.LAST_ITEM] = m[m[at.ORDER] + items - 1]
    transferred(m, log, w, _WRITE, end, m[batch + at.ALONE])
    m[w + at.AWAITED] = put(m, heap, end, w << at.BITS | at.ARRIVES)


def push_fairly(m: Ints, reals: Floats, heap: Ints, w: int) -> None:
    """It sends its gradient over links that are shared."""
    gradient = m[w + at.GRADIENT]
    m[gradient + at.OPEN] = m[w + at.UNSENT] = m[at.VARIABLES]
    m[gradient + at.LOOSE] += 1
    m[w + at.PHASE] = _WRITE
    transfer(m, reals, heap, w, m[w + at.PUSH], gradient)


def part_arrives(m: Ints, reals: Floats, log: Ints, heap: Ints, t: int, item: int) -> None:
    """A part of an item that was sent over shared links is there."""
    if m[m[t + at.BATCH_OF] + at.EVEN] == 0 and not is_last(m, t, item):
        return
    m[t + at.MISSING] -= 1
    if m[t + at.CONTENT] >= 0:
        arrive(m, reals, log, heap, m[t + at.CONTENT], item)
    if m[t + at.MISSING] == 0:
        put(m, heap, m[at.NOW], t << at.BITS | at.ALL_IS_THERE)


def all_is_there(m: Ints, reals: Floats, log: Ints, heap: Ints, t: int) -> None:
    """Who waited for what is there now goes on, unless it was called off meanwhile."""
    w, gradient, alone = m[t + at.WAITER], m[t + at.CONTENT], m[m[t + at.BATCH_OF] + at.ALONE]
    waits = m[w + at.TRANSFER] == t
    give_up(m, at.FREE_TRANSFER, t)
    if waits:
        m[w + at.TRANSFER] = 0
        if gradient >= 0:
            transferred(m, log, w, _WRITE, m[at.NOW], alone)
            sent(m, reals, log, heap, w)
        else:
            transferred(m, log, w, _READ, m[at.NOW], alone)
            compute(m, reals, log, heap, w, m[at.NOW], m[w + at.COPY_AT], m[w + at.COPY_STEP])
    if gradient >= 0:
        loosen(m, gradient)


def arrive(m: Ints, reals: Floats, log: Ints, heap: Ints, gradient: int, item: int) -> None:
    """An item of a gradient is there; servers may have to handle it first."""
    now = m[at.NOW]
    if not is_given_up(m, gradient):
        m[gradient + at.ARRIVED] = now
    if m[at.HANDLING] == 0:
        receive(m, reals, log, heap, gradient, item)
        return
    handling = gradient + m[at.HANDLING]
    end = 0
    for queue in range(m[at.QUEUES]):
        hold = m[m[at.PUSH_HOLDS] + item * m[at.QUEUES] + queue]
        if hold >= 0:
            handled = enqueue(m, queue, hold)
            if m[at.AT_ONCE]:
                handled = update(m, reals, queue, item, handled, handling)
            end = max(end, handled)
    m[handling + at.HANDLED] = max(m[handling + at.HANDLED], end)
    if end > now:
        what = gradient * m[at.VARIABLES] + item << at.BITS | at.ITEM_HANDLED
        m[gradient + at.LOOSE] += 1
        put(m, heap, end, what)
    else:
        receive(m, reals, log, heap, gradient, item)


def sent(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """All of its gradient is there; it waits until that is handled."""
    if m[at.HANDLING] == 0:
        pushed(m, reals, log, heap, w)
        return
    handling = m[w + at.GRADIENT] + m[at.HANDLING]
    end = m[handling + at.HANDLED]
    if end > m[at.NOW]:
        transferred(m, log, w, _WRITE, end, m[at.SENDING] + m[handling + at.HANDLED_ALONE])
        m[w + at.AWAITED] = put(m, heap, end, w << at.BITS | at.GRADIENT_HANDLED)
    else:
        handled(m, reals, log, heap, w)


def handled(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """Its gradient is handled; it may have to be told."""
    if m[at.CONFIRMS] == 0:
        pushed(m, reals, log, heap, w)
    elif is_answered(m, log, heap, w, _WRITE):
        answered(m, reals, log, heap, w)


def answered(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """It was told to go on."""
    if m[at.STRATEGY] == at.BACKUP or m[at.STRATEGY] == at.BOUNDED:
        pushed(m, reals, log, heap, w)
    else:
        read(m, reals, log, heap, w)


def receive(m: Ints, reals: Floats, log: Ints, heap: Ints, gradient: int, item: int) -> None:
    """What becomes of a part of a gradient that is there."""
    strategy = m[at.STRATEGY]
    if strategy == at.ASYNCHRONOUS:
        apply(m, log, gradient)
        if m[gradient + at.PARTS_APPLIED] == m[at.VARIABLES]:
            count_step(m, log)
    elif strategy == at.BOUNDED:
        await_others(m, heap, gradient, item)
    elif strategy == at.SYNCHRONOUS:
        accumulate(m, log, heap, gradient, item)
    elif strategy == at.BACKUP and not is_given_up(m, gradient):
        gather(m, reals, log, heap, gradient)


def pushed(m: Ints, reals: Floats, log: Ints, heap: Ints, w: int) -> None:
    """What a worker waits for whose gradient is there."""
    strategy = m[at.STRATEGY]
    if strategy == at.ASYNCHRONOUS:
        read(m, reals, log, heap, w)
    elif strategy == at.BOUNDED:
        m[w + at.COPY_STEP] += 1
        put(m, heap, m[at.NOW], w << at.BITS | at.LOOKS_AHEAD, at.SETTLED)
    elif strategy == at.LOCKING:
        m[w + at.PHASE] = _LOCK
        if is_in_line(m, w) == 1:
            locked(m, reals, log, heap, w)
    elif strategy == at.SYNCHRONOUS:
        if m[at.HEAD_LEFT]:
            m[w + at.LABEL] = token(m)
            goes_on(m, reals, log, heap, w, _TOKEN)
        else:
            m[w + at.PHASE] = _TOKEN
            is_in_line(m, w)
    elif m[w + at.COME]:
        m[w + at.PHASE] = _BARRIER
        is_in_line(m, w)
    else:
        read(m, reals, log, heap, w)
