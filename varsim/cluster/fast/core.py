"""Event loop of the engine for times alone: what happens next, and to whom.

Everything here and in the modules of functions that it imports is written in the part of Python
that numba compiles: records, numbers and indices, nothing that allocates. `r` is a `Run`
throughout, `w` the number of a worker, `g` of a gradient.
"""

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.events import close, put
from varsim.cluster.fast.fair import pass_flows, reached, transfer
from varsim.cluster.fast.gates import (
    accumulate,
    count_update,
    gather,
    keep_in_order,
    settle,
    take_again,
    token,
)
from varsim.cluster.fast.links import hand_over, keep_starts, sort_items
from varsim.cluster.fast.tables import NEVER, Run
from varsim.cluster.fast.workers import (
    apply,
    begin,
    compute,
    count_step,
    loosen,
    new_gradient,
    read_if_old,
    release,
    stop,
    wait,
)


def advance(r: Run) -> None:
    """Serve events until the run is over, wants more draws or more room, or for some time."""
    s, heap = r.state, r.heap
    while s.halt == 0 and s.patience > 0:
        s.patience -= 1
        if s.hole:
            close(r)
        if s.events == 0:
            s.halt = at.STANDSTILL
            return
        order, kind, who = heap[1], heap[2] & at.KINDS, heap[2] >> at.BITS
        s.hole = 1
        if s.stale and kind <= at.GOES_ON and r.workers[who].awaited != order:
            s.stale -= 1
            continue
        s.now = heap[0]
        if kind == at.COMPUTED:
            push(r, who)
        elif kind == at.ARRIVES:
            arrives(r, who)
        elif kind == at.ITEM_ARRIVES:
            take(r, who // s.variables, who % s.variables)
            loosen(r, who // s.variables)
        elif kind == at.FLOWS_PASS:
            pass_flows(r)
        elif kind == at.PART_ARRIVES:
            part_arrives(r, who // s.variables, who % s.variables)
        elif kind == at.ALL_IS_THERE:
            all_is_there(r, who)
        elif kind == at.TOKENS_COME:
            served, s.served, s.woken = s.served, 0, 0
            release(r, served)
        elif kind == at.CHIEF_WAKES:
            count_update(r)
        elif kind == at.GOES_ON:
            goes_on(r, who)
        elif kind == at.SETTLES:
            settle(r)
        elif kind == at.RELEASES:
            s.served -= who
            release(r, who)
        elif kind == at.RELEASED:
            if r.workers[who].come == 2:
                r.workers[who].come = 0
                begin(r, who)
        elif kind == at.READS:
            begin(r, who)
        elif kind == at.PART_PASSES:
            reached(r, who // s.variables, who % s.variables, 0)
        elif kind == at.CHIEF_STARTS:
            take_again(r)
        elif kind == at.TIME_IS_UP and s.events > s.stale + 1:
            stop(r, at.BY_TIME)
        else:  # nothing is left to happen, or the clock cannot count as far
            s.halt = at.STANDSTILL


def push(r: Run, w: int) -> None:
    """It sends its gradient, variable by variable."""
    s, worker = r.state, r.workers[w]
    row = r.gradients[worker.row]
    row.open = worker.unsent = s.variables
    row.loose += 1
    worker.push_count += 1
    if s.fair:
        transfer(r, w, worker.push, worker.row)
        return
    if worker.push_due > s.now:
        keep_starts(r, w, 1, worker.push, worker.push_starts)
    end = hand_over(r, w, worker.push, worker.push_starts)
    worker.push_due = worker.ready = row.sent = end
    items = r.batches[worker.push].items
    worker.last_item = items - 1
    if items > 1:
        sort_items(r, items)
        worker.last_item = r.there[2 * items - 1]
        for place in range(items, 2 * items - 1):
            item = r.there[place]
            put(r, r.there[item], at.ITEM_ARRIVES, worker.row * s.variables + item)
        row.loose += items - 1
    worker.awaited = put(r, end, at.ARRIVES, w)


def arrives(r: Run, w: int) -> None:
    """The last part of its gradient is there."""
    worker = r.workers[w]
    g = worker.row
    take(r, g, worker.last_item)
    pushed(r, w)
    loosen(r, g)


def take(r: Run, g: int, item: int) -> None:
    """A part of a gradient is there; what becomes of it."""
    s, row = r.state, r.gradients[g]
    if row.cut < NEVER:
        return
    row.arrived = s.now
    if s.kind == at.FREE:
        apply(r, g)
        if row.parts == s.variables:
            count_step(r)
    elif s.kind == at.TOKENS:
        accumulate(r, g, item)
    elif s.kind == at.BOUND:
        keep_in_order(r, g * s.variables + item)
    else:
        worker = r.workers[row.worker]
        worker.unsent -= 1
        if worker.unsent == 0:
            worker.come = 1
            if s.kind == at.CUTOFF:
                gather(r, g)
            else:
                keep_in_order(r, g * s.variables)


def pushed(r: Run, w: int) -> None:
    """All of its gradient is there: a worker begins anew, or waits."""
    s, worker = r.state, r.workers[w]
    if s.kind == at.TOKENS and s.head_left:
        worker.label = token(r)
    elif s.kind == at.TOKENS or (s.kind == at.CUTOFF and worker.come):
        wait(r, w)
        return
    elif s.kind >= at.BOUND:
        worker.copy_step += s.kind == at.BOUND  # its own gradient is in what it keeps
        worker.awaited = put(r, s.now, at.GOES_ON, w, at.SETTLED)
        return
    begin(r, w)


def goes_on(r: Run, w: int) -> None:
    """All that arrives at this moment is taken in: who has pushed goes on, or waits."""
    s, worker = r.state, r.workers[w]
    if s.kind == at.BOUND:
        if s.slowest < worker.clock - s.bound:
            wait(r, w)
        else:
            read_if_old(r, w)
    elif s.kind == at.GROUPS and worker.come:
        worker.come = 2  # until the update with its gradient
    elif s.kind == at.RACE and worker.copy_step == s.step:
        worker.come = 0
        new_gradient(r, w)
        compute(r, w, s.now)
    else:
        worker.come = 0
        begin(r, w)


def part_arrives(r: Run, t: int, item: int) -> None:
    """A part of an item that was sent over fair links is there."""
    transfer = r.transfers[t]
    r.missing[t * r.state.items + item] -= 1
    if r.missing[t * r.state.items + item]:
        return
    transfer.missing -= 1
    if transfer.gradient >= 0:
        take(r, transfer.gradient, item)
    if transfer.missing == 0:
        put(r, r.state.now, at.ALL_IS_THERE, t)


def all_is_there(r: Run, t: int) -> None:
    """Who waited for what is there now goes on, unless it was called off meanwhile."""
    s, transfer = r.state, r.transfers[t]
    w, g = transfer.worker, transfer.gradient
    transfer.next = s.free_transfer
    s.free_transfer = t
    worker = r.workers[w]
    if worker.transfer == t:
        worker.transfer, worker.ready = 0, s.now
        if g >= 0:
            r.gradients[g].sent = s.now
            pushed(r, w)
        else:
            compute(r, w, s.now)
    if g >= 0:
        loosen(r, g)
