"""Spans of workers, as they follow from the moments of what each was at."""

from varsim.cluster.fast.tables import NEVER, Run
from varsim.cluster.record.trace import PHASE_BITS, RANK_BITS, Phase

_QUEUE, _READ, _WRITE = int(Phase.QUEUE), int(Phase.READ), int(Phase.WRITE)
_COMPUTE, _PHASES = int(Phase.COMPUTE), (1 << PHASE_BITS) - 1
_NUMBERS = (1 << RANK_BITS) - 1


def note_spans(r: Run, w: int, now: int) -> None:
    """Note what a worker did until now: it waited, asked, was sent what it reads, and so on."""
    worker = r.workers[w]
    row = r.gradients[worker.row]
    iteration, until = row.iteration, min(row.cut, now)
    if row.asked > worker.until:
        note(r, w, min(row.asked, now), r.state.waits, iteration - 1)
    if row.begun < NEVER and row.begun - r.alone[2 * w] > worker.until:
        note(r, w, min(row.begun - r.alone[2 * w], until), _QUEUE, iteration)
    if row.begun > worker.until:
        note(r, w, min(row.begun, until), _READ, iteration)
    note(r, w, min(row.computed, until), _COMPUTE, iteration)
    if row.sent < NEVER and row.sent - r.alone[2 * w + 1] > worker.until:
        note(r, w, min(row.sent - r.alone[2 * w + 1], until), _QUEUE, iteration)
    if row.sent > worker.until:
        note(r, w, min(row.sent, until), _WRITE, iteration)


def note(r: Run, w: int, end: int, phase: int, iteration: int) -> None:
    """Note a span of a worker, if it takes time."""
    s, worker = r.state, r.workers[w]
    if end > worker.until:
        worker.until = end
        place = 2 * s.noted
        r.notes[place] = end
        r.notes[place + 1] = (w << RANK_BITS) + (iteration + 1 << PHASE_BITS) + phase
        s.noted += 1
        r.counts[w] += 1


def note_waits(r: Run) -> None:
    """Note what all workers do at the end."""
    for w in range(r.state.workers):
        if r.workers[w].row:
            note_spans(r, w, r.state.now)
            row = r.gradients[r.workers[w].row]
            note(r, w, r.state.now, r.state.waits, row.iteration)


def write_spans(r: Run) -> None:
    """Write all spans that were noted, by worker."""
    counts, notes, ordered, lasts = r.counts, r.notes, r.ordered, r.lasts
    spans, noted, first = r.spans, r.state.noted, 0
    for w in range(r.state.workers):
        count = counts[w]
        counts[w] = first
        first += count
    for place in range(0, 2 * noted, 2):
        code = notes[place + 1]
        to = counts[code >> RANK_BITS]
        counts[code >> RANK_BITS] = to + 1
        ordered[2 * to], ordered[2 * to + 1] = notes[place], code
    w = begin = 0
    for span in range(noted):
        end, code = ordered[2 * span], ordered[2 * span + 1]
        if span == 0 or code >> RANK_BITS != w:
            w = code >> RANK_BITS
            begin = lasts[w]
        number = code & _NUMBERS
        spans[span] = w
        spans[noted + span] = number & _PHASES
        spans[2 * noted + span] = begin
        spans[3 * noted + span] = end
        spans[4 * noted + span] = (number >> PHASE_BITS) - 1
        lasts[w] = begin = end
    for w in range(r.state.workers):
        counts[w] = 0
