"""Workers: they read and compute, wait and go on; their gradients, and updates."""

from varsim.cluster.fast import tables as at
from varsim.cluster.fast.events import put
from varsim.cluster.fast.fair import transfer
from varsim.cluster.fast.links import end_of, hand_over, keep_starts
from varsim.cluster.fast.spans import note_spans
from varsim.cluster.fast.tables import NEVER, Run
from varsim.cluster.record.trace import Outcome

_APPLIED, _DROPPED = int(Outcome.APPLIED), int(Outcome.DROPPED)
_PARTLY, _PENDING = int(Outcome.PARTLY), int(Outcome.PENDING)


def begin(r: Run, w: int) -> None:
    """A worker reads what there is, once the clock has reached its own time."""
    s, worker = r.state, r.workers[w]
    if worker.ready > s.now:
        worker.awaited = put(r, worker.ready, at.READS, w)
        return
    worker.copy_at, worker.copy_step = s.now, s.step
    new_gradient(r, w)
    worker.pull_count += 1
    if s.fair:
        worker.unsent = 0
        transfer(r, w, worker.pull, -1)
        return
    if worker.pull_due > s.now:
        keep_starts(r, w, 0, worker.pull, worker.pull_starts)
    worker.pull_due = hand_over(r, w, worker.pull, worker.pull_starts)
    compute(r, w, worker.pull_due)


def new_gradient(r: Run, w: int) -> None:
    """What a worker is at from now on."""
    s, worker = r.state, r.workers[w]
    if worker.row:
        note_spans(r, w, s.now)
        loosen(r, worker.row)
    worker.row = s.free_gradient
    row = r.gradients[worker.row]
    s.free_gradient = row.next
    s.free -= 1
    if (s.free < s.least_free or s.noted > s.most_noted) and s.halt == 0:
        s.halt = at.FULL
    row.worker, row.iteration = w, worker.iteration + 1
    row.read_at, row.read_step = worker.copy_at, worker.copy_step
    row.begun = row.computed = row.sent = row.cut = NEVER
    row.arrived = row.applied = row.applied_step = -1
    row.outcome, row.parts, row.label = _PENDING, 0, worker.label
    row.asked, row.open, row.loose, row.ended = s.now, 0, 1, 0
    worker.ready = s.now


def compute(r: Run, w: int, start: int) -> None:
    """It computes a gradient from a moment on."""
    s, worker = r.state, r.workers[w]
    row = r.gradients[worker.row]
    work = r.draws[worker.times + (worker.drawn & s.mask)]
    worker.drawn += 1
    if worker.drawn >= worker.draws and s.halt == 0:
        s.halt = at.DRY
    worker.iteration += 1
    worker.unsent = -1
    worker.ready = end_of(r, worker, start, work) if worker.windows else start + work
    row.begun, row.computed, row.nth = start, worker.ready, s.begun
    s.begun += 1
    worker.awaited = put(r, worker.ready, at.COMPUTED, w)


def wait(r: Run, w: int) -> None:
    """A worker waits in line."""
    s = r.state
    r.line[(s.line_at + s.waiting) % s.workers] = w
    s.waiting += 1


def release(r: Run, number: int) -> None:
    """So many of those in line go on, in the order in which they came."""
    s = r.state
    for _ in range(number):
        w = r.line[s.line_at]
        s.line_at = (s.line_at + 1) % s.workers
        s.waiting -= 1
        if s.kind == at.BOUND:
            read_if_old(r, w)
        else:
            begin(r, w)


def release_all(r: Run) -> None:
    """All who wait now go on, by one event."""
    s = r.state
    put(r, s.now, at.RELEASES, s.waiting - s.served)
    s.served = s.waiting


def read_if_old(r: Run, w: int) -> None:
    """A worker goes on with what it has read, if it keeps that and it is new enough."""
    s, worker = r.state, r.workers[w]
    if s.keeps == 0 or worker.stamp < worker.clock - s.bound:
        worker.stamp = s.slowest
        begin(r, w)
    else:
        new_gradient(r, w)
        compute(r, w, s.now)


def call_off(r: Run, w: int) -> None:
    """A worker gives up what it is at, and begins anew."""
    s, worker = r.state, r.workers[w]
    row = r.gradients[worker.row]
    if row.ended == 0:  # else its gradient is there
        row.cut = s.now
        if worker.unsent < 0 and row.begun >= s.now:  # it reads: that was no gradient yet
            worker.iteration -= 1
            worker.drawn -= 1
            row.ended = 1
        elif worker.unsent:
            row.loose -= worker.unsent > 0 and worker.transfer == 0
            end(r, worker.row)
        else:
            row.ended = 1
    s.stale += worker.transfer == 0  # else what it waits for is not on the heap
    worker.transfer, worker.awaited, worker.ready = 0, -1, s.now
    begin(r, w)


def apply(r: Run, g: int) -> None:
    """A part of a gradient is applied."""
    row = r.gradients[g]
    row.parts += 1
    row.open -= 1
    if row.open == 0:
        end(r, g)


def end(r: Run, g: int) -> None:
    """A gradient has been applied, or dropped, for every variable."""
    s, row = r.state, r.gradients[g]
    if row.parts:
        s.aggregated += 1
        s.parts += row.parts
    row.outcome = _PARTLY if row.parts else _DROPPED
    if row.parts == s.variables:
        row.outcome = _APPLIED
    row.applied, row.applied_step, row.ended = s.now, s.step, 1
    columns, room, place = r.columns, s.room, s.logged
    columns[place] = row.worker
    columns[place + room] = row.iteration
    columns[place + 2 * room] = row.read_at
    columns[place + 3 * room] = row.read_step
    columns[place + 4 * room] = row.begun
    columns[place + 5 * room] = row.computed if row.computed <= row.cut else -1
    columns[place + 6 * room] = row.arrived
    columns[place + 7 * room] = s.now
    columns[place + 8 * room] = s.step
    columns[place + 9 * room] = row.outcome
    columns[place + 10 * room] = row.parts
    s.logged = place + 1
    if s.logged > s.most_logged and s.halt == 0:
        s.halt = at.FULL
    if row.loose == 0:
        give_back(r, g)


def loosen(r: Run, g: int) -> None:
    """Something has happened to a gradient, or its worker turns to another; maybe that was all."""
    row = r.gradients[g]
    row.loose -= 1
    if row.loose == 0 and row.ended:
        give_back(r, g)


def give_back(r: Run, g: int) -> None:
    """Nothing will happen to a gradient any more: its row is free."""
    s, row = r.state, r.gradients[g]
    row.worker, row.next = -1, s.free_gradient
    s.free_gradient = g
    s.free += 1


def count_step(r: Run) -> None:
    """The model has been updated once more; ends the run if that was enough."""
    s = r.state
    r.steps[2 * s.made] = s.now
    r.steps[2 * s.made + 1] = s.parts
    s.made += 1
    s.step += 1
    if s.made > s.most_made and s.halt == 0:
        s.halt = at.FULL
    if s.step >= s.most_steps:
        stop(r, at.BY_STEPS)
    elif s.parts * s.batch_size / s.variables >= s.most_examples:
        stop(r, at.BY_EXAMPLES)


def stop(r: Run, reason: int) -> None:
    """End the run, for the first reason that is given."""
    s = r.state
    if s.stopped_by == 0:
        s.stopped_by = reason
        if s.halt != at.CROWDED:
            s.halt = at.OVER
