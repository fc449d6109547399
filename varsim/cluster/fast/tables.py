"""Tables of a run: records with named fields, the same to machine code and to Python.

What refers to a record is its number in its table. Gradients are numbered as they are begun, from
1 on, and kept in a ring: number `g` is at place `g % room`.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from varsim.cluster.fast import KINDS

Table: TypeAlias = Any  # of records, or of plain numbers
Row: TypeAlias = Any  # one record

# Later than all that happens (ns).
NEVER: Final = 1 << 62


def _record(integers: str, floats: str = "") -> "np.dtype[Any]":
    fields = [(name, "i8") for name in integers.split()]
    return np.dtype(fields + [(name, "f8") for name in floats.split()])


# Of the run. Events put in, and on the heap; why the loop is left, and after how much more work it
# is left all the same; the next gradient's number, the first whose place is not free, and of how
# many there is room; gradients that have ended and updates made since these were read, updates and
# gradients applied in all; what is used of `sends`, and of `spans`; whether past gradients are now
# freed: 1, or at the end 2; whether their spans are written.
# Of gates: the oldest and the latest tokens; where the line of workers that wait begins, how many
# these are, and how many of them may go on; whether the chief waits for gradients, and at which
# step; gradients kept, and the first of this moment; the slowest clock, and how many have it.
# Of fair links: flows started, and in the mesh, of which the last ones come; those that have
# passed, of which the first ones are told, and what may be told now; whether rates are set anew;
# when flows are seen to next, and how long after they have passed, at least.
# What does not change: until when (ns); sizes; the gate, and the phase of who waits there; when
# workers are set up; the place of a draw, as a mask; integers of a record of `sends`, and links of
# a flow, at most.
STATE: Final = _record(
    "now number events halt patience stopped_by begun freed room logged made step applied "
    "sends spans writes record "
    "head_step head_left last_step woken line_at waiting served takes take_step left "
    "first_now slowest slowest_count "
    "started flows coming passed told telling changed wake_at later "
    "last most_events most_sends most_spans most_flows most_steps most_examples batch_size "
    "workers fair meet kind needed tokens bound keeps waits set_up mask width hops"
)
# `row`: of its latest gradient; `awaited`: the order of the event that it
# waits for, -1: of none; compute times drawn, used, and where they are; the step of its token;
# whether it has done its part of a step; iterations applied; the slowest clock at its latest read,
# when that was, and at which step; batches that it reads and pushes, how long these take alone,
# and how often it has; which of the two is on fair links, the how manieth batch it is, and what of
# it is not there; the first gradient without spans, and when the latest span ended.
WORKER: Final = _record(
    "iteration row awaited draws drawn times label come clock stamp copy_at copy_step "
    "pull push pull_alone push_alone pulls pushes way turn missing unwritten written"
)
# First the fields of GradientRow. `asked` for what is read; `sent`: all of it is there; `cut`: it
# was given up; `label` of its token; `ended`: its fate is known, or it was none yet; the `next` one
# of its worker.
GRADIENT: Final = _record(
    "worker iteration read_at read_step begun computed arrived applied applied_step outcome parts "
    "asked sent cut label ended next"
)
SPAN: Final = _record("worker phase start end iteration")  # the fields of Span
# Messages sent at once: from first-come links' point of view, then from that of fair ones.
BATCH: Final = _record("hop hops message messages connection connections")
HOP: Final = _record("link hold begins after afters")  # -1 - n: the n-th of a worker's own links
MESSAGE: Final = _record("delay passes passed")
CONNECTION: Final = _record("hops binding links lag relays", "load")  # links that bind come first
LINK: Final = _record("free_at users discontent", "bandwidth left promise taken")
FLOW: Final = _record("number who connection first hops own settled", "target passed rate due")
# Flows that meet in one link, or all others: the mesh.
HUB: Final = _record("due epoch first count", "time virtual rate bandwidth ceiling")


class FastRun(NamedTuple):
    """All memory of a run."""

    state: Table  # of one record
    workers: Table
    gradients: Table
    ended: Table  # the numbers of gradients that have
    steps: Table  # of each update: when, and how many gradients had been applied
    heap: Table  # of events: time, order, what
    line: Table  # ring of workers that wait
    kept: Table  # gradients for an update, or of a moment
    draws: Table  # compute times (ns)
    batches: Table
    hops: Table
    messages: Table
    connections: Table
    numbers: Table  # lists of integers that records refer to
    links: Table
    sends: Table  # batches on first-come links: whose, which way, until when, its start on each
    flows: Table
    hubs: Table
    passed: Table  # flows that are to be told: when, number, whose
    spans: Table  # that are written
    open: Table  # links with flows that have no rate yet


RECORDS: Final = {
    "state": STATE, "workers": WORKER, "gradients": GRADIENT, "batches": BATCH, "hops": HOP,
    "messages": MESSAGE, "connections": CONNECTION, "links": LINK, "flows": FLOW, "hubs": HUB,
    "spans": SPAN,
}  # fmt: skip


def table(name: str, size: int) -> Table:
    """A table of so many records, all zeros."""
    kind: Any = np.int64
    made = np.zeros(max(1, size), dtype=RECORDS.get(name, kind))
    return made.view(np.recarray) if name in RECORDS else made


# Kinds of events: of a worker that may be called off,
READS, IS_READ, COMPUTED, ARRIVES, GOES_ON = range(5)
# for a number of workers that wait, for the chief, for the run, for flows.
RELEASES, CHIEF_WAKES, TOKENS_COME, SETTLES = range(5, 9)
FLOWS_PASS, PART_ARRIVES, ALL_IS_THERE = range(9, 12)
KIND_BITS, RANK_BITS = 4, 20  # an event is whom it is for, and its kind in so many bits
MOST_WORKERS: Final = 1 << RANK_BITS

# The order of events of one instant: a priority, and the number in which they were put in.
URGENT, NORMAL, SETTLED = 0, 1 << 52, 2 << 52

# Why the loop is left, and what stopped a run.
OVER, DRY, FULL, STANDSTILL, LATE = range(1, 6)
BY_TIME, BY_STEPS, BY_EXAMPLES = range(1, 4)
REASONS: Final = ("", "time", "global_steps", "examples")
READ, WRITE, MESH = range(3)  # two ways, each of which may be a hub, and what is none

FREE, TOKENS, CUTOFF, BOUND, BATCHES, GROUPS, RACE = range(len(KINDS))  # of gates, see Gate
