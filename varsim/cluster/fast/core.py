"""The engine for times alone: what happens next, to which worker, and who may go on.

Everything here and in `links` is written in the part of Python that numba compiles: records,
numbers and indices, nothing that allocates, no circles of calls. `r` is a `Run` throughout, `w` the
number of a worker, `g` of a gradient.
"""

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.links import (
    is_told,
    next_told,
    pass_due,
    put,
    see_on,
    send,
    take_off,
)
from varsim.cluster.fast.tables import NEVER, READ, WRITE, FastRun, Row
from varsim.cluster.record.trace import Outcome, Phase

_APPLIED, _DROPPED, _PENDING = int(Outcome.APPLIED), int(Outcome.DROPPED), int(Outcome.PENDING)
_COMPUTING, _READING, _WRITING = int(Phase.COMPUTE), int(Phase.READ), int(Phase.WRITE)
_QUEUEING, _DOWN = int(Phase.QUEUE), int(Phase.DOWN)


def advance(r: FastRun) -> None:
    """Serve events until the run is over, wants more draws or more room, or for some time.

    Or write the spans that follow from gradients so far.
    """
    s, heap = r.state[0], r.heap
    if s.writes:
        write_spans(r)
        while s.freed < s.begun and gradient(r, s.freed).ended and gradient(r, s.freed).next:
            s.freed += 1
        return
    while s.halt == 0 and s.patience > 0:
        s.patience -= 1
        if s.events == 0:
            s.halt = at.STANDSTILL
            return
        if heap[0] > s.last:
            s.halt = at.LATE
            return
        s.now, what = heap[0], heap[2]
        take_off(r, 0)
        kind, who = what & (1 << at.KIND_BITS) - 1, what >> at.KIND_BITS
        if kind == at.COMPUTED:
            push(r, who)
        elif kind == at.IS_READ:
            compute(r, who)
        elif kind == at.ARRIVES:
            take(r, who)
            pushed(r, who)
        elif kind == at.FLOWS_PASS:
            pass_flows(r)
        elif kind == at.PART_ARRIVES:
            part_arrives(r, who)
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
        elif kind == at.ALL_IS_THERE:
            all_is_there(r, who)
        else:
            begin(r, who)


# ---- workers


def gradient(r: FastRun, g: int) -> Row:
    """The record of a gradient."""
    return r.gradients[g % r.state[0].room]


def begin(r: FastRun, w: int) -> None:
    """A worker reads what there is; over first-come links it is known when it will have it."""
    s, worker = r.state[0], r.workers[w]
    worker.copy_at, worker.copy_step = s.now, s.step
    new_gradient(r, w)
    due = send(r, w, READ)
    if due < NEVER:
        gradient(r, worker.row).begun = due
        worker.awaited = put(r, due, at.IS_READ, w)


def new_gradient(r: FastRun, w: int) -> None:
    """What a worker is at from now on."""
    s, worker = r.state[0], r.workers[w]
    gradient(r, worker.row).next = s.begun
    if worker.row == 0:
        worker.unwritten = s.begun
    worker.row = s.begun
    row = gradient(r, s.begun)
    s.begun += 1
    if s.begun + s.workers + 2 > s.freed + s.room and s.halt == 0:
        s.halt = at.FULL
    row.worker, row.iteration = w, worker.iteration + 1
    row.read_at, row.read_step = worker.copy_at, worker.copy_step
    row.begun = row.computed = row.sent = row.cut = NEVER
    row.arrived = row.applied = row.applied_step = -1
    row.outcome, row.parts, row.ended, row.next = _PENDING, 0, 0, 0
    row.asked, row.label = s.now, worker.label


def compute(r: FastRun, w: int) -> None:
    """It computes a gradient."""
    s, worker = r.state[0], r.workers[w]
    row = gradient(r, worker.row)
    row.begun = s.now
    row.computed = s.now + r.draws[worker.times + (worker.drawn & s.mask)]
    worker.drawn += 1
    if worker.drawn >= worker.draws and s.halt == 0:
        s.halt = at.DRY
    worker.iteration += 1
    worker.awaited = put(r, row.computed, at.COMPUTED, w)


def push(r: FastRun, w: int) -> None:
    """It sends its gradient."""
    due, worker = send(r, w, WRITE), r.workers[w]
    if due < NEVER:
        gradient(r, worker.row).sent = due
        worker.awaited = put(r, due, at.ARRIVES, w)


def pass_flows(r: FastRun) -> None:
    """Tell what is there, one event each; then see on."""
    s = r.state[0]
    if s.now != s.wake_at:
        return
    pass_due(r)
    if s.telling == 0:
        s.telling = s.started + 1
    if is_told(r):
        who = next_told(r)
        if is_told(r):
            put(r, s.now, at.FLOWS_PASS, 0, at.URGENT)
            part_arrives(r, who)
            return
        part_arrives(r, who)
    see_on(r)


def part_arrives(r: FastRun, who: int) -> None:
    """A flow is there; with the last one, what was sent is, unless it was given up meanwhile."""
    s, w = r.state[0], who & at.MOST_WORKERS - 1
    worker = r.workers[w]
    if worker.turn != who >> at.RANK_BITS:
        return
    worker.missing -= 1
    if worker.missing:
        return
    if worker.way == WRITE:
        take(r, w)
    if s.stopped_by or (s.events and r.heap[0] == s.now):
        put(r, s.now, at.ALL_IS_THERE, who)
    else:
        all_is_there(r, who)


def all_is_there(r: FastRun, who: int) -> None:
    """Who waited for what is there now goes on, unless it was called off meanwhile."""
    w = who & at.MOST_WORKERS - 1
    worker = r.workers[w]
    if worker.turn != who >> at.RANK_BITS:
        return
    if worker.way == WRITE:
        gradient(r, worker.row).sent = r.state[0].now
        pushed(r, w)
    else:
        compute(r, w)


def call_off(r: FastRun, w: int) -> None:
    """A worker gives up what it is at, and begins anew."""
    s, worker = r.state[0], r.workers[w]
    row = gradient(r, worker.row)
    if row.ended == 0:  # else its gradient is there
        row.cut = s.now
    if row.ended == 0 and row.begun < s.now:
        end(r, worker.row, _DROPPED)
    elif row.ended == 0:  # it reads: that was no gradient yet
        row.ended = 1
        if row.computed < NEVER:
            worker.iteration -= 1
            worker.drawn -= 1
    for place in range(s.events):
        if r.heap[3 * place + 1] == worker.awaited:
            take_off(r, place)
            break
    begin(r, w)


def wait(r: FastRun, w: int) -> None:
    """A worker waits in line."""
    s = r.state[0]
    r.line[(s.line_at + s.waiting) % s.workers] = w
    s.waiting += 1


def release(r: FastRun, number: int) -> None:
    """So many of those in line go on, in the order in which they came.

    But for whose gradient waits for another update.
    """
    s = r.state[0]
    for _ in range(number):
        w = r.line[s.line_at]
        s.line_at = (s.line_at + 1) % s.workers
        s.waiting -= 1
        if s.kind == at.GROUPS and gradient(r, r.workers[w].row).ended == 0:
            wait(r, w)
        else:
            read_if_old(r, w)


def release_all(r: FastRun) -> None:
    """All who wait now go on, by one event."""
    s = r.state[0]
    put(r, s.now, at.RELEASES, s.waiting - s.served)
    s.served = s.waiting


def read_if_old(r: FastRun, w: int) -> None:
    """A worker goes on: with what it has read, if it keeps that and it is new enough."""
    s, worker = r.state[0], r.workers[w]
    if s.keeps == 0 or worker.stamp < worker.clock - s.bound:
        worker.stamp = s.slowest
        begin(r, w)
    else:
        new_gradient(r, w)
        compute(r, w)


def end(r: FastRun, g: int, outcome: int) -> None:
    """A gradient has been applied, or dropped."""
    s, row = r.state[0], gradient(r, g)
    row.parts = outcome == _APPLIED
    s.applied += row.parts
    row.applied, row.applied_step, row.outcome, row.ended = s.now, s.step, outcome, 1
    r.ended[s.logged] = g
    s.logged += 1


def count_step(r: FastRun) -> None:
    """The model has been updated once more; ends the run if that was enough."""
    s = r.state[0]
    r.steps[2 * s.made], r.steps[2 * s.made + 1] = s.now, s.applied
    s.made += 1
    s.step += 1
    if s.stopped_by == 0:
        if s.step >= s.most_steps:
            s.stopped_by, s.halt = at.BY_STEPS, at.OVER
        elif s.applied * s.batch_size >= s.most_examples:
            s.stopped_by, s.halt = at.BY_EXAMPLES, at.OVER


# ---- gates: a gradient is there; its worker goes on, or waits


def take(r: FastRun, w: int) -> None:
    """A worker's gradient is there; what becomes of it."""
    s, worker = r.state[0], r.workers[w]
    g = worker.row
    row = gradient(r, g)
    row.arrived = s.now
    if s.kind == at.FREE:
        end(r, g, _APPLIED)
        count_step(r)
    elif s.kind == at.TOKENS:
        if row.label < s.take_step:
            end(r, g, _DROPPED)
        else:
            keep(r, g)
            serve(r)
    else:
        worker.come = 1
        if s.left == s.first_now:
            put(r, s.now, at.SETTLES, 0, at.SETTLED)
        keep(r, g)


def pushed(r: FastRun, w: int) -> None:
    """All of its gradient is there: a worker begins anew, or waits."""
    s, worker = r.state[0], r.workers[w]
    if s.kind == at.TOKENS and s.head_left:
        worker.label = token(r)
    elif s.kind == at.TOKENS or s.kind == at.CUTOFF or s.kind == at.GROUPS:
        wait(r, w)
        return
    elif s.kind != at.FREE:
        worker.copy_step += s.kind == at.BOUND  # its own gradient is in what it keeps
        worker.awaited = put(r, s.now, at.GOES_ON, w, at.SETTLED)
        return
    begin(r, w)


def goes_on(r: FastRun, w: int) -> None:
    """All that arrives at this moment is taken in: who has pushed goes on, or waits."""
    s, worker = r.state[0], r.workers[w]
    if s.kind == at.BOUND:
        if s.slowest < worker.clock - s.bound:
            wait(r, w)
        else:
            read_if_old(r, w)
    elif s.kind == at.RACE and worker.copy_step == s.step:
        worker.come = 0
        new_gradient(r, w)
        compute(r, w)
    else:
        worker.come = 0
        begin(r, w)


def serve(r: FastRun) -> None:
    """The chief takes all gradients that are there, if it waits and they are enough."""
    s = r.state[0]
    if s.takes and s.left >= s.needed:
        s.takes = 0
        s.take_step += 1
        for place in range(s.left):
            end(r, r.kept[place], _APPLIED)
        s.left = 0
        put(r, s.now, at.CHIEF_WAKES)


def count_update(r: FastRun) -> None:
    """The chief counts the step, puts tokens into the queue, and takes again."""
    s = r.state[0]
    count_step(r)
    s.last_step = s.step
    if s.head_left == 0:
        s.head_step, s.head_left = s.step, s.tokens
    if s.waiting > s.served:
        while s.waiting > s.served and s.head_left:
            r.workers[r.line[(s.line_at + s.served) % s.workers]].label = token(r)
            s.served += 1
        if s.woken == 0:
            s.woken = 1
            put(r, s.now, at.TOKENS_COME)
    s.takes = 1
    serve(r)


def token(r: FastRun) -> int:
    """The step of the oldest token, which is taken."""
    s = r.state[0]
    step: int = s.head_step
    s.head_left -= 1
    if s.head_left == 0 and step < s.last_step:
        s.head_step, s.head_left = step + 1, s.tokens
    return step


def keep(r: FastRun, g: int) -> None:
    """Keep a gradient; those of one moment by rank, but where all that is there is taken."""
    s, kept, place = r.state[0], r.kept, r.state[0].left
    rank = gradient(r, g).worker
    while s.kind != at.TOKENS and place > s.first_now:
        if gradient(r, kept[place - 1]).worker < rank:
            break
        kept[place] = kept[place - 1]
        place -= 1
    kept[place] = g
    s.left += 1


def settle(r: FastRun) -> None:
    """All that comes at this moment has come."""
    s = r.state[0]
    if s.kind == at.BOUND:
        left, s.left = s.left, 0
        for place in range(left):
            if s.stopped_by == 0:
                take_in(r, r.kept[place])
    else:
        first, ends_step = 0, s.kind == at.CUTOFF or s.kind == at.RACE
        while s.left - first >= s.needed and s.stopped_by == 0:
            first = update(r, first, s.left if ends_step else first + s.needed)
        for place in range(first, s.left):
            r.kept[place - first] = r.kept[place]
        s.left = s.first_now = s.left - first


def update(r: FastRun, first: int, after: int) -> int:
    """As many gradients as are needed make an update, those up to `after` come too late for it.

    Where a step has an end, whoever has not done its part of it gives up what it is at.
    """
    s = r.state[0]
    enough = first + s.needed
    for place in range(first, enough):
        end(r, r.kept[place], _APPLIED)
    count_step(r)
    for place in range(enough, after):
        end(r, r.kept[place], _DROPPED)
    if s.kind == at.CUTOFF or s.kind == at.RACE:
        s.left = after = 0
        for w in range(s.workers):
            if r.workers[w].come:
                r.workers[w].come = 0
            else:
                call_off(r, w)
    if s.kind == at.CUTOFF or s.kind == at.GROUPS:
        release_all(r)
    return after


def take_in(r: FastRun, g: int) -> None:
    """A gradient is applied; its worker has done another iteration."""
    s, worker = r.state[0], r.workers[gradient(r, g).worker]
    end(r, g, _APPLIED)
    count_step(r)
    worker.clock += 1
    if worker.clock != s.slowest + 1:
        return
    s.slowest_count -= 1
    if s.slowest_count == 0:
        s.slowest += 1
        for w in range(s.workers):
            s.slowest_count += r.workers[w].clock == s.slowest
        release_all(r)


# ---- spans, as they follow from gradients


def write_spans(r: FastRun) -> None:
    """Write spans of the gradients that are past, at the end of all; by worker and time.

    A worker waited, was sent what it reads, computed, sent. What a transfer took beyond its time
    alone was queueing. Left when the table is full, with `writes` as it is.
    """
    s = r.state[0]
    s.spans = 0
    for w in range(s.workers):
        worker = r.workers[w]
        if worker.written == 0:
            write(r, w, _DOWN, 0, s.set_up)
        g = worker.unwritten
        while g and (g != worker.row or s.writes == 2):
            row = gradient(r, g)
            of, cut = row.iteration, row.cut
            write(r, w, s.waits, of - 1, row.asked)
            if row.begun < NEVER:
                write(r, w, _QUEUEING, of, min(row.begun - worker.pull_alone, cut))
            write(r, w, _READING, of, min(row.begun, cut))
            write(r, w, _COMPUTING, of, min(row.computed, cut))
            if row.sent < NEVER:
                write(r, w, _QUEUEING, of, min(row.sent - worker.push_alone, cut))
            write(r, w, _WRITING, of, min(row.sent, cut))
            worker.unwritten = g = row.next
            if s.spans >= s.most_spans:
                return
        if s.writes == 2:
            write(r, w, s.waits, worker.iteration, s.now)
            if s.spans >= s.most_spans:
                return
    s.writes = 0


def write(r: FastRun, w: int, phase: int, iteration: int, end: int) -> None:
    """Write a span of a worker, from where its latest one ended."""
    s, worker = r.state[0], r.workers[w]
    if end > s.now:
        end = s.now
    if worker.written < end and s.record:
        span = r.spans[s.spans]
        s.spans += 1
        span.worker, span.phase, span.iteration = w, phase, iteration
        span.start, span.end = worker.written, end
    worker.written = max(worker.written, end)
