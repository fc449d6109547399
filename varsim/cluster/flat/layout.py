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
    PATIENCE,  # how much more it does before it is left all the same: events, rates of the mesh
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
    DUES,  # how many times at which something may be due, and how many there were
    ENTRIES,
    MESH_SIZE,  # flows in the mesh, how many come, and whether it is to be shared anew
    COMING,
    CHANGED,
    MESH_LINKS,  # how many links they use
    FREE_TRANSFER,  # lists of records that are free; their first field is the next one
    FREE_FLOW,
    FREE_HUB,
    FREE_GROUP,
) = range(43)
# Scalars that do not.
(
    STRATEGY,
    VARIABLES,
    BATCH_SIZE,
    EVERY,  # examples from one evaluation to the next
    WITHIN,  # where a draw is within its block: a mask
    PLANE,  # from a block to the next one of compute times
    ROWS,  # of gradients in flight, which are the end of the memory
    ROW,  # integers in one
    MOST_STEPS,  # stop rules; a large number: none
    MOST_EXAMPLES,
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
    FAIR,  # records of fair links; 0: links are not fair
    MESH,  # a record
    MESH_FLOWS,  # those in it, then those that come
    SO_FAR,  # in `reals`, of each: bytes passed, bytes at its next mark, rate, when that is due
    TARGETS,
    RATES,
    DUES_OF,
    ROUTES,  # of each: the `reals` of its links, of which there are MESH_HOPS
    MESH_HOPS,
    NO_LINK,  # what fills up short routes: it promises the world
    UNFILLED,  # room for each: those without a rate, those that got one in a round
    FILLED,
    UNFILLED_LINKS,  # that flows without a rate cross
    USED,  # links of the mesh
    PASSED,  # pairs of a flow and a mark that has passed; room for those that are told of
    TOLD,
    DUES_AT,  # a heap of times (ns), numbers, and hubs or the mesh
    MOST_DUES,
    SCALARS,
) = range(43, 105)

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
    TRANSFER,  # over fair links, that it waits for
    WORKER_SIZE,
) = range(32)

# A batch of messages, its hops and messages; a link is the address of when it is free, or
# -1 - n for the n-th of the worker's own.
ITEMS, ALONE, LATENCY, PAIR, HOPS, HOP_COUNT, MESSAGES, MESSAGE_COUNT = range(8)
EVEN, PARTS_OF, CONNECTIONS, CONNECTION_COUNT, BATCH = range(8, 13)
LINK, HOLD, BEGINS, AFTER, AFTER_COUNT, HOP = range(6)
ITEM, DELAY, PASSES, PASS_COUNT, MESSAGE = range(5)

# A connection of a batch over fair links: its links (those of the worker as above), its marks, in
# `reals`, its latency (ns), links that messages are passed on over (bits), the connection that has
# its flow after this one (0: none), whether it only keeps links busy; then links and items.
LINKS, MARKS, MARKS_AT, LAG, RELAYS, THEN, IDLE, CONNECTION = range(8)
# A transfer of a batch: the worker, the gradient (-1: it is read), the batch, items that are not
# there, and parts of each that are not.
NEXT_FREE, WAITER, CONTENT, BATCH_OF, MISSING, PARTS_LEFT = range(6)
# A flow, after how many links it crosses (or, if it is free, the next one): its transfer and
# connection, its number, its next mark, its place in the heap of a group, its numbers in `reals`;
# then the links.
(_, TRANSFER_OF, CONNECTION_OF, NTH_FLOW, MARK_NEXT, CHILD, SIBLING, FLOW_REALS) = range(8)
FLOW_SIZE = 8
ENTERED, TARGET, FLOW_NUMBERS = range(3)
# A fair link: its hub, or the mesh; flows of that; its place among links of the mesh; its bandwidth
# in `reals`, then bytes, and of the mesh what is left of it, promised and taken, its flows without
# a rate, and whether one of them has less elsewhere.
HELD_BY, CROSSING, PLACE, LINK_REALS, FAIR_LINK = range(5)
MOVED, RELAYED, LEFT_OF, PROMISE, TAKEN, USERS, DISCONTENT, LINK_NUMBERS = range(1, 9)
OWN_LINKS = 2  # of a worker on a star
# A hub, of which the mesh has the first fields: when it is due (ns), its first flow (ns), the time
# since (s, in `reals`); its link, its flows, groups by rising ceiling.
_, DUE, EPOCH, HUB_REALS, MEETING, FLOWING, FIRST_GROUP, GROUPS, HUB = range(9)
# A group, after the next one: the first to pass, how many; ceiling, rate, virtual time in `reals`.
NEXT_GROUP, ROOT, INSIDE_GROUP, GROUP_REALS, GROUP = range(5)
CEILING, GROUP_RATE, VIRTUAL, GROUP_NUMBERS = range(4)

# An accumulator: its step, gradients inside (a list through their rows), whether a take waits.
TAKE_STEP, INSIDE, FIRST, LAST, TAKE, ACCUMULATOR = range(6)

# A row: a GradientRow (before a gradient ends, the last fields hold something else), then the
# number of the gradient, whether it has ended, and events on the heap that are of this row: it is
# free for another gradient when it has ended, and there are none. Its worker is -1 if it is free.
(WORKER, NTH, READ_AT, READ_STEP, BEGUN_AT, COMPUTED_AT, ARRIVED) = range(7)
(APPLIED, APPLIED_STEP, OUTCOME, PARTS_APPLIED, FIELDS) = range(7, 12)
(COUNT, HAS_ENDED, LOOSE, NEWER, NEXT) = range(FIELDS, FIELDS + 5)
LABELLED, OPEN = APPLIED_STEP, OUTCOME
# NEWER: the next free row.
# NEXT: for each variable, the next gradient inside its accumulator. Handling: when it is handled,
# how long that takes alone, and when threads of each queue are free then.
HANDLED, HANDLED_ALONE, BUSY = range(3)

# Codes of the log, beside those of spans: global_step rises; an evaluation: when, at which step,
# after how many parts; a batch sent again by this worker before it was through: when it started.
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
    FLOWS_PASS,
    PART_PASSES,
    PART_ARRIVES,
    ALL_IS_THERE,
    TIME_IS_UP,
    CLOCK_ENDS,
) = range(26)
BITS = 5  # an event is whom it is for, and its kind in so many bits
KINDS = (1 << BITS) - 1

# The order of events of one instant: a priority, and the number in which they were put in.
URGENT = 0
NORMAL = 1 << 52
SETTLED = 2 << 52
AT_LAST = 3 << 52

FOREVER = 1 << 62

# Why the loop is left.
OVER, DRY, FULL, STANDSTILL, CROWDED = range(1, 6)

# What stopped a run.
BY_TIME, BY_STEPS, BY_EXAMPLES = range(1, 4)
REASONS: Final = ("", "time", "global_steps", "examples")

# Who waits for whom.
ASYNCHRONOUS, LOCKING, BOUNDED, SYNCHRONOUS, BACKUP = range(5)
