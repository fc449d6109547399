"""Tables of a run: records with named fields, the same to machine code and to Python.

A table is a structured array; where Python interprets the functions, a list of objects with the
same fields. What refers to a record is its number in its table; in pools, and for links, 0 is none.
"""

from types import SimpleNamespace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Table: TypeAlias = Any  # of records, or of plain numbers
Row: TypeAlias = Any  # one record

# Later than all that happens (ns).
NEVER: Final = 1 << 62


def _record(integers: str, floats: str = "") -> "np.dtype[Any]":
    fields = [(name, "i8") for name in integers.split()]
    return np.dtype(fields + [(name, "f8") for name in floats.split()])


# Of the run. First what changes: events on the heap, whether the first of them is served, and those
# nobody waits for any more; why the loop is left, and how much more it does before it is left all
# the same; gradients begun, parts of them applied, rows that are free; of updates, and of
# sendings too soon, what is used of their tables. Then a gate's: the oldest and the latest tokens;
# workers that wait in line, and those of them that may go on; takes of the chief that are not
# served; gradients kept, the first of this moment, and when that is; how many have the slowest
# clock. Then fair links': flows started, marks that are to be told, times at which something may be
# due, and how many there were, when flows are seen to next; the mesh's flows, those that come, and
# its links; whether its rates are set anew; gradients and spans written; the first of what is free.
_CHANGES: Final = (
    "now number events hole stale halt patience stopped_by step begun parts aggregated free "
    "made again head_step head_left last_step woken line_at waiting served takes left first_now "
    "latest settling slowest slowest_count flows passed dues entries wake_at mesh_flows coming "
    "mesh_links changed logged noted free_gradient free_transfer free_flow free_hub free_group"
)
# Then what does not: when a table is full; stop rules; sizes; the gate; where a draw is, as a mask;
# the phase in which workers wait.
STATE: Final = _record(
    f"{_CHANGES} least_free most_events most_again most_made most_logged most_noted most_dues "
    "most_steps most_examples batch_size variables items workers fair kind needed tokens bound "
    "keeps mask most_hops waits room"
)
# `ready`: its own time; `until`: its spans are noted; `row`: of its latest gradient; `awaited`: the
# order of the event that it waits for; compute times drawn, used, and where they are; the step of
# its token; whether it has done its part of a step; parts of its gradient not sent, -1: it
# computes; iterations applied; the slowest clock at its latest read, when that was, and at which
# step. The batches it reads and pushes: how often, when the latest is due, where its starts on
# links are. Windows of slowness.
WORKER: Final = _record(
    "iteration ready until row awaited draws drawn times label come unsent clock stamp "
    "copy_at copy_step transfer pull pull_count pull_due pull_starts push push_count push_due "
    "push_starts last_item windows bounds factors"
)
# A gradient from before its read: the fields of GradientRow. `asked` for what is read; `sent`: all
# of it is there; `cut`: it was given up; `nth` to be computed. `open`: parts whose fate is open,
# `ended`: that of all is known, or it was none yet; `loose`: what is still to happen to it, of
# which one is that its worker turns to another. `next` that is free.
GRADIENT: Final = _record(
    "worker iteration read_at read_step begun computed arrived applied applied_step outcome parts "
    "nth asked sent cut label open loose ended next"
)
# Messages sent at once, from first-come links' point of view, then from that of fair ones.
BATCH: Final = _record("items pair latency hop hops message messages connection connections parts")
HOP: Final = _record("link hold begins after afters")  # -1 - n: the n-th of a worker's own links
MESSAGE: Final = _record("item delay passes passed")
# `relays`: links of its route that a host passes messages on over, as bits.
CONNECTION: Final = _record("hops links marks items marked lag relays")
LINK: Final = _record("holder crossing place users discontent", "bandwidth left promise taken")
TRANSFER: Final = _record("next worker gradient batch missing")
FLOW: Final = _record(
    "next previous transfer connection number step group", "entered target passed rate due"
)
# The mesh is hub 1. `link`: in which its flows meet; `groups`: the first, and how many.
HUB: Final = _record("next due epoch link flows group groups", "time")
# Flows of one ceiling, by their marks from `first` to `last`.
GROUP: Final = _record("next first last flows", "ceiling rate virtual")
ACCUMULATOR: Final = _record("step inside first last waits")


class Run(NamedTuple):
    """All memory of a run."""

    state: Table
    workers: Table
    gradients: Table
    columns: Table  # of gradients that have ended, the fields of GradientRow, one after the other
    notes: Table  # spans in the order in which they ended: each its end and its code, see trace
    counts: Table  # of workers: spans that are noted
    lasts: Table  # of workers: when the latest span ended (ns)
    ordered: Table  # notes by worker
    spans: Table  # the fields of Span, one after the other
    alone: Table  # of workers: how long what they read takes alone (ns), what they push
    after: Table  # of each gradient and variable, the next gradient in the accumulator
    accumulators: Table
    heap: Table  # of events: time, order, what
    line: Table  # ring of workers that wait
    kept: Table  # gradients for an update, or of a moment (times variables, plus a variable)
    steps: Table  # of each update: when, and how many parts had been applied
    draws: Table  # compute times (ns)
    batches: Table
    hops: Table
    messages: Table
    connections: Table
    numbers: Table  # lists of integers that records refer to
    sizes: Table  # lists of floats
    free_at: Table  # when each first-come link is (ns)
    starts: Table  # when the latest batches start on links
    there: Table  # when each item of a batch is there, then their order
    again: Table  # batches that were sent again too soon
    links: Table
    transfers: Table
    missing: Table  # of each transfer and item, the parts that are not there
    flows: Table
    crossed: Table  # the links of each flow
    hubs: Table
    groups: Table
    passed: Table  # pairs of a flow and a mark that it has passed, then those that are being told
    agenda: Table  # heap: time, number, hub
    mesh: Table  # its flows
    used: Table  # its links
    open_links: Table  # those with flows that have no rate yet
    open_flows: Table  # flows that have none yet, then those that got one in a round


RECORDS: Final = {
    "state": STATE, "workers": WORKER, "gradients": GRADIENT, "accumulators": ACCUMULATOR,
    "batches": BATCH, "hops": HOP, "messages": MESSAGE, "connections": CONNECTION,
    "links": LINK, "transfers": TRANSFER, "flows": FLOW, "hubs": HUB, "groups": GROUP,
}  # fmt: skip
FLOATS: Final = ("sizes",)


def table(name: str, size: int, *, zeros: bool = True) -> NDArray[Any]:
    """A table of so many records, all zeros, or whatever there is in memory."""
    kind: Any = np.float64 if name in FLOATS else np.int64
    made = np.zeros if zeros else np.empty
    return made(max(1, size), dtype=RECORDS.get(name, kind))


def interpreted(name: str, rows: NDArray[Any]) -> Table:
    """A table as Python reads it fastest."""
    if name not in RECORDS:
        return rows.tolist()
    names = RECORDS[name].names or ()
    made = [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in rows.tolist()]
    return made[0] if name == "state" else made


def column(rows: Table, field: str) -> NDArray[Any]:
    """A field of all records."""
    if isinstance(rows, np.ndarray):
        return rows[field]
    return np.array([getattr(row, field) for row in rows])


# Kinds of events; the first ones are of a worker that may be called off,
READS, COMPUTED, ARRIVES, GOES_ON = range(4)
# then for a worker that waits, for a number of those, for an item of a gradient, for the run,
(RELEASED, RELEASES, ITEM_ARRIVES, CHIEF_STARTS, CHIEF_WAKES, TOKENS_COME, SETTLES) = range(4, 11)
# for flows, an item of a transfer, a transfer, and for the run again.
(FLOWS_PASS, PART_PASSES, PART_ARRIVES, ALL_IS_THERE, TIME_IS_UP, CLOCK_ENDS) = range(11, 17)
BITS = 5  # an event is whom it is for, and its kind in so many bits
KINDS = (1 << BITS) - 1

# The order of events of one instant: a priority, and the number in which they were put in.
URGENT, NORMAL, SETTLED, AT_LAST = 0, 1 << 52, 2 << 52, 3 << 52

# Why the loop is left, and what stopped a run.
OVER, DRY, FULL, STANDSTILL, CROWDED = range(1, 6)
BY_TIME, BY_STEPS, BY_EXAMPLES = range(1, 4)
REASONS: Final = ("", "time", "global_steps", "examples")

# Kinds of gates, see `rules`.
Kind: TypeAlias = Literal["free", "tokens", "cutoff", "bound", "batch", "group", "race"]
FREE, TOKENS, CUTOFF, BOUND, BATCHES, GROUPS, RACE = range(7)
GATES: Final[tuple[Kind, ...]] = ("free", "tokens", "cutoff", "bound", "batch", "group", "race")
