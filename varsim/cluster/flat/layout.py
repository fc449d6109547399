"""Layout of a run's memory: addresses of scalars, fields of records, kinds of events.

`m` is one flat list of integers: scalars at fixed addresses, then records. A record is the address
at which it begins; a field is what is added to it. What grows as a run goes on has its own list.
"""

from typing import Final, TypeAlias

# Numpy arrays where functions are compiled; lists where tests interpret them.
Ints: TypeAlias = list[int]
Floats: TypeAlias = list[float]


# Scalars that change.
(
    NOW,  # ns
    NUMBER,  # of the next event
    HALT,  # why the loop is left; 0 while it goes on
    STOPPED_BY,  # 0 while the run goes on
    STALE,  # events on the heap that nobody waits for any more
    STEP,  # global_step
    PARTS,  # of gradients, applied
    EVENTS,  # on the heap
    HOLE,  # whether the first of them has been served
    BEGUN,  # gradients
    NEW_ROW,  # after the rows that have been used
    FREE_ROW,  # a list of those that are free again; 0 ends it
    LOG,  # used of the log
    ENDED,  # gradients in it that have ended
    AGGREGATED,
    EVALUATED,
    NEXT_LOOK,  # examples applied
    HEAD_STEP,  # the oldest tokens: their step, and how many there are
    HEAD_LEFT,
    LAST_STEP,  # of the latest tokens
    RING_AT,  # workers that wait: the first, how many, and how many of these may go on
    WAITING,
    SERVED,
    WOKEN,  # whether the event of those is on the heap
    LEFT,  # takes of the chief that are not served, gradients for a step
    LATEST,  # when the latest of those came (ns), and which was the first to come then
    FIRST_NOW,
    SETTLING,  # whether others that may come now are awaited before the step ends
    SLOWEST,  # clock of a worker, and how many workers have it
    SLOWEST_COUNT,
    FLOWS,  # of fair links, started
    WAKE_AT,  # when they are next seen to (ns)
    PASSED_NOW,  # how many have ended and are to be told of
    DUES,  # how many times at which hubs may be due
) = range(34)
# Scalars that do not.
(
    STRATEGY,
    VARIABLES,
    BATCH_SIZE,
    EVERY,  # examples from one evaluation to the next
    STACK,  # gradients worked out together
    WITHIN,  # where a draw is within its block: a mask
    PLANE,  # from a block to the next one of compute times
    ROWS,  # of gradients in flight, which are the end of the memory
    ROW,  # integers in one
    UNEVALUATED,  # a row: the first and last of a ring of those that are not worked out
    MOST_STEPS,  # stop rules; a large number: none
    MOST_EXAMPLES,
    MOST_NUMBER,
    MOST_ENDED,  # gradients in the log: from a column of theirs to the next one
    LOG_ROOM,  # when used so far, there must be more room
    ENDED_ROOM,
    ROWS_ROOM,
    HEAP_ROOM,
    WORKERS,  # records, and how many
    WORKER_COUNT,
    RING,  # room for each worker
    KEPT,  # gradients for a step, or of a moment, room for each worker and variable
    NEEDED,  # gradients for an update
    TOKENS,  # after an update
    BOUND,  # how far a clock may be ahead of the slowest
    KEEPS,  # whether workers go on with what they have read while it is new enough
    ACCUMULATORS,  # records, one per variable
    THERE,  # when each item of a batch is there
    ORDER,  # their order
    QUEUES,  # request queues of servers: how many, and when each is free
    QUEUES_AT,
    READ_HOLDS,  # of each queue
    PUSH_HOLDS,  # of each variable and queue; -1: nothing of it there
    ANSWER,  # hold
    COMMIT,  # ns
    SENDING,  # the longest that a server is at one gradient
    CONFIRMS,  # whether servers tell workers that their gradient is handled
    THREADS,  # of server updates; 0: they take no time
    LINES_AT,  # when each thread of each queue is free
    AT_ONCE,  # whether gradients are applied as they come
    FIXED,  # in `reals`: seconds of each variable and queue
    DRAWS_AT,  # how many draws of server updates each queue has used; 0: there are none
    MOST_DRAWN,  # draws that there are of each queue
    DRAWN_AT,  # in `reals`
    HANDLING,  # in a row: how it is handled by servers; 0: that takes no time
    BUSY_THREADS,  # of each queue, with one gradient alone
    HUBS,  # of fair links: of what is read, then of what is pushed; 0: links are not fair
    GROUP_SIZE,  # of a group of a hub
    PASSED,  # workers whose flows have ended
    DUES_AT,  # pairs of a time (ns) and a hub
    MOST_DUES,
    MOVED,  # in `reals`: bytes that have passed each link, two for each worker, then the server's
    SCALARS,
) = range(34, 87)

# A worker.
(
    RANK,
    MARK,  # its rank in codes of the log
    READY,  # its own time, ns
    ITERATION,
    PHASE,  # what it waits for
    GRADIENT,  # its latest
    AWAITED,  # the number of the event that it waits for
    DRAWN,  # compute times used
    DRAWS,  # compute times there are
    TIMES,  # where they are
    LABEL,  # step of its latest token
    COME,  # it has done its part of a step
    UNSENT,  # parts of its gradient
    LAST_ITEM,  # what is there last of what it pushes
    CLOCK,  # iterations that are applied
    STAMP,  # the slowest clock before its last read, of which the next two are
    COPY_AT,  # ns
    COPY_STEP,  # and its own steps since
    OWN,  # the first of its own links
    PULL,  # batches
    PUSH,
    PULLED,  # how often
    PULL_DUE,  # ns
    PULL_STARTS,  # ns, on every hop
    PUSHED,
    PUSH_DUE,
    PUSH_STARTS,
    WINDOWS,  # of slowness: how many, where they begin, and their factors in `reals`
    BOUNDS,
    FACTORS,
    FLOW,  # number of its latest flow over fair links
    FLOW_REALS,  # in `reals`: virtual times at which that ends, and at which it began
    PULL_GROUP,
    PUSH_GROUP,
    SENDS,  # the batch of that flow
    WORKER_SIZE,
) = range(36)

# A batch of messages, its hops and messages; a link is the address of when it is free, or
# -1 - n for the n-th of the worker's own.
ITEMS, ALONE, LATENCY, PAIR, HOPS, HOP_COUNT, MESSAGES, MESSAGE_COUNT, BATCH = range(9)
LINK, HOLD, BEGINS, AFTER, AFTER_COUNT, HOP = range(6)
ITEM, DELAY, PASSES, PASS_COUNT, MESSAGE = range(5)

# A hub of fair links: its first flow (ns), how many there are, when the next may end (ns), its
# numbers in `reals` (seconds since the first, its bandwidth, bytes of a flow), its groups by rising
# ceiling, and the link of a worker that is used with it: 0 up, 1 down.
EPOCH, FLOWING, DUE, HUB_REALS, GROUPS, GROUPS_AT, WAY, HUB = range(8)
BANDWIDTH, BYTES = 1, 2
# A group: its virtual time in `reals`, then its rate and ceiling; how many workers, who is next.
VIRTUAL, WAITERS, NEXT_ONE, WAITER = range(4)
RATE, CEILING = 1, 2

# An accumulator: its step, gradients inside (a list through their rows), whether a take waits.
TAKE_STEP, INSIDE, FIRST, LAST, TAKE, ACCUMULATOR = range(6)

# A row: a GradientRow (before a gradient ends, the last fields hold something else), then the
# number of the gradient, whether it has ended, and events on the heap that are of this row: it is
# free for another gradient when it has ended, and there are none. Its worker is -1 if it is free.
(WORKER, NTH, READ_AT, READ_STEP, BEGUN_AT, COMPUTED_AT, ARRIVED) = range(7)
(APPLIED, APPLIED_STEP, OUTCOME, PARTS_APPLIED, FIELDS) = range(7, 12)
(COUNT, HAS_ENDED, LOOSE, OLDER, NEWER, NEXT) = range(FIELDS, FIELDS + 6)
IS_EVALUATED, LABELLED, OPEN = APPLIED, APPLIED_STEP, OUTCOME
# OLDER, NEWER: those not worked out that were begun before and after it; NEWER: the next free row.
# NEXT: for each variable, the next gradient inside its accumulator. Handling: when it is handled,
# how long that takes alone, and when threads of each queue are free then.
HANDLED, HANDLED_ALONE, BUSY = range(3)

# Codes of the log, beside those of spans: global_step rises, an evaluation after so many parts, a
# batch sent again by this worker before it was through: when it started.
STEPS, LOOKS, STARTED, AGAIN = -1, -2, -3, -5  # AGAIN + 1: what was pushed

# Kinds of events, each for a worker, which may be called off the first ones,
(
    STARTS,
    FETCHES,
    ASKS,
    COMPUTED,
    ARRIVES,
    GRADIENT_HANDLED,
    ANSWERED,
    # or for an item of a gradient, or for a number of workers.
    ITEM_ARRIVES,
    ITEM_HANDLED,
    CHIEF_STARTS,
    CHIEF_WAKES,
    COMMITS,
    TOKENS_COME,
    LOCKS,
    UPDATED,
    LOCK_COMMITS,
    STEP_ENDS,
    SETTLES,
    LOOKS_AHEAD,
    TAKES_IN,
    FLOWS_END,
    FLOW_ARRIVES,
    FLOW_IS_THERE,
    TIME_IS_UP,
    CLOCK_ENDS,
) = range(25)
BITS = 5  # an event is whom it is for, and its kind in so many bits

# The order of events of one instant: a priority, and the number in which they were put in.
URGENT = 0
NORMAL = 1 << 52
SETTLED = 2 << 52
AT_LAST = 3 << 52

FOREVER = 1 << 62

# Why the loop is left.
OVER, DRY, FULL, STANDSTILL = range(1, 5)

# What stopped a run.
BY_TIME, BY_STEPS, BY_EXAMPLES, BY_EVENTS = range(1, 5)
REASONS: Final = ("", "time", "global_steps", "examples", "events")

# Who waits for whom.
ASYNCHRONOUS, LOCKING, BOUNDED, SYNCHRONOUS, BACKUP = range(5)
